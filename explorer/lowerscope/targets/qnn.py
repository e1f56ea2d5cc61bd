"""Qualcomm's QNN backend."""

from __future__ import annotations

from lowerscope.support import qnn
from lowerscope.target import Target, add_target

QNN = add_target(Target("qnn", "ExecuTorch's Qualcomm delegate.", takes=qnn.TABLE, nhwc=True))
