# SPDX-License-Identifier: Apache-2.0
"""Interrupts of an NVMe controller outside that count: a message into NIC memory feeds a trigger counter.

The controller posts a completion, then its message as a memory write; the datapath follows the word that the
message lands in, and fires what waits for the counter. Neither control thread nor firmware take part.
Source: PCI Express Base Specification 5.0, "MSI-X Capability and Table Structure" (a message is a memory
write); NVM Express over PCIe Transport Specification 1.0, "Interrupts".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nicemu.errors import ResourceError
from nicemu.nvme import OutsideController

from .arena import FIRMWARE

if TYPE_CHECKING:
    from .device import SmartNic

STORAGE_VECTOR = 1
"""The vector of the completion queue that the firmware's commands use."""


class CountedInterrupt:
    """An interrupt vector that counts on a counter of the firmware, until `close`, or until other firmware is
    loaded, which takes its memory back.

    A message stores the same word each time, so `expect` renews it before each command: the n-th stores n.
    Commands whose completion counts go one at a time; of several under way, one counts.
    Raises: ResourceError if the NIC follows all the words that it can, or has no memory left; UsageError for
    a vector that there is not.
    """

    def __init__(self, device: SmartNic, controller: OutsideController, vector: int, counter: int) -> None:
        self._device = device
        self._controller = controller
        self._vector = vector
        self._count = 0
        self.address = device.memory.allocate(8)
        followed = device.arena.followed
        free = np.flatnonzero(followed["address"] == 0)
        if not len(free):
            raise ResourceError(f"all {len(followed)} words that can be followed are (ENOSPC)")
        self._place = int(free[0])
        window = device.memory.own.window
        with device.rings.paused():
            word = followed[self._place]
            word.seen = word.at_least = word.key = 0
            word.counter, word.owner = counter, FIRMWARE
            word.address = window.backing.address + self.address - window.bus_address
            link = device.arena.link
            link["followed"] = max(int(link[0].followed), self._place + 1)
        device.notes.say("follow", place=self._place, address=self.address, counter=counter)

    def expect(self) -> None:
        """Let the next completion count. Raises: ResourceError after 2**32 - 1 of them."""
        if self._count == 0xFFFF_FFFF:
            raise ResourceError("a vector counts to 2**32 - 1; close this one and count on another")
        self._count += 1
        self._controller.set_message(self._vector, self.address, self._count)

    def close(self) -> None:
        """Count no more."""
        self._controller.mask(self._vector)
        with self._device.rings.paused():
            self._device.arena.followed[self._place].address = 0
