# SPDX-License-Identifier: Apache-2.0
"""Where packets of a kernel leave, as numbers: the ports' own, and one for the host."""

from __future__ import annotations

from typing import Final

import numpy as np

from nicemu.hot import Int, Records, hot
from nicemu.kernels import TO_HOST, TO_PORT

HOST_PLACE: Final = 1 << 16
PLACES: Final = HOST_PLACE + 1


@hot
def place_of(packet: Records) -> Int:
    """Return the place to which a packet leaves, PLACES for one that does not."""
    if packet["verdict"] == TO_PORT and packet["out_port"] < HOST_PLACE:
        return np.int64(packet["out_port"])
    if packet["verdict"] == TO_HOST:
        return HOST_PLACE
    return PLACES
