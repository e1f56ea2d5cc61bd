"""Python's garbage collector, kept from walking a whole program again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

#: Each so many times there is a full collection all the same: what went to the oldest generation counts for no other.
_COLLECTED = 100
_spared = 0


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Inside: no collections. For work that allocates many small objects that stay, each full collection is for nothing.

    Nor is there one at once when it ends: what was allocated goes to the oldest generation as it is, unless the program
    has frozen objects of its own.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            global _spared
            _spared += 1
            if _spared % _COLLECTED == 0:
                gc.collect()
            elif gc.get_freeze_count() == 0:
                gc.freeze()
                gc.unfreeze()
            gc.enable()
