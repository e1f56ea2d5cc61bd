/** The whole graph as a picture to keep. */
import type { State } from "../state";
import { Camera } from "./camera";
import { drawOverlay } from "./draw_rings";
import { Painter, type View } from "./painter";
import type { Rect } from "./rect";
import type { Shown } from "./shown";
import type { Theme } from "./theme";

const AROUND = 24; // layout units beside the graph
const SCALE = 2; // px per layout unit, where the picture does not grow too large by it
/** What every browser draws: px of a side, and px altogether. */
const LONGEST = 8192;
const LARGEST = 2 ** 25;

/** A PNG of all that is laid out within `world`, on the canvas's ground. Rejects when the browser cannot draw it. */
export function pictureOf(shown: Shown, state: State, theme: Theme, world: Rect): Promise<Blob> {
  const width = world.x1 - world.x0 + 2 * AROUND;
  const height = world.y1 - world.y0 + 2 * AROUND;
  const scale = Math.min(SCALE, LONGEST / Math.max(width, height), Math.sqrt(LARGEST / (width * height)));
  // Below one px per unit the names cannot be read: there the level of detail is that of a camera as far away.
  const ratio = Math.max(1, scale);
  const camera = new Camera();
  camera.zoom = scale / ratio;
  camera.x = world.x0 - AROUND;
  camera.y = world.y0 - AROUND;
  const view: View = { camera, width: width * camera.zoom, height: height * camera.zoom, margin: 0, ratio };
  const [ground, base, overlay] = ["ground", "base", "overlay"].map(() => layer(width * scale, height * scale));
  if (!ground || !base || !overlay) return Promise.reject(new Error("This browser gives no 2D canvas."));

  const painter = new Painter(base, overlay);
  const frame = painter.frame(base, view, shown, state, theme, null);
  painter.drawBase(view, frame, null, null);
  painter.beginOverlay(view);
  drawOverlay({ ...frame, context: overlay }, -1);
  ground.fillStyle = theme.canvas;
  ground.fillRect(0, 0, ground.canvas.width, ground.canvas.height);
  for (const { canvas } of [base, overlay]) ground.drawImage(canvas, 0, 0);
  return new Promise((resolve, reject) => {
    ground.canvas.toBlob(
      (blob) => (blob === null ? reject(new Error("The picture is too large for this browser.")) : resolve(blob)),
      "image/png",
    );
  });
}

function layer(width: number, height: number): CanvasRenderingContext2D | null {
  const canvas = document.createElement("canvas");
  canvas.width = Math.ceil(width);
  canvas.height = Math.ceil(height);
  return canvas.getContext("2d");
}
