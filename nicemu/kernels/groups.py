# SPDX-License-Identifier: Apache-2.0
"""Many packets through a kernel, in groups, so that a group waits for memory once."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir as llvm

from .packets import BYTE
from .places import WORD, Number
from .records import PACKET

GROUP = 32
"""Packets whose tables are fetched together."""

NOTE_WORDS = 3
"""Words that are noted of a packet between fetching a bucket and fetching its entry."""

VOID = llvm.VoidType()


def make_run(
    module: llvm.Module, process: llvm.Function, ahead: llvm.Function, entries: list[llvm.Function]
) -> None:
    """Make `run`: context, packets, count, and whether to fetch ahead."""
    function = llvm.Function(module, llvm.FunctionType(VOID, [WORD, WORD, WORD, WORD]), "run")
    context, packets, count, fetches = function.args
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    notes = builder.ptrtoint(builder.alloca(WORD, GROUP * NOTE_WORDS), WORD)
    first = builder.alloca(WORD)
    builder.store(WORD(0), first)
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

    builder.position_at_end(fetching)
    _each(builder, start, last, lambda number: builder.call(ahead, [context, packet(number), note(number)]))
    _each(builder, start, last, lambda number: _fetch_entry(builder, entries, note(number)))
    builder.branch(working)
    builder.position_at_end(working)
    _each(builder, start, last, lambda number: builder.call(process, [context, packet(number)]))
    builder.store(last, first)
    builder.branch(group)
    builder.position_at_end(end)
    builder.ret_void()


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


def _fetch_entry(builder: llvm.IRBuilder, entries: list[llvm.Function], note: Number) -> None:
    """Begin to fetch the entry that a note is about."""
    which, state, digest = (
        builder.load(builder.inttoptr(builder.add(note, WORD(8 * word)), WORD.as_pointer()))
        for word in range(NOTE_WORDS)
    )
    after = builder.append_basic_block("fetched")
    choice = builder.switch(which, after)
    for place, entry in enumerate(entries, start=1):
        block = builder.append_basic_block("entry")
        choice.add_case(WORD(place), block)
        builder.position_at_end(block)
        nothing = BYTE.as_pointer()(None)
        builder.call(entry, [builder.inttoptr(note, WORD.as_pointer()), nothing, state, digest])
        builder.branch(after)
    builder.position_at_end(after)
