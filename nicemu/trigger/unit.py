# SPDX-License-Identifier: Apache-2.0
"""The trigger unit as Python sees it: allocate counters, arm work, count, and take what is due."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from nicemu.abi import ARMED, POSTED, CommandStatus, DeferredWork, Limits, pack_deferred
from nicemu.errors import ResourceError, UsageError, counted
from nicemu.hot import interpreted

from . import counter as counters
from . import deferred_work as work
from .state import FREE, IN_FLIGHT, NONE, new_state

_twin = cache(interpreted)


class TriggerUnit:
    """Counters and armed work over one `TriggerState`.

    The datapath works on the same state; this face is for the control thread before the datapath runs, for
    the stepper and for tests. `compiled=False` runs the same source without the JIT.
    """

    def __init__(self, limits: Limits | None = None, compiled: bool = True) -> None:
        self.limits = limits or Limits()
        self.state = new_state(self.limits)
        self._compiled = compiled

    def _call(self, function: Callable[..., Any], *operands: object) -> Any:  # noqa: ANN401
        return (function if self._compiled else _twin(function))(self.state, *operands)

    def allocate(
        self,
        owner: int = 0,
        pd: int = 0,
        remote: bool = False,
        published: int = 0,
        counts_bytes: bool = False,
    ) -> int:
        """Return a new counter, both values zero; `published` is the raw address of its write-back entry.

        Raises: ResourceError if none is left.
        """
        free = np.flatnonzero(self.state.counters["allocated"] == 0)
        if not len(free):
            raise ResourceError(
                f"all {self.limits.counter_count} counters are in use; close one first (ENOSPC)"
            )
        index = int(free[0])
        record = self.state.counters[index]
        record.success = record.errors = record.overflow = record.in_flight = 0
        record.owner, record.pd, record.remote, record.published = owner, pd, remote, published
        record.counts_bytes = counts_bytes
        record.allocated = 1
        self._call(counters.publish, index)
        return index

    def publish_at(self, counter: int, address: int) -> None:
        """Publish a counter's values at a raw address from now on."""
        self.check_counter(counter)
        self.state.counters[counter].published = address
        self._call(counters.publish, counter)

    def close(self, counter: int, force: bool = False) -> None:
        """Give a counter back.

        With `force`, work that is armed on it or aims at it is removed first, also what is due but could not
        start; what is on its way is not.
        Raises: UsageError (EBUSY) if work is armed on it, aims at it, or is in flight and will complete here.
        """
        self.check_counter(counter)
        record = self.state.counters[counter]
        if force and not record.in_flight and (record.armed or record.aimed):
            self._call(work.discard, counter)
        if record.armed or record.aimed or record.in_flight:
            leaves = force or record.in_flight  # by force there is left what has fired and is on its way
            cure = "wait for the completions" if leaves else "cancel them or close with force=True"
            armed = counted(int(record.armed), "operation")
            raise UsageError(
                f"counter {counter} has {armed} armed on it, {record.aimed} aiming at it, "
                f"{record.in_flight} in flight (EBUSY); {cure}"
            )
        record.allocated = record.published = 0

    def check_counter(self, counter: int) -> None:
        """Raise UsageError unless `counter` is allocated."""
        if not 0 <= counter < self.limits.counter_count or not self.state.counters[counter].allocated:
            raise UsageError(f"counter {counter} is not allocated (EINVAL)")

    def _check_operand(self, value: int, errors: bool = False) -> np.uint64:
        limit = self.limits.max_errors if errors else self.limits.max_success
        if not 0 <= value <= limit:
            raise UsageError(f"{value} is outside 0..{limit} (EINVAL); nothing was changed")
        return np.uint64(value)

    def add(self, counter: int, success: int = 0, errors: int = 0) -> None:
        """Count `success` and `errors` at once."""
        self.check_counter(counter)
        operands = self._check_operand(success), self._check_operand(errors, errors=True)
        self._call(counters.add, counter, *operands)

    def set(self, counter: int, success: int | None = None, errors: int | None = None) -> None:
        """Replace the success value, the error value, or both."""
        self.check_counter(counter)
        which = (counters.SUCCESS if success is not None else 0) | (
            counters.ERRORS if errors is not None else 0
        )
        operands = self._check_operand(success or 0), self._check_operand(errors or 0, errors=True)
        self._call(counters.set_values, counter, *operands, which)

    def read(self, counter: int) -> tuple[int, int]:
        """Return (success, errors)."""
        self.check_counter(counter)
        record = self.state.counters[counter]
        return int(record.success), int(record.errors)

    def arm(self, *deferred: DeferredWork, owner: int = 0) -> list[tuple[int, int]]:
        """Arm all of it or none; return (slot, sequence) of each, by which it can be cancelled.

        Raises: UsageError (EINVAL) for a record that is not valid, ResourceError (ENOSPC) if the slots do not
        suffice.
        """
        records = np.zeros(len(deferred), ARMED)
        for record, item in zip(records, deferred, strict=True):
            pack_deferred(record, item)
            record["owner"] = owner
        if not self._call(work.room_for, owner, len(records), False):
            raise ResourceError(
                f"{len(records)} operations, {self.free_slots(owner)} trigger slots free (ENOSPC); "
                "nothing was armed"
            )
        taken = []
        for record, item in zip(records, deferred, strict=True):
            taken.append(int(self._call(work.take_slot)))
            self.state.slots[taken[-1]] = record
            status = CommandStatus(int(self._call(work.check_armed, taken[-1])))
            if status:
                for slot in reversed(taken):
                    self._call(work.put_slot, slot)
                raise UsageError(f"{item} cannot be armed ({status.name}); nothing was armed")
        for slot in taken:
            self._call(work.arm, slot)
        return [(slot, int(self.state.slots[slot].sequence)) for slot in taken]

    def cancel(self, handle: tuple[int, int]) -> bool:
        """Remove one operation: True if it will never fire, False if it has fired.

        Raises: UsageError if there is no such slot.
        """
        if not 0 <= handle[0] < self.limits.slot_count:
            raise UsageError(f"there is no trigger slot {handle[0]} (EINVAL); `arm` returned none such")
        return bool(self._call(work.cancel, handle[0], np.uint64(handle[1])))

    def cancel_counter(self, counter: int) -> int:
        """Remove all that waits for `counter`; return how many."""
        self.check_counter(counter)
        return int(self._call(work.cancel_counter, counter))

    def _on_queue_pair(self, qp: int) -> np.ndarray[Any, Any]:
        """Slots whose work names a queue pair."""
        slots = self.state.slots[: int(self.state.unit[0].touched)]
        return np.flatnonzero((slots["state"] != FREE) & (slots["opcode"] < 16) & (slots["qp"] == qp))

    def armed_on_queue_pair(self, qp: int, force: bool = False) -> int:
        """Count the operations that name a queue pair and have not ended; with `force` but for those that go
        with it, posted ones and what is on its way.
        """
        slots = self.state.slots[self._on_queue_pair(qp)]
        goes = (slots["state"] == IN_FLIGHT) | (slots["options"] & POSTED != 0)
        return int((~goes).sum()) if force else len(slots)

    def cancel_queue_pair(self, qp: int) -> int:
        """Remove the waiting operations that name a queue pair; return how many."""
        places = self._on_queue_pair(qp).tolist()
        return sum(self.cancel((place, int(self.state.slots[place].sequence))) for place in places)

    def release(self, slot: int) -> None:
        """Give back a slot that was taken and will not be carried out."""
        self._call(work.release, slot)

    def flush(self, owner: int = NONE) -> int:
        """Remove all waiting work of an owner, or of everybody; return how many."""
        return int(self._call(work.flush, owner))

    def free_slots(self, owner: int) -> int:
        """Slots that an owner can still take."""
        unit = self.state.unit[0]
        shared = int(unit.service_slots - unit.service_used)
        return int(unit.free_count) if owner == 0 else min(int(unit.free_count), shared)

    @property
    def slots_in_use(self) -> int:
        """Slots that hold work: waiting, due or in flight."""
        return int(self.state.unit[0].slot_count - self.state.unit[0].free_count)
