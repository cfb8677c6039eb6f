# SPDX-License-Identifier: Apache-2.0
"""P4Info as P4Runtime's message, to and from the pipeline's own description.

Source: P4Runtime Specification 1.4, "The P4Info Message"; p4info.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeAlias

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import (
    METER_TYPES,
    PACKAGE_FACTS,
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
    P4InfoObject,
    PacketMetadataInfo,
    ParameterInfo,
    ProfileInfo,
    RegisterInfo,
    SelectorLimits,
    TableInfo,
    ValueSetInfo,
    ir,
)

from .annotation_message import annotations_of, fill_annotations
from .byte_string import encode_bytes
from .messages import Message, messages, serialize
from .type_message import (
    enums_of_message,
    fill_new_types,
    fill_type,
    fill_type_info,
    layouts_of_message,
    new_types_of_message,
    tuples_of_message,
    type_of_message,
    typed_of_message,
)
from .value_text import TEXT_BITS

_MATCH_TYPES = {"exact": 2, "lpm": 3, "ternary": 4, "range": 5, "optional": 6}
"""MatchField.MatchType."""
_MATCH_KINDS = {number: kind for kind, number in _MATCH_TYPES.items()}
_SCOPES = ("both", "table_only", "default_only")
"""ActionRef.Scope, by number."""
_SCOPE_MARKS = {"table_only": "@tableonly", "default_only": "@defaultonly"}
"""What gives an action its scope in a table."""
_UNITS = ("", "bytes", "packets", "both")
"""CounterSpec.Unit and MeterSpec.Unit, by number."""

_GROUPS = {
    **{
        name: name for name in ("tables", "actions", "counters", "direct_counters", "meters", "direct_meters")
    },
    **{"registers": "registers", "value_sets": "value_sets", "action_profiles": "profiles"},
    "controller_packet_metadata": "packet_metadata",
}
"""What has annotations: its place in the message, and in a P4Info."""

_Texts: TypeAlias = set[tuple[int, int]]
"""Parameters that controllers see as texts, by the ids of their actions and their own."""

_SCALAR = "f"
"""The pipeline's name for what a value set of plain numbers holds; in P4Info it has none."""


def config_message(program_json: str, p4info: P4Info) -> bytes:
    """Return the serialized ForwardingPipelineConfig of a program, its IR as JSON."""
    config = messages().ForwardingPipelineConfig(p4_device_config=program_json.encode())
    config.p4info.CopyFrom(info_message(p4info))
    return serialize(config)


def program_json_of(config: bytes) -> bytes:
    """Return what `config_message` was given: the IR as JSON."""
    return bytes(messages().ForwardingPipelineConfig.FromString(config).p4_device_config)


