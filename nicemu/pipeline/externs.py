# SPDX-License-Identifier: Apache-2.0
"""What an architecture says of its extern functions and objects: what a call takes, gives back and does.

A body reads its arguments and may replace those that are `out` or `inout`; the interpreter stores them
when it returns. What is to happen outside the pipeline is appended to the packet's outcome, never done.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from . import ir
from .objects import Objects
from .packet_state import PacketState
from .values import Layouts, Value

MAX_EFFECTS = 256
"""Effects of one packet in one pass through its program."""


class Stuck(Exception):  # noqa: N818  control flow, never seen outside
    """The packet has passed a limit and is dropped: too many turns of loops and calls, or `reason`."""

    def __init__(self, reason: str = "pipeline.too_many_turns") -> None:
        self.reason = reason


class ExternFailed(Stuck):
    """What Python does for an own extern of the program has failed: the packet is dropped, wherever it is."""


def append_effect(effects: list[Any], effect: Any) -> None:  # noqa: ANN401
    """Append to a packet's effects. Raises: Stuck if there are too many."""
    if len(effects) >= MAX_EFFECTS:
        raise Stuck("pipeline.too_many_effects")
    effects.append(effect)


class Kind(enum.Enum):
    """A set of types, where an extern takes more than one."""

    NUMBER = "bit<N> or int<N>"
    SCALAR = "a number, bool or error"
    FLAT = "a number, or a struct of numbers"
    DATA = "anything with bits"
    CARRIED = "the type argument of the object"
    RECORD = "a struct of numbers"


@dataclass(frozen=True, slots=True)
class Argument:
    """What a call takes at one place.

    Where it `only_valid`, a header that is not valid, and each field of such a one, is given as no bits.
    """

    type: ir.Type | Kind
    direction: ir.Direction = ir.Direction.IN
    only_valid: bool = False

    @property
    def is_written(self) -> bool:
        """Whether the call stores into this argument."""
        return self.direction in (ir.Direction.OUT, ir.Direction.INOUT)


@dataclass(slots=True, eq=False)
class ExternCall:
    """One call: `arguments` with their `types`, for what packet, of which object.

    `state` is what the object's type has made for it; None for a function. A body may leave a `note` for the
    trace.
    """

    packet: PacketState
    objects: Objects
    layouts: Layouts
    arguments: list[Value]
    types: tuple[ir.Type, ...]
    instance: ir.ExternInstance | None = None
    state: Any = None
    note: str = ""

    def bits(self, position: int) -> tuple[int, int]:
        """Return the bits of an argument as their count and a number."""
        packed = self.layouts.packed(self.types[position], self.arguments[position])
        return packed.length_bits, packed.number


Body: TypeAlias = Callable[[ExternCall], Value]
"""What a call does; it returns the call's value, None where it has none."""

Signature: TypeAlias = tuple[Argument, ...]

EVERYWHERE = frozenset({"parser", "control", "action", "function", "deparser"})
"""Where statements stand."""

CONTROLS = frozenset({"control", "action"})


@dataclass(frozen=True, slots=True)
class ExternFunction:
    """A function of the architecture, or a method of an object; overloads differ in how many arguments they
    take.

    `returns` is None for a call without a value; `places` are where it may be called, `role` the only one of
    the architecture's blocks whose code calls it, "" where each may.
    """

    signatures: tuple[Signature, ...]
    body: Body
    returns: ir.Type | Kind | None = None
    places: frozenset[str] = EVERYWHERE
    role: str = ""

    def signature(self, count: int) -> Signature | None:
        """Return what a call of `count` arguments takes, None if there is no such call."""
        return next((item for item in self.signatures if len(item) == count), None)


@dataclass(frozen=True, slots=True)
class ExternType:
    """An extern object: what its constructors take, what lists of type arguments it has,
    its methods.

    `make` returns the state that an instance starts with.
    """

    constructors: tuple[tuple[type, ...], ...]
    carries: tuple[tuple[Kind, ...], ...] = ((),)
    methods: Mapping[str, ExternFunction] = field(default_factory=dict)
    make: Callable[[ir.ExternInstance], Any] = lambda instance: None

    def carried(self, count: int) -> tuple[Kind, ...] | None:
        """Return what `count` type arguments may be, None if there cannot be so many."""
        return next((item for item in self.carries if len(item) == count), None)
