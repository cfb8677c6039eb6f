# SPDX-License-Identifier: Apache-2.0
"""Many packets through a kernel: some begin to be looked up, earlier ones go on, the earliest are processed.

So the memory that lookups wait for is fetched while other packets are processed. Before its lookup begins, a
packet's frame is fetched, and the record of one later still: a processor finds out by itself that both are
read in order, but it stops where a page ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from llvmlite import ir as llvm

from nicemu.lookup import COUNT, NOTE_WORDS, STRIDE

from .packets import BYTE
from .places import INDEX, WORD, Number
from .records import AFTER_INGRESS, PACKET, TABLE_STATE, TABLE_WORDS, offset_of

_NOTES: Final = 128
"""Notes about packets, which are taken in turn: more than there are packets between begun and processed."""
_TOGETHER: Final = 8
"""Packets that are taken together."""
_MOST_STEPS: Final = 12
"""Steps that are taken while others are processed; a lookup that needs more goes on when its packet is."""
_FURTHEST: Final = 24
"""By how many packets a step comes before the next where there are few: memory answers meanwhile."""
_EARLY: Final = 80
"""By how many packets lookups of many steps begin early: each has frame, record and note in the cache."""
_NEAR_BYTES: Final = 8 << 20
"""Entries up to here are taken to lie in caches, where little is to be waited for."""
_FETCHED: Final = 24
"""By how many packets a frame is fetched before it is looked at, and its record before that."""
_WANTED, _PENDING = 0, NOTE_WORDS - 1
"""Words of a note: the table's number, counted from 1, or 0, and that again while there are steps to take."""
_LINE_BYTES: Final = 64
_FRAME_LINES: Final = 2
"""Lines of a frame that are fetched: most headers end there."""

VOID = llvm.VoidType()


@dataclass(frozen=True, slots=True)
class Ahead:
    """How lookups begin before their packets are processed.

    `begin` is given context, packet and note, and returns the number of a table, counted from 1, or 0 for
    none; `steps`, by that number, take a lookup on, `depth` times at most.
    """

    begin: llvm.Function
    steps: dict[int, llvm.Function]
    depth: int


