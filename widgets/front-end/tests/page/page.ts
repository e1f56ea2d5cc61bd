/** A page with the widget on the synthetic network: `page.html?columns=body:12,detail:8&closed=body.0&beside=1&theme=dark`. */
import "../../src/styles.css";
import front from "../../src/index";
import { StandIn } from "../stand_in";

const asked = new URLSearchParams(location.search);
const columns = (asked.get("columns") ?? "body:6,detail:6").split(",").map((part) => {
  const [name = "body", blocks = "6"] = part.split(":");
  return { name, blocks: Number(blocks) };
});
const closed = asked.get("closed") ?? "";
const every = columns.flatMap(({ name, blocks }) => Array.from({ length: blocks }, (_, i) => `${name}.${i}`));
const hostile = asked.get("hostile");
const model = new StandIn({
  columns,
  closed: new Set(closed === "all" ? every : closed.split(",")),
  beside: asked.get("beside") === "1",
  ...(hostile === null ? {} : { hostile }),
});
document.body.dataset["jpThemeLight"] = String(asked.get("theme") !== "dark");
const cell = document.createElement("div");
document.body.append(cell);
const close = front.render({ model, el: cell });
Object.assign(window, { model, close, cell, render: front.render });
