# SPDX-License-Identifier: Apache-2.0
"""Fires what is due as a NIC's datapath does, with a transport whose answers the test decides."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nicemu import trigger
from nicemu.abi import DeferredWork, Opcode, Sge, WorkRequest
from nicemu.errors import VerbsStatus
from nicemu.trigger import NONE, TriggerUnit

BUSY = -1
"""The transport cannot take the operation now."""
LATER = -2
"""The transport has taken the operation; the test completes it."""

Handle = tuple[int, int]


def write(trigger_counter: int, threshold: int, completion: int | None = None) -> DeferredWork:
    """An RDMA write of 8 bytes; what it would write does not matter to the trigger unit."""
    work = WorkRequest(Opcode.RDMA_WRITE, (Sge(0x1000, 8, 1),), 0x2000, 2)
    return DeferredWork(trigger_counter, threshold, Opcode.RDMA_WRITE, work, 1, completion)


def counter_add(trigger_counter: int, threshold: int, target: int, value: int) -> DeferredWork:
    """Add `value` to the success value of `target`."""
    return DeferredWork(trigger_counter, threshold, Opcode.COUNTER_ADD, target=target, value=value)


def counter_set(trigger_counter: int, threshold: int, target: int, value: int) -> DeferredWork:
    """Set the success value of `target`."""
    return DeferredWork(trigger_counter, threshold, Opcode.COUNTER_SET, target=target, value=value)


class FiringLoop:
    """One unit and what it fired. `outcome` gets a due data operation; it returns a status, BUSY or LATER."""

    def __init__(self, unit: TriggerUnit, fairness: int = 64) -> None:
        self.unit = unit
        self.fairness = fairness
        self.fired: list[Handle] = []
        self.names: dict[Handle, object] = {}
        self.outcome: Callable[[Any], int] = lambda work: int(VerbsStatus.SUCCESS)
        self.pending: list[int] = []
        """Completion counters of operations that the transport took with LATER; they are in flight."""

    def arm(self, *work: DeferredWork, names: Sequence[object] = (), owner: int = 0) -> list[Handle]:
        """Arm; `names` are what `names_fired` shows."""
        handles = self.unit.arm(*work, owner=owner)
        for position, handle in enumerate(handles):
            self.names[handle] = names[position] if names else len(self.names)
        return handles

    @property
    def names_fired(self) -> list[object]:
        """Names of what fired, in order; of an unnamed operation its position in arming order."""
        return [self.names[handle] for handle in self.fired]

    def _call(self, function: Callable[..., Any], *operands: object) -> Any:  # noqa: ANN401
        return self.unit._call(function, *operands)

    def complete_pending(self, position: int = 0, status: int = 0) -> None:
        """End an operation that the transport took with LATER."""
        completion = self.pending.pop(position)
        if completion != NONE:
            self.unit.state.counters[completion].in_flight -= np.uint32(1)
        self._complete(completion, status)

    def _complete(self, completion: int, status: int) -> None:
        if completion != NONE:
            success, errors = (1, 0) if status == VerbsStatus.SUCCESS else (0, 1)
            self._call(trigger.add, completion, np.uint64(success), np.uint64(errors))

    def _fire(self) -> bool:
        slot = int(self._call(trigger.next_due))
        record = self.unit.state.slots[slot]
        opcode = Opcode(int(record.opcode))
        completion, target, operand = int(record.completion), int(record.rkey), record.remote_address
        status = VerbsStatus.SUCCESS.value
        if opcode < Opcode.COUNTER_ADD:
            status = self.outcome(record.copy())
            if status == BUSY:
                return False
        assert self._call(trigger.take_due) == slot
        self.fired.append((slot, int(record.sequence)))
        self._call(trigger.release, slot)
        if opcode is Opcode.COUNTER_ADD:
            self._call(trigger.add, target, operand, np.uint64(0))
        elif opcode is Opcode.COUNTER_SET:
            self._call(trigger.set_values, target, operand, np.uint64(0), trigger.SUCCESS)
        elif status == LATER:
            self.pending.append(completion)
            if completion != NONE:
                self.unit.state.counters[completion].in_flight += np.uint32(1)
        else:
            self._complete(completion, status)
        return True

    def run(self, budget: int = 1_000_000) -> int:
        """Fire until nothing is due, all is refused, or `budget` operations fired; return how many."""
        unit = self.unit.state.unit[0]
        fired = in_a_row = stalled = 0
        while fired < budget and self._call(trigger.next_due) != NONE:
            counter = unit.ready_head
            if self._fire():
                fired += 1
                stalled = 0
                in_a_row = in_a_row + 1 if unit.ready_head == counter else 0
                if in_a_row >= self.fairness:
                    self._call(trigger.rotate_ready)
                    in_a_row = 0
            else:
                stalled += 1
                in_a_row = 0
                if stalled >= unit.ready_count:
                    break
                self._call(trigger.rotate_ready)
        return fired

    def add(self, counter: int, success: int = 0, errors: int = 0) -> None:
        """Count, then fire."""
        self.unit.add(counter, success, errors)
        self.run()
