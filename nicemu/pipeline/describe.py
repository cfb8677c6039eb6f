# SPDX-License-Identifier: Apache-2.0
"""From a program's IR to its P4Info.

Source: P4Runtime Specification 1.4, "P4Info Objects"; names and ids as p4lang/p4c gives them: a digest has
the name of its struct, a controller's header that of its annotation and the id of its type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from . import ir
from .architectures import ARCHITECTURES
from .ir_walk import nodes_of
from .matches import width_of
from .meters import METER_TYPES
from .p4info import (
    ActionCallInfo,
    ActionInfo,
    ActionRefInfo,
    ArgumentInfo,
    CounterInfo,
    DigestInfo,
    DirectCounterInfo,
    DirectMeterInfo,
    KeyInfo,
    MeterInfo,
    P4Info,
    PacketMetadataInfo,
    ParameterInfo,
    ProfileInfo,
    RegisterInfo,
    TableInfo,
    ValueSetInfo,
)
from .p4info_ids import Prefix, aliases_of, allocate_ids, numbers_of
from .selector_limits import NO_LIMITS, limits_of
from .v1model import digest_name

_COUNTER_UNITS = ("packets", "bytes", "both")
_METER_UNITS = ("packets", "bytes")
_PROFILES = ("action_profile", "action_selector")


def p4info_of(program: ir.Program, *, with_hidden: bool = False) -> P4Info:
    """Return the P4Info of a program; equal programs give equal ids. Tables that are @hidden, with what is
    theirs alone, are left out but `with_hidden`.
    """
    return _Description(program, with_hidden).p4info()


class _Description:
    def __init__(self, program: ir.Program, with_hidden: bool) -> None:
        self._program = program
        self._instances: dict[str, list[ir.ExternInstance]] = {}
        for instance in sorted(program.externs, key=lambda item: item.name):
            self._instances.setdefault(instance.extern, []).append(instance)
        self._tables = sorted(
            (item for item in program.tables if with_hidden or not _is_hidden(item)),
            key=lambda item: item.name,
        )
        named = {ref.action for table in self._tables for ref in table.actions}
        self._actions = sorted(
            (item for item in program.actions if item.name in named or not _is_hidden(item)),
            key=lambda item: item.name,
        )
        self._digests = dict(sorted({digest_name(kind): kind for kind in _digested(program)}.items()))
        self._controllers = {header.name: header for header in program.headers if header.controller}
        self._new_types = {item.name: item for item in program.new_types}
        self._enums = {item.name: item for item in program.enums}
        self._listed: set[str] = set()
        """The enums that something of the description has."""
        chosen = {item.name: item.id for item in program.externs}
        own_counters = ARCHITECTURES[program.architecture].counts_every_table
        self._counters = {item.name: item.counter or item.name * own_counters for item in self._tables}
        self._meters = {item.meter: item.name for item in self._tables if item.meter}
        wanted = {
            Prefix.ACTION: {item.name: item.id for item in self._actions},
            Prefix.TABLE: {item.name: item.id for item in self._tables},
            Prefix.CONTROLLER_HEADER: dict.fromkeys(self._controllers, 0),
            Prefix.DIRECT_COUNTER: {name: chosen.get(name, 0) for name in self._counters.values() if name},
            Prefix.DIGEST: dict.fromkeys(self._digests, 0),
            Prefix.VALUE_SET: {item.name: item.id for item in program.value_sets},
        }
        for prefix, kinds in (
            (Prefix.ACTION_PROFILE, _PROFILES),
            (Prefix.COUNTER, ("counter",)),
            (Prefix.METER, ("meter",)),
            (Prefix.REGISTER, ("register",)),
        ):
            wanted[prefix] = {item.name: item.id for item in self._of(*kinds)}
        wanted[Prefix.DIRECT_METER] = {name: chosen[name] for name in self._meters}
        self._ids = {prefix: allocate_ids(prefix, names) for prefix, names in wanted.items()}
        self._aliases = aliases_of(name for names in wanted.values() for name in names)

    def p4info(self) -> P4Info:
        registers = tuple(
            RegisterInfo(
                *self._named(Prefix.REGISTER, item.name),
                item.number(0),
                *self._data_type(item.types[0], item.type_names[0] if item.type_names else ""),
                self._index_type_name(item, 1),
            )
            for item in self._of("register")
        )
        digests = tuple(
            DigestInfo(*self._named(Prefix.DIGEST, name), kind) for name, kind in self._digests.items()
        )
        layouts = self._layouts([*(item.type for item in registers), *(item.type for item in digests)])
        described = P4Info(
            self._program.name,
            self._program.architecture,
            tuple(map(self._table, self._tables)),
            tuple(
                ActionInfo(*self._named(Prefix.ACTION, action.name), self._parameters_of(action))
                for action in self._actions
            ),
            tuple(map(self._profile, self._of(*_PROFILES))),
            tuple(
                CounterInfo(
                    *self._named(Prefix.COUNTER, item.name),
                    _COUNTER_UNITS[item.number(1)],
                    item.number(0),
                    self._index_type_name(item, 0),
                )
                for item in self._of("counter")
            ),
            tuple(self._direct_counters()),
            tuple(
                MeterInfo(
                    *self._named(Prefix.METER, item.name),
                    _METER_UNITS[item.number(1)],
                    item.number(0),
                    self._index_type_name(item, 0),
                    type=_meter_type_of(item),
                )
                for item in self._of("meter")
            ),
            tuple(self._direct_meters()),
            registers,
            digests,
            tuple(map(self._value_set, sorted(self._program.value_sets, key=lambda item: item.name))),
            tuple(map(self._packet_metadata, self._controllers.values())),
            layouts,
        )
        named = _type_names_of(described)
        program = self._program
        externs = {item.name: item.annotations for item in program.externs}
        of_extern = ("profiles", "counters", "direct_counters", "meters", "direct_meters", "registers")
        noted = {
            "tables": {item.name: item.annotations for item in program.tables},
            "actions": {item.name: item.annotations for item in program.actions},
            "value_sets": {item.name: item.annotations for item in program.value_sets},
            **dict.fromkeys(of_extern, externs),
        }
        notes: dict[str, Any] = {
            group: tuple(
                replace(item, annotations=known[item.name]) if known.get(item.name) else item
                for item in getattr(described, group)
            )
            for group, known in noted.items()
        }
        kinds = [*(item.type for item in registers), *(item.type for item in digests)]
        kinds += [part.type for layout in layouts for part in layout.fields]
        return replace(
            described,
            new_types=tuple(self._new_types[name] for name in named),
            enums=tuple(self._enums[name] for name in sorted(self._listed)),
            errors=program.errors if ir.ERROR in kinds else (),
            annotations=program.annotations,
            package=program.package,
            **notes,
        )

    def _typed(self, type_name: str) -> tuple[str, int | None]:
        """Return a new type's name with the bits that controllers see, None where it is not translated."""
        new = self._new_types.get(type_name)
        if new is None:
            self._data_type(ir.BOOL, type_name)
            return "", None
        return type_name, new.controller_bits if new.translated else None

    def _data_type(self, kind: ir.Type, type_name: str) -> tuple[ir.Type, str]:
        """Return what a type is among data, and the name of a new type: an enum is a type by its name."""
        if type_name not in self._enums:
            return kind, type_name
        self._listed.add(type_name)
        return ir.Named(type_name), ""

    def _index_type_name(self, instance: ir.ExternInstance, place: int) -> str:
        """Return the new type of an array's index, which newer declarations have behind the values'."""
        names = instance.type_names[place : place + 1]
        return names[0] if names and names[0] in self._new_types else ""

    def _parameters_of(self, action: ir.Action) -> tuple[ParameterInfo, ...]:
        data = [item for item in action.parameters if item.direction is ir.Direction.NONE]
        return tuple(
            ParameterInfo(
                item.name,
                number,
                width_of(item.type),
                *self._typed(item.type_name),
                annotations=item.annotations,
                type=item.type,
            )
            for item, number in zip(data, numbers_of([item.id for item in data]), strict=True)
        )

    def _of(self, *externs: str) -> list[ir.ExternInstance]:
        found = [item for extern in externs for item in self._instances.get(extern, ())]
        return sorted(found, key=lambda item: item.name)

    def _named(self, prefix: Prefix, name: str) -> tuple[str, str, int]:
        return name, self._aliases[name], self._ids[prefix][name]

    def _table(self, table: ir.Table) -> TableInfo:
        actions = self._ids[Prefix.ACTION]
        owned = ((Prefix.DIRECT_COUNTER, self._counters[table.name]), (Prefix.DIRECT_METER, table.meter))
        return TableInfo(
            *self._named(Prefix.TABLE, table.name),
            table.size,
            tuple(
                KeyInfo(
                    key.name,
                    number,
                    width_of(key.expression.type),
                    key.match_kind.value,
                    *self._typed(key.type_name),
                    annotations=key.annotations,
                    type=key.expression.type,
                )
                for key, number in zip(table.keys, numbers_of([key.id for key in table.keys]), strict=True)
            ),
            tuple(
                ActionRefInfo(ref.action, actions[ref.action], _scope_of(ref), annotations=ref.annotations)
                for ref in table.actions
            ),
            table.const_entries,
            actions[table.default_action.action] if table.const_default else 0,
            self._ids[Prefix.ACTION_PROFILE].get(table.profile, 0),
            tuple(self._ids[prefix][name] for prefix, name in owned if name),
            table.idle_timeout,
            bool(table.entries),
            initial_default=self._initial_default(table.default_action),
        )

    def _initial_default(self, call: ir.ActionCall) -> ActionCallInfo | None:
        """Return what a table's misses run at first; None for what controllers are not shown."""
        if call.action not in self._ids[Prefix.ACTION]:
            return None
        (action,) = (item for item in self._actions if item.name == call.action)
        values = zip(self._parameters_of(action), call.parameters, strict=True)
        given = (ArgumentInfo(param.id, value) for param, value in values)
        return ActionCallInfo(self._ids[Prefix.ACTION][call.action], tuple(given))

    def _profile(self, instance: ir.ExternInstance) -> ProfileInfo:
        with_selector = instance.extern == "action_selector"
        tables = self._ids[Prefix.TABLE]
        return ProfileInfo(
            *self._named(Prefix.ACTION_PROFILE, instance.name),
            tuple(tables[table.name] for table in self._tables if table.profile == instance.name),
            with_selector,
            instance.number(1 if with_selector else 0),
            limits_of(instance.annotations) if with_selector else NO_LIMITS,
        )

    def _direct_counters(self) -> Iterator[DirectCounterInfo]:
        units = {item.name: _COUNTER_UNITS[item.number(0)] for item in self._of("direct_counter")}
        owners = {name: table for table, name in self._counters.items() if name}
        for name in sorted(owners):
            table_id = self._ids[Prefix.TABLE][owners[name]]
            named = self._named(Prefix.DIRECT_COUNTER, name)
            yield DirectCounterInfo(*named, units.get(name, "both"), table_id)

    def _direct_meters(self) -> Iterator[DirectMeterInfo]:
        for item in self._of("direct_meter"):
            if item.name not in self._meters:
                continue
            table_id = self._ids[Prefix.TABLE][self._meters[item.name]]
            unit = _METER_UNITS[item.number(0)]
            named = self._named(Prefix.DIRECT_METER, item.name)
            yield DirectMeterInfo(*named, unit, table_id, type=_meter_type_of(item))

    def _value_set(self, value_set: ir.ValueSet) -> ValueSetInfo:
        numbers = numbers_of([part.id for part in value_set.fields])
        return ValueSetInfo(
            *self._named(Prefix.VALUE_SET, value_set.name),
            tuple(
                KeyInfo(
                    part.name,
                    number,
                    width_of(part.type),
                    part.match_kind.value,
                    *self._typed(part.type_name),
                    annotations=part.annotations,
                    type=part.type,
                )
                for part, number in zip(value_set.fields, numbers, strict=True)
            ),
            value_set.size,
        )

    def _packet_metadata(self, header: ir.HeaderType) -> PacketMetadataInfo:
        numbers = numbers_of([part.id for part in header.fields])
        return PacketMetadataInfo(
            header.controller,
            header.controller,
            self._ids[Prefix.CONTROLLER_HEADER][header.name],
            tuple(
                ParameterInfo(
                    part.shown_name or part.name,
                    number,
                    width_of(part.type),
                    *self._typed(part.type_name),
                    annotations=part.annotations,
                    type=part.type,
                )
                for part, number in zip(header.fields, numbers, strict=True)
            ),
            annotations=header.annotations,
        )

    def _layouts(self, kinds: list[ir.Type]) -> tuple[ir.Layout, ...]:
        """Return the types that are named, and those that these name, by name."""
        program = self._program
        layouts: tuple[ir.Layout, ...] = (*program.headers, *program.unions, *program.structs)
        known = {item.name: item for item in layouts}
        pending, done = list(kinds), set[str]()
        while pending:
            kind = pending.pop(0)
            name = kind.element if isinstance(kind, ir.Stack) else getattr(kind, "name", "")
            if name in known and name not in done:
                done.add(name)
                pending.extend(part.type for part in known[name].fields)
        return tuple(self._data_layout(known[name]) for name in sorted(done))

    def _data_layout(self, layout: ir.Layout) -> ir.Layout:
        """Return a layout as its data have it, its fields as controllers know them; headers are bits."""
        is_struct = isinstance(layout, ir.StructType)
        kinds = (
            self._data_type(part.type, part.type_name)
            if is_struct
            else (part.type, part.type_name if part.type_name in self._new_types else "")
            for part in layout.fields
        )
        named = zip(layout.fields, kinds, strict=True)
        return replace(
            layout, fields=tuple(ir.Field(part.shown_name or part.name, *kind) for part, kind in named)
        )


