# SPDX-License-Identifier: Apache-2.0
"""Many packets through a kernel, in groups, so that a group waits for memory once."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir as llvm

from nicemu.lookup import NOTE_WORDS

from .packets import BYTE
from .places import WORD, Number
from .records import AFTER_INGRESS, PACKET, offset_of

GROUP = 64
"""Packets whose tables are fetched together."""

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
    working = function.append_basic_block("working")
    builder.cbranch(builder.icmp_unsigned("<", start, count), some, end)
    builder.position_at_end(some)
    builder.cbranch(wanted, fetching, working)

    def packet(number: Number) -> Number:
        return builder.add(packets, builder.mul(number, WORD(PACKET.itemsize)))

    def note(number: Number) -> Number:
        return builder.add(notes, builder.mul(builder.sub(number, start), WORD(8 * NOTE_WORDS)))

    def noted(number: Number) -> Number:
        return builder.select(wanted, note(number), WORD(0))

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
        builder.call(process, [context, packet(number), noted(number)])
        if makes_copies:
            at = builder.add(packet(number), WORD(offset_of("verdict")))
            verdict = builder.load(builder.inttoptr(at, llvm.IntType(16).as_pointer()))
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


def _step(
    builder: llvm.IRBuilder, steps: dict[int, llvm.Function], note: Number, more: Number, value: Number
) -> None:
    """Take the lookup on that a note is about; say in `more` whether there are more steps."""
    which = builder.load(builder.inttoptr(note, WORD.as_pointer()))
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
