# SPDX-License-Identifier: Apache-2.0
"""NICs that nobody refers to any more, and their descriptors: they are not left to the collector's time."""

from __future__ import annotations

import gc
import os

MANY_NICS = 32
"""So many NICs have some 300 descriptors; select(2) takes none from 1024 on."""
_nics = {"alive": 0, "many": MANY_NICS}


def collect_if_many() -> None:
    """Count a NIC that is made. NICs refer to their parts and back: collect if there are many."""
    if _nics["alive"] >= _nics["many"]:
        gc.collect()
        _nics["many"] = max(MANY_NICS, 2 * _nics["alive"])
    _nics["alive"] += 1


def gone(eventfd: int) -> None:
    """A NIC is no more; nothing waits for its eventfd."""
    _nics["alive"] -= 1
    os.close(eventfd)
