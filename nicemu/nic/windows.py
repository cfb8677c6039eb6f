# SPDX-License-Identifier: Apache-2.0
"""Programs that are armed piece by piece: whenever an operation of a window has fired, the next is armed.

So a program of any length fits a trigger table of any size, and no host has to keep up.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from nicemu.abi import ARMED, CommandStatus, Opcode
from nicemu.errors import ResourceError, UsageError
from nicemu.hot import interpreted
from nicemu.trigger import WAITING, cancel

from .arena import MAX_WINDOWS
from .commands import arm_records, check_records
from .datapath import DOWN_ARM
from .owner import Owner

if TYPE_CHECKING:
    from .device import SmartNic

_COUNTER_OPERATIONS = (int(Opcode.COUNTER_ADD), int(Opcode.COUNTER_SET))
WITH_MEMORY = [opcode for opcode in Opcode if opcode < 16 or opcode in (Opcode.NVME_READ, Opcode.NVME_WRITE)]
"""Operations that may have local pieces."""
RETRY_NS = 1_000_000
"""How long a window waits that found no free slot, because other processes had them all."""


@dataclass(eq=False, slots=True)
class _Window:
    number: int
    owner: int
    pending: deque[Any]
    armed: int


class Windows:
    """The windows of one NIC."""

    def __init__(self, device: SmartNic, compiled: bool) -> None:
        self._device = device
        self._arm = arm_records if compiled else interpreted(arm_records)
        self._check = check_records if compiled else interpreted(check_records)
        self._cancel = cancel if compiled else interpreted(cancel)
        self._open: dict[int, _Window] = {}
        self._next = 1
        self._starved: set[int] = set()

    def open(self, owner: Owner, address: int, key: int, count: int, size: int) -> int:
        """Arm the first `size` of `count` records in registered memory, or none; return the window's number.

        Raises: UsageError for a record that cannot be armed, ResourceError (ENOSPC) without room.
        """
        device = self._device
        if count < 1 or size < 1 or key not in owner.keys:
            raise UsageError("a window has at least one operation, in registered memory of the process")
        view = device.regions.local(owner.pd, address, count * ARMED.itemsize, key, False)
        records = np.frombuffer(bytes(view), ARMED).copy()
        number = self._free_number()
        base, first = np.uint64(records.ctypes.data), min(size, count)
        with device.rings.paused():
            status = int(self._check(device.arena, owner.number, base, np.uint64(count)))
            if status == 0:
                device.arena.windows[number % MAX_WINDOWS] = number
                status = int(
                    self._arm(device.arena, owner.number, base, np.uint64(first), False, np.uint32(number))
                )
            if status:
                device.arena.windows[number % MAX_WINDOWS] = 0
        if status == CommandStatus.NO_SPACE:
            free = device.unit.free_slots(owner.number)
            raise ResourceError(f"a window of {first} operations, {free} trigger slots free (ENOSPC)")
        if status:
            name = CommandStatus(status).name.lower().replace("_", " ")
            raise UsageError(f"an operation of the program cannot be armed: {name} (errno {status})")
        rest = records[first:]
        rest["owner"], rest["window"] = owner.number, number
        self._open[number] = _Window(number, owner.number, deque(rest), first)
        return number

    def _free_number(self) -> int:
        taken = {number % MAX_WINDOWS for number in self._open}
        if len(taken) == MAX_WINDOWS:
            raise ResourceError(f"{MAX_WINDOWS} windows are open already (ENOSPC)")
        while self._next % MAX_WINDOWS in taken:
            self._next += 1
        self._next += 1
        return self._next - 1

    def fired(self, number: int) -> None:
        """An operation of a window has fired."""
        window = self._open.get(number)
        if window is not None:
            window.armed -= 1
            self._refill(window)

    def run(self) -> None:
        """Try again what found no free slot."""
        for number in list(self._starved):
            self._starved.discard(number)
            if number in self._open:
                self._refill(self._open[number])

    def next_deadline_ns(self) -> int | None:
        """When a window looks for free slots again."""
        return self._device.now_ns + RETRY_NS if self._starved else None

    def _refill(self, window: _Window) -> None:
        if window.number not in self._open:
            return
        if window.pending and self._device.unit.free_slots(window.owner) > 0:
            window.armed += 1
            self._device.rings.push(DOWN_ARM, work=window.pending.popleft())
        elif window.pending:
            self._starved.add(window.number)
        elif window.armed == 0:
            self._forget(window)

    def _forget(self, window: _Window) -> None:
        del self._open[window.number]
        self._device.arena.windows[window.number % MAX_WINDOWS] = 0

    def count(self, owner: Owner, is_meant: Callable[[Any], bool]) -> int:
        """Return how many operations of a process are meant that its windows have not armed yet."""
        meant = 0
        with self._device.rings.paused():
            for window in self._of(owner):
                meant += sum(map(is_meant, window.pending))
                meant += sum(map(is_meant, self._device.rings.on_their_way(DOWN_ARM, window.number)))
        return meant

    def remove(self, owner: Owner, is_meant: Callable[[Any], bool]) -> int:
        """Cancel operations of a process that have not fired; return how many. Windows go on without."""
        with self._device.rings.paused():
            return sum(self._remove(window, is_meant) for window in self._of(owner))

    def _of(self, owner: Owner) -> list[_Window]:
        return [window for window in self._open.values() if window.owner == owner.number]

    def _remove(self, window: _Window, is_meant: Callable[[Any], bool]) -> int:
        """Remove operations of a window that have not fired, and let it go on; return how many."""
        unit = self._device.unit
        kept = deque(record for record in window.pending if not is_meant(record))
        count = len(window.pending) - len(kept)
        window.pending = kept

        removed = self._device.rings.withdraw(DOWN_ARM, window.number, is_meant)
        slots = unit.state.slots[: int(unit.state.unit[0].touched)]
        for slot in np.flatnonzero((slots["window"] == window.number) & (slots["state"] == WAITING)).tolist():
            if is_meant(slots[slot]):
                removed += bool(self._cancel(unit.state, slot, slots[slot].sequence))
        window.armed -= removed
        for _ in range(max(1, removed)):
            self._refill(window)
        return count + removed

    def close(self, owner: Owner, number: int) -> int:
        """Cancel what of a window's program has not fired; return how many operations."""
        window = self._open.get(number)
        if window is None or window.owner != owner.number:
            return 0
        with self._device.rings.paused():
            count = self._remove(window, lambda record: True)
            if number in self._open:  # what is due will fire
                self._forget(window)
        return count

    def close_all(self, owner: Owner) -> None:
        """A process is gone, and its windows with it."""
        for window in self._of(owner):
            self.close(owner, window.number)


def names_counter(record: Any, counter: int) -> bool:  # noqa: ANN401 - a record of ARMED
    """Whether an operation is triggered by a counter or will change it."""
    is_target = record["opcode"] in _COUNTER_OPERATIONS and int(record["rkey"]) == counter
    return is_target or counter in (int(record["trigger"]), int(record["completion"]))


def names_queue_pair(record: Any, qp: int) -> bool:  # noqa: ANN401 - a record of ARMED
    """Whether an operation goes through a queue pair."""
    return bool(record["opcode"] < Opcode.COUNTER_ADD) and int(record["qp"]) == qp


def names_key(record: Any, key: int) -> bool:  # noqa: ANN401 - a record of ARMED
    """Whether an operation reads or writes local memory under a key."""
    if int(record["opcode"]) not in WITH_MEMORY:
        return False
    return any(int(record[f"sge{place}_lkey"]) == key for place in range(int(record["sge_count"])))
