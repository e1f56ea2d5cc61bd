"""Long names are cut inside what is said of them, and nothing else is."""

from __future__ import annotations

from lowerscope.errors import unknown
from lowerscope.long_names import LONGEST, legible


def test_only_long_words_are_cut_and_both_of_their_ends_stay():
    longest, longer = "a" * LONGEST, "b" + "c" * 2 * LONGEST + "d"
    said = f"{longest} and\n{longer} are names"
    shown = legible(said)
    assert shown.startswith(f"{longest} and\nbccc")
    assert shown.endswith("cccd are names")
    assert max(map(len, shown.split())) == LONGEST
    assert legible(longest) == longest


def test_an_error_names_long_names_shortly_in_its_sentence_and_in_its_cell():
    name = "x" * 10_000
    error = unknown("node", name, [f"{name}{i}" for i in range(9)])
    assert str(error).startswith("there is no node named 'xxx")
    assert "use one of the 9 there are, the closest being 'xxx" in str(error)
    assert "xxx0', 'xxx" in str(error)
    assert len(str(error)) < 2_000
    assert error._render_traceback_() == [f"UnknownNameError: {error}"]
