# SPDX-License-Identifier: Apache-2.0
"""A kernel that compiled code runs: what `Kernel.run` does, with no Python in between."""

from __future__ import annotations

from typing import Final

import numpy as np

from nicemu.hot import Int, Records, hot
from nicemu.pcie import store_u64

from .machine_calls import call_machine_code

CALL_WORDS: Final = 5
"""Addresses of the code, the context, the context's word for the next effect, and the first effect; and
whether lookups can begin before they are needed.
"""
_RUN, _CONTEXT, _NEXT_EFFECT, _EFFECTS, _BEGINS = range(CALL_WORDS)


@hot
def run_kernel(call: Records, packets: Int, count: Int) -> None:
    """Take packets through a program that makes no copies.

    call: uint64[CALL_WORDS], of `Kernel.call_for` as many packets or more; packets: the address of
    PACKET[count].
    """
    store_u64(call[_NEXT_EFFECT], call[_EFFECTS])
    ahead = call[_BEGINS] if count > 1 else np.uint64(0)
    call_machine_code(call[_RUN], call[_CONTEXT], packets, count, ahead)
