# SPDX-License-Identifier: Apache-2.0
"""A packet of v1model between two of its blocks, as 64-bit words in memory.

First come what it has asked for and where it stands, then what direct meters have said of it, then its
program's variables.
"""

from __future__ import annotations

from typing import Any

from nicemu.pipeline import Layouts, Program, ir

from .not_compiled import NotCompiled
from .one_packet import OnePacket
from .places import BIT, WORD, Number, Place
from .v1_externs import STANDARD, V1Externs
from .v1_requests import REQUESTS
from .value_words import word_count

RESULT, CURSOR, TURNS, EFFECTS, PORT, FAILED = range(6)
"""The first words: 0, or 1 + the parser's error, or a limit that was passed; the parser's cursor in bytes;
turns taken; effects so far in this pass; the port of egress; whether an assertion has failed.
"""
FIRST_REQUEST = 6


class StateLayout:
    """Where everything lies in the state of a program's packets, in words."""

    def __init__(self, program: Program) -> None:
        self.layouts = Layouts(program)
        self.meters = [item.name for item in program.externs if item.extern == "direct_meter"]
        self.requests = {name: FIRST_REQUEST + place for place, name in enumerate(REQUESTS)}
        at = FIRST_REQUEST + len(REQUESTS)
        self.colours = {name: at + place for place, name in enumerate(self.meters)}
        at += len(self.meters)
        self.variables: dict[str, tuple[int, ir.Type]] = {}
        for variable in program.variables:
            self.variables[variable.name] = at, variable.type
            at += word_count(self.layouts, variable.type)
        self.words = at
        first, kind = self.variables[STANDARD]
        assert isinstance(kind, ir.Named)
        fields = self.layouts.fields(kind)
        self.standard = {part.name: first + place for place, part in enumerate(fields)}
        """Where the fields of the standard metadata lie, a word each."""

    def bytes_of(self, place: ir.Expression) -> tuple[int, int]:
        """Return how many bytes into a state a variable or field lies, and how many it is.

        Raises: NotCompiled for anything else.
        """
        at, kind = self._words_of(place)
        return 8 * at, 8 * word_count(self.layouts, kind)

    def _words_of(self, place: ir.Expression) -> tuple[int, ir.Type]:
        if isinstance(place, ir.Name):
            return self.variables[place.name]
        if isinstance(place, ir.Member):
            at, kind = self._words_of(place.base)
            if isinstance(kind, ir.Named) and kind.name not in self.layouts.unions:
                at += int(kind.name in self.layouts.headers)
                for part in self.layouts.fields(kind):
                    if part.name == place.field:
                        return at, part.type
                    at += word_count(self.layouts, part.type)
        raise NotCompiled("a field list names no field")


class V1State(OnePacket):
    """Stores and loads states at addresses (i64)."""

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments)
        self.state = StateLayout(self.program)

    def store_state(self, made: V1Externs, address: Number) -> None:
        """Store the packet's state."""
        builder = made.builder
        builder.store(builder.load(made.cursor), made.at(address, 8 * CURSOR))
        if made.has_turns:
            builder.store(builder.zext(builder.load(made.turns), WORD), made.at(address, 8 * TURNS))
        builder.store(builder.zext(builder.load(made.failed), WORD), made.at(address, 8 * FAILED))
        for slot, word in self._counts(made):
            builder.store(builder.zext(builder.load(slot), WORD), made.at(address, 8 * word))
        for name, (word, kind) in self.state.variables.items():
            value = made.places.load(Place(name, kind), builder)
            made.store_value(kind, value, made.address(address, 8 * word))

    def load_state(self, made: V1Externs, address: Number) -> None:
        """Have the packet be in a state."""
        builder = made.builder
        builder.store(builder.load(made.at(address, 8 * CURSOR)), made.cursor)
        if made.has_turns:
            builder.store(self._word(made, address, TURNS), made.turns)
        failed = builder.trunc(builder.load(made.at(address, 8 * FAILED)), BIT)
        builder.store(failed, made.failed)
        builder.store(self._word(made, address, EFFECTS), made.effects_before)
        for slot, word in self._counts(made):
            builder.store(self._word(made, address, word), slot)
        for name, (word, kind) in self.state.variables.items():
            value = made.load_value(kind, made.address(address, 8 * word))
            made.places.store(Place(name, kind), value, builder)

    def _counts(self, made: V1Externs) -> list[tuple[Any, int]]:
        """Return the addresses of numbers of 32 bits, with their words."""
        asked = [(made.request(name), word) for name, word in self.state.requests.items()]
        return asked + [(made.colour(name), word) for name, word in self.state.colours.items()]

    @staticmethod
    def _word(made: V1Externs, address: Number, word: int) -> Number:
        return made.resized(made.builder.load(made.at(address, 8 * word)), ir.Bits(64), ir.Bits(32))
