# SPDX-License-Identifier: Apache-2.0
"""NVMe completions that count: a controller's interrupt, a message into NIC memory, feeds a trigger counter.

The controller posts a completion, then its message as a memory write; the datapath follows the word that the
message lands in, and fires what waits for the counter. Neither control thread nor firmware take part. Each
counter that counts completions has a queue pair of the controller for itself, for one command at a time: an
interrupt stores the same word until it is told another, so two at once could look like one.
Source: PCI Express Base Specification 5.0, "MSI-X Capability and Table Structure" (a message is a memory
write); NVM Express over PCIe Transport Specification 1.0, "Interrupts".
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import numpy as np

from nicemu.errors import ProtocolError, ResourceError, UsageError
from nicemu.nvme import Messages
from nicemu.pcie import store_u64

from .storage import Storage

if TYPE_CHECKING:
    from .device import SmartNic

_WORD_BYTES = 8
_LAST = 0xFFFF_FFFF


class CountedInterrupt:
    """The interrupt of a queue pair, whose n-th command since `open` lets it store n: a `Gate`.

    `address` is the word's bus address, `place` where the datapath follows it.
    """

    def __init__(
        self, device: SmartNic, messages: Messages, queue: int, address: int, counter: int, owner: int
    ) -> None:
        self.counter, self.owner = counter, owner
        self._device, self._messages, self._queue = device, messages, queue
        self._address = address
        self._count = 0
        window = device.memory.own.window
        self._raw = window.backing.address + address - window.bus_address
        followed = device.arena.followed
        free = np.flatnonzero(followed["address"] == 0)
        if not len(free):
            raise ResourceError(f"all {len(followed)} words that can be followed are (ENOSPC)")
        self.place = int(free[0])
        messages.set_message(queue, address, 0)  # what was pending is stored now, and counts for nobody
        store_u64(self._raw, 0)
        with device.rings.paused():
            word = followed[self.place]
            word.seen = word.at_least = word.key = 0
            word.counter, word.owner, word.address = counter, owner, self._raw
            link = device.arena.link
            link["followed"] = max(int(link[0].followed), self.place + 1)
        device.notes.say("follow", place=self.place, address=address, counter=counter)

    @property
    def is_open(self) -> bool:
        """Whether every command before has been counted, so that the next one may go."""
        return int(self._device.arena.followed[self.place].seen) == self._count

    def expect(self) -> None:
        """A command goes now: let its completion count."""
        if self._count == _LAST:
            self._start_over()
        self._count += 1
        self._messages.set_message(self._queue, self._address, self._count)

    def _start_over(self) -> None:
        """A message has 32 bits: begin with 1 again."""
        with self._device.rings.paused():
            store_u64(self._raw, 0)
            self._device.arena.followed[self.place].seen = 0
        self._count = 0

    def withdraw(self) -> None:
        """The command did not go."""
        self._count -= 1

    def close(self) -> None:
        """Count no more, also where the controller is lost, which sends nothing then."""
        with suppress(ProtocolError):
            self._messages.mask(self._queue)
        with self._device.rings.paused():
            self._device.arena.followed[self.place].address = 0


class CountedInterrupts:
    """Which queue pairs of the NIC's controller count, where, and for whom."""

    def __init__(self, device: SmartNic) -> None:
        self._device = device
        self._open: dict[int, CountedInterrupt] = {}
        self._words: dict[int, int] = {}
        if device.storage is not None and device.storage.single_queues:
            base = device.memory.allocate(_WORD_BYTES * len(device.storage.single_queues))
            for position, queue in enumerate(device.storage.single_queues):
                self._words[queue] = base + _WORD_BYTES * position

    def open(self, counter: int, owner: int) -> int:
        """Return the number of a queue pair whose completions count at `counter`, 1 each.

        Raises: UsageError if the NIC has no namespace, ResourceError if its controller has no such queue pair
        left, or all words that can be followed are.
        """
        storage = self._storage()
        free = [queue for queue in self._words if queue not in self._open and storage.is_idle(queue)]
        if not free:
            raise ResourceError(
                f"{self._device.config.name} has {len(self._words)} NVMe queue pairs whose completions can "
                f"count, and all are in use (ENOSPC); give one back first"
            )
        queue = free[0]
        interrupt = CountedInterrupt(
            self._device, storage.messages, queue, self._words[queue], counter, owner
        )
        self._open[queue] = storage.gates[queue] = interrupt
        return queue

    def check(self, queue: int, owner: int) -> None:
        """Raise UsageError unless a queue pair counts for `owner`."""
        if queue not in self._open or self._open[queue].owner != owner:
            raise UsageError(f"NVMe queue pair {queue} does not count for its caller (EINVAL)")

    def close(self, queue: int, owner: int) -> None:
        """Count no more on a queue pair; commands under way end without counting.

        Raises: UsageError if it does not count for `owner`.
        """
        self.check(queue, owner)
        self._close(queue)

    def forget_counter(self, counter: int) -> None:
        """A counter is going: nothing counts there any more."""
        for queue in self.queues_of(counter):
            self._close(queue)

    def forget_owner(self, owner: int) -> None:
        """An owner is going."""
        for queue in [queue for queue, one in self._open.items() if one.owner == owner]:
            self._close(queue)

    def queues_of(self, counter: int) -> list[int]:
        """Return the queue pairs whose completions count at a counter."""
        return [queue for queue, one in self._open.items() if one.counter == counter]

    def follow_at(self, place: int) -> bool:
        """Whether the datapath follows an interrupt's word at a place of its table."""
        return any(one.place == place for one in self._open.values())

    def _close(self, queue: int) -> None:
        interrupt = self._open.pop(queue)
        del self._storage().gates[queue]
        interrupt.close()

    def _storage(self) -> Storage:
        if self._device.storage is None:
            raise UsageError(f"{self._device.config.name} has no NVMe namespace, so nothing completes there")
        return self._device.storage
