# SPDX-License-Identifier: Apache-2.0
"""What a program of deferred work would run into on a target, said before anything runs.

Sources of what Cassini takes: fi_cxi(7), "Triggered Operation" and "Counters"; the provider's checks of
deferred work. What is said of other targets follows from their `Limits`.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .limits import Limits
from .work import DeferredWork, Opcode

RENDEZVOUS_BYTES = 2048
"""Messages from this size on need software at the receiver. Source: fi_cxi(7), FI_CXI_RDZV_THRESHOLD."""

_DATA = (
    Opcode.RDMA_WRITE,
    Opcode.RDMA_WRITE_WITH_IMM,
    Opcode.RDMA_READ,
    Opcode.COMPARE_SWAP,
    Opcode.FETCH_ADD,
    Opcode.ATOMIC,
)
_SENDS = (Opcode.SEND, Opcode.SEND_WITH_IMM, Opcode.TAGGED_SEND)
_RECEIVES = (Opcode.RECV, Opcode.TAGGED_RECV)
_OURS = (Opcode.NVME_READ, Opcode.NVME_WRITE, Opcode.FIRMWARE_EVENT)
_COUNTER_OPERATIONS = (Opcode.COUNTER_ADD, Opcode.COUNTER_SET)
_FETCHES = (Opcode.RDMA_READ, Opcode.NVME_READ, *_RECEIVES)
_PUBLISHES = (
    Opcode.RDMA_WRITE,
    Opcode.RDMA_WRITE_WITH_IMM,
    Opcode.FETCH_ADD,
    Opcode.COMPARE_SWAP,
    Opcode.ATOMIC,
    Opcode.NVME_WRITE,
    *_SENDS,
)


class Severity(enum.Enum):
    """ERROR: the target refuses it. WARNING: it runs, and does not do what it seems to."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that would not work. `steps`: positions in the program, from 0; empty: the whole of it."""

    severity: Severity
    rule: str
    steps: tuple[int, ...]
    message: str

    def __str__(self) -> str:
        place = f"step {', '.join(map(str, self.steps))}: " if self.steps else ""
        return f"{self.severity.value} [{self.rule}] {place}{self.message}"


def check_program(
    work: Sequence[DeferredWork], target: str | Limits = "cassini", names: Mapping[int, str] | None = None
) -> list[Finding]:
    """Return what of `work` would not work on a target: a profile's name, or limits. Errors come first.

    Raises: UsageError for a profile that is not known.
    """
    limits = Limits.named(target) if isinstance(target, str) else target
    return _Check(work, limits, names or {}).findings()


