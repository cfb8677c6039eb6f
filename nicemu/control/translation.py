# SPDX-License-Identifier: Apache-2.0
"""Values of translated types: what controllers give and see, and what the program has.

Numbers are the same on both sides and only have other widths; texts stand for numbers. Messages are
translated as a whole where they come in and go out; all behind that knows the program's values alone.
Source: P4Runtime Specification 1.4, "User-defined types", "PSA Metadata Translation".
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from nicemu.errors import ControlError
from nicemu.pipeline import KeyInfo, P4Info, ParameterInfo, RegisterInfo, ir, width_of

from .byte_string import decode_bytes, encode_bytes
from .messages import Message
from .refusals import unimplemented
from .texts import Texts, TextsOfNow

_Typed: TypeAlias = KeyInfo | ParameterInfo
_Fields: TypeAlias = Mapping[int, _Typed]
"""Translated fields by their ids."""


class Translator:
    """What is translated in the messages of one program."""

    def __init__(self, p4info: P4Info, texts: Texts) -> None:
        self._texts = texts
        self.shows: Texts | TextsOfNow = texts
        """What has the texts of values that are shown."""
        self._new_types = {new.name: new for new in p4info.new_types if new.translated}
        self._layouts = {layout.name: layout for layout in p4info.types}
        self._keys = {table.id: _translated(table.keys) for table in p4info.tables}
        self._params = {action.id: _translated(action.params) for action in p4info.actions}
        self._sets = {item.id: _translated(item.keys) for item in p4info.value_sets}
        self._headers = {item.name: _translated(item.metadata) for item in p4info.packet_metadata}
        self._types_of = {item.id: (item.type, item.type_name) for item in p4info.registers}
        self._registers = p4info.registers
        self._types_of |= {item.id: (item.type, "") for item in p4info.digests}

    def at_present(self) -> Translator:
        """Return what shows values as they are called now, whichever texts are given back later."""
        found = copy.copy(self)
        found.shows = self._texts.at_present()
        return found

    def registers_with_texts(self) -> list[RegisterInfo]:
        """Return the registers that may hold texts."""
        named = {name for name, new in self._new_types.items() if new.controller_bits == 0}
        return [item for item in self._registers if self._holds(item.type, item.type_name, named)]

    def _holds(self, kind: ir.Type, type_name: str, named: Container[str]) -> bool:
        layout = self._layouts.get(kind.name) if isinstance(kind, ir.Named) else None
        parts = layout.fields if isinstance(layout, ir.StructType) else ()
        return type_name in named or any(self._holds(part.type, part.type_name, named) for part in parts)

    @property
    def is_needed(self) -> bool:
        """Whether anything is translated at all."""
        return bool(self._new_types)

    def incoming(self, entity: Message, *, allot: bool) -> Message:
        """Return an Entity with the values of the program; `allot` new texts numbers. Where none are, as in a
        deletion or a query, the data of actions do not count. Raises: ControlError, UnknownTextError.
        """
        given = type(entity)()
        given.CopyFrom(entity)
        if not allot:
            _forget_data(given)
        self._entity(given, _Way(True, partial(self._given, allot=allot)))
        return given

    def packet_out(self, packet: Message) -> Message:
        """Return a PacketOut with the values of the program. Raises: ControlError."""
        given = type(packet)()
        given.CopyFrom(packet)
        self._metadata(given, "packet_out", _Way(True, partial(self._given, allot=True)))
        return given

    def outgoing(self, entity: Message) -> Message:
        """Give an Entity the values that controllers see, and return it."""
        self._entity(entity, _Way(False, self._shown))
        return entity

    def report(self, response: Message) -> Message:
        """Give a StreamMessageResponse the values that controllers see, and return it."""
        way = _Way(False, self._shown)
        match response.WhichOneof("update"):
            case "packet":
                self._metadata(response.packet, "packet_in", way)
            case "digest":
                for data in response.digest.data:
                    self._data(data, *self._types_of[response.digest.digest_id], way, "digest")
            case "idle_timeout_notification":
                for entry in response.idle_timeout_notification.table_entry:
                    self._entry(entry, way)
        return response

    # Values

    def _given(self, typed: _Typed, data: bytes, what: str, *, allot: bool) -> bytes:
        if typed.controller_bits == 0:
            new = self._new_types[typed.type_name]
            return encode_bytes(self._texts.number(new, data, what, allot=allot))
        decode_bytes(data, min(typed.width, typed.given_width), what)
        return data

    def _shown(self, typed: _Typed, data: bytes, what: str) -> bytes:
        if typed.controller_bits != 0:
            return data
        return self.shows.text(self._new_types[typed.type_name], int.from_bytes(data, "big"))

    # Messages

    def _entity(self, entity: Message, way: _Way) -> None:
        match entity.WhichOneof("entity"):
            case "table_entry":
                self._entry(entity.table_entry, way)
            case "direct_counter_entry":
                self._entry(entity.direct_counter_entry.table_entry, way)
            case "direct_meter_entry":
                self._entry(entity.direct_meter_entry.table_entry, way)
            case "action_profile_member":
                self._action(entity.action_profile_member.action, way)
            case "value_set_entry":
                keys = self._sets.get(entity.value_set_entry.value_set_id, {})
                for member in entity.value_set_entry.members:
                    _translate_matches(member.match, keys, way)
            case "register_entry" if entity.register_entry.HasField("data"):
                entry = entity.register_entry
                self._data(entry.data, *self._types_of.get(entry.register_id, (ir.BOOL, "")), way, "register")

    def _entry(self, entry: Message, way: _Way) -> None:
        _translate_matches(entry.match, self._keys.get(entry.table_id, {}), way)
        self._action(entry.action.action, way)
        for item in entry.action.action_profile_action_set.action_profile_actions:
            self._action(item.action, way)

    def _action(self, action: Message, way: _Way) -> None:
        params = self._params.get(action.action_id, {})
        for param in action.params:
            typed = params.get(param.param_id)
            if typed is not None:
                param.value = way.value(typed, param.value, f"parameter {typed.name}")

    def _metadata(self, packet: Message, name: str, way: _Way) -> None:
        fields = self._headers.get(name, {})
        for item in packet.metadata:
            typed = fields.get(item.metadata_id)
            if typed is not None:
                item.value = way.value(typed, item.value, f"{name}: {typed.name}")

    def _data(self, data: Message, kind: ir.Type, type_name: str, way: _Way, what: str) -> None:
        """Translate the texts in a P4Data; numbers are the same on both sides."""
        new = self._new_types.get(type_name)
        if new is not None and new.controller_bits == 0 and data.WhichOneof("data") == "bitstring":
            typed = ParameterInfo(what, 0, width_of(kind), type_name, 0)
            data.bitstring = way.value(typed, data.bitstring, what)
        layout = self._layouts.get(kind.name) if isinstance(kind, ir.Named) else None
        form = data.WhichOneof("data")
        if isinstance(layout, ir.StructType) and form in ("struct", "tuple"):
            for part, member in zip(layout.fields, getattr(data, form).members, strict=False):
                self._data(member, part.type, part.type_name, way, f"{what}.{part.name}")


@dataclass(frozen=True, slots=True)
class _Way:
    """From the controller `into` the program, or back: what becomes of a value, with what it is called."""

    into: bool
    value: Callable[[_Typed, bytes, str], bytes]


def _translate_matches(matches: Iterable[Message], keys: _Fields, way: _Way) -> None:
    """Translate the matches of an entry, a value set's member or a query.

    Raises: ControlError(UNIMPLEMENTED) for one that has no counterpart in another width.
    """
    for match in matches:
        key = keys.get(match.field_id)
        form = match.WhichOneof("field_match_type")
        if key is None or form is None or form == "other":
            continue
        held, what = getattr(match, form), f"key {key.name}"
        if key.controller_bits == 0 and form not in ("exact", "optional"):
            if way.into:
                raise unimplemented(f"{what} is a text; exact and optional keys can be, so leave it out")
            continue
        if form == "range":
            low, high = (way.value(key, end, what) for end in (held.low, held.high))
            if way.into and low != high and key.given_width != key.width:
                raise _no_counterpart(what, key, "the same low and high")
            held.low, held.high = low, high
            continue
        held.value = way.value(key, held.value, what)
        given, own = (key.given_width, key.width) if way.into else (key.width, key.given_width)
        if form == "lpm" and given != own:
            if held.prefix_len == given:
                held.prefix_len = own
            elif way.into:
                raise _no_counterpart(what, key, f"a prefix_len of {given}")
        elif form == "ternary" and given != own:
            if int.from_bytes(held.mask, "big") == (1 << given) - 1:
                held.mask = encode_bytes((1 << own) - 1)
            elif way.into:
                raise _no_counterpart(what, key, f"a mask of {given} ones")


def _forget_data(entity: Message) -> None:
    """Leave the action of an entry or a member without data."""
    match entity.WhichOneof("entity"):
        case "table_entry" if entity.table_entry.HasField("action"):
            entity.table_entry.action.action.ClearField("params")
            entity.table_entry.action.ClearField("action_profile_action_set")
        case "action_profile_member" if entity.action_profile_member.HasField("action"):
            entity.action_profile_member.action.ClearField("params")


def _no_counterpart(what: str, key: _Typed, allowed: str) -> ControlError:
    return unimplemented(
        f"{what} is bit<{key.width}> and translated; {allowed}, or nothing at all, was expected"
    )


def _translated(fields: Sequence[_Typed]) -> _Fields:
    return {item.id: item for item in fields if item.controller_bits is not None}
