"""The notebook widget of lowerscope."""

from __future__ import annotations
