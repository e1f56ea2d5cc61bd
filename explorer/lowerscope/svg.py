"""A scene as an SVG picture, for where no kernel and no script runs. Every name is escaped; text is never markup."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Iterator, Mapping

import numpy as np

from lowerscope import labels
from lowerscope.long_names import legible
from lowerscope.ops import CATEGORIES
from lowerscope.scene import VERDICTS, Scene

# Light colours: fill and spine by category, and the patterns' own. A picture in a saved notebook has its own background, so
# that it can be read on dark pages too.
FILLS = {
    "conv": ("#E6EDF9", "#5578B4"),
    "matmul": ("#ECEAFA", "#7466C0"),
    "arithmetic": ("#FBF0DB", "#B9822A"),
    "activation": ("#E3F2E7", "#43905A"),
    "norm": ("#F5E8F4", "#A0649A"),
    "shape": ("#EDEFF2", "#838D99"),
    "resample": ("#DFF1F3", "#348A97"),
    "quant": ("#FBE7E4", "#BC6359"),
    "constant": ("#FFFFFF", "#9AA3AE"),
    "other": ("#EDEFF2", "#838D99"),
}
_PATTERNS = ("#4B20A8", "#7D3B00", "#006660", "#B8478F", "#70790A", "#3F73B8")
_APPLIED, _NEAR = VERDICTS.index("applied"), VERDICTS.index("near miss")
# what reads from right to left, or turns the direction of what follows
_DIRECTED = re.compile("[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_MARGIN = 20.0
LARGEST = 1500  #: boxes in one picture; more make a file that no page shows


def to_svg(scene: Scene, step: int = 0, *, largest: int = LARGEST) -> str:
    """The graph after `step` as an SVG document: modules, nodes, edges, and the matches as outlines.

    Outlines are those of the matches whose nodes are all part of that graph: solid for what is taken, dashed for a near
    miss. Of a picture with more than `largest` boxes only the module boxes are drawn, which it says.
    """
    picture = _Picture(scene, step)
    modules, nodes = scene.tables["modules"], scene.tables["nodes"]
    width, height = float(modules["w"][0]) + 2 * _MARGIN, float(modules["h"][0]) + 2 * _MARGIN
    few = int(picture.drawn.sum()) <= largest
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-_MARGIN:g} {-_MARGIN:g} {width:g} {height:g}" '
        f'width="{width:.0f}" height="{height:.0f}" font-family="system-ui,sans-serif" role="img" '
        f'aria-label="{_text(scene.header["program"]["name"])}, {len(nodes["id"])} nodes">',
        f'<rect x="{-_MARGIN:g}" y="{-_MARGIN:g}" width="{width:g}" height="{height:g}" fill="#FCFCFD"/>',
        '<defs><marker id="ls-arrow" viewBox="0 0 5 7" refX="5" refY="3.5" markerWidth="5" markerHeight="7" '
        'orient="auto" markerUnits="userSpaceOnUse"><path d="M0 0L5 3.5L0 7z" fill="#9AA3AE"/></marker></defs>',
        *picture.modules(),
    ]
    if few:
        parts += [*picture.hulls(), *picture.edges(), *picture.nodes()]
    else:
        parts.append(
            f'<text x="0" y="-6" font-size="11" fill="#59616B">{int(picture.drawn.sum())} nodes, not drawn</text>'
        )
    return "\n".join([*parts, "</svg>"])


class _Picture:
    def __init__(self, scene: Scene, step: int) -> None:
        self.scene = scene
        self.step = step
        nodes = scene.tables["nodes"]
        self.alive = _alive(nodes, step)
        self.drawn = self.alive & ~np.isnan(nodes["x"]) & (nodes["kind"] != labels.CONSTANT)

    def modules(self) -> Iterator[str]:
        modules = self.scene.tables["modules"]
        names, types = self.scene.texts("modules", "label"), self.scene.texts("modules", "type")
        for row in range(1, len(modules["x"])):
            if np.isnan(modules["x"][row]):
                continue
            x, y, w, h = (float(modules[c][row]) for c in "xywh")
            is_open = bool(modules["open"][row])
            yield (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="6" fill="#F4F6F8" '
                'stroke="#DADEE3"/>'
            )
            said = types[row] if is_open else f"{modules['ops'][row]} ops · {modules['matched'][row]} matched"
            baseline = y + (15 if is_open else h / 2 + 4)
            yield _label(x + 10, baseline, names[row], 11.5, "#1F2328", bold=True, room=w - 20)
            if w > 7 * (len(names[row]) + len(said)) + 24:
                yield _label(x + w - 10, baseline, said, 10.5, "#59616B", anchor="end", room=w)

    def hulls(self) -> Iterator[str]:
        matches, nodes = self.scene.tables["matches"], self.scene.tables["nodes"]
        members = self.scene.tables["members"]["node"]
        patterns = self.scene.header["patterns"]
        for row in range(len(matches["pattern"])):
            verdict = matches["verdict"][row]
            pattern = patterns[matches["pattern"][row]]
            if verdict not in (_APPLIED, _NEAR) or pattern["name"] == "core_aten":
                continue
            taken = members[matches["member"][row] : matches["member"][row] + matches["members"][row]]
            if not self.drawn[taken].all():  # as this graph has them: what the pattern met, or what that comes from
                taken = members[matches["origin"][row] : matches["origin"][row] + matches["origins"][row]]
            taken = taken[self.drawn[taken]]
            if not len(taken):
                continue
            x, y = float(nodes["x"][taken].min()) - 7, float(nodes["y"][taken].min()) - 7
            right = float((nodes["x"] + nodes["w"])[taken].max()) + 7
            bottom = float((nodes["y"] + nodes["h"])[taken].max()) + 7
            color = _PATTERNS[pattern["color"] % len(_PATTERNS)]
            fill = f'fill="{color}" fill-opacity=".09"' if verdict == _APPLIED else 'fill="none" stroke-dasharray="5 4"'
            yield (
                f'<rect x="{x:.1f}" y="{y:.1f}" width="{right - x:.1f}" height="{bottom - y:.1f}" rx="9" {fill} '
                f'stroke="{color}" stroke-width="1.5"><title>{_text(legible(pattern["name"]))}: {VERDICTS[verdict]}</title></rect>'
            )
            if verdict == _APPLIED:
                yield f'<rect x="{x + 8:.1f}" y="{y - 8:.1f}" width="17" height="15" rx="3" fill="{color}"/>'
                yield _label(x + 16.5, y + 3, str(pattern["number"]), 10, "#FFFFFF", anchor="middle", bold=True)
            else:
                said = f"near {matches['passed'][row]}/{matches['total'][row]}"
                yield _label(right - 4, bottom + 11, said, 10, color, anchor="end", bold=True)

    def edges(self) -> Iterator[str]:
        routes, points = self.scene.tables["routes"], self.scene.tables["points"]
        constant = self.scene.tables["nodes"]["kind"] == labels.CONSTANT
        shown = _alive(routes, self.step)
        for row in np.flatnonzero(shown):
            if not routes["src_module"][row] and constant[routes["src"][row]]:
                continue
            first, count = int(routes["point"][row]), int(routes["points"][row])
            xy = [(float(points["x"][i]), float(points["y"][i])) for i in range(first, first + count)]
            for line in (xy[:2], xy[2:]) if routes["stub"][row] else (xy,):
                path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in line)
                yield f'<path d="{path}" fill="none" stroke="#9AA3AE" stroke-width="1.25" marker-end="url(#ls-arrow)"/>'

    def nodes(self) -> Iterator[str]:
        nodes = self.scene.tables["nodes"]
        texts = {name: self.scene.texts("nodes", name) for name in ("id", "op", "label", "detail", "shape")}
        for row in np.flatnonzero(self.drawn):
            x, y, w, h = (float(nodes[c][row]) for c in "xywh")
            fill, spine = FILLS[CATEGORIES[nodes["category"][row]]]
            if nodes["kind"][row] in (labels.INPUT, labels.OUTPUT):
                fill, spine = "#FFFFFF", "#59616B"
            title = f"{texts['id'][row]} · {texts['op'][row]} · {texts['shape'][row]}"
            yield (
                f'<g><title>{_text(legible(title))}</title><rect x="{x:.1f}" y="{y:.1f}" width="{w:.1f}" height="{h:.1f}" rx="4" '
                f'fill="{fill}" stroke="{spine}"/><rect x="{x:.1f}" y="{y:.1f}" width="3.5" height="{h:.1f}" '
                f'rx="1.75" fill="{spine}"/>'
            )
            yield _label(x + 10, y + h / 2 + 4, texts["label"][row], 11, "#1F2328", bold=True, room=w - 14)
            if texts["detail"][row]:
                yield _label(x + w - 6, y + h / 2 + 4, texts["detail"][row], 10.5, "#59616B", anchor="end", room=w)
            yield "</g>"


def _alive(table: Mapping[str, np.ndarray], step: int) -> np.ndarray:
    return (table["born"] <= step) & ((table["died"] < 0) | (table["died"] > step))


def _label(
    x: float,
    y: float,
    text: str,
    size: float,
    color: str,
    *,
    anchor: str = "",
    bold: bool = False,
    room: float = math.inf,
) -> str:
    """One line of text, cut in the middle where it would not fit."""
    fits = labels.shortened(text, max(3, int(room / (size * 0.56)))) if math.isfinite(room) else text
    extra = (f' text-anchor="{anchor}"' if anchor else "") + (' font-weight="600"' if bold else "")
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size:g}" fill="{color}"{extra}>{_text(fits)}</text>'


def _text(text: str) -> str:
    """Escaped, without the control characters that XML cannot hold, and with its direction kept to itself."""
    plain = "".join(c if c >= " " or c in "\t\n" else "\ufffd" for c in text if not "\ud800" <= c <= "\udfff")
    isolated = f"\u2068{plain}\u2069" if _DIRECTED.search(plain) else plain
    return html.escape(isolated)
