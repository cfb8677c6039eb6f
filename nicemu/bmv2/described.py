# SPDX-License-Identifier: Apache-2.0
"""What P4Info says of a program and its BMv2 JSON does not.

Ids that @id chose, `optional` keys, @defaultonly, @tableonly and @hidden, the headers of packets to and
from a controller, types that are translated, and how large value sets are: all this stands in the P4Info that
p4c writes beside the JSON.
Source: P4Runtime Specification 1.4, "P4Info Objects".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Set
from dataclasses import replace
from typing import TypeVar

from nicemu.pipeline import (
    PREFIXES,
    ActionInfo,
    KeyInfo,
    P4Info,
    P4InfoObject,
    PacketMetadataInfo,
    ParameterInfo,
    Prefix,
    TableInfo,
    ValueSetInfo,
    allocate_ids,
    ir,
    p4info_of,
)

_CHOSEN = (1 << 24) - 1
_HASHED = (1 << 16) - 1
"""Bits of an id that @id can choose, and those that p4c has always made of a name."""

_Item = TypeVar("_Item", bound=P4InfoObject)
_Hideable = TypeVar("_Hideable", ir.Table, ir.Action)
_Typed = KeyInfo | ParameterInfo


def as_described(program: ir.Program, p4info: P4Info) -> ir.Program:
    """Return a program with what `p4info` says of it beyond what its file does.

    What is not of this program changes nothing, so that who compares both finds it.
    """
    types = _Types(p4info)
    tables, actions, sets = _named(p4info.tables), _named(p4info.actions), _named(p4info.value_sets)
    described = replace(
        program,
        tables=tuple(_table(item, tables.get(item.name), types) for item in program.tables),
        actions=tuple(_action(item, actions.get(item.name), types) for item in program.actions),
        externs=tuple(_extern(item, p4info) for item in program.externs),
        value_sets=tuple(_value_set(item, sets.get(item.name)) for item in program.value_sets),
        headers=_headers(program.headers, p4info.packet_metadata, types),
    )
    described = _with_called(replace(described, new_types=types.used), p4info)
    described = _with_hidden(described, tables.keys(), actions.keys())
    return program if p4info_of(described) == p4info_of(program) else described


class _Types:
    """The translated types of a P4Info. That says what controllers see, and the program what packets do."""

    def __init__(self, p4info: P4Info) -> None:
        self._given = {item.name: item for item in p4info.new_types if item.translated}
        self._used: dict[str, ir.NewType] = {}

    @property
    def used(self) -> tuple[ir.NewType, ...]:
        """Those that something of the program has."""
        return tuple(self._used[name] for name in sorted(self._used))

    def name_for(self, given: _Typed, kind: ir.Type) -> str:
        """Return the name of the type of something that is a `kind` in packets, "" for none."""
        new = self._given.get(given.type_name)
        if new is None or not isinstance(kind, ir.Bits) or kind.signed:
            return ""
        known = self._used.setdefault(new.name, replace(new, type=kind))
        return known.name if known.type == kind else ""


def _with_called(program: ir.Program, p4info: P4Info) -> ir.Program:
    """Return a program with the actions that no table has: what a control's body calls by a name without
    a dot looks in the file as what p4c made up, and has become statements.
    """
    known = {item.name for item in program.actions}
    known |= {ref.name for table in p4info.tables for ref in table.actions}
    added: list[ir.Action] = []
    variables: list[ir.Variable] = []
    for info in p4info.actions:
        if info.name in known or "." in info.name:
            continue
        if any(not 0 <= item.width <= ir.MAX_WIDTH_BITS for item in info.params):  # it comes from the wire
            continue
        places = [
            ir.Variable(f"{info.name}.{item.name}", ir.Bits(max(item.width, 1))) for item in info.params
        ]
        pairs = zip(info.params, places, strict=True)
        data = (ir.Parameter(item.name, place.name, place.type, id=item.id) for item, place in pairs)
        variables += places
        added.append(ir.Action(info.name, tuple(data), (), id=_number(Prefix.ACTION, info)))
    if len({item.name for item in (*program.variables, *variables)}) < len(program.variables) + len(
        variables
    ):
        return program
    return replace(program, actions=(*program.actions, *added), variables=(*program.variables, *variables))


def _with_hidden(program: ir.Program, tables: Set[str], actions: Set[str]) -> ir.Program:
    """Return a program whose tables and actions are @hidden that a P4Info of it, which has those of these
    names, leaves out.
    """
    if not tables | actions or not tables <= {item.name for item in program.tables}:
        return program
    return replace(
        program,
        tables=tuple(item if item.name in tables else _hidden(item) for item in program.tables),
        actions=tuple(item if item.name in actions else _hidden(item) for item in program.actions),
    )


def _hidden(item: _Hideable) -> _Hideable:
    return replace(item, annotations=(*item.annotations, ir.Annotation("hidden")))


def _table(table: ir.Table, given: TableInfo | None, types: _Types) -> ir.Table:
    if given is None:
        return table
    scopes = {ref.name: ref.scope for ref in given.actions}
    keys, columns = (
        list(table.keys),
        [[entry.keysets[place] for entry in table.entries] for place in range(len(table.keys))],
    )
    if len(given.keys) == len(keys):
        for place, info in enumerate(given.keys):
            key, columns[place] = _sliced(keys[place], info, columns[place])
            keys[place] = _key(key, info, columns[place], types)
    return replace(
        table,
        id=_number(Prefix.TABLE, given),
        keys=tuple(keys),
        entries=tuple(
            replace(entry, keysets=tuple(column[row] for column in columns))
            for row, entry in enumerate(table.entries)
        ),
        actions=tuple(
            replace(
                ref,
                default_only=scopes.get(ref.action, "") == "default_only" or ref.default_only,
                table_only=scopes.get(ref.action) == "table_only",
            )
            for ref in table.actions
        ),
    )


def _sliced(key: ir.Key, given: KeyInfo, entries: list[ir.Keyset]) -> tuple[ir.Key, list[ir.Keyset]]:
    """Return a key as the slice that it is in the program. In the file, a slice is its field with a mask, as
    a masked field is; only the bits that controllers give tell them apart. Entries have the slice's values.
    """
    whole = key.expression
    if not isinstance(whole, ir.Binary) or whole.op != "&" or not isinstance(whole.right, ir.Constant):
        return key, entries
    if not 0 < given.width <= ir.MAX_WIDTH_BITS:  # it comes from the wire
        return key, entries
    mask, low = whole.right.value, (whole.right.value & -whole.right.value).bit_length() - 1
    ones = (1 << given.width) - 1
    found = [_narrowed(item, whole.right.type, ones) for item in entries]
    kept = [item for item in found if item is not None]
    if not mask or mask != ones << low or len(kept) < len(found):
        return key, entries
    kind = ir.Bits(given.width)
    return replace(key, expression=ir.Slice(whole.left, low + given.width - 1, low, kind)), kept


def _narrowed(item: ir.Keyset, kind: ir.Type, ones: int) -> ir.Keyset | None:
    """Return what an entry's match is for a slice with these `ones`, None if it has bits outside them."""
    match item:
        case ir.KeyMask(value, mask) if not value & ~ones:
            if isinstance(kind, ir.Bits) and mask == (1 << kind.width) - 1:
                return ir.KeyMask(value, ones)
            return None if mask & ~ones else item
        case ir.KeyRange() if item.high <= ones:
            return item
        case ir.KeyAny():
            return item
    return None


