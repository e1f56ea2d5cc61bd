"""Tables show what a reader came for."""

from __future__ import annotations

import pandas as pd

from lowerscope.frame import Table

LONG = "the convolution is the first operand of a sub, or of an add with an alpha: the convolution second at add"


def test_a_sentence_is_shown_whole_and_a_list_by_its_first_items():
    frame = Table({"sentence": [LONG], "anchors": [["a", "b", "c", "d", "e"]], "where": [(0, 1)]})
    for shown in (repr(frame), frame._repr_html_()):
        assert LONG in shown
        assert "a, b, c and 2 more" in shown
        assert "(0, 1)" in shown
    assert frame.anchors.iloc[0] == ["a", "b", "c", "d", "e"]


def test_a_name_of_ten_thousand_characters_is_cut_where_it_is_shown_and_whole_where_it_is_held():
    name = "x" * 10_000
    frame = Table({"node": [name], "sentence": [f"there is {name} here"], "nodes": [[name]]}, index=[name])
    for shown in (repr(frame), frame._repr_html_()):
        assert len(shown) < 5_000
        assert "there is xxx" in shown
        assert "xxx here" in shown
    assert frame.node.loc[name] == name


def test_no_column_is_left_out_where_the_terminal_is_narrow():
    shown = repr(Table({f"column_{i}": [LONG] for i in range(12)}))
    assert all(f"column_{i}" in shown for i in range(12))


def test_what_is_taken_from_a_table_is_one_and_options_stay_as_they_were():
    before = pd.get_option("display.max_colwidth")
    frame = Table({"sentence": [LONG, LONG], "count": [1, 2]})
    part = frame[frame["count"] > 1][["sentence"]]
    assert isinstance(part, Table)
    assert LONG in repr(part)
    assert isinstance(frame["count"], pd.Series)
    assert pd.get_option("display.max_colwidth") == before
