# SPDX-License-Identifier: Apache-2.0
"""Many packets through a kernel, in groups, so that a group waits for memory once.

While a packet is processed, the frame of a later one is fetched, and the record of one later still: a
processor finds out by itself that both are read in order, but it stops where a page ends.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir as llvm

from nicemu.lookup import NOTE_WORDS

from .packets import BYTE
from .places import INDEX, WORD, Number
from .records import AFTER_INGRESS, PACKET, TABLE_STATE, TABLE_WORDS, offset_of

GROUP = 48
"""Packets whose lookups begin together; with fewer a table in caches is quicker, with more one in memory."""
_FETCHED = 96
"""By how many packets a frame is fetched before its packet is processed, and its record before that."""
_LINE_BYTES = 64
_FRAME_LINES = 2
"""Lines of a frame that are fetched: most headers end there."""

VOID = llvm.VoidType()


def make_run(
    module: llvm.Module,
    process: llvm.Function,
    ahead: llvm.Function,
    steps: dict[int, llvm.Function],
    makes_copies: bool,
) -> None:
    """Make `run`: context, packets, count, and whether to fetch ahead.

    It returns how many packets it has taken. Where a packet may become several (`makes_copies`), one that
    needs the traffic manager is the last, so that no other comes in between.
    """
    function = llvm.Function(module, llvm.FunctionType(WORD, [WORD, WORD, WORD, WORD]), "run")
    context, packets, count, fetches = function.args
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    notes = builder.ptrtoint(builder.alloca(WORD, GROUP * NOTE_WORDS), WORD)
    more, value = builder.alloca(WORD), builder.alloca(WORD)
    wanted = builder.icmp_unsigned("!=", fetches, WORD(0))
    all_end = builder.add(packets, builder.mul(count, WORD(PACKET.itemsize)))
    group, end = function.append_basic_block("group"), function.append_basic_block("end")
    before = builder.block
    builder.branch(group)
    builder.position_at_end(group)
    start = builder.phi(WORD)
    start.add_incoming(packets, before)
    last = builder.add(start, WORD(GROUP * PACKET.itemsize))
    last = builder.select(builder.icmp_unsigned("<", last, all_end), last, all_end)
    some, fetching = function.append_basic_block("some"), function.append_basic_block("fetching")
    empty, working = function.append_basic_block("empty"), function.append_basic_block("working")
    builder.cbranch(builder.icmp_unsigned("<", start, all_end), some, end)
    builder.position_at_end(some)
    builder.cbranch(wanted, fetching, empty)

    def each(make: Callable[[Number, Number], object]) -> None:
        _each(builder, start, last, notes, make)

    def begin(packet: Number, note: Number) -> None:
        begun = builder.call(ahead, [context, packet, note])
        builder.store(begun, _at(builder, note))

    builder.position_at_end(empty)
    each(lambda _, note: builder.store(WORD(0), _at(builder, note)))
    builder.branch(working)
    builder.position_at_end(fetching)
    each(begin)
    stepping = function.append_basic_block("stepping")
    builder.branch(stepping)
    builder.position_at_end(stepping)
    builder.store(WORD(0), more)
    each(lambda _, note: _step(builder, steps, context, note, more, value))
    builder.cbranch(builder.icmp_unsigned("!=", builder.load(more), WORD(0)), stepping, working)
    builder.position_at_end(working)

    def work(packet: Number, note: Number) -> None:
        further = builder.add(packet, WORD(_FETCHED * PACKET.itemsize))
        further = builder.select(builder.icmp_unsigned("<", further, all_end), further, packet)
        _prefetch(builder, builder.add(further, WORD(_FETCHED * PACKET.itemsize)))
        frame = builder.load(_at(builder, further, offset_of("address")))
        for line in range(_FRAME_LINES):
            _prefetch(builder, builder.add(frame, WORD(line * _LINE_BYTES)))
        builder.call(process, [context, packet, note])
        if makes_copies:
            verdict = builder.load(_at(builder, packet, offset_of("verdict"), llvm.IntType(16)))
            leaves, stays = function.append_basic_block("leaves"), function.append_basic_block("stays")
            is_left = builder.icmp_unsigned(">=", verdict, verdict.type(AFTER_INGRESS))
            builder.cbranch(is_left, leaves, stays)
            builder.position_at_end(leaves)
            taken = builder.udiv(builder.sub(packet, packets), WORD(PACKET.itemsize))
            builder.ret(builder.add(taken, WORD(1)))
            builder.position_at_end(stays)

    each(work)
    start.add_incoming(last, builder.block)
    builder.branch(group)
    builder.position_at_end(end)
    builder.ret(count)


def _each(
    builder: llvm.IRBuilder,
    first: Number,
    end: Number,
    notes: Number,
    make: Callable[[Number, Number], object],
) -> None:
    """Make a loop over packets and their notes; there is at least one."""
    before, turn = builder.block, builder.append_basic_block("each")
    builder.branch(turn)
    builder.position_at_end(turn)
    packet, note = builder.phi(WORD), builder.phi(WORD)
    packet.add_incoming(first, before)
    note.add_incoming(notes, before)
    make(packet, note)
    further = builder.add(packet, WORD(PACKET.itemsize))
    packet.add_incoming(further, builder.block)
    note.add_incoming(builder.add(note, WORD(8 * NOTE_WORDS)), builder.block)
    after = builder.append_basic_block("after")
    builder.cbranch(builder.icmp_unsigned("<", further, end), turn, after)
    builder.position_at_end(after)


def _at(builder: llvm.IRBuilder, address: Number, offset: int = 0, kind: llvm.Type = WORD) -> Number:
    """Return a pointer to a number, a word if nothing else is said, behind an address."""
    return builder.inttoptr(builder.add(address, WORD(offset)), kind.as_pointer())


def _step(
    builder: llvm.IRBuilder,
    steps: dict[int, llvm.Function],
    context: Number,
    note: Number,
    more: Number,
    value: Number,
) -> None:
    """Take the lookup on that a note is about; say in `more` whether there are more steps."""
    which = builder.load(_at(builder, note))
    after = builder.append_basic_block("stepped")
    choice = builder.switch(which, after)
    for number, step in steps.items():
        block = builder.append_basic_block("step")
        choice.add_case(WORD(number), block)
        builder.position_at_end(block)
        state = builder.load(_at(builder, context, 8 * (TABLE_WORDS * (number - 1) + TABLE_STATE)))
        builder.call(step, [value, BYTE.as_pointer()(None), state, note])
        builder.store(builder.or_(builder.load(more), builder.load(value)), more)
        builder.branch(after)
    builder.position_at_end(after)


def _prefetch(builder: llvm.IRBuilder, address: Number) -> None:
    """Begin to fetch a line of memory, which need not be anybody's."""
    pointer = BYTE.as_pointer()
    kind = llvm.FunctionType(VOID, [pointer, INDEX, INDEX, INDEX])
    function = builder.module.declare_intrinsic("llvm.prefetch", [pointer], kind)
    to_read, near, data = INDEX(0), INDEX(3), INDEX(1)
    builder.call(function, [builder.inttoptr(address, pointer), to_read, near, data])
