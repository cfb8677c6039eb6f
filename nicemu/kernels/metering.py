# SPDX-License-Identifier: Apache-2.0
"""Meters and chance in a kernel, as LLVM functions over their states in memory.

They compute in doubles and words what `nicemu.pipeline`'s `Meter` and `Chance` do; tests hold them equal.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import MeterMode, MeterState, chance

from .places import WORD, Number

_DOUBLE = llvm.DoubleType()
_GREEN, _YELLOW, _RED = WORD(0), WORD(1), WORD(2)


class _State:
    """The fields of a meter's state at an address."""

    def __init__(self, builder: llvm.IRBuilder, address: Number) -> None:
        self._builder, self._address = builder, address

    def _at(self, field: str) -> Any:  # noqa: ANN401
        kind = WORD if field in ("mode", "filled_ns") else _DOUBLE
        address = self._builder.add(self._address, WORD(getattr(MeterState, field).offset))
        return self._builder.inttoptr(address, kind.as_pointer())

    def load(self, field: str) -> Number:
        """Return a field."""
        return self._builder.load(self._at(field))

    def store(self, field: str, value: Number) -> None:
        """Set a field."""
        self._builder.store(value, self._at(field))


def mark_function(module: llvm.Module) -> Any:  # noqa: ANN401
    """Return the function that marks a packet and counts it: a meter's address, units, the time, the bytes of
    the packet; a colour.
    """
    found = module.globals.get("mark")
    if found is not None:
        return found
    colour_of = _colour_function(module)
    function = llvm.Function(module, llvm.FunctionType(WORD, [WORD] * 4), "mark")
    function.linkage = "internal"
    address, units, now_ns, length_bytes = function.args
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    colour = builder.call(colour_of, [address, units, now_ns])
    at = builder.add(address, WORD(MeterState.marked.offset))
    at = builder.add(at, builder.shl(colour, WORD(4)))
    for offset, more in ((0, WORD(1)), (8, length_bytes)):
        place = builder.inttoptr(builder.add(at, WORD(offset)), WORD.as_pointer())
        builder.store(builder.add(builder.load(place), more), place)
    builder.ret(colour)
    return function


def _colour_function(module: llvm.Module) -> Any:  # noqa: ANN401
    """Return the function that says which colour a packet has: a meter's address, units, the time."""
    function = llvm.Function(module, llvm.FunctionType(WORD, [WORD, WORD, WORD]), "colour")
    function.linkage = "internal"
    address, units, now_ns = function.args
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    state = _State(builder, address)
    mode = state.load("mode")
    with builder.if_then(_is_idle(builder, mode)):
        builder.ret(_GREEN)
    filled_ns = state.load("filled_ns")
    later = builder.icmp_unsigned(">", now_ns, filled_ns)
    elapsed_ns = builder.select(later, builder.sub(now_ns, filled_ns), WORD(0))
    state.store("filled_ns", builder.select(later, now_ns, filled_ns))
    elapsed_s = builder.fdiv(builder.uitofp(elapsed_ns, _DOUBLE), _DOUBLE(1e9))
    wanted = builder.uitofp(units, _DOUBLE)
    with builder.if_then(builder.icmp_unsigned("==", mode, WORD(MeterMode.ONE_RATE))):
        _colour_of_one_rate(builder, state, wanted, elapsed_s)
    held = {}
    for bucket in ("committed", "peak"):
        gained = builder.fmul(state.load(f"{bucket}_rate"), elapsed_s)
        total, burst = builder.fadd(state.load(bucket), gained), state.load(f"{bucket}_burst")
        held[bucket] = builder.select(builder.fcmp_ordered("<", burst, total), burst, total)
        state.store(bucket, held[bucket])
    for bucket, colour in (("peak", _RED), ("committed", _YELLOW)):
        with builder.if_then(builder.fcmp_ordered("<", held[bucket], wanted)):
            builder.ret(colour)
        state.store(bucket, builder.fsub(held[bucket], wanted))
    builder.ret(_GREEN)
    return function


