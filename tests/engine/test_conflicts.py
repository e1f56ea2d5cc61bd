"""Conflicts: who won, why, what flips it, and what that costs."""

from __future__ import annotations

import torch
from torch.nn import functional as F

from lowerscope.session import Session
from tests.engine.test_why import EPILOGUE, IMAGE, conv, session


def test_two_convolutions_and_one_add_are_a_conflict_that_a_skip_flips():
    found = session(lambda s, x: F.relu(s.a(x) + s.b(x)), torch.randn(IMAGE), a=conv(), b=conv())
    frame = found.conflicts()
    rows = frame[(frame.winner == EPILOGUE) & (frame.loser == EPILOGUE)]
    assert len(rows) == 1
    row = rows.iloc[0]
    assert (row["at"], row.loser_at) == ("convolution", "convolution_1")
    assert row.shared == ["add", "relu"]
    assert row.why == "'convolution' stands before 'convolution_1' in the graph"
    assert row.operators == row.operators_flipped == 2
    assert row.parity_flipped in ("equal", "close")
    assert row.flip == f"session.skip(pattern={EPILOGUE!r}, match='convolution')"
    eval(row.flip, {"session": found})
    told = found.why_not(EPILOGUE, "conv2d_1")
    assert told.verdict == "applied"
    assert found.why_not(EPILOGUE, "conv2d").verdict == "skipped"


def test_stages_in_order_are_a_conflict_that_names_them():
    found = session(lambda s, x: s.conv(x).relu(), torch.randn(IMAGE), conv=conv())
    row = found.conflicts().iloc[0]
    assert (row.winner, row.loser) == (EPILOGUE, "conv_with_clamp")
    order = list(found.patterns().index)
    places = order.index(EPILOGUE) + 1, order.index("conv_with_clamp") + 1
    assert row.why == f"{EPILOGUE} is stage {places[0]}, conv_with_clamp stage {places[1]}"
    eval(row.flip, {"session": found})
    assert found.why_not("conv_with_clamp", "conv2d").verdict == "applied"
    assert int(found.op_counts().loc["total", "after"]) == row.operators_flipped


def test_without_a_conflict_the_frame_is_empty_and_has_its_columns():
    found = session(lambda s, x: x.sigmoid(), torch.randn(2))
    frame = found.conflicts()
    assert len(frame) == 0
    assert {"winner", "loser", "why", "flip", "operators_flipped", "parity_flipped"} <= set(frame.columns)


def test_asking_changes_nothing():
    found = session(lambda s, x: F.relu(s.a(x) + s.b(x)), torch.randn(IMAGE), a=conv(), b=conv())
    before = found.lowering
    found.conflicts()
    assert found.lowering is before
    assert isinstance(found, Session)
