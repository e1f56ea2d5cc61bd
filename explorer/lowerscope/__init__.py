"""lowerscope: an explorer for the lowering of exported PyTorch models."""

from __future__ import annotations

__version__ = "0.1.0"
