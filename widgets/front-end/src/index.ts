import "./explorer.css";

/** The part of anywidget's model that the front end uses. */
export interface Model {
  get(name: string): unknown;
}

/** anywidget calls this once for every view of the widget and calls what it returns when the view goes away. */
export function render({ model, el }: { model: Model; el: HTMLElement }): () => void {
  const root = document.createElement("div");
  root.className = "lowerscope";
  root.tabIndex = 0;
  root.setAttribute("aria-label", String(model.get("title") ?? "lowerscope"));
  el.append(root);
  return () => root.remove();
}

export default { render };