def _is_idle(builder: llvm.IRBuilder, mode: Number) -> Number:
    """Return whether a meter that does this lets everything pass."""
    untouched = builder.icmp_unsigned("==", mode, WORD(MeterMode.UNCONFIGURED))
    return builder.or_(untouched, builder.icmp_unsigned("==", mode, WORD(MeterMode.PASS)))


def _colour_of_one_rate(builder: llvm.IRBuilder, state: _State, wanted: Number, elapsed_s: Number) -> None:
    """Return the colour of a packet from a meter of one rate: what its first bucket cannot hold its second
    does.
    """
    burst, most = state.load("committed_burst"), state.load("peak_burst")
    total = builder.fadd(state.load("committed"), builder.fmul(state.load("committed_rate"), elapsed_s))
    full = builder.fcmp_ordered("<", burst, total)
    excess = builder.fadd(state.load("peak"), builder.select(full, builder.fsub(total, burst), _DOUBLE(0.0)))
    held = {
        "committed": builder.select(full, burst, total),
        "peak": builder.select(builder.fcmp_ordered("<", most, excess), most, excess),
    }
    for bucket, number in held.items():
        state.store(bucket, number)
    for bucket, colour in (("committed", _GREEN), ("peak", _YELLOW)):
        with builder.if_then(builder.fcmp_ordered(">=", held[bucket], wanted)):
            state.store(bucket, builder.fsub(held[bucket], wanted))
            builder.ret(colour)
    builder.ret(_RED)


def mark_place_function(module: llvm.Module) -> Any:  # noqa: ANN401
    """Return the function that marks a packet in an array: as `mark`, behind the address of what all other
    places do, which a place that has done nothing yet begins with.
    """
    found = module.globals.get("mark_place")
    if found is not None:
        return found
    mark = mark_function(module)
    function = llvm.Function(module, llvm.FunctionType(WORD, [WORD] * 5), "mark_place")
    function.linkage = "internal"
    others_at, address, units, now_ns, length_bytes = function.args
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    state, others = _State(builder, address), _State(builder, others_at)
    untouched = builder.icmp_unsigned("==", state.load("mode"), WORD(MeterMode.UNCONFIGURED))
    mode = others.load("mode")
    given = builder.not_(_is_idle(builder, mode))
    with builder.if_then(builder.and_(untouched, given)):
        for bucket in ("committed", "peak"):
            burst = others.load(f"{bucket}_burst")
            state.store(f"{bucket}_rate", others.load(f"{bucket}_rate"))
            state.store(f"{bucket}_burst", burst)
            state.store(bucket, burst)
        state.store("filled_ns", now_ns)
        state.store("mode", mode)
    with builder.if_then(builder.icmp_unsigned("==", state.load("mode"), WORD(MeterMode.UNCONFIGURED))):
        state.store("mode", WORD(MeterMode.PASS))
    builder.ret(builder.call(mark, [address, units, now_ns, length_bytes]))
    return function


def draw_function(module: llvm.Module) -> Any:  # noqa: ANN401
    """Return the function that draws 64 bits: the address of the chance's state; a word."""
    found = module.globals.get("draw")
    if found is not None:
        return found
    function = llvm.Function(module, llvm.FunctionType(WORD, [WORD]), "draw")
    function.linkage = "internal"
    builder = llvm.IRBuilder(function.append_basic_block("entry"))
    place = builder.inttoptr(function.args[0], WORD.as_pointer())
    number = builder.add(builder.load(place), WORD(chance.STEP))
    builder.store(number, place)
    for shift, factor in chance.ROUNDS:
        number = builder.mul(builder.xor(number, builder.lshr(number, WORD(shift))), WORD(factor))
    builder.ret(builder.xor(number, builder.lshr(number, WORD(chance.LAST_SHIFT))))
    return function
