# SPDX-License-Identifier: Apache-2.0
"""What a controller has put into a pipeline, taken over into one that runs another program.

Source: P4Runtime Specification 1.4, "SetForwardingPipelineConfig RPC" (RECONCILE_AND_COMMIT).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.pipeline import (
    ActionProfile,
    Count,
    CounterArray,
    Engine,
    Layouts,
    Meter,
    MeterArray,
    Program,
    RegisterArray,
    Table,
    ir,
)

from .correspondence import Correspondence

_ARRAYS = (CounterArray, MeterArray, RegisterArray)
MAX_PLACED = 1 << 20
"""Places that are written one by one where an array grows that was filled."""


def take_over(source: Engine, destination: Engine) -> None:
    """Give `destination` what `source` holds: entries with their counts, default actions chosen at run time,
    members and groups, counters, meters, registers, value sets, replication, which digests are sent, and the
    objects of externs of the program's own. Keys, action data and fields go by their names.

    Const entries are the program's own and stay; one with the keys of one before goes on with its counts and
    its meter. What `destination` lacks may go if it holds nothing.
    Raises: ControlError if something does not fit; `destination` may then have some of it.
    """
    old, new = source.program, destination.program
    assert new is not None
    if old is None:
        return
    names = Correspondence(old, new)
    _take_objects(source, destination, names)
    _take_own_objects(source, destination)
    for spec in old.tables:
        table = source.table(spec.name)
        if spec.name not in {other.name for other in new.tables}:
            if not all(map(table.is_const, table.read())) or not table.has_own_default:
                raise _lost(f"table {spec.name} with {len(table)} entries")
            _may_lose_meters(table)
            continue
        taken = destination.table(spec.name)
        has_meter = _meter_of(taken, destination) == _meter_of(table, source) != ()
        if not has_meter:
            _may_lose_meters(table)
        _take_table(table, taken, names, has_meter)


def begin_idle_times(engine: Engine) -> None:
    """Have the entries of an engine that takes over now be idle from now on."""
    for info in engine.tables():
        for row in engine.table(info.name).rows():
            row.last_hit_ns = engine.now_ns


def _meter_of(table: Table, engine: Engine) -> tuple[object, ...]:
    """Return what a table's direct meter is made with, nothing if it has none."""
    return engine.objects.instances[table.spec.meter].arguments if table.spec.meter else ()


def _may_lose_meters(table: Table) -> None:
    """Refuse to lose the direct meter of an entry that is configured."""
    if any(row.meter_config is not None for row in (*table.rows(), table.default_row())):
        raise _lost(f"the direct meter of table {table.spec.name}, which is configured,")


def _take_table(table: Table, taken: Table, names: Correspondence, has_meter: bool) -> None:
    default = table.default_row()
    if not table.has_own_default:
        action, note = default.entry.action, default.entry.note
        taken.set_default(action, names.data(action, default.entry.parameters), note)
    taken.default.resume(default, has_meter)
    for row in taken.rows():
        if not taken.is_const(row.entry):
            taken.delete(row.entry.matches, row.entry.priority)
    for row in table.rows():
        if not table.is_const(row.entry):
            since_ns = max(row.last_hit_ns, row.told_ns)  # from which its timeout goes on
            taken.insert(names.entry(table.spec, taken.spec, row.entry), since_ns).resume(row, has_meter)
        elif (same := names.const_row(table.spec, taken, row.entry)) is not None:
            same.resume(row, has_meter)
        elif row.meter_config is not None:
            raise _lost(f"the direct meter of a const entry of table {table.spec.name}, which is configured,")


def _take_objects(source: Engine, destination: Engine, names: Correspondence) -> None:
    old, new = source.objects, destination.objects
    assert destination.program is not None
    layouts = Layouts(destination.program)
    for name, state in old.states.items():
        taken = new.states.get(name)
        if isinstance(state, _ARRAYS):
            _take_array(state, taken, layouts)
        elif isinstance(state, ActionProfile):
            _take_profile(state, taken, names)
    for name, value_set in old.value_sets.items():
        if name in new.value_sets and _fields_of(source, name) == _fields_of(destination, name):
            new.value_sets[name].replace(value_set.members)
        elif value_set.members:
            raise _lost(f"value set {name} with {len(value_set.members)} members")
    new.multicast_groups.update(old.multicast_groups)
    new.replica_count = old.replica_count
    new.group_notes.update(old.group_notes)
    new.clone_sessions.update(old.clone_sessions)
    shown = {digest.name for digest in destination.p4info.digests} if destination.p4info else set[str]()
    new.digests.update({name: config for name, config in old.digests.items() if name in shown})