def _key(key: ir.Key, given: KeyInfo, entries: Iterable[ir.Keyset], types: _Types) -> ir.Key:
    kind, compared = key.match_kind, key.expression.type
    if kind is ir.MatchKind.TERNARY and given.match_kind == ir.MatchKind.OPTIONAL.value:
        ones = (1 << compared.width) - 1 if isinstance(compared, ir.Bits) else 1
        if all(isinstance(item, ir.KeyAny) or getattr(item, "mask", None) == ones for item in entries):
            kind = ir.MatchKind.OPTIONAL
    return replace(key, id=given.id, match_kind=kind, type_name=types.name_for(given, compared))


def _action(action: ir.Action, given: ActionInfo | None, types: _Types) -> ir.Action:
    if given is None:
        return action
    data = [item for item in action.parameters if item.direction is ir.Direction.NONE]
    parameters = action.parameters
    if len(given.params) == len(data):
        infos = {item.name: info for item, info in zip(data, given.params, strict=True)}
        parameters = tuple(
            replace(item, id=infos[item.name].id, type_name=types.name_for(infos[item.name], item.type))
            if item.direction is ir.Direction.NONE
            else item
            for item in parameters
        )
    return replace(action, id=_number(Prefix.ACTION, given), parameters=parameters)


def _extern(instance: ir.ExternInstance, p4info: P4Info) -> ir.ExternInstance:
    prefix = PREFIXES[instance.extern]
    groups: dict[Prefix, Sequence[P4InfoObject]] = {
        Prefix.ACTION_PROFILE: p4info.profiles,
        Prefix.COUNTER: p4info.counters,
        Prefix.DIRECT_COUNTER: p4info.direct_counters,
        Prefix.METER: p4info.meters,
        Prefix.DIRECT_METER: p4info.direct_meters,
        Prefix.REGISTER: p4info.registers,
    }
    given = _named(groups[prefix]).get(instance.name)
    return instance if given is None else replace(instance, id=_number(prefix, given))