class _Check:
    def __init__(self, work: Sequence[DeferredWork], limits: Limits, names: Mapping[int, str]) -> None:
        self._work = work
        self._limits = limits
        self._names = names
        self._found: list[Finding] = []

    def findings(self) -> list[Finding]:
        self._entries()
        for step, item in enumerate(self._work):
            self._widths(step, item)
            self._shape(step, item)
            self._progress(step, item)
        self._loops()
        self._publishing_after_failure()
        self._order()
        return sorted(self._found, key=lambda finding: finding.severity is Severity.WARNING)

    def _name(self, counter: int) -> str:
        return self._names.get(counter) or f"counter {counter}"

    def _say(self, severity: Severity, rule: str, steps: Sequence[int], message: str) -> None:
        self._found.append(Finding(severity, rule, tuple(steps), message))

    def _entries(self) -> None:
        count, room = len(self._work), self._limits.host_slots
        profile = self._limits.profile
        if count > room:
            self._say(
                Severity.ERROR,
                "R19",
                (),
                f"{count} entries; {profile} has {room} for all processes of a service (ENOSPC). "
                f"Arm a window: program.window({min(64, room)})",
            )
        elif count > room // 2 and room < 1 << 16:
            self._say(
                Severity.WARNING,
                "R19",
                (),
                f"{count} of {room} entries: only one such program fits at a time, and other processes of "
                "the service share them",
            )

    def _widths(self, step: int, item: DeferredWork) -> None:
        maximum = self._limits.max_success
        for what, value in (("threshold", item.threshold), ("operand", item.value)):
            if value > maximum and (what == "threshold" or item.opcode in _COUNTER_OPERATIONS):
                self._say(
                    Severity.ERROR, "R2", (step,), f"{what} {value} is above the counter's {maximum} (EINVAL)"
                )

    def _shape(self, step: int, item: DeferredWork) -> None:
        limits, profile = self._limits, self._limits.profile
        pieces = len(item.work.sges) if item.work is not None else 0
        if pieces > limits.local_pieces:
            self._say(
                Severity.ERROR,
                "R21",
                (step,),
                f"{pieces} local pieces; {profile} takes {limits.local_pieces} (EINVAL). Split it in two, or "
                "lay the pieces side by side",
            )
        if item.work is not None and item.work.length_bytes > limits.max_message_bytes:
            self._say(
                Severity.ERROR,
                "R15",
                (step,),
                f"{item.work.length_bytes} bytes; at most {limits.max_message_bytes} in one operation",
            )
        if item.opcode in _RECEIVES and limits.receives_at_zero and item.threshold:
            self._say(
                Severity.ERROR,
                "R21",
                (step,),
                f"a deferred receive at threshold {item.threshold}; {profile} posts receives at 0 only",
            )
        if item.opcode in _OURS and profile != "unlimited":
            self._say(
                Severity.ERROR,
                "R15",
                (step,),
                f"{item.opcode.name} is an operation of nicemu alone; {profile} has none such (ENOSYS)",
            )

    def _progress(self, step: int, item: DeferredWork) -> None:
        if self._limits.profile != "cassini":
            return
        if item.opcode in _RECEIVES:
            self._say(
                Severity.WARNING, "R35", (step,), "a receive needs software progress: a CPU has to poll"
            )
        elif item.opcode in _SENDS and item.work is not None and item.work.length_bytes >= RENDEZVOUS_BYTES:
            self._say(
                Severity.WARNING,
                "R35",
                (step,),
                f"a send of {item.work.length_bytes} bytes goes by rendezvous (from {RENDEZVOUS_BYTES} bytes "
                "on), and needs a CPU at both ends; use a write and a counter",
            )

    def _changes(self, item: DeferredWork) -> int | None:
        return item.target if item.opcode in _COUNTER_OPERATIONS else item.completion

    def _loops(self) -> None:
        """Name every counter whose work, directly or by way of others, counts at that counter again."""
        edges: dict[int, set[int]] = {}
        for item in self._work:
            changed = self._changes(item)
            if changed is not None:
                edges.setdefault(item.trigger, set()).add(changed)
        for counter in sorted(edges):
            reached, ahead = set[int](), [counter]
            while ahead:
                for following in edges.get(ahead.pop(), ()):
                    if following not in reached:
                        reached.add(following)
                        ahead.append(following)
            if counter in reached:
                steps = [step for step, item in enumerate(self._work) if item.trigger == counter]
                self._say(
                    Severity.WARNING,
                    "R30",
                    steps[:4],
                    f"{self._name(counter)} counts its own work: the chain ends only because each entry "
                    "fires once; re-armed in a window or a loop it does not end",
                )

    def _publishing_after_failure(self) -> None:
        """Find what others see, behind a counter that also counts fetches that failed."""
        if self._limits.stall_on_error:
            return
        fetched: dict[int, list[int]] = {}
        for step, item in enumerate(self._work):
            if item.opcode in _FETCHES and item.completion is not None:
                fetched.setdefault(item.completion, []).append(step)
        grown = True
        carried = {counter: list(steps) for counter, steps in fetched.items()}
        while grown:  # a deferred add carries the count of a failed fetch on
            grown = False
            for item in self._work:
                if item.opcode in _COUNTER_OPERATIONS and item.trigger in carried:
                    grown |= item.target not in carried
                    carried.setdefault(item.target, carried[item.trigger])
        for step, item in enumerate(self._work):
            behind = carried.get(item.trigger)
            is_seen = item.opcode in _PUBLISHES or (
                item.opcode in _COUNTER_OPERATIONS and item.trigger in fetched
            )
            if behind and is_seen:
                self._say(
                    Severity.WARNING,
                    "R27",
                    (step,),
                    f"it fires when successes plus errors of {self._name(item.trigger)} reach "
                    f"{item.threshold}, so also when a fetch failed (step {_list(behind)}); "
                    "let the reader look at the errors, or let firmware publish",
                )

    def _order(self) -> None:
        """Find neighbours at one threshold of which one moves data and the other tells of it."""
        for step, item in enumerate(self._work[1:], start=1):
            before = self._work[step - 1]
            if (item.trigger, item.threshold) != (before.trigger, before.threshold):
                continue
            if item.opcode is Opcode.COUNTER_ADD and before.opcode in (*_DATA, *_SENDS):
                self._say(
                    Severity.WARNING,
                    "R30",
                    (step - 1, step),
                    "they are initiated in this order; the count does not wait for the data. "
                    "Trigger the count from the operation's completion counter",
                )


def _list(steps: Sequence[int]) -> str:
    told = ", ".join(map(str, steps[:4]))
    return told + (", ..." if len(steps) > 4 else "")
