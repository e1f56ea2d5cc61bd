"""Arm's Ethos-U through TOSA INT8."""

from __future__ import annotations

from lowerscope.target import Target, add_target

ETHOS_U = add_target(Target("ethos-u", "Arm Ethos-U: an integer graph of TOSA operators."))
