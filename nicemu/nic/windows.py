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

    def waiting_for(self, counter: int) -> int:
        """Return how many operations that no window has armed yet name a counter."""
        return sum(_names(record, counter) for window in self._open.values() for record in window.pending)

    def cancel_counter(self, owner: Owner, counter: int, is_closed: bool = False) -> int:
        """Cancel what waits for a counter, or would once it is armed; return how many operations.

        With `is_closed`, all that names the counter. Windows go on with what is left of them.
        """

        def is_meant(record: Any) -> bool:  # noqa: ANN401 - a record of ARMED
            return _names(record, counter) if is_closed else int(record["trigger"]) == counter

        with self._device.rings.paused():
            windows = [window for window in self._open.values() if window.owner == owner.number]
            return sum(self._remove(window, is_meant) for window in windows)

    def _remove(self, window: _Window, is_meant: Callable[[Any], bool]) -> int:
        """Remove operations of a window that have not fired, and let it go on; return how many."""
        unit = self._device.unit
        kept = deque(record for record in window.pending if not is_meant(record))
        count = len(window.pending) - len(kept)
        window.pending = kept

        def is_on_its_way(work: Any) -> bool:  # noqa: ANN401 - a record of ARMED
            return bool(work["window"] == window.number) and is_meant(work)

        removed = self._device.rings.withdraw(DOWN_ARM, is_on_its_way)
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
        device = self._device
        count = len(window.pending)
        with device.rings.paused():
            self._forget(window)
            slots = device.unit.state.slots[: int(device.unit.state.unit[0].touched)]
            waiting = np.flatnonzero((slots["window"] == number) & (slots["state"] == WAITING))
            for slot in waiting.tolist():
                count += bool(self._cancel(device.unit.state, slot, slots[slot].sequence))
        return count

    def close_all(self, owner: Owner) -> None:
        """A process is gone, and its windows with it."""
        for window in [one for one in self._open.values() if one.owner == owner.number]:
            self.close(owner, window.number)


def _names(record: Any, counter: int) -> bool:  # noqa: ANN401 - a record of ARMED
    """Whether an operation is triggered by a counter or will change it."""
    is_target = record["opcode"] in _COUNTER_OPERATIONS and int(record["rkey"]) == counter
    return is_target or counter in (int(record["trigger"]), int(record["completion"]))
