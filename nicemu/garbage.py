# SPDX-License-Identifier: Apache-2.0
"""Python's search for cycles, held off while much is made: it would walk all of it again and again."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_waits(holds: bool = True) -> Iterator[None]:
    """Search for no cycles inside, if this `holds`.

    What was made belongs to the oldest generation behind it, so that the next search does not walk it at
    once; but where somebody has frozen objects, nothing is moved.
    """
    if not holds or not gc.isenabled():
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        if gc.get_freeze_count() == 0:
            gc.freeze()
            gc.unfreeze()
        gc.enable()
