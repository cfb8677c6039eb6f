# SPDX-License-Identifier: Apache-2.0
"""Functions and extern objects that every architecture has: counters, meters, registers, action profiles,
hashes, sums, chance.

Source: p4lang/behavioral-model, "The BMv2 Simple Switch target".
"""

from __future__ import annotations

from collections.abc import Mapping

from . import ir
from .arithmetic import wrap
from .arrays import CounterArray, MeterArray, RegisterArray
from .checksums import ALGORITHMS, digest
from .externs import Argument, ExternCall, ExternFunction, ExternType, Kind
from .matches import width_of
from .profiles import ActionProfile
from .selector_limits import limits_of

HASH_ALGORITHMS = tuple(ALGORITHMS)
"""The members of HashAlgorithm, by their numbers."""
SHARED_ENUMS: Mapping[str, tuple[str, ...]] = {
    "HashAlgorithm": HASH_ALGORITHMS,
    "CounterType": ("packets", "bytes", "packets_and_bytes"),
    "MeterType": ("packets", "bytes"),
}
_METER_BYTES = 1
_NUMBER = Argument(Kind.NUMBER)
_WRITTEN = Argument(Kind.NUMBER, ir.Direction.OUT)
SUMMED = Argument(Kind.DATA, only_valid=True)
WORD = Argument(ir.Bits(32))


def _random(call: ExternCall) -> None:
    _, low, high = call.arguments
    width_bits = max(map(width_of, call.types[1:]))
    call.arguments[0] = wrap(call.objects.random.between(low, high, width_bits), call.types[0])


def _hash(call: ExternCall) -> None:
    _, algorithm, base, _, largest = call.arguments
    value = digest(algorithm, *call.bits(3), b"", call.objects.random) if largest else 0
    call.arguments[0] = wrap(base + (value % largest if largest else 0), call.types[0])


SHARED_FUNCTIONS: Mapping[str, ExternFunction] = {
    "random": ExternFunction(((_WRITTEN, _NUMBER, _NUMBER),), _random),
    "hash": ExternFunction(((_WRITTEN, WORD, _NUMBER, SUMMED, _NUMBER),), _hash),
}

# Objects


def _size(instance: ir.ExternInstance) -> int:
    size = instance.arguments[0]
    assert isinstance(size, int)
    return size


def _count(call: ExternCall) -> None:
    call.state.count(call.arguments[0], len(call.packet.frame))


def _execute_meter(call: ExternCall) -> None:
    colour = call.state.mark(call.arguments[0], len(call.packet.frame), call.packet.now_ns)
    call.arguments[1] = wrap(colour, call.types[1])


def _read(call: ExternCall) -> None:
    array: RegisterArray = call.state
    call.arguments[0] = array.read(call.arguments[1], call.layouts.zero(array.type))


def _write(call: ExternCall) -> None:
    call.state.write(call.arguments[0], call.arguments[1])


def _read_colour(call: ExternCall) -> None:
    assert call.instance is not None
    call.arguments[0] = wrap(call.packet.colours.get(call.instance.name, 0), call.types[0])


def _sum(call: ExternCall) -> int:
    return digest(tuple(ALGORITHMS).index("csum16"), *call.bits(0), b"", call.objects.random)


def _counters(instance: ir.ExternInstance) -> CounterArray:
    return CounterArray(instance.name, _size(instance))


def _meters(instance: ir.ExternInstance) -> MeterArray:
    return MeterArray(instance.name, _size(instance), instance.arguments[1] == _METER_BYTES)


def _selector(instance: ir.ExternInstance) -> ActionProfile:
    limits = limits_of(instance.annotations)
    return ActionProfile(instance.name, instance.number(1), instance.number(0), limits=limits)


def _registers(instance: ir.ExternInstance) -> RegisterArray:
    return RegisterArray(instance.name, _size(instance), instance.types[0])


_INDEXED = ((), (Kind.NUMBER,))
_CARRIED_OUT = Argument(Kind.CARRIED, ir.Direction.OUT)

SHARED_OBJECTS: Mapping[str, ExternType] = {
    "counter": ExternType(
        ((int, int),), _INDEXED, {"count": ExternFunction(((_NUMBER,),), _count)}, _counters
    ),
    "meter": ExternType(
        ((int, int),),
        _INDEXED,
        {"execute_meter": ExternFunction(((_NUMBER, _WRITTEN),), _execute_meter)},
        _meters,
    ),
    "register": ExternType(
        ((int,),),
        ((Kind.FLAT,), (Kind.FLAT, Kind.NUMBER)),
        {
            "read": ExternFunction(((_CARRIED_OUT, _NUMBER),), _read),
            "write": ExternFunction(((_NUMBER, Argument(Kind.CARRIED)),), _write),
        },
        _registers,
    ),
    "direct_counter": ExternType(((int,),), methods={"count": ExternFunction(((),), lambda call: None)}),
    "direct_meter": ExternType(
        ((int,),), ((Kind.NUMBER,),), {"read": ExternFunction(((_CARRIED_OUT,),), _read_colour)}
    ),
    "action_profile": ExternType(
        ((int,),), make=lambda instance: ActionProfile(instance.name, _size(instance))
    ),
    "action_selector": ExternType(((int, int, int),), make=_selector),
    "Checksum16": ExternType(((),), methods={"get": ExternFunction(((SUMMED,),), _sum, returns=ir.Bits(16))}),
}
