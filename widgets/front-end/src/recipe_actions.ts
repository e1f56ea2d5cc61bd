/** What changes the recipe, opens modules, measures, and hands things out. All of it is asked of the kernel. */
import { BaseStore } from "./base_store";
import { offer, offerBlob, putOnClipboard } from "./outputs";
import type { Copied, Exported, Measurable } from "./protocol";

export interface SkipTarget {
  pattern?: string;
  node?: string;
  module?: string;
  op?: string;
  match?: { pattern: string; anchor: string };
}

export class RecipeActions extends BaseStore {
  toggle(pattern: string, enabled?: boolean): void {
    const row = this.state.scene?.patterns.find((one) => one.name === pattern);
    if (row === undefined) return;
    if (row.locked !== null && enabled !== false && !row.enabled) {
      this.say(row.locked);
      return;
    }
    void this.ask({ type: "toggle", pattern, enabled: enabled ?? !row.enabled }, "patterns");
  }

  only(pattern: string): void {
    void this.ask({ type: "only", pattern }, "patterns");
  }

  all(enabled: boolean): void {
    void this.ask({ type: "all", enabled }, "patterns");
  }

  move(pattern: string, before: string | null): void {
    void this.ask({ type: "move", pattern, before }, "patterns");
  }

  flip(pattern: string): void {
    void this.ask({ type: "flip", pattern }, "patterns");
  }

  skip(target: SkipTarget): void {
    void this.ask({ type: "skip", ...target }, "skips");
  }

  skipText(text: string): void {
    if (text.trim() !== "") void this.ask({ type: "skip_text", text: text.trim() }, "skips");
  }

  unskip(key: string): void {
    void this.ask({ type: "unskip", key }, "skips");
  }

  /** Take over the recipe of a suggestion (`Suggestion.apply`). */
  apply(recipe: object): void {
    void this.ask({ type: "apply", recipe }, "why");
  }

  undo(): void {
    if (this.state.scene?.header.can_undo != null) void this.ask({ type: "undo" }, "toolbar");
  }

  redo(): void {
    if (this.state.scene?.header.can_redo != null) void this.ask({ type: "redo" }, "toolbar");
  }

  setTarget(target: string): void {
    void this.ask({ type: "target", target }, "toolbar");
  }

  setProfile(name: string, value: string | number | boolean): void {
    void this.ask({ type: "profile", name, value }, "toolbar");
  }

  // ---------------------------------------------------------------- modules
  openModules(modules: readonly number[], open: boolean): void {
    if (modules.length > 0) void this.ask({ type: "open", modules: [...modules], open }, "graph");
  }

  openDepth(depth: number): void {
    void this.ask({ type: "open_depth", depth }, "graph");
  }

  merge(module: number, merged: boolean): void {
    void this.ask({ type: "merge", module, merged }, "graph");
  }

  /** Open what hides a node. Resolves when the scene that shows it is here. */
  async reveal(node: string): Promise<void> {
    await this.ask({ type: "reveal", node }, "graph");
  }

  // ---------------------------------------------------------------- numbers and outputs
  measure(what: Measurable): void {
    void this.ask({ type: "measure", what }, "metrics");
  }

  cancel(what: Measurable | "load" | "layout" | "what_if"): void {
    void this.ask({ type: "cancel", what }, "metrics");
  }

  async copy(what: "python" | "json" | "compile_options"): Promise<void> {
    const copied = await this.ask<Copied>({ type: "copy", what }, "toolbar");
    if (copied === null) return;
    const done = await putOnClipboard(copied.text);
    this.update({ copied: done ? null : copied });
    if (done) this.say(`Copied the recipe as ${copied.format}.`);
  }

  async copyText(text: string, what = "name"): Promise<void> {
    const done = await putOnClipboard(text);
    this.update({ copied: done ? null : { text, format: what } });
    if (done) this.say(`Copied the ${what}.`);
  }

  closeCopied(): void {
    this.update({ copied: null });
  }

  async exportAs(what: "svg" | "png" | "html" | "pt2"): Promise<void> {
    if (what === "png") {
      try {
        const blob = await this.camera?.picture("png");
        if (blob !== undefined) offerBlob(blob, `${this.state.scene?.header.program.name ?? "graph"}.png`);
      } catch (error) {
        this.fail("toolbar", error instanceof Error ? error.message : String(error));
      }
      return;
    }
    const step = what === "svg" ? { step: this.state.step } : {};
    const exported = await this.ask<Exported>({ type: "export", what, ...step }, "toolbar");
    if (exported === null) return;
    if (exported.text !== "") offer(exported.text, exported.filename);
    this.say(exported.note);
  }
}
