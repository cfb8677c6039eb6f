# SPDX-License-Identifier: Apache-2.0
"""What a program tells others of its data, and whether that is so when they hear of it. Rules R26 and R27.

An operation that failed counts as well (fi_trigger(3): success plus error values), so what waits for it goes
out; and operations of different queue pairs have no order.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .finding import Findings, Severity
from .work import DeferredWork, Opcode

FLAG_BYTES = 64
"""What is longer is data, no flag and no message that tells of data."""

WORD_BYTES = 8
"""The longest flag that is taken for one though nothing says that it lies beside the data."""

_COUNTER_OPERATIONS = (Opcode.COUNTER_ADD, Opcode.COUNTER_SET)
_WRITES = (Opcode.RDMA_WRITE, Opcode.RDMA_WRITE_WITH_IMM)
_SENDS = (Opcode.SEND, Opcode.SEND_WITH_IMM, Opcode.TAGGED_SEND)
_ATOMICS = (Opcode.ATOMIC, Opcode.FETCH_ADD, Opcode.COMPARE_SWAP)
_FETCHES = (
    Opcode.RDMA_READ,
    Opcode.NVME_READ,
    Opcode.FETCH_ADD,
    Opcode.COMPARE_SWAP,
    Opcode.RECV,
    Opcode.TAGGED_RECV,
)
_MOVES = (*_WRITES, *_SENDS, Opcode.NVME_WRITE)
_SEEN = (*_WRITES, *_SENDS, *_ATOMICS, Opcode.NVME_WRITE)
_OF_STORAGE = (Opcode.NVME_READ, Opcode.NVME_WRITE)


def find_untrue_tellings(
    findings: Findings, work: Sequence[DeferredWork], called: Mapping[int, str], *, queue_pairs_stop: bool
) -> None:
    """Find what others see behind a counter that also counts what failed.

    That is anything that follows a fetch, and a flag or message that follows the data of which it tells.
    `queue_pairs_stop`: whether nothing goes out any more over a queue pair on which an operation failed.
    """
    kinds = _counted_kinds(work)
    named: dict[int, int] = {}  # by the kind: how many of its steps have been named already
    behind_data = _BEHIND_DATA + (_OR_ONE_QUEUE_PAIR if queue_pairs_stop else "")
    for step, item in enumerate(work):
        for counter, kind in kinds.get(item.trigger, ()):
            if item.opcode in _COUNTER_OPERATIONS:
                concerned = kind.is_fetch and counter == item.trigger
            else:
                concerned = item.opcode in _SEEN and (kind.is_fetch or _tells_of(item, kind.example))
                if queue_pairs_stop and _share_a_queue_pair(item, kind.example):
                    concerned = False
            if not concerned or not (before := kind.before(item)):
                continue
            new = range(named.get(id(kind), 0), before)
            named[id(kind)] = max(named.get(id(kind), 0), before)
            findings.say(
                Severity.WARNING,
                "R27",
                (step,),
                _BEHIND_FETCHES if kind.is_fetch else behind_data,
                before=[kind.steps[place] for place in new],
                number=item.threshold,
                name=called[item.trigger],
            )


_BEHIND_FETCHES = (
    "fired when successes plus errors of {name} reach {number}, so also if a fetch failed ({before}); look "
    "at the errors first: publish from the host behind counter.wait(), which counts successes alone, or from "
    "firmware"
)
_BEHIND_DATA = (
    "fired when successes plus errors of {name} reach {number}, so the data are announced also if they did "
    "not arrive ({before}); announce them from the host behind counter.wait(), which counts successes alone, "
    "or let the receiver see by the data that they are whole"
)
_OR_ONE_QUEUE_PAIR = "; or put both on one queue pair, which sends nothing more once it has failed"
_UNORDERED = (
    "due at one count ({name} at {number}) on different queue pairs, which keep no order: what tells of the "
    "data can be there before them. Put both on one queue pair"
)
_UNORDERED_PERHAPS = (
    "due at one count ({name} at {number}) on different queue pairs, which keep no order: if they lead to "
    "one peer, what tells of the data can be there before them. Put both on one queue pair"
)


def find_unordered_tellings(
    findings: Findings, work: Sequence[DeferredWork], called: Mapping[int, str]
) -> None:
    """Find a flag or message that is due together with the data of which it tells, on another queue pair.

    Data with an immediate tell of themselves, and are left out.
    """
    due: dict[tuple[int, int], list[_Kind]] = {}
    for step, item in enumerate(work):
        written = due.setdefault((item.trigger, item.threshold), [])
        for data in written:
            one = data.example
            if one.qp_num == item.qp_num or not _tells_of(item, one):
                continue
            is_beside = _remote_key(item) == _remote_key(one)
            if is_beside or (_length(item) <= WORD_BYTES and _length(one) > FLAG_BYTES):
                findings.say(
                    Severity.WARNING,
                    "R26",
                    (*data.steps, step),
                    _UNORDERED if is_beside else _UNORDERED_PERHAPS,
                    number=item.threshold,
                    name=called[item.trigger],
                )
        if item.opcode is Opcode.RDMA_WRITE and _length(item):
            _kind_of(written, item).add(step, item)


@dataclass(slots=True)
class _Kind:
    """Steps that differ in nothing that matters here; `example` is one of them."""

    example: DeferredWork
    thresholds: list[int] = field(default_factory=list)
    steps: list[int] = field(default_factory=list)

    @property
    def is_fetch(self) -> bool:
        """Whether they bring data here."""
        return _is_fetch(self.example)

    def add(self, step: int, item: DeferredWork) -> None:
        self.thresholds.append(item.threshold)
        self.steps.append(step)

    def before(self, item: DeferredWork) -> int:
        """How many of them may end before `item` fires: not what fires behind the same count or a later."""
        if self.example.trigger != item.trigger:
            return len(self.steps)
        return bisect_left(self.thresholds, item.threshold)


def _kind_of(kinds: list[_Kind], item: DeferredWork) -> _Kind:
    """Return the kind that `item` is of, a new one if there is none."""
    signature = _signature(item)
    for kind in kinds:
        if _signature(kind.example) == signature:
            return kind
    kinds.append(_Kind(item))
    return kinds[-1]


def _signature(item: DeferredWork) -> tuple[object, ...]:
    return item.trigger, item.opcode, item.qp_num, _length(item), _remote_key(item), _is_fetch(item)


def _counted_kinds(work: Sequence[DeferredWork]) -> dict[int, list[tuple[int, _Kind]]]:
    """Return by counter the fetches and transfers whose errors it counts, and the counter that counts them.

    That is the counter itself or, by way of deferred adds and sets, another one.
    """
    direct: dict[int, dict[tuple[object, ...], _Kind]] = {}
    carries: dict[int, set[int]] = {}
    in_order = sorted(range(len(work)), key=lambda step: work[step].threshold)
    for step in in_order:
        item = work[step]
        if item.opcode in _COUNTER_OPERATIONS:
            carries.setdefault(item.trigger, set()).add(item.target)
        elif item.completion is not None and (_is_fetch(item) or (item.opcode in _MOVES and _length(item))):
            kinds = direct.setdefault(item.completion, {})
            kinds.setdefault(_signature(item), _Kind(item)).add(step, item)
    found: dict[int, list[tuple[int, _Kind]]] = {}
    for counter, kinds in direct.items():
        reached, ahead = {counter}, [counter]
        while ahead:
            for following in carries.get(ahead.pop(), ()):
                if following not in reached:
                    reached.add(following)
                    ahead.append(following)
        for place in reached:
            found.setdefault(place, []).extend((counter, kind) for kind in kinds.values())
    return found


def _is_fetch(item: DeferredWork) -> bool:
    """Whether data come here: a read, a receive, an atomic that returns the old value."""
    if item.opcode is Opcode.ATOMIC:
        return item.work is not None and bool(item.work.sges)
    return item.opcode in _FETCHES


def _length(item: DeferredWork) -> int:
    """Bytes that go out, or come."""
    if item.opcode in _ATOMICS:
        return WORD_BYTES
    return 0 if item.work is None else item.work.length_bytes


def _remote_key(item: DeferredWork) -> int | None:
    """The key of the peer's memory; None if the operation names no such memory."""
    named = item.work is not None and item.opcode in (*_WRITES, *_ATOMICS) and _length(item)
    return item.work.rkey if named and item.work is not None else None


def _share_a_queue_pair(one: DeferredWork, other: DeferredWork) -> bool:
    on_wire = one.opcode not in _OF_STORAGE and other.opcode not in _OF_STORAGE
    return on_wire and one.qp_num == other.qp_num


def _tells_of(item: DeferredWork, data: DeferredWork) -> bool:
    """Whether `item` looks like a flag or message for `data`: short, and shorter or of another kind.

    Of two short writes the later one is taken for a flag if both lie in one memory region of the peer, and
    each goes by a queue pair of its own.
    """
    if item.opcode not in (*_WRITES, *_SENDS, *_ATOMICS) or data.opcode not in _MOVES:
        return False
    if _length(item) > FLAG_BYTES or not _length(data):
        return False
    if _length(item) < _length(data) or item.opcode is not data.opcode:
        return True
    return item.qp_num != data.qp_num and _remote_key(item) == _remote_key(data) is not None
