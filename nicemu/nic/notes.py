# SPDX-License-Identifier: Apache-2.0
"""What the datapath puts down of what it does, for whoever wants to know in which order things happened.

Notes stand in a ring of their own, with the datapath as producer and the control thread as consumer. Nobody
waits for a full one: what finds no room is counted. A note that nobody wants costs one load.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from nicemu.abi import POSTED, EventLog, Opcode
from nicemu.hot import Int, cold, hot
from nicemu.pcie import copy_memory, load_u64, monotonic_ns, store_u64
from nicemu.trigger import NONE

from .arena import LINK, NOTE_COUNT, Arena

NOTE_COUNTED, NOTE_FIRED, NOTE_ENDED, NOTE_ENTRY, NOTE_ARRIVED = 1, 2, 3, 4, 5
"""Kinds of notes: a counter has changed; an operation fires (with a copy of its record); it has ended; an
entry stands in a completion queue; a peer's operation has arrived."""

BY_DOORBELL, BY_COMMAND, BY_END, BY_WORK, BY_ARRIVAL, BY_CONTROL, BY_WORD, BY_FLUSH = range(8)
"""Why a counter has changed. Operands: owner, cell and total; owner and number of the command; the sequence
of the operation that has ended; that of a deferred counter operation; none (the arrival noted before); none;
place and value of a followed word; none (a receive of a failed queue pair)."""
_SOURCES = ("doorbell", "command", "end", "work", "arrival", "control", "word", "flush")

DRAIN_NS = 2_000_000
"""A live NIC's control thread looks for notes so often."""

_fields: Any = LINK.fields
_HEAD, _TAIL, _LOST = (np.uint64(_fields[name][1]) for name in ("note_head", "note_tail", "notes_lost"))
_NOTES, _SLOTS = np.uint64(_fields["notes_address"][1]), np.uint64(_fields["slots_address"][1])
_SCRATCH = np.uint64(_fields["scratch"][1])
_SOURCE, _NUMBER = np.uint64(8), np.uint64(16)
_COUNT, _RECORD_BYTES, _RECORD_WORK = np.uint64(NOTE_COUNT), np.uint64(192), np.uint64(64)
_ARMED_BYTES = np.uint64(128)
_ZERO, _ONE = np.uint64(0), np.uint64(1)


@cold
def _write(link: Int, kind: Int, a: Int, b: Int, c: Int, d: Int, e: Int, slot: Int) -> None:
    """Put a note into the ring of the link record at raw address `link`, with a copy of the work in `slot`
    (NONE: of none).
    """
    tail = np.uint64(load_u64(link + _TAIL))
    if tail - np.uint64(load_u64(link + _HEAD)) >= _COUNT:
        store_u64(link + _LOST, np.uint64(load_u64(link + _LOST)) + _ONE)
        return
    record = np.uint64(load_u64(link + _NOTES)) + (tail % _COUNT) * _RECORD_BYTES
    store_u64(record, kind)
    store_u64(record + np.uint64(8), a)
    store_u64(record + np.uint64(16), b)
    store_u64(record + np.uint64(24), c)
    store_u64(record + np.uint64(32), d)
    store_u64(record + np.uint64(40), e)
    store_u64(record + np.uint64(56), np.uint64(monotonic_ns(link + _SCRATCH)))
    if slot != NONE:
        work = np.uint64(load_u64(link + _SLOTS)) + np.uint64(slot) * _ARMED_BYTES
        copy_memory(record + _RECORD_WORK, work, _ARMED_BYTES)
    store_u64(link + _TAIL, tail + _ONE)


@hot
def note_count(arena: Arena, counter: Int, source: Int, a: Int, b: Int, c: Int) -> None:
    """Note that a counter has changed, with the values that it has now."""
    link = arena.link[0]
    if link.noting != _ZERO:
        record = arena.trigger.counters[counter]
        kind = np.uint64(NOTE_COUNTED) | np.uint64(source) << _SOURCE | np.uint64(counter) << _NUMBER
        values = record.success, record.errors
        _write(
            link.address, kind, values[0], values[1], np.uint64(a), np.uint64(b), np.uint64(c), np.int64(NONE)
        )


@hot
def note_fired(arena: Arena, slot: Int) -> None:
    """Note that the operation in `slot` fires."""
    link = arena.link[0]
    if link.noting != _ZERO:
        _write(link.address, np.uint64(NOTE_FIRED), _ZERO, _ZERO, _ZERO, _ZERO, _ZERO, np.int64(slot))


@hot
def note_counter_work(arena: Arena, slot: Int, target: Int) -> None:
    """Note that the counter operation that was in `slot` has fired, and what its target is now."""
    if arena.link[0].noting != _ZERO:
        note_fired(arena, slot)
        work = arena.trigger.slots[slot]
        note_count(arena, target, BY_WORK, work.sequence, work.opcode, _ZERO)


@hot
def note_end(arena: Arena, sequence: Int, status: Int, completion: Int) -> None:
    """Note that a fired operation has ended, how, and what its completion counter (NONE: nobody) is now."""
    link = arena.link[0]
    if link.noting != _ZERO:
        told = np.uint64(sequence), np.uint64(status)
        _write(link.address, np.uint64(NOTE_ENDED), told[0], told[1], _ZERO, _ZERO, _ZERO, np.int64(NONE))
        if completion != NONE:
            note_count(arena, completion, BY_END, sequence, 0, _ZERO)


