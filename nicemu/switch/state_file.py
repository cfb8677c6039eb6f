# SPDX-License-Identifier: Apache-2.0
"""What a running program holds, as a JSON file that `table_file` reads again.

Entries come with what they have counted, and counters and meters with it; places of arrays that hold nothing
are left out. A meter's buckets are not written: they are full where it is read. docs/p4.md has the form.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nicemu.control import Texts, TextValues, call_json, entry_json, matches_json, number_text
from nicemu.errors import UsageError
from nicemu.pipeline import (
    UNCOUNTED,
    ActionProfile,
    CounterArray,
    Engine,
    MeterArray,
    RegisterArray,
    Replica,
    Row,
    TableStatus,
    ir,
    p4info_of,
)

from .meter_text import meter_json


def state_of(engine: Engine, texts: Texts | None = None) -> dict[str, list[dict[str, Any]]]:
    """Return what the running program of an engine holds: a list for each part that has something.

    `texts` are those that stand for numbers; without them these are digits.
    """
    values = TextValues(engine.program, texts)
    parts = {
        "action_profiles": _profiles(engine, values),
        "tables": [_table(engine, table, values) for table in engine.tables()],
        "value_sets": _value_sets(engine, values),
        "registers": _registers(engine, values),
        "counters": _counters(engine),
        "meters": _meters(engine),
        "multicast_groups": [
            {"group": group, "replicas": _replicas(replicas)}
            for group, replicas in sorted(engine.objects.multicast_groups.items())
        ],
        "clone_sessions": [
            {
                "session": number,
                "replicas": _replicas(session.replicas),
                "truncate_bytes": session.truncate_bytes,
            }
            for number, session in sorted(engine.objects.clone_sessions.items())
        ],
    }
    return {name: part for name, part in parts.items() if part}


@contextmanager
def writing_state(path: Path, texts: Texts | None = None) -> Iterator[Callable[[Engine], None]]:
    """Yield what writes the state of an engine to a file, "-" for the standard output, whole or not at all;
    `texts` as for `state_of`.

    Raises: UsageError if it cannot be written, where that is known before anything else is done.
    """
    if str(path) == "-":
        yield lambda engine: print(_text_of(engine, texts), end="")
        return
    if path.is_dir():
        raise UsageError(f"{path} cannot be written: it is a folder; name a file in it")
    path = path.resolve()  # a link goes on to lead to it
    is_plain = not path.exists() or path.is_file()
    scratch = path.with_name(f".{path.name}.{os.getpid()}") if is_plain else path

    def write(engine: Engine) -> None:
        with _told(path):
            scratch.write_text(_text_of(engine, texts), encoding="utf-8")
            if is_plain:
                os.replace(scratch, path)

    try:
        with _told(path):
            if is_plain:
                scratch.touch()
        yield write
    finally:
        if is_plain:
            scratch.unlink(missing_ok=True)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise UsageError(f"{path} cannot be written: {error.strerror}") from error


def _text_of(engine: Engine, texts: Texts | None) -> str:
    return json.dumps(state_of(engine, texts), indent=2) + "\n"


def _table(engine: Engine, info: TableStatus, values: TextValues) -> dict[str, Any]:
    table = engine.table(info.name)
    default, missed = ir.ActionCall(info.default_action, info.default_parameters), table.default_row()
    return {
        "table": info.name,
        "size": info.size,
        "hits": info.hits,
        "misses": info.misses,
        "complete": True,
        "entries": [
            {
                **entry_json(info.keys, info.actions, row.entry, values),
                "const": table.is_const(row.entry),
                "hits": row.hits,
                "bytes": row.bytes,
                **_direct_meter(row),
            }
            for row in table.rows()
        ],
        "default": call_json(info.actions, default, values),
        "default_entry": {"hits": missed.hits, "bytes": missed.bytes, **_direct_meter(missed)},
    }


def _registers(engine: Engine, values: TextValues) -> list[dict[str, Any]]:
    found = []
    type_names = register_type_names(engine)
    for name, array in engine.objects.states.items():
        if isinstance(array, RegisterArray):
            held = (
                array.values if array.others is None else {n: array.read(n, None) for n in range(array.size)}
            )
            told = {
                str(index): _value_json(engine, array.type, type_names.get(name, ""), value, values)
                for index, value in sorted(held.items())
                if value or values.has_text(type_names.get(name, ""), value)
            }
            if told:
                found.append({"register": name, "values": told})
    return found


def register_type_names(engine: Engine) -> dict[str, str]:
    """Return the names of the new types and enums that registers are of, by the names of the registers."""
    registers = p4info_of(engine.program).registers if engine.program else ()
    return {
        item.name: item.type.name if isinstance(item.type, ir.Named) else item.type_name for item in registers
    }


def _value_json(
    engine: Engine,
    kind: ir.Type,
    type_name: str,
    value: Any,  # noqa: ANN401 - what a register holds
    values: TextValues,
) -> Any:  # noqa: ANN401 - as JSON has it
    if type_name in values:
        return values.text(type_name, value)
    if isinstance(kind, ir.Bool):
        return bool(value)
    if isinstance(kind, ir.ErrorCode):
        assert engine.program is not None
        return engine.program.errors[value]
    if isinstance(kind, ir.Bits):
        return value if kind.signed else number_text(value, kind.width)
    if isinstance(kind, ir.Named) and isinstance(value, dict):
        assert engine.program is not None
        parts = next(struct.fields for struct in engine.program.structs if struct.name == kind.name)
        return {
            part.name: _value_json(engine, part.type, part.type_name, value[part.name], values)
            for part in parts
        }
    return str(value)


def _counters(engine: Engine) -> list[dict[str, Any]]:
    found = []
    for name, array in engine.objects.states.items():
        if isinstance(array, CounterArray):
            held = dict(array.counts)
            if array.others.packets or array.others.bytes:
                held = {index: held.get(index, array.others) for index in range(array.size)}
            values = {
                str(index): {"packets": count.packets, "bytes": count.bytes}
                for index, count in sorted(held.items())
                if count.packets or count.bytes or array.others.packets or array.others.bytes
            }
            if values:
                found.append({"counter": name, "values": values})
    return found


def _meters(engine: Engine) -> list[dict[str, Any]]:
    found = []
    for name, array in engine.objects.states.items():
        if isinstance(array, MeterArray):
            written = {
                index: meter_json(meter.config, meter.colours) for index, meter in array.meters.items()
            }
            if array.others is not None:
                others = meter_json(array.others, UNCOUNTED)
                written = {index: written.get(index, others) for index in range(array.size)}
            values = {str(index): value for index, value in sorted(written.items()) if value}
            if values:
                found.append({"meter": name, "values": values})
    return found


def _direct_meter(row: Row) -> dict[str, Any]:
    meter = meter_json(row.meter_config, row.colours)
    return {"meter": meter} if meter else {}


def _profiles(engine: Engine, values: TextValues) -> list[dict[str, Any]]:
    actions = {action.name: action for table in engine.tables() for action in table.actions}
    return [
        {
            "profile": name,
            "members": [
                {"member": member, "action": call_json(list(actions.values()), call, values)}
                for member, call in sorted(profile.members.items())
            ],
            "groups": [
                {
                    "group": group,
                    "members": [{"member": member, "weight": weight} for member, weight in held],
                    "max_size": profile.max_sizes[group],
                }
                for group, held in sorted(profile.groups.items())
            ],
        }
        for name, profile in engine.objects.states.items()
        if isinstance(profile, ActionProfile) and (profile.members or profile.groups)
    ]


def _value_sets(engine: Engine, values: TextValues) -> list[dict[str, Any]]:
    return [
        {
            "value_set": name,
            "members": [matches_json(found.keys, member, values) for member in found.members],
        }
        for name, found in engine.objects.value_sets.items()
        if found.members
    ]


def _replicas(replicas: tuple[Replica, ...]) -> list[dict[str, int]]:
    return [{"port": replica.port, "rid": replica.rid} for replica in replicas]
