"""Arm's Ethos-U through TOSA INT8."""

from __future__ import annotations

from lowerscope.support import ethos_u
from lowerscope.target import Target, add_target

ETHOS_U = add_target(
    Target(
        "ethos-u",
        "Arm Ethos-U: an integer graph of TOSA operators.",
        keeps=frozenset({"aten.linear"}),  # lower_to_tosa wants it whole: on permuted inputs it would become bmm
        takes=ethos_u.TABLE,
    )
)
