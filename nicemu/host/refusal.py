# SPDX-License-Identifier: Apache-2.0
"""What a NIC does not take, in the words of whoever asked."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import Any

import numpy as np

from nicemu.abi import (
    AtomicOperation,
    CommandStatus,
    DeferredWork,
    Limits,
    Opcode,
    Severity,
    TriggerTableFull,
    Unsupported,
    WorkRequest,
    check_program,
    shown,
)
from nicemu.errors import UsageError, counted

_OURS = frozenset((Opcode.NVME_READ, Opcode.NVME_WRITE, Opcode.FIRMWARE_EVENT))
_TAGGED = frozenset((Opcode.TAGGED_SEND, Opcode.TAGGED_RECV))
_ROCE_ATOMICS = (AtomicOperation.SUM, AtomicOperation.COMPARE_SWAP)
_COUNTER_OPERATIONS = (Opcode.COUNTER_ADD, Opcode.COUNTER_SET)


class Refusal:
    """Says what is wrong with work for one NIC: `transport` carries its RDMA, `limits` are its own.

    `counters`, `pairs` and `events`: numbers of what the process has there; `closed`: of pairs that it had.
    """

    def __init__(
        self,
        nic_name: str,
        transport: str,
        limits: Limits,
        counters: Container[int],
        pairs: Container[int],
        events: Container[int] = (),
        closed: Container[int] = (),
    ) -> None:
        self._nic_name = nic_name
        self._is_roce = transport != "direct"
        self._limits = limits
        self._counters = counters
        self._pairs = pairs
        self._events = events
        self._closed = closed
        unknown = _OURS if limits.profile != "unlimited" else frozenset()
        self.operations = frozenset(Opcode) - unknown - (_TAGGED if self._is_roce else frozenset())

    def check_deferred(self, work: Sequence[DeferredWork]) -> None:
        """Raise UsageError for what is no list of deferred work, Unsupported for what the NIC has not."""
        if not isinstance(work, (list, tuple)):
            given = shown(work)
            raise UsageError(f"arm takes a list of DeferredWork, not {given} (EINVAL); a program arms itself")
        for place, item in enumerate(work):
            if not isinstance(item, DeferredWork) or not isinstance(item.opcode, Opcode):
                raise UsageError(f"step {place}: {shown(item)} is no DeferredWork with an Opcode (EINVAL)")
            if item.opcode not in self.operations or (item.opcode is Opcode.ATOMIC and self._is_roce):
                self._check_operation(f"step {place}", item.opcode, item.work)

    def check_named(self, records: np.ndarray[Any, Any]) -> None:
        """Raise UsageError for ARMED records that name a queue pair that was disconnected, or no open event.

        The NIC would find out when the work fires, or never.
        """
        opcodes = records["opcode"]
        data, events = opcodes < Opcode.COUNTER_ADD, opcodes == Opcode.FIRMWARE_EVENT
        for are_meant, word, noun, is_wrong, cure in (
            (data, "qp", "queue pair", self._is_closed, "is closed; nic.connect(peer) opens another"),
            (events, "wr_id", "event", self._is_no_event, "is not open; nic.event(name) opens one"),
        ):
            for number in set(records[word][are_meant].tolist()):
                if is_wrong(number):
                    place = int(np.flatnonzero(are_meant & (records[word] == number))[0])
                    raise UsageError(
                        f"{counted(len(records), 'operation')} cannot be armed; nothing was (step {place}: "
                        f"{noun} {number} {cure}) (EINVAL)"
                    )

    def _is_closed(self, qp_num: int) -> bool:
        return qp_num in self._closed and qp_num not in self._pairs

    def _is_no_event(self, number: int) -> bool:
        return number not in self._events

    def check_posted(self, work: Iterable[WorkRequest]) -> None:
        """Raise as `check_deferred`, for requests that are posted."""
        for place, item in enumerate(work):
            if not isinstance(item, WorkRequest) or not isinstance(item.opcode, Opcode):
                raise UsageError(f"request {place}: {shown(item)} is no WorkRequest with an Opcode (EINVAL)")
            self._check_operation(f"request {place}", item.opcode, item)

    def _check_operation(self, where: str, opcode: Opcode, work: WorkRequest | None) -> None:
        name = opcode.name
        is_missing = opcode in _TAGGED
        if opcode is Opcode.ATOMIC and work is not None:
            name = f"ATOMIC of {shown(work.operation)}" if work.sges else "ATOMIC without `old`"
            is_missing = work.operation not in _ROCE_ATOMICS or not work.sges
        if self._is_roce and is_missing:
            raise Unsupported(
                "R15",
                f"{where}: {self._nic_name} carries RDMA in frames, and RoCEv2 has no {name}; the transport "
                "`direct` has (NICs on one machine: fabric direct). Nothing was armed",
            )
        if opcode not in self.operations:
            profile = self._limits.profile
            raise Unsupported("R15", f"{where}: {name} is not supported by {profile}; nothing was armed")

    def about_queue_pair(self, qp_num: int) -> str:
        """Return how a queue pair is called where work for it was refused, and why, if it is known here."""
        return f"queue pair {qp_num}" + ("" if qp_num in self._pairs else " (it is closed, or another's)")

    def check(self, status: CommandStatus, what: str) -> None:
        """Raise what a command's status stands for."""
        if status is CommandStatus.NO_SPACE:
            raise TriggerTableFull(f"{what}: no space (ENOSPC)")
        if status is not CommandStatus.OK:
            raise UsageError(f"{what}: {status.name.lower().replace('_', ' ')} (errno {status.value})")

    def check_armed(self, status: CommandStatus, work: Sequence[DeferredWork]) -> None:
        """Raise what the status of arming `work` stands for; name the operation, if it is known here."""
        if status is CommandStatus.OK:
            return
        what = f"{counted(len(work), 'operation')} cannot be armed; nothing was"
        cause = "" if status is CommandStatus.NO_SPACE else self._cause(work)
        self.check(status, f"{what} ({cause})" if cause else what)

    def _cause(self, work: Sequence[DeferredWork]) -> str:
        for place, item in enumerate(work):
            named = [item.trigger] if item.completion is None else [item.trigger, item.completion]
            if item.opcode in _COUNTER_OPERATIONS:
                named.append(item.target)
            for counter in named:
                if counter not in self._counters:
                    return f"step {place}: counter {counter} is closed, or another's"
            if item.opcode < Opcode.COUNTER_ADD and item.qp_num not in self._pairs:
                return f"step {place}: queue pair {item.qp_num} is closed, or another's"
        errors = [one for one in check_program(work, self._limits) if one.severity is Severity.ERROR]
        return str(errors[0]) if errors else ""
