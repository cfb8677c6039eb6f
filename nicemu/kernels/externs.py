# SPDX-License-Identifier: Apache-2.0
"""Extern functions and methods in a kernel, and the effects that a packet leaves behind.

An effect is a record of words: its site, which says what it is, then its numbers. `nicemu.pipeline` gives
them the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nicemu.pipeline import ir, width_of

from .expressions import NotCompiled
from .places import INDEX, WORD, Number, Place, Value
from .records import DROPPED, HELD, TO_HOST, TO_PORT
from .tables import Tables

MAX_EFFECTS = 64
"""Effects of one packet that there is room for; a program with more sites, or with loops, is interpreted."""


@dataclass(frozen=True, slots=True)
class Site:
    """A call that leaves an effect: of which extern, and how wide its numbers are."""

    instance: str
    name: str
    widths: tuple[int, ...]
    fields: tuple[str, ...] = ()

    @property
    def words(self) -> int:
        """Words of its records, its own number included."""
        return 1 + sum(-(-width // 64) for width in self.widths)


class Externs(Tables):
    """Calls of the architecture. `sites` are those that leave effects."""

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments)
        self.sites: list[Site] = []

    @property
    def effects(self) -> Any:  # noqa: ANN401
        """The address of the address of the next effect (i64)."""
        return self.places.slot(Place("$effects", ir.Bits(64)), self.builder)

    @property
    def effect_count(self) -> Any:  # noqa: ANN401
        """The address of the number of effects so far (i32)."""
        return self.places.slot(Place("$effect_count", ir.Bits(32)), self.builder)

    @property
    def verdict(self) -> Any:  # noqa: ANN401
        """The address of the verdict (i32)."""
        return self.places.slot(Place("$verdict", ir.Bits(32)), self.builder)

    @property
    def out_port(self) -> Any:  # noqa: ANN401
        """The address of the port by which the frame leaves (i32)."""
        return self.places.slot(Place("$port", ir.Bits(32)), self.builder)

    def extern(self, instance: str, name: str, arguments: tuple[ir.Expression, ...]) -> Value:
        """Call an extern; return its value."""
        declared = next((item for item in self.program.externs if item.name == instance), None)
        key = f"{declared.extern}.{name}" if declared is not None else name
        make = _CALLS.get(key)
        if make is None or self.program.architecture != "nicemu":
            raise NotCompiled(f"it calls {key}")
        if self.first_table is None:
            make(self, instance, arguments)
        return None

    def decide(self, verdict: int, arguments: tuple[ir.Expression, ...]) -> None:
        """Say where the frame goes."""
        port: Number = INDEX(0)
        if arguments:
            port = self.builder.zext(self.value(arguments[0]), INDEX)
        self.builder.store(INDEX(verdict), self.verdict)
        self.builder.store(port, self.out_port)

    def leave_effect(self, instance: str, name: str, numbers: list[tuple[str, Number]]) -> None:
        """Append an effect."""
        if self.has_loops or len(self.sites) >= MAX_EFFECTS:
            raise NotCompiled("its effects have no bound")
        widths = tuple(number.type.width for _, number in numbers)
        site = Site(instance, name, widths, tuple(field for field, _ in numbers))
        builder, at = self.builder, 8
        start = builder.load(self.effects)
        builder.store(WORD(len(self.sites)), self.at(start, 0))
        for _, number in numbers:
            for word in range(-(-number.type.width // 64)):
                shift = 64 * word
                piece = builder.lshr(number, number.type(shift)) if shift else number
                piece = builder.zext(piece, WORD) if number.type.width < 64 else self._truncated(piece, 64)
                builder.store(piece, self.at(start, at))
                at += 8
        builder.store(self.address(start, at), self.effects)
        count = builder.load(self.effect_count)
        builder.store(builder.add(count, INDEX(1)), self.effect_count)
        self.sites.append(site)


def _goes(verdict: int) -> Callable[[Externs, str, tuple[ir.Expression, ...]], None]:
    return lambda kernel, instance, arguments: kernel.decide(verdict, arguments)


def _add(kernel: Externs, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
    counter, value = (kernel.value(argument) for argument in arguments)
    kernel.leave_effect(instance, "add", [("counter", counter), ("value", value)])


def _post(kernel: Externs, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
    event = kernel.value(arguments[0])
    parts = kernel.layouts.fields(arguments[0].type)  # type: ignore[arg-type]
    if any(isinstance(part.type, ir.Bits) and part.type.signed for part in parts):
        raise NotCompiled("an event has a signed field")
    assert all(width_of(part.type) for part in parts)
    kernel.leave_effect(instance, "post", [(part.name, event.parts[part.name]) for part in parts])


_CALLS: dict[str, Callable[[Externs, str, tuple[ir.Expression, ...]], None]] = {
    "send_to_port": _goes(TO_PORT),
    "send_to_host": _goes(TO_HOST),
    "drop_packet": _goes(DROPPED),
    "hold_packet": _goes(HELD),
    "TriggerCounter.add": _add,
    "FirmwareEvent.post": _post,
}
