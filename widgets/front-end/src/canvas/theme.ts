/** The style sheet's colours for the canvas, and whether the page is dark; both follow the page as it changes. */
import { Fate } from "../lives";

export interface Fill {
  fill: string;
  spine: string;
}

export interface Theme {
  dark: boolean;
  ui: string; // font families
  code: string;
  surface: string;
  canvas: string;
  grid: string;
  line2: string;
  text: string;
  text2: string;
  accent: string;
  pass: string;
  passBg: string;
  fail: string;
  failBg: string;
  near: string;
  edge: string;
  group: string;
  group2: string;
  groupBorder: string;
  onPattern: string;
  patterns: string[]; // six; P7-P12 repeat them with a double outline
  categories: Record<string, Fill>;
}

export const CATEGORIES = [
  "conv",
  "matmul",
  "arithmetic",
  "activation",
  "norm",
  "shape",
  "resample",
  "quant",
  "constant",
  "other",
];

/** The colour of what was added or removed; of anything else `other`. */
export function colourOf(theme: Theme, fate: number, other: string): string {
  return fate === Fate.added ? theme.pass : fate === Fate.removed ? theme.fail : other;
}

export function readTheme(root: HTMLElement): Theme {
  const style = getComputedStyle(root);
  const value = (name: string) => style.getPropertyValue(`--${name}`).trim();
  const categories: Record<string, Fill> = {};
  for (const name of CATEGORIES) categories[name] = { fill: value(name), spine: value(`${name}-spine`) };
  return {
    dark: root.classList.contains("ls-dark"),
    ui: value("ui"),
    code: value("code"),
    surface: value("surface"),
    canvas: value("canvas"),
    grid: value("grid"),
    line2: value("line2"),
    text: value("text"),
    text2: value("text2"),
    accent: value("accent"),
    pass: value("pass"),
    passBg: value("pass-bg"),
    fail: value("fail"),
    failBg: value("fail-bg"),
    near: value("near"),
    edge: value("edge"),
    group: value("group"),
    group2: value("group2"),
    groupBorder: value("group-border"),
    onPattern: value("on-p"),
    patterns: [1, 2, 3, 4, 5, 6].map((number) => value(`p${number}`)),
    categories,
  };
}

/** Keep `ls-dark` on the root as the page's theme changes, and call back after every change. Returns how to stop. */
export function followTheme(root: HTMLElement, changed: () => void): () => void {
  let key = "";
  const look = () => {
    root.classList.toggle("ls-dark", isDark(root));
    const style = getComputedStyle(root);
    const now = [root.className, style.fontFamily, style.backgroundColor, style.getPropertyValue("--code")].join(
      "|",
    );
    if (now === key) return;
    key = now;
    changed();
  };
  look();
  const observer = new MutationObserver(look);
  observer.observe(document.documentElement, { attributes: true });
  observer.observe(document.body, { attributes: true });
  // A theme's style sheet arrives after the attributes that name it.
  observer.observe(document.head, { childList: true });
  const late = (event: globalThis.Event) => {
    if (event.target instanceof HTMLLinkElement) look();
  };
  document.head.addEventListener("load", late, true);
  const media = [matchMedia("(prefers-color-scheme: dark)"), matchMedia("(forced-colors: active)")];
  for (const one of media) one.addEventListener("change", look);
  return () => {
    observer.disconnect();
    document.head.removeEventListener("load", late, true);
    for (const one of media) one.removeEventListener("change", look);
  };
}

function isDark(root: HTMLElement): boolean {
  const said = document.body.dataset["jpThemeLight"];
  if (said !== undefined) return said === "false";
  const jupyter = luminance(resolved(root, "var(--jp-layout-color0)"));
  if (jupyter !== null) return jupyter < 0.4;
  for (let element = root.parentElement; element !== null; element = element.parentElement) {
    const own = luminance(getComputedStyle(element).backgroundColor);
    if (own !== null) return own < 0.4;
  }
  return matchMedia("(prefers-color-scheme: dark)").matches;
}

/** The colour that an expression comes to on this page. */
function resolved(root: HTMLElement, colour: string): string {
  const probe = document.createElement("span");
  probe.style.backgroundColor = colour;
  (root.parentElement ?? document.body).append(probe);
  const value = getComputedStyle(probe).backgroundColor;
  probe.remove();
  return value;
}

/** Relative luminance (0..1) of an "rgb(...)" colour, null when it is transparent or something else. */
export function luminance(colour: string): number | null {
  const parts = /^rgba?\(([^)]+)\)$/
    .exec(colour)?.[1]
    ?.split(/[\s,/]+/)
    .map(Number);
  if (parts === undefined || parts.length < 3 || (parts[3] ?? 1) < 0.5) return null;
  const [r = 0, g = 0, b = 0] = parts.map((part) =>
    part / 255 <= 0.04045 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4,
  );
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}
