# SPDX-License-Identifier: Apache-2.0
"""Extern functions and methods in a kernel, and the effects that a packet leaves behind.

An effect is a record of words: its site, which says what it is, then its numbers. `nicemu.pipeline` gives
them the same meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from nicemu.pipeline import MAX_EFFECTS, ir

from .effects import PASSES, Site
from .not_compiled import NotCompiled
from .paths import own_path
from .places import INDEX, WORD, Number, Place, Value
from .records import TOO_MANY_EFFECTS, word_of_effects, word_of_object
from .tables import Tables
from .value_words import word_count

Call: TypeAlias = Callable[[str, tuple[ir.Expression, ...]], Value | None]
"""Makes a call: of an object, "" for a function, with arguments; returns its value where it has one."""


class Externs(Tables):
    """Calls of the architecture. `sites` are those that leave effects."""

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments)
        self.sites: list[Site] = []

    @property
    def effects(self) -> Any:  # noqa: ANN401
        """The address of the address of the next effect (i64)."""
        return self.places.slot(Place(own_path("effects"), ir.Bits(64)), self.builder)

    @property
    def effect_count(self) -> Any:  # noqa: ANN401
        """The address of the number of effects so far (i32)."""
        return self.places.slot(Place(own_path("effect_count"), ir.Bits(32)), self.builder)

    @property
    def verdict(self) -> Any:  # noqa: ANN401
        """The address of the verdict (i32)."""
        return self.places.slot(Place(own_path("verdict"), ir.Bits(32)), self.builder)

    @property
    def out_port(self) -> Any:  # noqa: ANN401
        """The address of the port by which the frame leaves (i32)."""
        return self.places.slot(Place(own_path("port"), ir.Bits(32)), self.builder)

    def calls(self) -> dict[str, Call]:
        """Return what each extern's call makes, by its name, with its object's type before a method's."""
        raise NotImplementedError

    def extern(self, instance: str, name: str, arguments: tuple[ir.Expression, ...]) -> Value:
        """Call an extern; return its value."""
        declared = next((item for item in self.program.externs if item.name == instance), None)
        key = f"{declared.extern}.{name}" if declared is not None else name
        make = self.calls().get(key)
        if make is None:
            raise NotCompiled(f"it calls {key}")
        return make(instance, arguments) if self.first_table is None else None

    def object_word(self, number: int) -> Any:  # noqa: ANN401
        """Return a pointer to the word of the context that holds the address of an extern object's memory."""
        return self.at(self.context, 8 * word_of_object(self.program, number))

    def begin_effects(self) -> None:
        """Say that the packet has no effects yet."""
        self.builder.store(self.builder.load(self._next_effect), self.effects)
        self.builder.store(INDEX(0), self.effect_count)
        self.builder.store(INDEX(0), self.out_port)
        self.builder.store(INDEX(0), self.effects_before)
        self.keep_effects()

    @property
    def effects_before(self) -> Any:  # noqa: ANN401
        """The address of the number of effects that this pass has left elsewhere (i32)."""
        return self.places.slot(Place(own_path("effects_before"), ir.Bits(32)), self.builder)

    def keep_effects(self) -> None:
        """Say that what the packet has left so far stays, whatever becomes of it."""
        for present, kept in self._kept_effects():
            self.builder.store(self.builder.load(present), kept)

    def forget_effects(self) -> None:
        """Take back what was not to stay, as for a packet that comes to nothing."""
        for present, kept in self._kept_effects():
            self.builder.store(self.builder.load(kept), present)

    def _kept_effects(self) -> tuple[tuple[Any, Any], tuple[Any, Any]]:
        address = self.places.slot(Place(own_path("kept_effects"), ir.Bits(64)), self.builder)
        count = self.places.slot(Place(own_path("kept_effect_count"), ir.Bits(32)), self.builder)
        return (self.effects, address), (self.effect_count, count)

    @property
    def _next_effect(self) -> Any:  # noqa: ANN401
        return self.at(self.context, 8 * word_of_effects(self.program))

    def end_effects(self) -> tuple[Number, Number]:
        """Return the address of the packet's effects (i64) and how many (i32); others come behind them."""
        first = self.builder.load(self._next_effect)
        self.builder.store(self.builder.load(self.effects), self._next_effect)
        return first, self.builder.load(self.effect_count)

    def effect_words(self) -> int:
        """Return how many words the effects of one packet take at most."""
        words = [site.words for site in self.sites]
        if self.repeats or len(words) > MAX_EFFECTS:
            return PASSES * MAX_EFFECTS * max(words, default=0)
        return sum(words)

    def leave_effect(
        self, instance: str, name: str, values: list[tuple[ir.Type, Value]], text: str = ""
    ) -> None:
        """Append an effect; the packet is dropped where there are too many."""
        if self.repeats or len(self.sites) >= MAX_EFFECTS:
            (_, _), (present, kept) = self._kept_effects()
            count = self.builder.sub(self.builder.load(present), self.builder.load(kept))
            count = self.builder.add(count, self.builder.load(self.effects_before))
            full = self.builder.icmp_unsigned(">=", count, INDEX(MAX_EFFECTS))
            self.give_up_if(full, TOO_MANY_EFFECTS)
        kinds = tuple(kind for kind, _ in values)
        builder, words = self.builder, 1
        start = builder.load(self.effects)
        builder.store(WORD(len(self.sites)), self.at(start, 0))
        for kind, value in values:
            self.store_value(kind, value, self.address(start, 8 * words))
            words += word_count(self.layouts, kind)
        builder.store(self.address(start, 8 * words), self.effects)
        count = builder.load(self.effect_count)
        builder.store(builder.add(count, INDEX(1)), self.effect_count)
        self.sites.append(Site(instance, name, kinds, words, text))