def info_message(p4info: P4Info) -> Message:
    """Return the P4Info message of a program's description."""
    message = messages().P4Info()
    message.pkg_info.name, message.pkg_info.arch = p4info.program, p4info.architecture
    for item in p4info.package:
        if item.name in PACKAGE_FACTS:
            setattr(message.pkg_info, item.name, item.body)
        else:
            setattr(message.pkg_info.platform_properties, item.name, int(item.body))
    fill_annotations(message.pkg_info, p4info.annotations)
    texts = {
        (action.id, param.id)
        for action in p4info.actions
        for param in action.params
        if param.controller_bits == 0
    }
    for table in p4info.tables:
        item = _added(message.tables, table)
        _fill_table(item, table)
        if table.initial_default is not None:
            _fill_call(item.initial_default_action, table.initial_default, texts)
    for action in p4info.actions:
        item = _added(message.actions, action)
        for param in action.params:
            _fill_typed(item.params.add(id=param.id, name=param.name), param)
    for profile in p4info.profiles:
        item = _added(message.action_profiles, profile)
        item.table_ids.extend(profile.table_ids)
        item.with_selector, item.size = profile.with_selector, profile.size
        item.max_group_size = profile.limits.max_group_size
        if profile.limits.by_members:
            item.sum_of_members.SetInParent()
            item.sum_of_members.max_member_weight = profile.limits.max_member_weight
        elif profile.with_selector:
            item.sum_of_weights.SetInParent()
    for counter in p4info.counters:
        item = _added(message.counters, counter)
        item.spec.unit, item.size = _UNITS.index(counter.unit), counter.size
        _fill_index(item, counter)
    for direct_counter in p4info.direct_counters:
        item = _added(message.direct_counters, direct_counter)
        item.spec.unit, item.direct_table_id = _UNITS.index(direct_counter.unit), direct_counter.table_id
    for meter in p4info.meters:
        item = _added(message.meters, meter)
        item.spec.unit, item.size = _UNITS.index(meter.unit), meter.size
        item.spec.type = METER_TYPES.index(meter.type)
        _fill_index(item, meter)
    for direct_meter in p4info.direct_meters:
        item = _added(message.direct_meters, direct_meter)
        item.spec.unit, item.direct_table_id = _UNITS.index(direct_meter.unit), direct_meter.table_id
        item.spec.type = METER_TYPES.index(direct_meter.type)
    layouts = (*p4info.types, *p4info.enums)
    for register in p4info.registers:
        item = _added(message.registers, register)
        item.size = register.size
        fill_type(item.type_spec, register.type, layouts, register.type_name)
        _fill_index(item, register)
    for digest in p4info.digests:
        fill_type(_added(message.digests, digest).type_spec, digest.type, layouts)
    for value_set in p4info.value_sets:
        item = _added(message.value_sets, value_set)
        item.size = value_set.size
        _fill_keys(item.match, value_set.keys)
        if [key.name for key in value_set.keys] == [_SCALAR]:
            item.match[0].ClearField("name")
    for header in p4info.packet_metadata:
        item = _added(message.controller_packet_metadata, header)
        for field in header.metadata:
            _fill_typed(item.metadata.add(id=field.id, name=field.name), field)
    fill_type_info(message.type_info, layouts, p4info.errors)
    fill_new_types(message.type_info, p4info.new_types)
    return message


def p4info_of_message(message: Message) -> P4Info:
    """Return the description that a P4Info message holds.

    Raises: ControlError(INVALID_ARGUMENT) for ids that occur twice or refer to nothing, and for kinds of
    match that the pipeline does not have.
    """
    actions = _names(message.actions, "action")
    _names(message.tables, "table")
    new_types = {new.name: new for new in new_types_of_message(message.type_info)}
    texts = {
        (item.preamble.id, param.id)
        for item in message.actions
        for param in item.params
        if not param.bitwidth and param.HasField("type_name")
    }
    described = P4Info(
        message.pkg_info.name,
        message.pkg_info.arch,
        tuple(_table_of(table, actions, new_types, texts) for table in message.tables),
        tuple(
            ActionInfo(
                *_preamble(item),
                tuple(
                    ParameterInfo(
                        param.name, param.id, *_typed(param, new_types), annotations=annotations_of(param)
                    )
                    for param in item.params
                ),
            )
            for item in message.actions
        ),
        tuple(
            ProfileInfo(
                *_preamble(item), tuple(item.table_ids), item.with_selector, item.size, _limits_of(item)
            )
            for item in message.action_profiles
        ),
        tuple(
            CounterInfo(*_preamble(item), _unit(item), item.size, item.index_type_name.name)
            for item in message.counters
        ),
        tuple(
            DirectCounterInfo(*_preamble(item), _unit(item), item.direct_table_id)
            for item in message.direct_counters
        ),
        tuple(
            MeterInfo(
                *_preamble(item), _unit(item), item.size, item.index_type_name.name, type=_meter_type(item)
            )
            for item in message.meters
        ),
        tuple(
            DirectMeterInfo(*_preamble(item), _unit(item), item.direct_table_id, type=_meter_type(item))
            for item in message.direct_meters
        ),
        tuple(
            RegisterInfo(
                *_preamble(item),
                item.size,
                *typed_of_message(item.type_spec, new_types),
                item.index_type_name.name,
            )
            for item in message.registers
        ),
        tuple(DigestInfo(*_preamble(item), type_of_message(item.type_spec)) for item in message.digests),
        tuple(
            ValueSetInfo(
                *_preamble(item),
                _keys_of(item.match, f"value set {item.preamble.name}", new_types, _SCALAR),
                item.size,
            )
            for item in message.value_sets
        ),
        tuple(
            PacketMetadataInfo(
                *_preamble(item),
                tuple(
                    ParameterInfo(
                        part.name, part.id, *_typed(part, new_types), annotations=annotations_of(part)
                    )
                    for part in item.metadata
                ),
            )
            for item in message.controller_packet_metadata
        ),
        _layouts_of(message),
        tuple(new_types.values()),
        enums_of_message(message.type_info),
        tuple(message.type_info.error.members),
    )
    notes: dict[str, Any] = {
        place: tuple(
            replace(item, annotations=annotations_of(given.preamble))
            for item, given in zip(getattr(described, place), getattr(message, group), strict=True)
        )
        for group, place in _GROUPS.items()
    }
    facts = [ir.Annotation(name, getattr(message.pkg_info, name)) for name in PACKAGE_FACTS[1:]]
    needs = message.pkg_info.platform_properties
    facts += (ir.Annotation(field.name, str(number)) for field, number in needs.ListFields())
    package = tuple(fact for fact in facts if fact.body)
    return replace(described, annotations=annotations_of(message.pkg_info), package=package, **notes)


