/**
 * The entry: anywidget calls `render` for every display of a widget; a self-contained HTML file calls `replay`.
 */
import "./styles.css";
import "./canvas/canvas.css";
import "./panels/panels.css";
import { KernelClient, type Model, type Recording, ReplayClient } from "./client";
import { mount } from "./mount";

/** Draw one display of a widget into `el`; what comes back frees everything that it took. */
export function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const panels = model.get("panels");
  return mount(el, new KernelClient(model), {
    ...(Array.isArray(panels) ? { panels: panels.map(String) } : {}),
    height: Number(model.get("height")) || undefined,
  });
}

/** Draw a recording into `el`, without a kernel. */
export function replay(el: HTMLElement, recording: Recording): () => void {
  return mount(el, new ReplayClient(recording), {});
}

export default { render };
