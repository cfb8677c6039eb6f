# SPDX-License-Identifier: Apache-2.0
"""The interpreter that tells what it does: the same meaning, and events on the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from . import ir
from .evaluator import Rejected
from .externs import ExternCall, ExternFunction
from .interpreter import Interpreter
from .ir_text import ProgramNames, case_text, expression_text, part_text
from .ir_walk import nodes_of
from .matches import Exact, Match, matches_text
from .packet_state import PacketState
from .profiles import Group, Member
from .table_entry import Row, TableEntry
from .tables import Table
from .trace import (
    Advanced,
    Assigned,
    BlockEntered,
    Branched,
    Called,
    EntryText,
    EnumNumber,
    Event,
    Exited,
    ExternCalled,
    HeaderEmitted,
    HeaderExtracted,
    NearMiss,
    ParserRejected,
    Selected,
    StackMoved,
    StateEntered,
    Switched,
    TableApplied,
    ValidityChanged,
    Verified,
)
from .values import HeaderValue, StackValue, UnionValue, Value, Varbits, copied

NEAREST = 3
"""Entries that the event of a miss tells."""
_CALLS = (ir.Call, ir.ExternValue, ir.TableApply)


class Tracer(Interpreter):
    """Runs a program as the interpreter does, for packets that have a trace."""

    def __init__(self, *given: Any) -> None:  # noqa: ANN401 - what an interpreter takes
        super().__init__(*given)
        self._executors |= {
            ir.If: self._if,
            ir.Switch: self._traced_switch,
            ir.SetValid: self._traced_set_valid,
        }
        self._members = {
            (kind.name, member.value): EnumNumber(member.value, member.name, kind.serializable)
            for kind in reversed(self._program.enums)
            for member in reversed(kind.members)
        }
        self._names = ProgramNames(self.errors, self._member_name)

    # Parser

    def parse(self, packet: PacketState) -> str | None:
        """Run the parser."""
        _note(packet, BlockEntered("parser", self._program.parser.name))
        error = super().parse(packet)
        if error is not None:
            _note(packet, ParserRejected(error, packet.cursor_bytes))
        return error

    def _run_state(self, packet: PacketState, state: ir.State) -> str:
        _note(packet, StateEntered(state.name))
        return super()._run_state(packet, state)

    def _chosen(self, packet: PacketState, select: ir.Select, values: Sequence[int]) -> ir.SelectCase | None:
        case = super()._chosen(packet, select, values)
        keys = {
            self._text(key): self._plain(key.type, value, self._type_name(key))
            for key, value in zip(select.keys, values, strict=True)
        }
        text = None if case is None else case_text(case, select.keys, self._names)
        _note(packet, Selected(keys, text, None if case is None else case.state))
        return case

    def _take(self, packet: PacketState, target: ir.Expression, varbit_bits: int) -> None:
        start = packet.cursor_bytes
        super()._take(packet, target, varbit_bits)
        fields = self._plain(target.type, self._value(packet, target)) or {}  # outside a stack there are none
        length_bytes = packet.cursor_bytes - start
        _note(packet, HeaderExtracted(expression_text(target), start, length_bytes, fields))

    def _advance(self, packet: PacketState, node: ir.Advance) -> None:
        start = packet.cursor_bytes
        super()._advance(packet, node)
        _note(packet, Advanced(packet.cursor_bytes - start, packet.cursor_bytes))

    def _verify(self, packet: PacketState, node: ir.Verify) -> None:
        condition = self._text(node.condition)
        try:
            super()._verify(packet, node)
        except Rejected as rejected:
            _note(packet, Verified(condition, False, rejected.error))
            raise
        _note(packet, Verified(condition, True, ""))

    # Controls

    def control(self, packet: PacketState, role: str) -> None:
        """Run the control in a role."""
        name = self._program.control(role).name
        if self._controls[role]:
            _note(packet, BlockEntered(role, name))
        super().control(packet, role)

    def _if(self, packet: PacketState, node: ir.If) -> int:
        holds = bool(self._value(packet, node.condition))
        _note(packet, Branched(self._text(node.condition), holds))
        return self._run(packet, node.then if holds else node.otherwise)

    def _traced_switch(self, packet: PacketState, node: ir.Switch) -> int:
        subject = self._value(packet, node.subject)
        value = self._plain(node.subject.type, subject, self._type_name(node.subject))
        _note(packet, Switched(self._text(node.subject), value))
        held = ir.Constant(subject, node.subject.type)
        return self._switch(packet, ir.Switch(held, node.cases))

    def _begin_turn(self, packet: PacketState, variable: str, number: int) -> None:
        before = packet.places[variable]
        super()._begin_turn(packet, variable, number)
        if not variable.startswith(f"{ir.FOR}."):
            _note(packet, Assigned(variable, before, number))

    def _lookup(
        self, packet: PacketState, spec: ir.Table, table: Table, values: tuple[int, ...]
    ) -> tuple[Row | None, ir.ActionCall | TableEntry | None]:
        row, call = super()._lookup(packet, spec, table, values)
        keys = {
            key.name: self._plain(key.expression.type, value, key.type_name)
            for key, value in zip(spec.keys, values, strict=True)
        }
        entry = None if row is None else self._entry(spec, row.entry)
        near = () if row else tuple(self._near_miss(spec, *found) for found in table.nearest(values, NEAREST))
        action = "" if call is None else call.action
        parameters = {} if call is None else self._action_data(action, call.parameters)
        absent = tuple(key.name for key in spec.keys if self._is_absent(packet, key.expression))
        _note(packet, TableApplied(spec.name, keys, entry, action, parameters, near, absent))
        return row, call

    def _is_absent(self, packet: PacketState, key: ir.Expression) -> bool:
        """Return whether a key is 0 instead of a field, whose header is not valid."""
        while isinstance(key, ir.Slice | ir.Binary):  # bits of it, or a mask over it
            key = key.base if isinstance(key, ir.Slice) else key.left
        match key:
            case ir.Conditional(ir.IsValid(header) as condition) if not any(nodes_of(header, *_CALLS)):
                return not self._value(packet, condition)
        return False

    def _entry(self, spec: ir.Table, entry: TableEntry) -> EntryText:
        matches = {
            key.name: self._match_text(key, match)
            for key, match in zip(spec.keys, entry.matches, strict=True)
        }
        choice = ""
        if isinstance(entry.choice, Member | Group):
            choice = f"{type(entry.choice).__name__.lower()} {entry.choice.id}"
        elif entry.choice is not None:
            choice = f"set of {len(entry.choice.actions)} actions"
        parameters = self._action_data(entry.action, entry.parameters)
        return EntryText(matches, entry.priority, choice, entry.action, parameters)

    def _near_miss(self, spec: ir.Table, entry: TableEntry, missed: tuple[int, ...]) -> NearMiss:
        return NearMiss(self._entry(spec, entry), tuple(spec.keys[place].name for place in missed))

    def _action_data(self, action: str, parameters: Sequence[int]) -> dict[str, Any]:
        if not action:
            return {}
        given = [item for item in self._actions[action].parameters if item.direction is ir.Direction.NONE]
        return {
            item.name: self._plain(item.type, value, item.type_name)
            for item, value in zip(given, parameters, strict=True)
        }

    def _run_called(self, packet: PacketState, called: ir.Action | ir.Function) -> None:
        kind = "action"
        if isinstance(called, ir.Function):
            kind = "control" if called.is_control else "function"
        parameters = {
            item.name: self._plain(item.type, packet.places[item.variable], item.type_name)
            for item in called.parameters
        }
        _note(packet, Called(kind, called.name, parameters))
        super()._run_called(packet, called)

    def _run_extern(self, call: ExternCall, name: str, function: ExternFunction) -> Value:
        takes = function.signature(len(call.arguments)) or ()
        arguments = tuple(
            None if argument.direction is ir.Direction.OUT else self._plain(kind, value)
            for argument, kind, value in zip(takes, call.types, call.arguments, strict=True)
        )
        declared = name.partition(".")[0]  # what the IR puts behind it says which types
        subject = f"{call.instance.name}.{declared}" if call.instance else declared
        value = None
        try:
            value = super()._run_extern(call, name, function)
        finally:
            _note(call.packet, ExternCalled(subject, arguments, value, call.note))
        return value

    def _traced_set_valid(self, packet: PacketState, node: ir.SetValid) -> None:
        place = self._located(packet, node.header)
        old = self._value(packet, place).valid
        self._set_valid(packet, ir.SetValid(place, node.valid))
        _note(packet, ValidityChanged(expression_text(place), old, node.valid))

    def _move_stack(self, packet: PacketState, node: ir.MoveStack) -> None:
        super()._move_stack(packet, node)
        _note(packet, StackMoved(expression_text(node.stack), node.count, node.front))

    def _exit(self, packet: PacketState, node: ir.Exit) -> NoReturn:
        _note(packet, Exited())
        super()._exit(packet, node)

    def _note_emitted(self, packet: PacketState, node: ir.Emit, value: Value) -> None:
        for name, kind, header in self._valid_headers(expression_text(node.value), node.value.type, value):
            _note(packet, HeaderEmitted(name, self._plain(kind, header)))

    def _valid_headers(
        self, name: str, kind: ir.Type, value: Value
    ) -> Iterator[tuple[str, ir.Type, HeaderValue]]:
        if isinstance(value, HeaderValue):
            if value.valid:
                yield name, kind, value
        elif isinstance(value, StackValue):
            assert isinstance(kind, ir.Stack)
            for index, element in enumerate(value.elements):
                yield from self._valid_headers(f"{name}[{index}]", ir.Named(kind.element), element)
        else:
            for part, held in self._parts_of(kind, value):
                yield from self._valid_headers(part_text(name, part.name), part.type, held)

    # Places

    def _store(self, packet: PacketState, target: ir.Expression, value: Value) -> None:
        if isinstance(target, ir.Slice):  # stores the whole of its base
            super()._store(packet, target, value)
            return
        place = self._located(packet, target)
        type_name = self._type_name(place)
        old = self._plain(place.type, copied(self._value(packet, place)), type_name)
        super()._store(packet, place, value)
        for event in _changes(expression_text(place), old, self._plain(place.type, value, type_name)):
            _note(packet, event)

    # Values

    def _text(self, node: ir.Expression) -> str:
        return expression_text(node, self._names)

    def _member_name(self, place: ir.Expression, number: int) -> str:
        kind = self._type_name(place)
        member = self._members.get((kind, number)) if kind else None
        return "" if member is None else f"{kind}.{member.name}"

    def _match_text(self, key: ir.Key, match: Match) -> str:
        """Return a match; one value of an error, bool or enum without a type is told by its name."""
        if isinstance(match, Exact):
            match self._plain(key.expression.type, match.value, key.type_name):
                case bool() as truth:
                    return str(truth).lower()
                case str() as error:
                    return error
                case EnumNumber(serializable=False, name=name):
                    return name
        return matches_text((match,))

    def _plain(self, kind: ir.Type, value: Value, type_name: str = "") -> Any:  # noqa: ANN401
        """Return a value as events hold it; `type_name` is that of an enum that it may have."""
        if isinstance(value, Varbits):
            return f"{value.length_bits}w{value.number:#x}" if isinstance(kind, ir.Varbit) else None
        if isinstance(kind, ir.Bool):
            return bool(value)
        if isinstance(kind, ir.ErrorCode):
            return self.errors[value] if value < len(self.errors) else value
        if isinstance(value, HeaderValue) and not value.valid:
            return None
        if isinstance(value, StackValue):
            assert isinstance(kind, ir.Stack)
            return [self._plain(ir.Named(kind.element), element) for element in value.elements]
        if isinstance(value, HeaderValue | UnionValue | dict):
            parts = {
                part.name: self._plain(part.type, held, part.type_name)
                for part, held in self._parts_of(kind, value)
            }
            return [*parts.values()] if "0" in parts else parts  # of an array
        return self._members.get((type_name, value), value) if type_name else value

    def _type_name(self, place: ir.Expression) -> str:
        """Return the name of the enum that a field holds, "" for none and for what is no field."""
        if not isinstance(place, ir.Member | ir.Element) or not isinstance(place.base.type, ir.Named):
            return ""
        if place.base.type.name in self._layouts.unions:
            return ""
        parts = self._layouts.fields(place.base.type)
        if isinstance(place, ir.Element):
            return parts[0].type_name
        return next((part.type_name for part in parts if part.name == place.field), "")

    def _parts_of(self, kind: ir.Type, value: Value) -> list[tuple[ir.Field, Value]]:
        assert isinstance(kind, ir.Named)
        if isinstance(value, UnionValue):
            return [(part, value.headers[part.name]) for part in self._layouts.unions[kind.name].fields]
        held = value.fields if isinstance(value, HeaderValue) else value
        return [(part, held[part.name]) for part in self._layouts.fields(kind)]


def _note(packet: PacketState, event: Event) -> None:
    if packet.trace is not None:
        packet.trace.append(event)


def _changes(place: str, old: Any, new: Any) -> Iterator[Assigned]:  # noqa: ANN401
    """Return what an assignment was: of a number always, of a composite value where it changes something."""
    if isinstance(old, dict) and isinstance(new, dict):
        for name, part in new.items():
            if part != old[name]:
                yield from _changes(f"{place}.{name}", old[name], part)
    elif isinstance(old, list) and isinstance(new, list):
        for index, (before, after) in enumerate(zip(old, new, strict=True)):
            if before != after:
                yield from _changes(f"{place}[{index}]", before, after)
    elif not (old is None and new is None):
        yield Assigned(place, old, new)
