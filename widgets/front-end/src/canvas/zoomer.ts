/** The zoom buttons at the corner of the graph. */
import { detailAt } from "./lod";

export class Zoomer {
  readonly element = document.createElement("div");
  readonly #percent: HTMLButtonElement;

  constructor(actions: { zoomBy(factor: number): void; zoomTo(zoom: number): void; fit(): void }) {
    this.element.className = "ls-zoomer";
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "Zoom");
    const button = (text: string, label: string, act: () => void) => {
      const element = document.createElement("button");
      element.type = "button";
      element.textContent = text;
      element.title = label;
      element.setAttribute("aria-label", label);
      element.addEventListener("click", act);
      this.element.append(element);
      return element;
    };
    button("+", "Zoom in (+)", () => actions.zoomBy(1.25));
    this.#percent = button("100", "Zoom to 100% (0)", () => actions.zoomTo(1));
    button("−", "Zoom out (−)", () => actions.zoomBy(0.8));
    button("Fit", "Fit the graph (F)", () => actions.fit());
  }

  show(zoom: number): void {
    const percent = String(Math.round(zoom * 100));
    if (this.#percent.textContent !== percent) this.#percent.textContent = percent;
    this.element.dataset["detail"] = String(detailAt(zoom));
  }
}
