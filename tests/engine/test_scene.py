"""Scenes: every node of every step is in them, lives and matches are those of the lowering, boxes are where they belong."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from lowerscope import labels
from lowerscope.columns import Strings, ints, pack, small, unpack
from lowerscope.folding import CLOSED, HIDDEN, OPEN, Folding
from lowerscope.lowering import Lowerer, Lowering, lower
from lowerscope.measure.counts import op_counts
from lowerscope.partitions import partition_summary, partitions
from lowerscope.pattern import REGISTRY
from lowerscope.program import Program, capture
from lowerscope.recipe import Recipe, Skip
from lowerscope.scene import VERDICTS, Scene, SceneMaker, make_scene
from lowerscope.scene_words import change
from lowerscope.verdict import Outcome
from tests.engine.nets import mixed
from tests.engine.scenes import same_scene

PROTOCOL = Path(__file__).parents[2] / "widgets" / "front-end" / "src" / "protocol.ts"


@pytest.fixture(scope="module")
def lowering() -> Lowering:
    return lower(mixed(), "vulkan")


@pytest.fixture(scope="module")
def scene(lowering: Lowering) -> Scene:
    return make_scene(lowering, revision=3, can_undo="x off")


class Block(nn.Module):
    def __init__(self, odd: bool = False) -> None:
        super().__init__()
        self.conv = nn.Conv2d(4, 4, 1)
        self.odd = odd

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x) + x
        return torch.tanh(y) if self.odd else torch.relu(y)


class Tower(nn.Module):
    """Many alike blocks, one of another kind among them, too many to be opened at first."""

    def __init__(self, count: int = 80, odd: int = 40) -> None:
        super().__init__()
        self.blocks = nn.Sequential(*(Block(i == odd) for i in range(count)))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks(x)


@pytest.fixture(scope="module")
def tower() -> Program:
    return capture(Tower().eval(), (torch.rand(1, 4, 4, 4),))


def column(scene: Scene, table: str, name: str) -> np.ndarray:
    return scene.tables[table][name]


def rows(scene: Scene) -> dict[str, int]:
    return {id: row for row, id in enumerate(scene.texts("nodes", "id"))}


def alive(scene: Scene, table: str, step: int) -> np.ndarray:
    born, died = column(scene, table, "born"), column(scene, table, "died")
    return (born <= step) & ((died < 0) | (died > step))


# ---------------------------------------------------------------------- the protocol
def test_tables_have_exactly_the_columns_of_the_protocol(scene: Scene) -> None:
    text = PROTOCOL.read_text(encoding="utf-8")
    declared = {
        name: set(re.findall(r'"(\w+)"', columns))
        for name, columns in re.findall(r"^    (\w+): Table<([^>]+)>;", text, re.MULTILINE | re.DOTALL)
    }
    assert declared == {name: set(table) for name, table in scene.tables.items()}


def test_header_has_exactly_the_fields_of_the_protocol(scene: Scene) -> None:
    text = PROTOCOL.read_text(encoding="utf-8")
    body = text[text.index("export interface SceneHeader {") : text.index("export type Table<")]
    declared = set(re.findall(r"^  (\w+):", body, re.MULTILINE))
    header, _ = scene.message()
    assert set(header) == declared
    for interface, found in (("PatternRow", header["patterns"][0]), ("CountRow", header["operators"][0])):
        line = text[text.index(f"export interface {interface} ") :]
        uncommented = re.sub(r"//.*", "", line[line.index("{") : line.index("}")])
        assert set(found) == set(re.findall(r"(\w+): ", uncommented))
    assert header["revision"] == 3
    assert header["can_undo"] == "x off"


def test_verdicts_are_those_of_the_protocol() -> None:
    text = PROTOCOL.read_text(encoding="utf-8")
    declared = re.findall(
        r'"([^"]+)"', text[text.index("export type Verdict") : text.index("export interface PatternRow")]
    )
    assert sorted(declared) == sorted(VERDICTS)


def test_columns_start_at_multiples_of_8_and_come_back_as_they_were(scene: Scene) -> None:
    header, buffer = scene.message()
    for columns in header["tables"].values():
        for described in columns.values():
            assert described["offset"] % 8 == 0
    back = unpack(header["tables"], buffer)
    for table, columns in scene.tables.items():
        for name, values in columns.items():
            assert np.array_equal(back[table][name], values, equal_nan=values.dtype == np.float32)
    assert json.loads(json.dumps(header)) == header


def test_packing_empty_and_odd_columns() -> None:
    described, buffer = pack({"t": {"a": small([1, 2, 3]), "b": ints([]), "c": ints([7])}})
    assert [c["offset"] for c in described["t"].values()] == [0, 8, 8]
    assert unpack(described, buffer)["t"]["c"].tolist() == [7]


def test_strings_keep_their_index() -> None:
    strings = Strings()
    assert [strings("a"), strings("b"), strings("a")] == [0, 1, 0]
    assert strings.all == ["a", "b"]


def test_no_tensor_travels() -> None:
    weight = torch.full((64, 64, 3, 3), 0.123456)
    module = nn.Conv2d(64, 64, 3)
    module.weight = nn.Parameter(weight)
    scene = make_scene(lower(capture(module, (torch.rand(1, 64, 5, 5),)), "vulkan"))
    header, buffer = scene.message()
    assert len(json.dumps(header)) + len(buffer) < 20_000 < weight.numel() * 4


# ---------------------------------------------------------------------- nodes, edges, lives
def test_every_node_that_ever_lived_has_a_row_with_its_life(lowering: Lowering, scene: Scene) -> None:
    found = rows(scene)
    assert list(found) == list(lowering.ledger.records)
    for id, record in lowering.ledger.records.items():
        assert column(scene, "nodes", "born")[found[id]] == record.born
        assert column(scene, "nodes", "died")[found[id]] == (-1 if record.died is None else record.died)


@pytest.mark.parametrize("where", ["start", "middle", "end"])
def test_nodes_and_edges_alive_at_a_step_are_the_graph_of_that_step(
    lowering: Lowering, scene: Scene, where: str
) -> None:
    last = len(lowering.steps)
    step = {"start": 0, "middle": last // 2, "end": last}[where]
    program = lowering.program_at(step)
    graph = program.exported_program.graph_module.graph
    ids = scene.texts("nodes", "id")
    source, target = column(scene, "edges", "src"), column(scene, "edges", "dst")
    edges = {(ids[source[i]], ids[target[i]]) for i in np.flatnonzero(alive(scene, "edges", step))}
    top = {(s, t) for s, t in edges if "/" not in t}
    assert top == {(i.name, node.name) for node in graph.nodes for i in node.all_input_nodes}
    nodes = {ids[i] for i in np.flatnonzero(alive(scene, "nodes", step)) if "/" not in ids[i]}
    # a constant without a reader is no longer part of a program, and not of a picture either: it has no box
    assert {n.name for n in graph.nodes} <= nodes
    assert all(
        column(scene, "nodes", "kind")[rows(scene)[id]] == labels.CONSTANT
        for id in nodes - {n.name for n in graph.nodes}
    )


def test_operators_before_and_after_are_those_of_the_programs(lowering: Lowering, scene: Scene) -> None:
    expected = op_counts(lowering.before, lowering.program)
    found = scene.header["operators"]
    assert found[-1]["op"] == "total"
    assert {r["op"]: (r["before"], r["after"], r["delta"]) for r in found} == {
        str(op): (row["before"], row["after"], row["delta"]) for op, row in expected.iterrows()
    }
    assert found[-1]["after"] != found[-1]["before"]


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (469, 229, "−51%"),
        (100, 120, "+20%"),
        (1000, 998, "−0.2%"),
        (5, 5, ""),
        (0, 3, ""),
        (3, 370, "×123"),
        (1, 10, "×10"),
        (7, 0, "−100%"),
    ],
)
def test_a_change_is_said_in_per_cent_and_a_multiple_as_one(before: int, after: int, said: str) -> None:
    assert change(before, after) == said


def test_users_are_counted_in_the_last_graph_that_has_the_node(lowering: Lowering, scene: Scene) -> None:
    graph = lowering.program.graph
    users = column(scene, "nodes", "users")
    for node in graph.nodes:
        assert users[rows(scene)[node.name]] == len(node.users), node.name


def test_a_node_knows_which_pattern_made_it(lowering: Lowering, scene: Scene) -> None:
    pattern = column(scene, "nodes", "pattern")
    names = [p["name"] for p in scene.header["patterns"]]
    found = {id: names[pattern[row]] for id, row in rows(scene).items() if pattern[row] >= 0}
    made = {id: step.pattern for step in lowering.steps for id in step.made}
    assert made.items() <= found.items()
    assert found["p_stem_0_weight_folded"] == "fold_batch_norm"
    assert "conv2d" not in found


def test_what_the_backend_takes_is_flagged_before_and_after(lowering: Lowering, scene: Scene) -> None:
    assert scene.header["partitions"] == partition_summary(lowering)
    flags = column(scene, "nodes", "flags")
    found = rows(scene)
    after = partitions(lowering, "after")
    assert after is not None
    assert after.delegated
    assert {id for id, row in found.items() if flags[row] & 8} == after.delegated
    # conv2d itself is not in the graph that the backend gets: what becomes of it is
    assert flags[found["conv2d"]] & 4
    assert flags[found["convolution"]] & 4
    assert not flags[found["conv2d"]] & 8


def test_edges_name_the_argument(scene: Scene) -> None:
    ids = scene.texts("nodes", "id")
    edges = zip(column(scene, "edges", "src"), column(scene, "edges", "dst"), scene.texts("edges", "arg"), strict=True)
    found = {(ids[s], ids[t]): argument for s, t, argument in edges}
    assert found["p_skip_weight", "conv2d_1"] == "weight"
    assert found["x", "conv2d"] == "input"
    assert found["p_scale", "mul"] == "other"


def test_what_is_written_on_a_convolution(scene: Scene) -> None:
    row = rows(scene)["conv2d"]
    written = {name: scene.texts("nodes", name)[row] for name in ("op", "label", "detail", "shape", "source")}
    assert written["op"] == "aten.conv2d"
    assert written["label"] == "conv2d"
    assert written["detail"] == "3×3, 4"
    assert written["shape"] == "f32[1,4,6,5]"
    assert re.fullmatch(r"nets\.py:\d+", written["source"])
    assert scene.header["categories"][column(scene, "nodes", "category")[row]] == "conv"


def test_kinds_of_nodes(scene: Scene) -> None:
    kind = column(scene, "nodes", "kind")
    found = rows(scene)
    assert kind[found["x"]] == labels.INPUT
    assert kind[found["output"]] == labels.OUTPUT
    assert kind[found["p_scale"]] == labels.CONSTANT
    assert kind[found["mul"]] == labels.OPERATOR
    assert any(kind[row] == labels.OTHER for row in found.values())


# ---------------------------------------------------------------------- matches and steps
def test_matches_are_the_verdicts_that_can_be_drawn(lowering: Lowering, scene: Scene) -> None:
    ids = scene.texts("nodes", "id")
    names = [p["name"] for p in scene.header["patterns"]]
    members = column(scene, "members", "node")
    t = scene.tables["matches"]
    found = {}
    for row in range(len(t["pattern"])):
        taken = members[t["member"][row] : t["member"][row] + t["members"][row]]
        origins = members[t["origin"][row] : t["origin"][row] + t["origins"][row]]
        key = (names[t["pattern"][row]], ids[t["anchor"][row]])
        found[key] = (VERDICTS[t["verdict"][row]], [ids[i] for i in taken], [ids[i] for i in origins])
    drawn = {
        key: (str(v.outcome), list(dict.fromkeys(v.nodes)), list(dict.fromkeys(v.origins)))
        for key, v in lowering.verdicts.items()
        if v.outcome not in (Outcome.NOTHING_TO_FUSE, Outcome.NO_ANCHOR)
    }
    assert found == drawn
    assert {v for v, _, _ in found.values()} >= {"applied"}


def test_counts_of_patterns_and_modules_agree_with_the_matches(scene: Scene) -> None:
    t = scene.tables["matches"]
    for row, pattern in enumerate(scene.header["patterns"]):
        of = t["verdict"][t["pattern"] == row]
        assert pattern["applied"] == (of == VERDICTS.index("applied")).sum()
        assert pattern["near"] == (of == VERDICTS.index("near miss")).sum()
        assert pattern["number"] == row + 1
    modules = scene.tables["modules"]
    assert modules["matched"][0] == (t["verdict"] == VERDICTS.index("applied")).sum()
    assert modules["ops"][0] == scene.header["operators"][-1]["before"]
    assert modules["ops_after"][0] == scene.header["operators"][-1]["after"]


def test_steps_say_what_they_took_and_made(lowering: Lowering, scene: Scene) -> None:
    ids = scene.texts("nodes", "id")
    members = column(scene, "members", "node")
    t = scene.tables["steps"]
    operator = column(scene, "nodes", "kind") == labels.OPERATOR
    for row, step in enumerate(lowering.steps):
        taken = members[t["taken"][row] : t["taken"][row] + t["takens"][row]]
        made = members[t["made"][row] : t["made"][row] + t["mades"][row]]
        assert [ids[i] for i in taken] == list(step.taken)
        assert [ids[i] for i in made] == list(step.made)
        assert t["delta"][row] == operator[made].sum() - operator[taken].sum()
    assert scene.texts("steps", "sentence") == [step.sentence for step in lowering.steps]


# ---------------------------------------------------------------------- places
def test_a_rename_takes_the_place_of_what_it_renames_and_a_fusion_does_not(scene: Scene) -> None:
    found = rows(scene)
    box = np.stack([column(scene, "nodes", c) for c in "xywh"], 1)
    assert np.array_equal(box[found["conv2d"]], box[found["convolution"]])
    fused = next(id for id in found if id.startswith("conv2d_with_epilogue"))
    assert not np.isnan(box[found[fused]]).any()
    others = [row for id, row in found.items() if id != fused]
    assert not any(np.array_equal(box[row], box[found[fused]]) for row in others)


def test_boxes_lie_in_their_module_and_do_not_overlap(scene: Scene) -> None:
    nodes, modules = scene.tables["nodes"], scene.tables["modules"]
    side = nodes["kind"] == labels.CONSTANT
    boxes = {}
    for row in range(len(nodes["id"])):
        if np.isnan(nodes["x"][row]) or side[row]:
            continue
        home = nodes["module"][row]
        for axis, extent in (("x", "w"), ("y", "h")):
            assert nodes[axis][row] >= modules[axis][home] - 0.01
            assert nodes[axis][row] + nodes[extent][row] <= modules[axis][home] + modules[extent][home] + 0.01
        boxes[tuple(float(nodes[c][row]) for c in "xywh")] = row
    placed = sorted(boxes)
    for i, (x, y, w, h) in enumerate(placed):
        for u, v, p, q in placed[i + 1 :]:
            assert not (x < u + p and u < x + w and y < v + q and v < y + h)


def test_constants_are_pills_beside_their_reader_and_out_of_the_ranks(scene: Scene) -> None:
    found = rows(scene)
    nodes = scene.tables["nodes"]
    weight, reader = found["p_skip_weight"], found["conv2d_1"]
    assert nodes["h"][weight] < nodes["h"][reader]
    assert abs(nodes["y"][weight] - nodes["y"][reader]) < 24
    beside_left = nodes["x"][weight] + nodes["w"][weight] < nodes["x"][reader]
    beside_right = nodes["x"][weight] > nodes["x"][reader] + nodes["w"][reader]
    assert beside_left or beside_right


def test_routes_lead_from_and_to_what_they_say(scene: Scene) -> None:
    nodes, routes, points = (scene.tables[name] for name in ("nodes", "routes", "points"))
    ends = {0: "src", -1: "dst"}
    assert len(routes["src"]) > 10
    for row in range(len(routes["src"])):
        first, count = routes["point"][row], routes["points"][row]
        for end, name in ends.items():
            assert not routes[f"{name}_module"][row]  # everything is open in this small program
            x, y = (float(points[c][first + (0 if end == 0 else count - 1)]) for c in "xy")
            box = [float(nodes[c][routes[name][row]]) for c in "xywh"]
            assert box[0] - 1 <= x <= box[0] + box[2] + 1
            assert box[1] - 1 <= y <= box[1] + box[3] + 1
        assert routes["edge"][row] >= 0


def test_every_visible_edge_is_drawn_while_it_lives(scene: Scene) -> None:
    edges, routes, nodes = (scene.tables[name] for name in ("edges", "routes", "nodes"))
    visible = ~np.isnan(nodes["x"])
    for step in (0, len(scene.tables["steps"]["pattern"])):
        wanted = {
            (edges["src"][i], edges["dst"][i])
            for i in np.flatnonzero(alive(scene, "edges", step))
            if visible[edges["src"][i]] and visible[edges["dst"][i]]
        }
        drawn = {(routes["src"][i], routes["dst"][i]) for i in np.flatnonzero(alive(scene, "routes", step))}
        assert drawn == wanted


# ---------------------------------------------------------------------- modules
def test_modules_are_a_tree_with_the_root_first(scene: Scene) -> None:
    parent = column(scene, "modules", "parent")
    assert parent[0] == -1
    assert all(0 <= parent[row] < row for row in range(1, len(parent)))
    paths = scene.texts("modules", "path")
    assert paths[0] == ""
    assert "stem" in paths
    assert "skip" not in paths, "a module of one operator has no box of its own"


def test_a_sub_graph_has_a_box(scene: Scene) -> None:
    ids = scene.texts("nodes", "id")
    inner = next(i for i, id in enumerate(ids) if "/" in id)
    paths, types = scene.texts("modules", "path"), scene.texts("modules", "type")
    box = column(scene, "nodes", "module")[inner]
    assert paths[box] == ids[inner].rpartition("/")[0]
    assert types[box] == "sub-graph"


def test_a_small_program_is_opened_fully(scene: Scene) -> None:
    assert column(scene, "modules", "open").all()
    kind = column(scene, "nodes", "kind")
    assert not np.isnan(column(scene, "nodes", "x")[kind == labels.OPERATOR]).any()


def test_alike_siblings_merge_up_to_the_odd_one_and_the_last_is_an_example(tower: Program) -> None:
    scene = make_scene(lower(tower, "vulkan"))
    labelled = dict(zip(scene.texts("modules", "label"), range(999), strict=False))
    merged = column(scene, "modules", "merged")
    assert merged[labelled["blocks.0–38"]] == 39
    assert "blocks.40" in labelled
    assert column(scene, "modules", "open")[labelled["blocks.39"]]
    assert column(scene, "modules", "ops")[labelled["blocks.0–38"]] == 39 * 3
    assert merged[labelled["blocks.41–78"]] == 38
    assert (~np.isnan(column(scene, "nodes", "x"))).sum() <= 150


def test_edges_of_a_closed_module_start_at_its_box(tower: Program) -> None:
    scene = make_scene(lower(tower, "vulkan"))
    routes = scene.tables["routes"]
    paths = scene.texts("modules", "path")
    found = {paths[i] for i in routes["src"][routes["src_module"] == 1]}
    assert "blocks.0" in found, "the run's first module stands for all of it"


def test_opening_closing_revealing_and_taking_a_run_apart(tower: Program) -> None:
    lowering = lower(tower, "vulkan")
    maker = SceneMaker()
    maker.scene(lowering)
    _, tree, folding = maker.prepare(lowering)
    records = lowering.ledger.records
    hidden = next(r.id for r in records.values() if r.module == "blocks.7")
    first, seventh = tree.rows["blocks.0"], tree.rows["blocks.7"]

    def x(scene: Scene, id: str) -> float:
        return float(column(scene, "nodes", "x")[rows(scene)[id]])

    assert np.isnan(x(maker.scene(lowering), hidden))
    folding.reveal(tree, hidden)
    revealed = maker.scene(lowering)
    assert not np.isnan(x(revealed, hidden))
    assert "blocks.0–6" in revealed.texts("modules", "label")
    folding.set_open(tree, [seventh], False)
    assert "blocks.0–38" in maker.scene(lowering).texts("modules", "label")
    folding.set_merged(tree, records, first, False)
    folded = folding.fold(tree, records)
    assert folded.shown[seventh] == CLOSED
    folding.set_merged(tree, records, first, True)
    folded = folding.fold(tree, records)
    assert folded.shown[seventh] == HIDDEN
    assert folded.stands_for[seventh] == first
    folding.set_depth(tree, 1)
    assert folding.fold(tree, records).shown[tree.rows["blocks"]] == CLOSED
    folding.set_depth(tree, 99)
    assert set(folding.fold(tree, records).shown) == {OPEN}


def test_closing_and_opening_again_gives_the_kept_layout(tower: Program) -> None:
    lowering = lower(tower, "vulkan")
    maker = SceneMaker()
    before = maker.scene(lowering)
    _, tree, folding = maker.prepare(lowering)
    row = tree.rows["blocks.39"]
    folding.set_open(tree, [row], False)
    maker.scene(lowering)
    folding.set_open(tree, [row], True)
    after = maker.scene(lowering)
    assert np.array_equal(column(before, "nodes", "x"), column(after, "nodes", "x"), equal_nan=True)


def test_near_misses_are_opened_at_first(tower: Program) -> None:
    lowering = lower(tower, "vulkan")
    maker = SceneMaker()
    _, tree, _ = maker.prepare(lowering)
    hidden = next(id for id in lowering.ledger.records if tree.modules[tree.row_of[id]].path == "blocks.20")
    folding = Folding.at_first(tree, lowering.ledger.records, [hidden])
    assert "blocks.20" in folding.open


# ---------------------------------------------------------------------- words
def test_a_disabled_pattern_says_what_it_would_take() -> None:
    row = make_scene(lower(mixed(), Recipe("vulkan").disable("fold_batch_norm"))).header["patterns"]
    found = next(p for p in row if p["name"] == "fold_batch_norm")
    assert not found["enabled"]
    assert found["would"] == 1
    assert found["summary"] == "disabled · would match 1"


def test_a_refused_pattern_is_locked_with_the_reason() -> None:
    patterns = make_scene(lower(mixed(), "webgpu")).header["patterns"]
    found = next(p for p in patterns if p["name"] == "conv2d_with_epilogue")
    assert "its runtime does not implement" in found["locked"]


def test_skips_are_chips_and_mark_their_nodes() -> None:
    recipe = Recipe("vulkan").skip(Skip(node="mul"), Skip(module="nowhere.*"))
    scene = make_scene(lower(mixed(), recipe))
    chips = scene.header["skips"]
    assert [(c["kind"], c["value"], c["active"]) for c in chips] == [
        ("node", "mul", True),
        ("module", "nowhere.*", False),
    ]
    assert chips[1]["hint"]
    flags = column(scene, "nodes", "flags")
    assert flags[rows(scene)["mul"]] & 1
    assert not flags[rows(scene)["conv2d"]] & 1


def test_a_pattern_keeps_its_colour_when_others_come_and_go() -> None:
    program = mixed()
    maker = SceneMaker()

    def colors(target: str) -> dict[str, int]:
        return {p["name"]: p["color"] for p in maker.scene(lower(program, target)).header["patterns"]}

    first, second = colors("vulkan"), colors("qnn")
    shared = set(first) & set(second)
    assert shared
    assert {n: first[n] for n in shared} == {n: second[n] for n in shared}
    assert len(set(first.values())) == len(first)


def test_nothing_matched_is_said() -> None:
    scene = make_scene(lower(capture(nn.Sigmoid(), (torch.rand(2, 3),)), "vulkan"))
    assert scene.header["notice"].startswith("No pattern of vulkan takes anything here")
    normed = nn.Sequential(nn.Conv2d(3, 4, 3), nn.GroupNorm(2, 4))  # core_aten takes both, and nothing else does
    notice = make_scene(lower(capture(normed, (torch.rand(1, 3, 5, 5),)), "vulkan")).header["notice"]
    assert notice.startswith("No pattern of vulkan but core_aten takes anything here")
    recipe = Recipe("vulkan").disable(*(p.name for p in REGISTRY.of_target("vulkan")))
    assert make_scene(lower(mixed(), recipe)).header["notice"].startswith("Every pattern is off")


def test_a_program_without_an_operator_has_a_scene() -> None:
    class Same(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x

    scene = make_scene(lower(capture(Same(), (torch.rand(2),)), "vulkan"))
    assert scene.header["operators"] == [
        {"op": "total", "category": "", "before": 0, "after": 0, "delta": 0, "change": ""}
    ]


# ---------------------------------------------------------------------- names of any kind
HOSTILE = ["<img src=x onerror=alert(1)>", "a\"b'c", "x" * 10_000, "\u202eright-to-left", "\U0001f525"]


def test_hostile_names_stay_text_and_keep_the_scene_small() -> None:
    class Wrapped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            for name in HOSTILE:
                self.add_module(name, Block())

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for name in HOSTILE:
                x = getattr(self, name)(x)
            return x

    scene = make_scene(lower(capture(Wrapped().eval(), (torch.rand(1, 4, 4, 4),)), "vulkan"))
    labelled = scene.texts("modules", "label")
    assert HOSTILE[0] in labelled
    assert max(map(len, labelled)) <= 80
    assert column(scene, "modules", "w").max() < 2000


def test_symbolic_sizes_are_written_as_symbols_and_not_guarded() -> None:
    dynamic = torch.export.Dim("batch", min=2, max=64)
    program = capture(Block().eval(), (torch.rand(3, 4, 4, 4),), dynamic_shapes=({0: dynamic},))
    constraints = dict(program.exported_program.range_constraints)
    maker = SceneMaker()
    for recipe in (Recipe("vulkan"), Recipe("vulkan").disable("fold_constants"), Recipe("vulkan")):
        scene = maker.scene(lower(program, recipe))
    assert re.match(r"f32\[s\d+,4,4,4\]", scene.texts("nodes", "shape")[rows(scene)["conv2d"]])
    assert program.exported_program.range_constraints == constraints


def test_texts_are_derived_anew_when_a_node_of_the_same_name_is_another() -> None:
    program = mixed()
    maker = SceneMaker()
    for target in ("vulkan", "qnn", "vulkan", "webgpu", "xnnpack"):
        lowering = lower(program, target)
        kept, fresh = maker.scene(lowering), make_scene(lowering)
        for name in ("op", "label", "detail", "shape", "source", "leaf"):
            assert kept.texts("nodes", name) == fresh.texts("nodes", name)


def test_what_is_drawn_again_is_what_a_new_view_draws() -> None:
    """Over toggles and openings the kept tables are those of a maker that has kept nothing, and are kept indeed."""
    random, lowerer, maker = np.random.default_rng(0), Lowerer(mixed()), SceneMaker()
    start = lowerer.lower(Recipe("vulkan"))
    maker.scene(start)
    names = [p.name for p in start.patterns if p.name != "core_aten"]
    kept = 0
    for _ in range(12):
        lowering = lowerer.lower(Recipe("vulkan").disable(*(n for n in names[-2:] if random.random() < 0.5)))
        _, tree, folding = maker.prepare(lowering)
        folding.set_open(tree, [int(random.integers(len(tree.modules)))], bool(random.random() < 0.5))
        again, scene = maker.scene(lowering), maker.scene(lowering)
        kept += again.tables is scene.tables
        assert scene.message()[1] is again.message()[1]
        fresh = SceneMaker()
        fresh.scene(start)
        fresh.folding = Folding(set(folding.open), set(folding.apart))
        same_scene(scene, fresh.scene(lowering))
    assert kept == 12


def test_a_node_has_the_path_of_its_own_module_boxed_or_not() -> None:
    scene = make_scene(lower(mixed(), "vulkan"))
    paths, boxes = scene.texts("modules", "path"), scene.tables["nodes"]["module"]
    records = lower(mixed(), "vulkan").ledger.records
    whole = {
        id: ".".join(part for part in (paths[box], leaf) if part)
        for id, box, leaf in zip(scene.texts("nodes", "id"), boxes, scene.texts("nodes", "leaf"), strict=True)
    }
    assert whole == {id: record.prefix[:-1] or record.module for id, record in records.items()}
    assert any(path not in paths for path in whole.values()), "some module holds one operator"
