# SPDX-License-Identifier: Apache-2.0
"""The architecture's functions and extern objects: what a program may call, and what each call asks for.

An extern never acts: it sets where the frame goes, or appends an effect for the NIC to apply in order.
The P4 side of these declarations is p4/include/nicemu.p4.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from . import ir
from .verdict import CounterAdd, Disposition, Effect, EventPosted

NIC_METADATA = ir.StructType(
    "nic_metadata_t", (ir.Field("ingress_port", ir.Bits(16)), ir.Field("packet_length", ir.Bits(32)))
)
"""What the NIC tells the program about a frame; `packet_length` is in bytes."""


@dataclass(slots=True)
class Outcome:
    """What a packet's program has asked for so far; a frame goes to the host unless something else is
    said.
    """

    disposition: Disposition = Disposition.HOST
    port: int = 0
    effects: list[Effect] = field(default_factory=list)


Value: TypeAlias = Any
"""An int, a header value, or the dict of a struct."""

FunctionBody: TypeAlias = Callable[[Outcome, Sequence[Value]], None]
MethodBody: TypeAlias = Callable[[Outcome, ir.ExternInstance, Sequence[Value]], None]


@dataclass(frozen=True, slots=True)
class ExternFunction:
    """A function of the architecture: the types of its arguments, and what it does."""

    parameters: tuple[ir.Type, ...]
    body: FunctionBody


@dataclass(frozen=True, slots=True)
class ExternMethod:
    """A method of an extern object; a parameter `None` takes the struct that the instance was declared
    with.
    """

    parameters: tuple[ir.Type | None, ...]
    body: MethodBody


@dataclass(frozen=True, slots=True)
class ExternType:
    """An extern object: what its constructor takes, how many type arguments, its methods."""

    constructor: tuple[type, ...]
    type_arguments: int
    methods: Mapping[str, ExternMethod]


def _send_to_port(outcome: Outcome, arguments: Sequence[Value]) -> None:
    outcome.disposition, outcome.port = Disposition.PORT, arguments[0]


def _send_to_host(outcome: Outcome, arguments: Sequence[Value]) -> None:
    outcome.disposition, outcome.port = Disposition.HOST, 0


def _drop_packet(outcome: Outcome, arguments: Sequence[Value]) -> None:
    outcome.disposition, outcome.port = Disposition.DROP, 0


def _hold_packet(outcome: Outcome, arguments: Sequence[Value]) -> None:
    outcome.disposition, outcome.port = Disposition.FIRMWARE, 0


def _add(outcome: Outcome, instance: ir.ExternInstance, arguments: Sequence[Value]) -> None:
    outcome.effects.append(CounterAdd(arguments[0], arguments[1]))


def _post(outcome: Outcome, instance: ir.ExternInstance, arguments: Sequence[Value]) -> None:
    outcome.effects.append(EventPosted(str(instance.arguments[0]), dict(arguments[0])))


FUNCTIONS: Mapping[str, ExternFunction] = {
    "send_to_port": ExternFunction((ir.Bits(16),), _send_to_port),
    "send_to_host": ExternFunction((), _send_to_host),
    "drop_packet": ExternFunction((), _drop_packet),
    "hold_packet": ExternFunction((), _hold_packet),
}

OBJECTS: Mapping[str, ExternType] = {
    "TriggerCounter": ExternType((), 0, {"add": ExternMethod((ir.Bits(32), ir.Bits(64)), _add)}),
    "FirmwareEvent": ExternType((str,), 1, {"post": ExternMethod((None,), _post)}),
}
