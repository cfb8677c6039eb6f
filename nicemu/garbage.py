# SPDX-License-Identifier: Apache-2.0
"""Python's search for cycles, held off while much is made: it would walk all of it again and again."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_MOST_BLOCKS = 1_000_000
"""How many blocks of memory, of some 100 bytes each, may be left behind before cycles are searched for."""

_left_blocks = 0


@contextmanager
def garbage_waits(holds: bool = True, has_cycles: bool = False) -> Iterator[None]:
    """Search for no cycles inside, if this `holds`.

    What was made belongs to the oldest generation behind it, so that the next search does not walk it at
    once; but where somebody has frozen objects, nothing is moved. Python does not count it there: where what
    is made inside `has_cycles`, this counts, and searches everywhere once that is worth the time.
    """
    global _left_blocks
    if not holds or not gc.isenabled():
        yield
        return
    before = sys.getallocatedblocks()
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        gc.enable()
        if has_cycles:
            _left_blocks += max(0, sys.getallocatedblocks() - before)
            if _left_blocks > _MOST_BLOCKS:
                gc.collect()
                _left_blocks = 0
