/** Where a pane looks: screen = (layout - origin) * zoom, in CSS px of the pane. */
import type { Rect } from "./rect";

export const ZOOM = { min: 0.02, max: 4 } as const;

export class Camera {
  /** Layout point at the pane's top left corner. */
  x = 0;
  y = 0;
  zoom = 1;

  toScreenX(x: number): number {
    return (x - this.x) * this.zoom;
  }

  toScreenY(y: number): number {
    return (y - this.y) * this.zoom;
  }

  toLayoutX(x: number): number {
    return x / this.zoom + this.x;
  }

  toLayoutY(y: number): number {
    return y / this.zoom + this.y;
  }

  pan(dx: number, dy: number): void {
    this.x -= dx / this.zoom;
    this.y -= dy / this.zoom;
  }

  /** Zoom so that what is under the screen point stays under it. */
  zoomAt(factor: number, x: number, y: number): void {
    const zoom = Math.min(ZOOM.max, Math.max(ZOOM.min, this.zoom * factor));
    this.x += x / this.zoom - x / zoom;
    this.y += y / this.zoom - y / zoom;
    this.zoom = zoom;
  }

  /** The layout box that a pane of this size (CSS px) shows, `margin` px wider on every side. */
  window(width: number, height: number, margin = 0): Rect {
    return {
      x0: this.toLayoutX(-margin),
      y0: this.toLayoutY(-margin),
      x1: this.toLayoutX(width + margin),
      y1: this.toLayoutY(height + margin),
    };
  }

  /** The camera that shows all of a box, never larger than `maximum`. */
  static fitting(box: Rect, width: number, height: number, padding: number, maximum = 1): Camera {
    const camera = new Camera();
    const w = Math.max(1, box.x1 - box.x0);
    const h = Math.max(1, box.y1 - box.y0);
    const free = { w: Math.max(20, width - 2 * padding), h: Math.max(20, height - 2 * padding) };
    camera.zoom = Math.max(ZOOM.min, Math.min(maximum, free.w / w, free.h / h));
    camera.x = (box.x0 + box.x1) / 2 - width / 2 / camera.zoom;
    camera.y = (box.y0 + box.y1) / 2 - height / 2 / camera.zoom;
    return camera;
  }

  /** The camera that shows a box's full width, and its top where it is too tall. */
  static fittingWidth(box: Rect, width: number, height: number, padding: number, minimum = 0.6): Camera {
    const whole = Camera.fitting(box, width, height, padding);
    if (whole.zoom >= minimum) return whole;
    const camera = new Camera();
    camera.zoom = Math.max(minimum, Math.min(1, (width - 2 * padding) / Math.max(1, box.x1 - box.x0)));
    camera.x = (box.x0 + box.x1) / 2 - width / 2 / camera.zoom;
    camera.y = box.y0 - padding / camera.zoom;
    return camera;
  }

  copyFrom(other: Camera): void {
    this.x = other.x;
    this.y = other.y;
    this.zoom = other.zoom;
  }

  /** The point between two cameras at t in 0..1; zoom moves geometrically, so that it looks even. */
  mix(from: Camera, to: Camera, t: number, width: number, height: number): void {
    this.zoom = from.zoom * (to.zoom / from.zoom) ** t;
    const fromX = from.toLayoutX(width / 2);
    const fromY = from.toLayoutY(height / 2);
    this.x = fromX + (to.toLayoutX(width / 2) - fromX) * t - width / 2 / this.zoom;
    this.y = fromY + (to.toLayoutY(height / 2) - fromY) * t - height / 2 / this.zoom;
  }
}
