# SPDX-License-Identifier: Apache-2.0
"""Many packets through a kernel, in groups, so that a group waits for memory once.

While the packets of a group are processed, the frames of the next one are fetched, and the records of the one
after that: a processor finds out by itself that both are read in order, but it stops where a page ends.
"""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir as llvm

from nicemu.lookup import NOTE_WORDS

from .packets import BYTE
from .places import INDEX, WORD, Number
from .records import AFTER_INGRESS, PACKET, offset_of

GROUP = 64
"""Packets whose tables are fetched together."""
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
    first = builder.alloca(WORD)
    builder.store(WORD(0), first)
    more, value = builder.alloca(WORD), builder.alloca(WORD)
    wanted = builder.icmp_unsigned("!=", fetches, WORD(0))
    group, end = function.append_basic_block("group"), function.append_basic_block("end")
    builder.branch(group)
    builder.position_at_end(group)
    start = builder.load(first)
    last = builder.add(start, WORD(GROUP))
    last = builder.select(builder.icmp_unsigned("<", last, count), last, count)
    some, fetching = function.append_basic_block("some"), function.append_basic_block("fetching")
    empty, working = function.append_basic_block("empty"), function.append_basic_block("working")
    builder.cbranch(builder.icmp_unsigned("<", start, count), some, end)
    builder.position_at_end(some)
    builder.cbranch(wanted, fetching, empty)

    def packet(number: Number) -> Number:
        return builder.add(packets, builder.mul(number, WORD(PACKET.itemsize)))

    def note(number: Number) -> Number:
        return builder.add(notes, builder.mul(builder.sub(number, start), WORD(8 * NOTE_WORDS)))

    builder.position_at_end(empty)
    _each(builder, start, last, lambda number: builder.store(WORD(0), _at(builder, note(number))))
    builder.branch(working)
    builder.position_at_end(fetching)
    _each(builder, start, last, lambda number: builder.call(ahead, [context, packet(number), note(number)]))
    stepping = function.append_basic_block("stepping")
    builder.branch(stepping)
    builder.position_at_end(stepping)
    builder.store(WORD(0), more)
    _each(builder, start, last, lambda number: _step(builder, steps, note(number), more, value))
    builder.cbranch(builder.icmp_unsigned("!=", builder.load(more), WORD(0)), stepping, working)
    builder.position_at_end(working)

    def work(number: Number) -> None:
        with builder.if_then(wanted):
            further = builder.add(number, WORD(GROUP))
            further = builder.select(builder.icmp_unsigned("<", further, count), further, number)
            _prefetch(builder, packet(builder.add(further, WORD(GROUP))))
            frame = builder.load(_at(builder, packet(further), offset_of("address")))
            for line in range(_FRAME_LINES):
                _prefetch(builder, builder.add(frame, WORD(line * _LINE_BYTES)))
        builder.call(process, [context, packet(number), note(number)])
        if makes_copies:
            verdict = builder.load(_at(builder, packet(number), offset_of("verdict"), llvm.IntType(16)))
            leaves, stays = function.append_basic_block("leaves"), function.append_basic_block("stays")
            is_left = builder.icmp_unsigned(">=", verdict, verdict.type(AFTER_INGRESS))
            builder.cbranch(is_left, leaves, stays)
            builder.position_at_end(leaves)
            builder.ret(builder.add(number, WORD(1)))
            builder.position_at_end(stays)

    _each(builder, start, last, work)
    builder.store(last, first)
    builder.branch(group)
    builder.position_at_end(end)
    builder.ret(count)


def _each(builder: llvm.IRBuilder, first: Number, end: Number, make: Callable[[Number], object]) -> None:
    """Make a loop over numbers; there is at least one."""
    before, turn = builder.block, builder.append_basic_block("each")
    builder.branch(turn)
    builder.position_at_end(turn)
    number = builder.phi(WORD)
    number.add_incoming(first, before)
    make(number)
    further = builder.add(number, WORD(1))
    number.add_incoming(further, builder.block)
    after = builder.append_basic_block("after")
    builder.cbranch(builder.icmp_unsigned("<", further, end), turn, after)
    builder.position_at_end(after)


def _at(builder: llvm.IRBuilder, address: Number, offset: int = 0, kind: llvm.Type = WORD) -> Number:
    """Return a pointer to a number, a word if nothing else is said, behind an address."""
    return builder.inttoptr(builder.add(address, WORD(offset)), kind.as_pointer())


def _step(
    builder: llvm.IRBuilder, steps: dict[int, llvm.Function], note: Number, more: Number, value: Number
) -> None:
    """Take the lookup on that a note is about; say in `more` whether there are more steps."""
    which = builder.load(_at(builder, note))
    after = builder.append_basic_block("stepped")
    choice = builder.switch(which, after)
    for number, step in steps.items():
        block = builder.append_basic_block("step")
        choice.add_case(WORD(number), block)
        builder.position_at_end(block)
        builder.call(step, [value, BYTE.as_pointer()(None), note])
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
