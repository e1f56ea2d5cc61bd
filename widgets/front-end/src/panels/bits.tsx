/** What several panels share: badges, pills, names, links to nodes, buttons, menus, and the boundary around a panel. */

import { Component, type ComponentChildren, type JSX } from "preact";
import { useRef } from "preact/hooks";

import type { PatternRow } from "../protocol";
import { Icon, type IconName } from "./icons";
import { type Item, useSide } from "./side";
import { brief, split } from "./text";

/** A bug in one panel must leave the others working: what is inside is replaced by one sentence and a way to try again. */
export class Boundary extends Component<{ panel: string; children: ComponentChildren }, { error: Error | null }> {
  override state = { error: null as Error | null };

  static override getDerivedStateFromError(error: unknown): { error: Error } {
    return { error: error instanceof Error ? error : new Error(String(error)) };
  }

  override componentDidCatch(error: unknown): void {
    console.error(`lowerscope: the panel "${this.props.panel}" failed`, error);
  }

  override render(): ComponentChildren {
    const { error } = this.state;
    if (error === null) return this.props.children;
    return (
      <div class="ls-broken" role="alert" data-ls="panel-error" data-panel={this.props.panel}>
        <span>
          The panel “{this.props.panel}” cannot be shown: {brief(error.message, 200)}. The others keep working.
        </span>
        <Button label="Show it again" data-ls="panel-retry" onClick={() => this.setState({ error: null })} />
      </div>
    );
  }
}

/** A name that is cut in the middle when it does not fit, so that its telling end stays: depthwise_conv…as_mul. */
export function Name({ text, strong }: { text: string; strong?: boolean }): JSX.Element {
  const { head, tail } = split(text);
  return (
    <span class={strong ? "ls-name ls-b" : "ls-name"} title={brief(text)}>
      <span class="ls-name-head">{head}</span>
      {tail && <span class="ls-name-tail">{tail}</span>}
    </span>
  );
}

/** The pattern's number in pipeline order, on its colour; hollow when the pattern takes nothing here. */
export function Badge({
  pattern,
  hollow,
}: {
  pattern: Pick<PatternRow, "number" | "color">;
  hollow?: boolean;
}): JSX.Element {
  const twin = pattern.color % 12 >= 6 ? " ls-twin" : "";
  return <span class={`ls-badge ls-c${pattern.color % 6}${twin}${hollow ? " ls-hollow" : ""}`}>{pattern.number}</span>;
}

export type Tone = "pass" | "fail" | "near" | "none";

const SIGNS: Record<Tone, IconName> = { pass: "check", fail: "cross", near: "dash", none: "dash" };

export function Pill({ tone, text, icon, ...rest }: { tone: Tone; text: string; icon?: boolean } & Data): JSX.Element {
  return (
    <span class={`ls-pill ls-${tone}`} title={brief(text)} {...rest}>
      {icon !== false && <Icon name={SIGNS[tone]} small />}
      <span class="ls-cut">{text}</span>
    </span>
  );
}

/** Attributes by which tests find a control or a readout. */
interface Data {
  [name: `data-${string}`]: string | number | boolean | undefined;
}

type ButtonProps = {
  label: string;
  /** What the label is the value of, written before it. */
  prefix?: string;
  icon?: IconName;
  /** What is read out and shown as the tooltip when the label is not shown. */
  hint?: string;
  bare?: boolean;
  quiet?: boolean;
  primary?: boolean;
  disabled?: boolean;
  pressed?: boolean;
  caret?: boolean;
  class?: string;
  "aria-label"?: string;
  "aria-haspopup"?: "menu" | "dialog";
  "aria-expanded"?: boolean;
  onClick: (event: MouseEvent) => void;
} & Data;

export function Button({
  label,
  prefix,
  icon,
  hint,
  bare,
  quiet,
  primary,
  disabled,
  pressed,
  caret,
  class: extra,
  onClick,
  ...rest
}: ButtonProps): JSX.Element {
  const names = ["ls-btn", bare && "ls-bare", quiet && "ls-quiet", primary && "ls-primary", extra]
    .filter(Boolean)
    .join(" ");
  return (
    <button
      type="button"
      class={names}
      title={hint ?? (bare ? label : undefined)}
      aria-label={bare ? label : undefined}
      aria-disabled={disabled ? "true" : undefined}
      aria-pressed={pressed}
      onClick={(event) => !disabled && onClick(event)}
      {...rest}
    >
      {icon && <Icon name={icon} />}
      {prefix !== undefined && <span class="ls-2 ls-11">{prefix}</span>}
      {!bare && <span class={prefix === undefined ? "ls-btn-text" : "ls-btn-text ls-cut ls-b"}>{label}</span>}
      {caret && <Icon name="down" small />}
    </button>
  );
}

/** A link in the text that does something here. */
export function Link({
  text,
  hint,
  onClick,
  ...rest
}: { text: string; hint?: string; onClick: () => void } & Data): JSX.Element {
  return (
    <button type="button" class="ls-link" title={hint} onClick={onClick} {...rest}>
      {text}
    </button>
  );
}

/** The focused element, also inside a shadow root. */
export function focused(inside: HTMLElement | null): HTMLElement | null {
  const root = inside?.getRootNode() ?? document;
  const active = root instanceof ShadowRoot || root instanceof Document ? root.activeElement : document.activeElement;
  return active instanceof HTMLElement ? active : null;
}

/** A button that opens a menu. */
export function MenuButton({
  items,
  menu,
  ...button
}: { items: () => Item[]; menu: string } & Omit<ButtonProps, "onClick">): JSX.Element {
  const side = useSide();
  const box = useRef<HTMLSpanElement>(null);
  const anchor = () => box.current?.querySelector<HTMLElement>("button") ?? null;
  const open = side.state.menu !== null && side.state.menu.anchor === anchor();
  const toggle = () => {
    const at = anchor();
    if (at) side.toggleMenu({ label: menu, items: items(), anchor: at });
  };
  return (
    <span class="ls-anchor" ref={box}>
      <Button {...(button as ButtonProps)} aria-haspopup="menu" aria-expanded={open} onClick={toggle} />
    </span>
  );
}

/** The heading of a section of a panel, with what belongs at its right end. */
export function Heading({
  text,
  children,
  line,
  id,
}: {
  text: string;
  children?: ComponentChildren;
  line?: boolean;
  id?: string;
}): JSX.Element {
  return (
    <div class={line ? "ls-h ls-line" : "ls-h"}>
      <h3 class="ls-h-text" id={id}>
        {text}
      </h3>
      {children !== undefined && <span class="ls-h-right">{children}</span>}
    </div>
  );
}

/** A line of progress with a way to stop; it shows only when the work has lasted 300 ms. */
export function Progress({
  done,
  total,
  sentence,
  onStop,
}: {
  done: number;
  total: number;
  sentence: string;
  onStop?: () => void;
}): JSX.Element {
  const known = total > 0;
  return (
    <div class="ls-progress" data-ls="progress">
      <div
        class={known ? "ls-bar" : "ls-bar ls-endless"}
        role="progressbar"
        aria-label={sentence}
        aria-valuemin={0}
        aria-valuemax={known ? total : undefined}
        aria-valuenow={known ? done : undefined}
      >
        <i style={{ width: known ? `${Math.min(100, (done / total) * 100)}%` : "30%" }} />
      </div>
      <span class="ls-11 ls-2 ls-cut">{sentence}</span>
      {onStop && <Link text="Stop" data-ls="progress-stop" onClick={onStop} />}
    </div>
  );
}
