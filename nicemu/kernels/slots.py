# SPDX-License-Identifier: Apache-2.0
"""Frames laid out for a kernel: each with the room before it that the kernel may write, and its record."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from nicemu.hot import Int, Records, hot
from nicemu.lookup import LINE_BYTES, Memory
from nicemu.pcie import copy_memory
from nicemu.pipeline import MAX_FRAME_BYTES

from .records import PACKET

u64 = np.uint64

SLOTS: Final = 8192
ROOM_BYTES: Final = 1 << 20
_LINE = u64(LINE_BYTES)

Array = np.ndarray[Any, Any]


@hot
def lay(
    packets: Records,
    room: Int,
    end: Int,
    headroom_bytes: Int,
    base: Int,
    offsets: Records,
    lengths: Records,
    times_ns: Records,
    ports: Records,
    first: Int,
) -> Int:
    """Copy frames from number `first` on into the memory from `room` to `end`, and begin their records.

    packets: PACKET[n]; the others as `Slots.fill`. Returns how many: a frame that a pipeline does not take,
    and one for which there is no room, ends it.
    """
    at, count, begins = u64(room), u64(0), u64(first)
    limit = min(u64(len(packets)), u64(len(offsets)) - begins)
    while count < limit:
        length = u64(lengths[begins + count])
        begin = at + u64(headroom_bytes)
        behind = (begin + length + _LINE - u64(1)) // _LINE * _LINE
        if length > u64(MAX_FRAME_BYTES) or behind > u64(end):
            break
        copy_memory(begin, u64(base) + offsets[begins + count], length)
        packet = packets[count]
        packet["address"], packet["length"] = begin, length
        packet["port"], packet["now_ns"] = ports[begins + count], times_ns[begins + count]
        at, count = behind, count + u64(1)
    return np.int64(count)


class Slots:
    """Memory for as many packets as go through a kernel at once: all of it is `memory`, uint8[]."""

    def __init__(self, headroom_bytes: int) -> None:
        self.headroom_bytes = -(-headroom_bytes // LINE_BYTES) * LINE_BYTES
        length = ROOM_BYTES + SLOTS * self.headroom_bytes + MAX_FRAME_BYTES
        self._memory = Memory(length)
        self._end = self._memory.address + length
        self._packets = np.zeros(SLOTS, PACKET)
        self.memory: Array = np.frombuffer(self._memory.view, np.uint8)

    def fill(
        self, base: int, offsets: Array, lengths: Array, times_ns: Array, ports: Array, first: int
    ) -> Array:
        """Lay frames out from number `first` on, as many as there is room for; return their records.

        offsets, lengths, times_ns, ports: uint64[n], the offsets from the address `base`. A frame longer than
        MAX_FRAME_BYTES ends it; there are no records if it is the first.
        """
        count = lay(
            self._packets,
            self._memory.address,
            self._end,
            self.headroom_bytes,
            base,
            offsets,
            lengths,
            times_ns,
            ports,
            first,
        )
        return self._packets[:count]

    def close(self) -> None:
        """Give the memory back; nobody may use `memory` any more."""
        self.memory = np.zeros(0, np.uint8)
        self._memory.close()
