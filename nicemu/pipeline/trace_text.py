# SPDX-License-Identifier: Apache-2.0
"""The events of a trace as text for people, and as JSON for programs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from .ir_encode import kind_of
from .trace import (
    Advanced,
    Assigned,
    BlockEntered,
    Branched,
    Called,
    Cloned,
    Departed,
    Dropped,
    EgressBegun,
    EntryText,
    EnumNumber,
    Event,
    Exited,
    ExternCalled,
    HeaderEmitted,
    HeaderExtracted,
    IngressBegun,
    NearMiss,
    ParserRejected,
    Replicated,
    Selected,
    SentAgain,
    StackMoved,
    StateEntered,
    Switched,
    TableApplied,
    ValidityChanged,
    Verified,
)
from .verdict import Effect

_WIDTH = 100


def trace_json(events: Iterable[Event | Effect]) -> list[dict[str, Any]]:
    """Return events, or a verdict's effects, as JSON has them.

    Each is an object whose "event" is its class, as header_extracted or counter_add.
    """
    return [{"event": kind_of(type(event)), **_json(event)} for event in events]


def trace_lines(
    events: Iterable[Event], details: Callable[[Departed], Iterable[str]] = lambda event: ()
) -> list[str]:
    """Return events as text: a line each, or a few, those inside a block indented.

    `details` gives further lines for a frame that leaves. Headers that leave as they came are not told again.
    """
    lines = []
    came: dict[str, Mapping[str, Any]] = {}
    for event in events:
        first, *more = _TEXTS[type(event)](event)
        if isinstance(event, HeaderExtracted):
            came[event.header] = event.fields
        elif isinstance(event, HeaderEmitted) and came.get(event.header) == event.fields:
            first, more = f"{first}, as it came", []
        elif isinstance(event, Departed):
            more = list(details(event))
        depth = _DEPTHS.get(type(event), 2)
        lines.append("  " * depth + first)
        lines += ["  " * (depth + 1) + line for line in more]
    return lines


def value_text(value: Any) -> str:  # noqa: ANN401 - whatever an event holds
    """Return a value as people read it: numbers in hexadecimal, negative ones in decimal."""
    if value is None:
        return "invalid"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, EnumNumber):
        return f"{value:#x} {value.name}" if value.serializable else value.name
    if isinstance(value, int):
        return f"{value:#x}" if value >= 0 else str(value)
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{name}={value_text(part)}' for name, part in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(value_text, value))}]"
    return str(value)


def _json(value: Any) -> Any:  # noqa: ANN401
    if isinstance(value, bytes):
        return value.hex()
    if dataclasses.is_dataclass(value):
        return {item.name: _json(getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {name: _json(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_json(part) for part in value]
    return value


# Text


def _fields(fields: Mapping[str, Any]) -> list[str]:
    lines = [""]
    for name, value in fields.items():
        item = f"{name} = {value_text(value)}"
        if lines[-1] and len(lines[-1]) + len(item) > _WIDTH:
            lines.append("")
        lines[-1] += f", {item}" if lines[-1] else item
    return [line for line in lines if line]


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value_text(value)}" for name, value in values.items())


def _entry(entry: EntryText) -> str:
    text = f"entry {', '.join(entry.matches.values())}"
    if entry.priority:
        text += f" priority {entry.priority}"
    return f"{text} {entry.choice}" if entry.choice else text


def _selected(event: Selected) -> list[str]:
    chosen = "no case fits" if event.case is None else f"case {event.case}, to {event.state}"
    return [f"select {_settings(event.keys)}: {chosen}"]


def _table(event: TableApplied) -> list[str]:
    settings = (
        f"{_settings({name: value})}{' of an invalid header' * (name in event.absent)}"
        for name, value in event.keys.items()
    )
    keys = f" ({', '.join(settings)})" if event.keys else ""
    subject = f"table {event.table}{keys}"
    if event.entry is None:
        return [f"{subject}: miss", *(_near(event.keys, near) for near in event.nearest)]
    empty = "" if event.action else ", a group without members"
    return [f"{subject}: hit, {_entry(event.entry)}{empty}"]


def _near(keys: Mapping[str, Any], near: NearMiss) -> str:
    entry = near.entry
    wrong = ", ".join(
        f"{name} is {value_text(keys[name])}, not {entry.matches[name]}" for name in near.missed
    )
    return f"near: {_entry(entry)}, {entry.action}({_settings(entry.parameters)}): {wrong}"


def _extern(event: ExternCalled) -> list[str]:
    arguments = ", ".join("_" if item is None else value_text(item) for item in event.arguments)
    returned = f" = {value_text(event.returned)}" if event.returned is not None else ""
    return [f"{event.name}({arguments}){returned}{f': {event.note}' if event.note else ''}"]


def _validity(valid: bool) -> str:
    return "valid" if valid else "invalid"


def _ports(ports: Iterable[int]) -> str:
    return ", ".join(map(str, ports)) or "none"


def _cloned(event: Cloned) -> list[str]:
    if event.ports is None:
        return [f"clone: there is no session {event.session}"]
    return [f"clone session {event.session}: ports {_ports(event.ports)}"]


def _departed(event: Departed) -> list[str]:
    length = f"{len(event.frame)} bytes"
    if event.where == "firmware":
        return [f"stays with the firmware, {length}"]
    return [
        f"leaves to the host, {length}" if event.where == "host" else f"leaves by port {event.port}, {length}"
    ]


def _ingress(event: IngressBegun) -> list[str]:
    again = f", {event.why}" if event.why else ""
    return [f"ingress, port {event.port}, {event.length_bytes} bytes{again}"]


_TEXTS: Mapping[type, Callable[[Any], list[str]]] = {
    StateEntered: lambda event: [f"state {event.state}"],
    HeaderExtracted: lambda event: [
        f"extract {event.header}, {event.length_bytes} bytes at {event.at_byte}",
        *_fields(event.fields),
    ],
    Advanced: lambda event: [f"advance {event.length_bytes} bytes to byte {event.to_byte}"],
    Verified: lambda event: [f"verify {event.condition}: {'holds' if event.holds else event.error}"],
    Selected: _selected,
    ParserRejected: lambda event: [f"reject: {event.error} at byte {event.at_byte}"],
    BlockEntered: lambda event: [f"{event.role} {event.name}"],
    Branched: lambda event: [f"if {event.condition}: {value_text(event.holds)}"],
    Switched: lambda event: [f"switch {event.subject}: {value_text(event.value)}"],
    TableApplied: _table,
    Called: lambda event: [f"{event.kind} {event.name}({_settings(event.parameters)})"],
    Assigned: lambda event: [f"{event.place} = {value_text(event.old)} -> {value_text(event.new)}"],
    ValidityChanged: lambda event: [
        f"{event.header} = {_validity(event.old)} -> {_validity(event.new)}",
    ],
    StackMoved: lambda event: [
        f"{event.stack}.{'push_front' if event.front else 'pop_front'}({event.count})"
    ],
    ExternCalled: _extern,
    Exited: lambda event: ["exit"],
    HeaderEmitted: lambda event: [f"emit {event.header}", *_fields(event.fields)],
    IngressBegun: _ingress,
    EgressBegun: lambda event: [f"egress, port {event.port}" + (f", rid {event.rid}" if event.rid else "")],
    Cloned: _cloned,
    Replicated: lambda event: [f"multicast group {event.group}: ports {_ports(event.ports)}"],
    SentAgain: lambda event: [event.how],
    Dropped: lambda event: [f"dropped: {event.reason}"],
    Departed: _departed,
}
_DEPTHS: Mapping[type, int] = {
    BlockEntered: 0,
    IngressBegun: 0,
    EgressBegun: 0,
    Cloned: 0,
    Replicated: 0,
    SentAgain: 0,
    Dropped: 0,
    Departed: 0,
    StateEntered: 1,
}
