"""What each target's backend takes: one table a file of operators, dtypes, ranks and limits.

Partitions are drawn by these tables, and patterns ask the same ones, so that no pattern makes what the backend lacks.
"""

from __future__ import annotations
