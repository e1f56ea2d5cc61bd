"""What two scenes have to share to be the same."""

from __future__ import annotations

import numpy as np

from lowerscope.scene import Scene


def same_scene(one: Scene, other: Scene) -> None:
    """They say and draw the same; their strings may be numbered otherwise."""
    texts = {
        "modules": ("path", "label", "type"), "nodes": ("id", "op", "label", "detail", "shape", "source", "leaf"),
        "edges": ("arg",), "matches": ("reason",), "steps": ("sentence",),
    }  # fmt: skip
    assert {k: v for k, v in one.header.items() if k != "strings"} == {
        k: v for k, v in other.header.items() if k != "strings"
    }
    for table, columns in one.tables.items():
        for name, values in columns.items():
            if name in texts.get(table, ()):
                assert one.texts(table, name) == other.texts(table, name)
            else:
                np.testing.assert_array_equal(values, other.tables[table][name])