def _fill_table(item: Message, table: TableInfo) -> None:
    item.size, item.is_const_table = table.size, table.const_entries
    item.has_initial_entries = table.initial_entries
    item.const_default_action_id = table.const_default_action_id
    item.implementation_id = table.implementation_id
    item.direct_resource_ids.extend(table.direct_resource_ids)
    item.idle_timeout_behavior = int(table.idle_timeout)
    _fill_keys(item.match_fields, table.keys)
    for ref in table.actions:
        added = item.action_refs.add(id=ref.id, scope=_SCOPES.index(ref.scope))
        if ref.scope in _SCOPE_MARKS:
            added.annotations.append(_SCOPE_MARKS[ref.scope])
        fill_annotations(added, ref.annotations)


def _fill_keys(fields: Message, keys: Iterable[KeyInfo]) -> None:
    for key in keys:
        field = fields.add(id=key.id, name=key.name, match_type=_MATCH_TYPES[key.match_kind])
        _fill_typed(field, key)


def _fill_typed(message: Message, typed: KeyInfo | ParameterInfo) -> None:
    """Set the width that the controller sees, the name of a new type, and annotations."""
    message.bitwidth = typed.given_width
    fill_annotations(message, typed.annotations)
    if typed.type_name:
        message.type_name.name = typed.type_name


def _fill_index(message: Message, array: CounterInfo | MeterInfo | RegisterInfo) -> None:
    if array.index_type_name:
        message.index_type_name.name = array.index_type_name


def _typed(message: Message, new_types: Mapping[str, ir.NewType]) -> tuple[int, str, int | None]:
    """Return the bits of a value, the name of its new type, and the bits of that where it is translated."""
    new = new_types.get(message.type_name.name)
    bits = new.controller_bits if new is not None and new.translated else None
    return TEXT_BITS if bits == 0 else message.bitwidth, message.type_name.name, bits


def _keys_of(
    fields: Iterable[Message], owner: str, new_types: Mapping[str, ir.NewType], unnamed: str = ""
) -> tuple[KeyInfo, ...]:
    found = []
    for field in fields:
        if field.match_type not in _MATCH_KINDS:
            kinds = ", ".join(f"{kind} ({number})" for kind, number in _MATCH_TYPES.items())
            kind = field.other_match_type or field.match_type
            raise _illegal(f"{owner}: key {field.name} has match type {kind}; the pipeline has {kinds}")
        width, type_name, bits = _typed(field, new_types)
        kind = _MATCH_KINDS[field.match_type]
        notes = annotations_of(field)
        found.append(
            KeyInfo(field.name or unnamed, field.id, width, kind, type_name, bits, annotations=notes)
        )
    return tuple(found)