def _take_own_objects(source: Engine, destination: Engine) -> None:
    """Take over what Python keeps for objects that both programs construct alike."""
    old, new = source.program, destination.program
    assert old is not None
    assert new is not None
    own = {item.owner for item in old.extern_signatures}
    made = [_made_by(old, instance) for instance in old.externs]
    for instance in new.externs:
        if instance.extern in own and _made_by(new, instance) in made:
            destination.objects.states[instance.name] = source.objects.states[instance.name]


def _made_by(program: Program, instance: ir.ExternInstance) -> tuple[object, ...]:
    """Return an extern object, and what its constructor takes, whatever the program calls that."""
    takes = [
        item.parameters
        for item in program.extern_signatures
        if item.is_constructor and (item.owner, item.name) == (instance.extern, instance.constructor)
    ]
    return replace(instance, constructor=""), *takes


def _take_array(array: CounterArray | MeterArray | RegisterArray, taken: object, layouts: Layouts) -> None:
    """Take an array over as far as the new one is alike and has places; what only packets have written may
    go.

    Places are put into the array that is there: it may lie where a kernel works on it.
    """
    match array, taken:
        case CounterArray(), CounterArray():
            _take_places(array, taken, taken.counts, array.counts, replace, Count())
        case MeterArray(), MeterArray() if array.in_bytes == taken.in_bytes and _has_room(taken, array):
            _take_places(array, taken, taken.meters, array.meters, replace, Meter())
        case RegisterArray(), RegisterArray() if array.type == taken.type:
            zero = layouts.zero(array.type)
            _take_places(array, taken, taken.values, array.values, lambda value: value, zero)
        case MeterArray(), _ if array.others or any(meter.config for meter in array.meters.values()):
            raise _lost(f"meter {array.name}, which is configured,")
        case _:
            pass


def _has_room(taken: MeterArray, array: MeterArray) -> bool:
    """Return whether an array has all places that are configured in another."""
    behind = [meter for place, meter in array.meters.items() if place >= taken.size]
    unsaid = max(array.size - taken.size, 0) - len(behind)
    return not any(meter.config for meter in behind) and not (array.others and unsaid)


def _take_places(
    array: CounterArray | MeterArray | RegisterArray,
    taken: CounterArray | MeterArray | RegisterArray,
    places: dict[int, Any],
    held: dict[int, Any],
    copy: Callable[[Any], Any],
    untouched: Any,  # noqa: ANN401
) -> None:
    """Have `places` of an array hold what another holds, what that has at all others, too, and behind its end
    what is `untouched`.
    """
    places.clear()
    others: Any = array.others
    grown = range(0) if _is_nothing(others) else range(array.size, taken.size)
    if len(grown) <= MAX_PLACED:
        taken.others = replace(others) if isinstance(others, Count) else others  # memory is filled with it
        places.update((place, copy(untouched)) for place in grown)
    elif array.size <= MAX_PLACED:
        filled = others
        if isinstance(array, MeterArray):
            filled = Meter()
            filled.configure(others, 0)
        places.update((place, copy(filled)) for place in range(array.size))
    else:
        raise _lost(f"what fills all {array.size} places of {array.name}, which gets {taken.size},")
    places.update((place, copy(item)) for place, item in held.items() if place < taken.size)


def _is_nothing(others: object) -> bool:
    """Return whether places that nothing was said of are as in an array that is new."""
    return not (others.packets or others.bytes) if isinstance(others, Count) else others is None


def _fields_of(engine: Engine, value_set: str) -> list[str]:
    """Return the names of a value set's fields."""
    assert engine.program is not None
    return [
        field.name for item in engine.program.value_sets if item.name == value_set for field in item.fields
    ]


def _take_profile(profile: ActionProfile, taken: object, names: Correspondence) -> None:
    if not isinstance(taken, ActionProfile):
        if profile.members:
            raise _lost(f"action profile {profile.name} with {len(profile.members)} members")
        return
    for number, call in profile.members.items():
        taken.insert_member(number, names.call(call))
    for number, members in profile.groups.items():
        taken.insert_group(number, members, profile.max_sizes[number])
    taken.notes.update(profile.notes)


def _lost(what: str) -> ControlError:
    return ControlError(P4RuntimeCode.INVALID_ARGUMENT, f"{what} has no place there")