def _meter_type_of(instance: ir.ExternInstance) -> str:
    said = [item.name for item in instance.annotations]
    return next((name for name in METER_TYPES if name in said), METER_TYPES[0])


def _is_hidden(item: ir.Table | ir.Action) -> bool:
    return any(note.name == "hidden" for note in item.annotations)


def _digested(program: ir.Program) -> Iterator[ir.Type]:
    """Yield the types of the data of digests, anywhere in the program."""
    bodies = (program.parser, program.controls, program.actions, program.functions)
    for call in nodes_of(bodies, ir.CallFunction):
        if call.function == "digest":
            yield call.arguments[1].type


def _type_names_of(p4info: P4Info) -> list[str]:
    """Return the names of the new types that something of a description has, sorted."""
    typed: list[KeyInfo | ParameterInfo | ir.Field | RegisterInfo] = [*p4info.registers]
    for table in p4info.tables:
        typed += table.keys
    for value_set in p4info.value_sets:
        typed += value_set.keys
    for action in p4info.actions:
        typed += action.params
    for header in p4info.packet_metadata:
        typed += header.metadata
    for layout in p4info.types:
        typed += layout.fields
    names = {item.type_name for item in typed}
    names |= {item.index_type_name for item in p4info.registers}
    names |= {item.index_type_name for item in p4info.counters}
    names |= {item.index_type_name for item in p4info.meters}
    return sorted(names - {""})


def _scope_of(ref: ir.ActionRef) -> str:
    return "default_only" if ref.default_only else "table_only" if ref.table_only else "both"
