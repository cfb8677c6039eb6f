# SPDX-License-Identifier: Apache-2.0
"""An engine here that holds what a program somewhere else holds, read by P4Runtime."""

from __future__ import annotations

from nicemu.control import P4RuntimeClient, ProgramReader, Texts
from nicemu.errors import ControlError, UsageError
from nicemu.pipeline import (
    ActionProfile,
    Count,
    CounterArray,
    Engine,
    MeterArray,
    Program,
    RegisterArray,
    Table,
    TableStatus,
)

from .table_file import empty


def mirror(client: P4RuntimeClient, reader: ProgramReader, texts: Texts) -> Engine:
    """Return an engine that runs the program that a client reads, with its entries, members and groups.

    From then on the client has the program's values, and `texts` those that stand for numbers. Tables that
    controllers are not shown hold what the program says. `reader` makes the program of what the server has of
    it. Raises: UsageError where it makes none; ControlError for what cannot be read, or does not fit together
    because others write meanwhile.
    """
    engine = Engine()
    program = _program_of(client, reader)
    engine.load(program)
    client.speak_as(program, texts)
    _take_tables(client, engine)
    return engine


def whole_mirror(client: P4RuntimeClient, reader: ProgramReader, texts: Texts) -> Engine:
    """As `mirror`, with all else that the program holds: counts, counters, meters, registers, value sets,
    multicast groups and clone sessions.
    """
    engine = mirror(client, reader, texts)
    objects = client.objects
    for name, array in engine.objects.states.items():
        match array:
            case CounterArray():
                counts = ((place.index, place.value) for place in objects.read(name))
                array.counts.update({index: Count(**held) for index, held in counts if any(held.values())})
            case MeterArray():
                for index, config in objects.meter_configs(name).items():
                    array.configure(index, config, now_ns=0)
            case RegisterArray():
                array.values.update(objects.register_values(name))
    for table in shown_tables(client, engine):
        _take_counts(client, engine.table(table.name))
    for name, held in engine.objects.value_sets.items():
        held.replace(objects.value_set(name))
    for group, replicas in objects.multicast_groups().items():
        engine.objects.hold_group(group, replicas)
    for number, session in objects.clone_sessions().items():
        engine.objects.hold_session(number, session)
    return engine


def shown_tables(client: P4RuntimeClient, engine: Engine) -> list[TableStatus]:
    """Return the tables of an engine that a client may see: those that are not @hidden."""
    names = {table.name for table in client.tables()}
    return [table for table in engine.tables() if table.name in names]


def _program_of(client: P4RuntimeClient, reader: ProgramReader) -> Program:
    data = client.device_config()
    try:
        return reader(data, client.p4info())
    except ControlError as error:
        what = "the server's program is none that a file of tables can be tried on; write single entries"
        raise UsageError(f"{what} (nicemu table add): {error}") from error


def _take_tables(client: P4RuntimeClient, engine: Engine) -> None:
    """Have an engine hold the members, groups and entries that the client reads."""
    for profile in action_profiles(engine):
        for number, call in client.objects.members(profile.name).items():
            profile.insert_member(number, call)
        if profile.algorithm is None:
            continue
        most = client.objects.max_sizes(profile.name)
        for number, members in client.objects.groups(profile.name).items():
            profile.insert_group(number, members, most.get(number, 0))
    for table in shown_tables(client, engine):
        empty(engine, table.name)
        held = engine.table(table.name)
        found = client.read(table.name, meters=True)
        added = [item.entry for item in found if not item.const]
        for error in held.insert_many(added, engine.now_ns):
            if error is not None:  # what was read does not fit together: others write meanwhile
                raise error
        default = client.read_default(table.name, meters=True)
        if default.entry.action and default.entry != held.default_row().entry:
            held.set_default(default.entry.action, default.entry.parameters, default.entry.note)
        if held.spec.meter:
            for item in found:
                held.row(item.entry.matches, item.entry.priority).meter.configure(item.meter, now_ns=0)
            held.default_row().meter.configure(default.meter, now_ns=0)


def _take_counts(client: P4RuntimeClient, table: Table) -> None:
    """Have the entries of a table stand where the client reads them to stand."""
    for item in client.read(table.spec.name, hits=True):
        try:
            row = table.row(item.entry.matches, item.entry.priority)
        except ControlError:  # it came after the entries were read
            continue
        row.hits, row.bytes = item.hits or 0, item.hit_bytes or 0
    missed, row = client.read_default(table.spec.name, hits=True), table.default_row()
    row.hits, row.bytes = missed.hits or 0, missed.hit_bytes or 0
    table.hits, table.misses = sum(held.hits for held in table.rows()), row.hits


def action_profiles(engine: Engine) -> list[ActionProfile]:
    """Return the action profiles of the running program."""
    return [state for state in engine.objects.states.values() if isinstance(state, ActionProfile)]