def _far(steps: int) -> int:
    """Return by how many packets each of so many steps comes before the next where memory is waited for."""
    return min(_FURTHEST, max(_TOGETHER, _EARLY // (steps + 1) // _TOGETHER * _TOGETHER))


def make_run(module: llvm.Module, process: llvm.Function, ahead: Ahead, makes_copies: bool) -> None:
    """Make `run`: context, packets, count, and whether to fetch ahead.

    It returns how many packets it has taken. Where a packet may become several (`makes_copies`), one that
    needs the traffic manager is the last, so that no other comes in between.
    """
    _Run(module, ahead).make(process, makes_copies)


class _Run:
    def __init__(self, module: llvm.Module, ahead: Ahead) -> None:
        self._ahead = ahead
        self._pending = _PENDING if ahead.depth > 1 else _WANTED
        function = llvm.Function(module, llvm.FunctionType(WORD, [WORD] * 4), "run")
        self._function = function
        self._context, self._packets, self._count, self._fetches = function.args
        self.builder = builder = llvm.IRBuilder(function.append_basic_block("entry"))
        self._notes = builder.ptrtoint(builder.alloca(WORD, _NOTES * NOTE_WORDS), WORD)
        self._result = builder.alloca(WORD)
        self._end = builder.add(self._packets, builder.mul(self._count, WORD(PACKET.itemsize)))

    def make(self, process: llvm.Function, makes_copies: bool) -> None:
        """Make the loop. Its place is that of the lookups that begin; all others are earlier."""
        builder, count = self.builder, self._count
        steps = min(self._ahead.depth, _MOST_STEPS)
        wanted: Number = llvm.IntType(1)(0)
        if self._ahead.steps:
            wanted = builder.icmp_unsigned("!=", self._fetches, WORD(0))
        early, spacing = self._pace(steps)
        early = builder.select(wanted, early, WORD(0))
        begun = builder.select(wanted, count, WORD(0))
        mask = builder.select(wanted, WORD(_NOTES - 1), WORD(0))
        with builder.if_then(builder.not_(wanted)):  # a few notes serve all
            for number in range(_TOGETHER):
                self._set(self._note(WORD(number)), _WANTED, WORD(0))
                self._set(self._note(WORD(number)), _PENDING, WORD(0))
        end = builder.add(count, early)
        before, turn, over = builder.block, self._block("turn"), self._block("over")
        builder.cbranch(builder.icmp_unsigned("==", end, WORD(0)), over, turn)
        builder.position_at_end(turn)
        place = builder.phi(WORD)
        place.add_incoming(WORD(0), before)

        def some(first: Number, end: Number, make: Callable[[Number, Number], object]) -> None:
            with builder.if_then(builder.icmp_unsigned("<", first, end), likely=True):  # and not below 0
                self._each(first, self._note(builder.and_(first, mask)), make)

        if self._ahead.steps:
            some(place, begun, self._begin)
        else:
            some(place, count, lambda packet, _: self._fetch(packet))
        earlier: Number = place
        for _ in range(steps):
            earlier = builder.sub(earlier, spacing)
            some(earlier, begun, self._step)
        some(
            builder.sub(place, early),
            count,
            lambda packet, note: self._process(process, packet, note, makes_copies),
        )
        further = builder.add(place, WORD(_TOGETHER))
        place.add_incoming(further, builder.block)
        builder.cbranch(builder.icmp_unsigned("<", further, end), turn, over)
        builder.position_at_end(over)
        builder.ret(count)

    def _pace(self, steps: int) -> tuple[Number, Number]:
        """Return by how many packets lookups begin early, and steps come before the next.

        The notes of packets that are too few for that still go through all of it, with steps at their end.
        """
        builder = self.builder
        is_far: Number = llvm.IntType(1)(0)
        for number in self._ahead.steps:
            state = builder.load(self._state_of(number))
            words = (builder.load(_at(builder, state, int(at))) for at in (COUNT, STRIDE))
            is_far = builder.or_(is_far, builder.icmp_unsigned(">", builder.mul(*words), WORD(_NEAR_BYTES)))
        spacing = builder.select(is_far, WORD(_far(steps)), WORD(_TOGETHER))
        early = builder.mul(spacing, WORD(steps + 1))
        whole = builder.add(self._count, WORD(_TOGETHER - 1))
        whole = builder.and_(whole, WORD(-_TOGETHER))
        are_few = builder.icmp_unsigned("<", whole, early)
        early = builder.select(are_few, whole, early)
        return early, builder.select(are_few, WORD(_TOGETHER), spacing)

    def _each(self, first: Number, notes: Number, make: Callable[[Number, Number], object]) -> None:
        """Make a loop over packets that are taken together, at least one, and their notes."""
        builder = self.builder
        start = builder.add(self._packets, builder.mul(first, WORD(PACKET.itemsize)))
        end = builder.add(start, WORD(_TOGETHER * PACKET.itemsize))
        end = builder.select(builder.icmp_unsigned("<", end, self._end), end, self._end)
        before, turn, after = builder.block, self._block("each"), self._block("after")
        builder.branch(turn)
        builder.position_at_end(turn)
        packet, note = builder.phi(WORD), builder.phi(WORD)
        packet.add_incoming(start, before)
        note.add_incoming(notes, before)
        make(packet, note)
        further = builder.add(packet, WORD(PACKET.itemsize))
        packet.add_incoming(further, builder.block)
        note.add_incoming(builder.add(note, WORD(8 * NOTE_WORDS)), builder.block)
        builder.cbranch(builder.icmp_unsigned("<", further, end), turn, after)
        builder.position_at_end(after)

    def _state_of(self, number: int) -> Number:
        """Return where the state of the table of a number stands."""
        return _at(self.builder, self._context, 8 * (TABLE_WORDS * (number - 1) + TABLE_STATE))

    def _note(self, number: Number) -> Number:
        return self.builder.add(self._notes, self.builder.mul(number, WORD(8 * NOTE_WORDS)))

    def _process(self, process: llvm.Function, packet: Number, note: Number, makes_copies: bool) -> None:
        builder = self.builder
        if self._ahead.depth > 1:
            self._finish(note)
        builder.call(process, [self._context, packet, note])
        if makes_copies:
            verdict = builder.load(_at(builder, packet, offset_of("verdict"), llvm.IntType(16)))
            with builder.if_then(builder.icmp_unsigned(">=", verdict, verdict.type(AFTER_INGRESS))):
                taken = builder.udiv(builder.sub(packet, self._packets), WORD(PACKET.itemsize))
                builder.ret(builder.add(taken, WORD(1)))

    def _begin(self, packet: Number, note: Number) -> None:
        """Begin to look a packet up."""
        self._fetch(packet)
        begun = self.builder.call(self._ahead.begin, [self._context, packet, note])
        self._set(note, _WANTED, begun)
        self._set(note, self._pending, begun)

    def _finish(self, note: Number) -> None:
        """Take the steps that are left."""
        builder, left, done = self.builder, self._block("left"), self._block("done")
        builder.cbranch(self._is_pending(note), left, done)
        builder.position_at_end(left)
        self._step(note, note)
        builder.cbranch(self._is_pending(note), left, done)
        builder.position_at_end(done)

    def _is_pending(self, note: Number) -> Number:
        pending = self.builder.load(_at(self.builder, note, 8 * self._pending))
        return self.builder.icmp_unsigned("!=", pending, WORD(0))

    def _step(self, _: Number, note: Number) -> None:
        """Take a lookup on if there are steps to be taken."""
        builder = self.builder
        which = builder.load(_at(builder, note, 8 * self._pending))
        after = self._block("stepped")
        choice = builder.switch(which, after)
        for number, step in self._ahead.steps.items():
            block = self._block("step")
            choice.add_case(WORD(number), block)
            builder.position_at_end(block)
            state = builder.load(self._state_of(number))
            builder.call(step, [self._result, BYTE.as_pointer()(None), state, note])
            if self._pending != _WANTED:  # else it is the only one
                is_over = builder.icmp_unsigned("==", builder.load(self._result), WORD(0))
                self._set(note, self._pending, builder.select(is_over, WORD(0), which))
            builder.branch(after)
        builder.position_at_end(after)

    def _fetch(self, packet: Number) -> None:
        """Fetch the frame of a packet that comes later, and the record of one later still."""
        builder = self.builder
        later = builder.add(packet, WORD(_FETCHED * PACKET.itemsize))
        later = builder.select(builder.icmp_unsigned("<", later, self._end), later, packet)
        _prefetch(builder, builder.add(later, WORD(_FETCHED * PACKET.itemsize)))
        frame = builder.load(_at(builder, later, offset_of("address")))
        for line in range(_FRAME_LINES):
            _prefetch(builder, builder.add(frame, WORD(line * _LINE_BYTES)))

    def _set(self, note: Number, word: int, value: Number) -> None:
        self.builder.store(value, _at(self.builder, note, 8 * word))

    def _block(self, name: str) -> llvm.Block:
        return self._function.append_basic_block(name)


def _at(builder: llvm.IRBuilder, address: Number, offset: int = 0, kind: llvm.Type = WORD) -> Number:
    """Return a pointer to a number, a word if nothing else is said, behind an address."""
    return builder.inttoptr(builder.add(address, WORD(offset)), kind.as_pointer())


def _prefetch(builder: llvm.IRBuilder, address: Number) -> None:
    """Begin to fetch a line of memory, which need not be anybody's."""
    pointer = BYTE.as_pointer()
    kind = llvm.FunctionType(VOID, [pointer, INDEX, INDEX, INDEX])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
    to_read, near, data = INDEX(0), INDEX(3), INDEX(1)
    builder.call(function, [builder.inttoptr(address, pointer), to_read, near, data])