@hot
def note_entry(arena: Arena, cq: Int, source: Int, sequence: Int) -> None:
    """Note that an entry of a completion queue tells of an operation's end, or of the arrival noted last."""
    link = arena.link[0]
    if link.noting != _ZERO:
        tail = arena.rdma.completion_queues[cq].tail
        told = np.uint64(cq), np.uint64(source), np.uint64(sequence)
        _write(link.address, np.uint64(NOTE_ENTRY), told[0], tail, told[1], told[2], _ZERO, np.int64(NONE))


@hot
def note_arrival(arena: Arena, qp: Int, opcode: Int, imm_data: Int, byte_len: Int, consumed: bool) -> None:
    """Note that a peer's operation has arrived, whose bytes are visible."""
    link = arena.link[0]
    if link.noting != _ZERO:
        kind = np.uint64(NOTE_ARRIVED)
        told = np.uint64(qp), np.uint64(opcode), np.uint64(imm_data), np.uint64(byte_len)
        taken = _ONE if consumed else _ZERO
        _write(link.address, kind, told[0], told[1], told[2], told[3], taken, np.int64(NONE))


class Notes:
    """The control thread's side: moves notes into a log, and adds what only this side knows.

    `connected` gives the peer and the peer's queue pair that each queue pair is connected to.
    Its log is that of `nicemu.abi.EventLog`; see `nicemu/testing/races/logs.py` for the events.
    """

    def __init__(self, arena: Arena, connected: Callable[[], Mapping[int, tuple[str, int]]]) -> None:
        self._arena = arena
        self._connected = connected
        self._link = int(arena.link[0].address)
        self._log: EventLog | None = None
        self._head = 0
        self._lost = 0
        self._pairs: dict[int, tuple[str, int]] = {}

    @property
    def wanted(self) -> bool:
        """Whether somebody wants notes."""
        return self._log is not None

    def begin(self, log: EventLog) -> None:
        """Note everything from here on, into `log`."""
        self._log = log
        self._arena.link["noting"] = 1

    def say(self, what: str, **details: Any) -> None:  # noqa: ANN401 - JSON
        """Add something that the datapath does not see, behind what it has noted up to now."""
        if self._log is not None:
            self.drain()
            self._log.add(what, **details)

    def drain(self) -> None:
        """Move notes into the log."""
        if self._log is None:
            return
        tail = load_u64(self._link + int(_TAIL))
        lost = int(self._arena.link[0].notes_lost)
        if tail == self._head and lost == self._lost:
            return
        self._tell_pairs()
        while self._head < tail:
            record = self._arena.notes[self._head % NOTE_COUNT]
            self._log.write(_event(record))
            self._head += 1
        store_u64(self._link + int(_HEAD), self._head)
        if lost != self._lost:
            self._log.add("lost", count=lost - self._lost)
            self._lost = lost

    def _tell_pairs(self) -> None:
        assert self._log is not None
        now = dict(self._connected())
        for qp, (peer, remote) in now.items():
            if self._pairs.get(qp) != (peer, remote):
                owner = int(self._arena.rdma.queue_pairs[qp].owner)
                self._log.add("pair", qp=qp, peer=peer, remote_qp=remote, owner=owner)
        self._pairs = now


def _event(record: Any) -> dict[str, Any]:  # noqa: ANN401 - a record of the ring
    head, words = int(record.kind), [int(word) for word in record.words]
    kind = head & 0xFF
    event: dict[str, Any] = {"ns": int(record.ready)}
    if kind == NOTE_COUNTED:
        event |= {"what": "count", "counter": head >> 16, "success": words[0], "errors": words[1]}
        event |= {"source": _SOURCES[head >> 8 & 0xFF], "operands": words[2:5]}
    elif kind == NOTE_FIRED:
        work = record.work
        count = min(int(work["sge_count"]), 2)
        pieces = [
            [int(work[f"sge{n}_{part}"]) for part in ("address", "length", "lkey")] for n in range(count)
        ]
        event |= {"what": "fire", "opcode": Opcode(int(work["opcode"])).name, "pieces": pieces}
        names = (
            "sequence",
            "owner",
            "qp",
            "trigger",
            "threshold",
            "completion",
            "window",
            "rkey",
            "imm_data",
        )
        event |= {name: int(work[name]) for name in names}
        event |= {"remote": int(work["remote_address"]), "posted": bool(int(work["options"]) & POSTED)}
    elif kind == NOTE_ENDED:
        event |= {"what": "end", "sequence": words[0], "status": words[1]}
    elif kind == NOTE_ENTRY:
        event |= {"what": "entry", "cq": words[0], "tail": words[1], "source": _SOURCES[words[2]]}
        event |= {"sequence": words[3]}
    else:
        event |= {"what": "arrival", "qp": words[0], "opcode": Opcode(words[1]).name, "imm_data": words[2]}
        event |= {"bytes": words[3], "consumed": bool(words[4])}
    return event