def _value_set(value_set: ir.ValueSet, given: ValueSetInfo | None) -> ir.ValueSet:
    if given is None or len(given.keys) != len(value_set.fields):
        return value_set
    fields = tuple(
        replace(part, name=info.name or part.name, id=info.id)
        for part, info in zip(value_set.fields, given.keys, strict=True)
    )
    size = given.size or value_set.size
    return replace(value_set, id=_number(Prefix.VALUE_SET, given), fields=fields, size=size)


def _headers(
    headers: tuple[ir.HeaderType, ...], given: Iterable[PacketMetadataInfo], types: _Types
) -> tuple[ir.HeaderType, ...]:
    """Mark the headers of packets to and from a controller. Of several with the fields that P4Info has, it
    is the one of whose name the id is made.
    """
    ids = allocate_ids(Prefix.CONTROLLER_HEADER, {item.name: 0 for item in headers})
    marked = {item.name: item for item in headers}
    for info in given:
        fitting = [item for item in headers if _fits(item, info) and not marked[item.name].controller]
        found = [item for item in fitting if (ids[item.name] ^ info.id) & _HASHED == 0] or fitting[:1]
        if info.name in ir.CONTROLLER_HEADERS and found:
            pairs = zip(found[0].fields, info.metadata, strict=True)
            fields = tuple(
                replace(part, id=item.id, type_name=types.name_for(item, part.type) or part.type_name)
                for part, item in pairs
            )
            marked[found[0].name] = replace(found[0], controller=info.name, fields=fields)
    return tuple(marked[item.name] for item in headers)


def _fits(header: ir.HeaderType, info: PacketMetadataInfo) -> bool:
    """Whether a header has the fields of P4Info, which leaves open how wide translated ones are."""
    widths = {part.name: getattr(part.type, "width", 0) for part in header.fields}
    names = [part.name for part in info.metadata]
    plain = [part for part in info.metadata if part.controller_bits is None]
    return list(widths) == names and all(widths[part.name] == part.width for part in plain)


def _named(items: Iterable[_Item]) -> dict[str, _Item]:
    return {item.name: item for item in items}


def _number(prefix: Prefix, given: P4InfoObject) -> int:
    """Return the bits of an id that a program chooses, 0 where the rest is not that of its kind."""
    number = given.id & _CHOSEN
    return number if given.id - number == prefix << 24 else 0
