# SPDX-License-Identifier: Apache-2.0
"""CounterEntry, MeterEntry and RegisterEntry: updates as changes, reads as queries.

Without an index an update is for every place, and a read returns every place.
Source: P4Runtime Specification 1.4, "CounterEntry", "MeterEntry", "RegisterEntry".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import (
    UNCOUNTED,
    Colours,
    Count,
    CounterArray,
    Engine,
    Meter,
    MeterArray,
    MeterConfig,
    RegisterArray,
    RegisterInfo,
    Value,
)

from .changes import Change, Query, Undo
from .count_message import (
    colours_of_message,
    count_of_message,
    fill_colours,
    fill_count,
    fill_meter,
    meter_of_message,
)
from .data_message import fill_data, value_of_data, zero_of
from .messages import MODIFY, Message, messages
from .refusals import illegal
from .schema import Schema

MAX_PLACES_READ = 1 << 20
"""Places that one read without an index may return."""


@dataclass(slots=True)
class WriteCounter:
    """Say what a counter stands at, or with `index` None, all of an array."""

    name: str
    index: int | None
    count: Count | None

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        array: CounterArray = engine.objects.states[self.name]
        if self.count is None:
            return
        if self.index is None:
            array.fill(self.count)
        else:
            array.counts[self.index] = replace(self.count)

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        array: CounterArray = engine.objects.states[self.name]
        return _remembered(array, array.counts, self.index, replace)


@dataclass(slots=True)
class WriteMeter:
    """Configure a meter, or with `index` None, all of an array."""

    name: str
    index: int | None
    config: MeterConfig | None
    colours: Colours | None = None

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        array: MeterArray = engine.objects.states[self.name]
        if self.index is None:
            array.fill(self.config, engine.now_ns)
            return
        meter = array.meters.setdefault(self.index, Meter())
        meter.configure(self.config, engine.now_ns)
        if self.colours is not None:
            meter.colours = self.colours

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        array: MeterArray = engine.objects.states[self.name]
        return _remembered(array, array.meters, self.index, replace)


@dataclass(slots=True)
class WriteRegister:
    """Store a value at a place of a register, or with `index` None, at all."""

    name: str
    index: int | None
    value: Value

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError."""
        array: RegisterArray = engine.objects.states[self.name]
        if self.index is None:
            array.fill(self.value)
        else:
            array.values[self.index] = self.value

    def remember(self, engine: Engine) -> Undo:
        """Return what takes it back."""
        array: RegisterArray = engine.objects.states[self.name]
        return _remembered(array, array.values, self.index, lambda value: value)


def _remembered(array: Any, places: dict[int, Any], index: int | None, copy: Callable[[Any], Any]) -> Undo:  # noqa: ANN401
    """Return what puts one place of an array back as it is now, or all."""
    others = array.others
    kept = {
        place: copy(places[place])
        for place in (list(places) if index is None else [index])
        if place in places
    }

    def put_back() -> None:
        if index is None:
            places.clear()
            array.others = others
        else:
            places.pop(index, None)
        places.update(kept)

    return put_back


def counter_change(update_type: int, message: Message, schema: Schema) -> Change:
    """Return the change that an update of a CounterEntry means. Raises: ControlError."""
    info = _modified(update_type, "counter", message.counter_id, schema)
    index = _index_of(message, info.name, info.size)
    count = count_of_message(message.data, f"counter {info.name}") if message.HasField("data") else None
    return WriteCounter(info.name, index, count)


def meter_change(update_type: int, message: Message, schema: Schema) -> Change:
    """Return the change that an update of a MeterEntry means. Raises: ControlError."""
    info = _modified(update_type, "meter", message.meter_id, schema)
    what = f"meter {info.name}"
    index = _index_of(message, info.name, info.size)
    config = meter_of_message(message.config, what, info.type) if message.HasField("config") else None
    colours = colours_of_message(message.counter_data, what) if message.HasField("counter_data") else None
    if colours is not None and index is None:
        raise illegal(f"{what}: counter_data is given and no index; it is for one place")
    return WriteMeter(info.name, index, config, colours)


def register_change(update_type: int, message: Message, schema: Schema) -> Change:
    """Return the change that an update of a RegisterEntry means. Raises: ControlError."""
    info: RegisterInfo = _modified(update_type, "register", message.register_id, schema)
    index = _index_of(message, info.name, info.size)
    value = value_of_data(message.data, info.type, schema.layouts, f"register {info.name}")
    return WriteRegister(info.name, index, value)