def _table_of(
    table: Message, actions: dict[int, str], new_types: Mapping[str, ir.NewType], texts: _Texts
) -> TableInfo:
    name = table.preamble.name
    for ref in table.action_refs:
        if ref.id not in actions:
            raise _illegal(f"table {name} refers to an action of id {ref.id}, which p4info does not have")
    return TableInfo(
        *_preamble(table),
        table.size,
        _keys_of(table.match_fields, f"table {name}", new_types),
        tuple(_action_ref_of(ref, actions) for ref in table.action_refs),
        table.is_const_table,
        table.const_default_action_id,
        table.implementation_id,
        tuple(table.direct_resource_ids),
        bool(table.idle_timeout_behavior),
        table.has_initial_entries,
        initial_default=_call_of(table, texts) if table.HasField("initial_default_action") else None,
    )


def _fill_call(message: Message, call: ActionCallInfo, texts: _Texts) -> None:
    """Set a TableActionCall; what controllers see as `texts` are the digits of a number."""
    message.action_id = call.action_id
    for given in call.arguments:
        is_text = (call.action_id, given.id) in texts
        value = str(given.value).encode() if is_text else encode_bytes(given.value)
        message.arguments.add(param_id=given.id, value=value)


def _call_of(table: Message, texts: _Texts) -> ActionCallInfo:
    call = table.initial_default_action
    arguments = []
    for given in call.arguments:
        is_text = (call.action_id, given.param_id) in texts
        number = int(given.value) if is_text and given.value.isdigit() else int.from_bytes(given.value, "big")
        arguments.append(ArgumentInfo(given.param_id, number))
    return ActionCallInfo(call.action_id, tuple(arguments))


def _action_ref_of(ref: Message, actions: dict[int, str]) -> ActionRefInfo:
    scope = _SCOPES[ref.scope if 0 <= ref.scope < len(_SCOPES) else 0]
    notes = tuple(note for note in annotations_of(ref) if f"@{note.name}" not in _SCOPE_MARKS.values())
    return ActionRefInfo(actions[ref.id], ref.id, scope, annotations=notes)


def _layouts_of(message: Message) -> tuple[ir.Layout, ...]:
    """Return the layouts that registers and digests name, each once."""
    named = layouts_of_message(message.type_info)
    tuples = tuples_of_message(item.type_spec for item in (*message.registers, *message.digests))
    return (*named, *(made for made in tuples if made not in named))


def _limits_of(item: Message) -> SelectorLimits:
    by_members = item.HasField("sum_of_members")
    return SelectorLimits(item.max_group_size, by_members, item.sum_of_members.max_member_weight)


def _unit(item: Message) -> str:
    return _UNITS[item.spec.unit] if 0 <= item.spec.unit < len(_UNITS) else ""


def _meter_type(item: Message) -> str:
    return METER_TYPES[item.spec.type if 0 <= item.spec.type < len(METER_TYPES) else 0]


def _preamble(item: Message) -> tuple[str, str, int]:
    return item.preamble.name, item.preamble.alias, item.preamble.id


def _added(items: Message, described: P4InfoObject) -> Message:
    item = items.add()
    item.preamble.name, item.preamble.alias = described.name, described.alias
    item.preamble.id = described.id
    fill_annotations(item.preamble, described.annotations)
    return item


def _names(items: Iterable[Message], kind: str) -> dict[int, str]:
    seen: dict[int, str] = {}
    for item in items:
        if item.preamble.id in seen:
            raise _illegal(
                f"{kind} id {item.preamble.id} occurs twice: {seen[item.preamble.id]}, {item.preamble.name}"
            )
        seen[item.preamble.id] = item.preamble.name
    return seen


def _illegal(sentence: str) -> ControlError:
    return ControlError(P4RuntimeCode.INVALID_ARGUMENT, f"p4info: {sentence}")