def counter_query(message: Message, schema: Schema) -> Query:
    """Return the query that a CounterEntry in a ReadRequest means. Raises: ControlError."""
    infos, index = _wanted("counter", message.counter_id, message, schema)

    def render(seen: list[_Snapshot]) -> Iterator[Message]:
        for part in seen:
            for place in part.places:
                entity = messages().Entity()
                entry = entity.counter_entry
                entry.counter_id, entry.index.index = part.info.id, place
                count: Count = part.held.get(place, part.others)
                fill_count(entry.data, count.packets, count.bytes)
                yield entity

    return Query(
        lambda engine: [_snapshot(engine, info, index, "counts", replace) for info in infos], render, _weigh
    )


def meter_query(message: Message, schema: Schema) -> Query:
    """Return the query that a MeterEntry in a ReadRequest means. Raises: ControlError."""
    infos, index = _wanted("meter", message.meter_id, message, schema)
    counted = message.HasField("counter_data")

    def render(seen: list[_Snapshot]) -> Iterator[Message]:
        for part in seen:
            for place in part.places:
                entity = messages().Entity()
                entry = entity.meter_entry
                entry.meter_id, entry.index.index = part.info.id, place
                config, colours = part.held.get(place, (part.others, UNCOUNTED))
                if config is not None:
                    fill_meter(entry.config, config)
                if counted:
                    fill_colours(entry.counter_data, colours)
                yield entity

    return Query(
        lambda engine: [
            _snapshot(engine, info, index, "meters", lambda meter: (meter.config, meter.colours))
            for info in infos
        ],
        render,
        _weigh,
    )


def register_query(message: Message, schema: Schema) -> Query:
    """Return the query that a RegisterEntry in a ReadRequest means. Raises: ControlError."""
    infos, index = _wanted("register", message.register_id, message, schema)

    def render(seen: list[_Snapshot]) -> Iterator[Message]:
        for part in seen:
            zero = zero_of(part.info.type, schema.layouts) if part.others is None else part.others
            for place in part.places:
                entity = messages().Entity()
                entry = entity.register_entry
                entry.register_id, entry.index.index = part.info.id, place
                fill_data(entry.data, part.held.get(place, zero), part.info.type, schema.layouts)
                yield entity

    return Query(
        lambda engine: [_snapshot(engine, info, index, "values", lambda value: value) for info in infos],
        render,
        _weigh,
    )


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """An array as it was: which places are asked for, what is held, and what all others are."""

    info: Any
    places: range
    held: dict[int, Any]
    others: Any


def _weigh(seen: list[_Snapshot]) -> int:
    return sum(len(part.places) for part in seen)


def _snapshot(
    engine: Engine,
    info: Any,  # noqa: ANN401
    index: int | None,
    places: str,
    copy: Callable[[Any], Any],
) -> _Snapshot:
    array = engine.objects.states[info.name]
    held: dict[int, Any] = getattr(array, places)
    if index is None:
        return _Snapshot(
            info, range(array.size), {place: copy(item) for place, item in held.items()}, array.others
        )
    one = {index: copy(held[index])} if index in held else {}
    return _Snapshot(info, range(index, index + 1), one, array.others)


def _modified(update_type: int, noun: str, item_id: int, schema: Schema) -> Any:  # noqa: ANN401
    if update_type != MODIFY:
        raise illegal(f"the places of a {noun} are always there; MODIFY them, do not INSERT or DELETE")
    return schema.item(noun, item_id)


def _wanted(noun: str, item_id: int, message: Message, schema: Schema) -> tuple[Sequence[Any], int | None]:
    infos = schema.items(noun, item_id)
    if item_id == 0 and message.HasField("index"):
        raise illegal(f"the query names an index but no {noun}; set the id too")
    index = _index_of(message, infos[0].name, infos[0].size) if infos else None
    places = sum(info.size for info in infos) if index is None else 1
    if places > MAX_PLACES_READ:
        raise ControlError(
            P4RuntimeCode.RESOURCE_EXHAUSTED,
            f"the {noun}s asked for have {places} places; {MAX_PLACES_READ} can be read at once, "
            "so name an index",
        )
    return infos, index


def _index_of(message: Message, name: str, size: int) -> int | None:
    if not message.HasField("index"):
        return None
    index = int(message.index.index)
    if index < 0:
        raise illegal(f"{name}: index {index} found; 0 to {size - 1} was expected")
    if index >= size:
        raise ControlError(P4RuntimeCode.OUT_OF_RANGE, f"{name} has {size} places; there is no place {index}")
    return index
