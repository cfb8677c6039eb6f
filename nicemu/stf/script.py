# SPDX-License-Identifier: Apache-2.0
"""Read an STF script: a command a line, `#` starts a comment.

Source: p4lang/p4c, "Simple Testing Framework" and the grammar of its BMv2 runner; what that runner reads and
passes over has its meaning here. docs/stf.md is the description of both.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from nicemu.p4 import Diagnostic, Location, SourceFile

from .commands import (
    ActionText,
    Add,
    CheckCounter,
    Command,
    CounterRead,
    CounterWrite,
    Expect,
    GroupCreate,
    KeyText,
    MeterRead,
    MeterWrite,
    MirrorAdd,
    MirrorDelete,
    MirrorRead,
    NodeAssociate,
    NodeCreate,
    NodeUpdate,
    NoPacket,
    Packet,
    RegisterRead,
    RegisterReset,
    RegisterWrite,
    RemoveAll,
    SetDefault,
    Wait,
    Word,
)
from .line_reader import LineReader, ScriptError, fault

_FIRST = re.compile(r"[ \t\r]*([^ \t\r#]+)")
_PORT = re.compile(r"[ \t]*([0-9]+)(?![^ \t\r])")
_DATA = {"packet": re.compile(r"[^0-9a-fA-F \t\r]"), "expect": re.compile(r"[^0-9a-fA-F* \t\r]")}
_MAX_ERRORS = 20
MAX_PORT = 0xFFFF
_PORT_DIGITS = 5


def parse_script(text: str, name: str = "script.stf") -> tuple[Command, ...]:
    """Return the commands of a script called `name` in messages.

    Raises: ScriptError with every line that is wrong, twenty at most.
    """
    source = SourceFile(name, text.split("\n"))
    commands: list[Command] = []
    faults: list[Diagnostic] = []
    for line in range(1, len(source.lines) + 1):
        try:
            command = _command(source, line)
        except ScriptError as error:
            faults += error.diagnostics
            if len(faults) == _MAX_ERRORS:
                break
        else:
            if command is not None:
                commands.append(command)
    if faults:
        raise ScriptError(faults)
    return tuple(commands)


def _command(source: SourceFile, line: int) -> Command | None:
    text = source.lines[line - 1]
    first = _FIRST.match(text)
    if first is None:
        return None
    keyword = first[1].lower()
    location = Location(source, line, first.start(1) + 1, len(first[1]))
    if keyword in _DATA:
        return _data_line(keyword, location, text, first.end())
    known = _COMMANDS.get(keyword)
    if known is None:
        raise fault(location, f"{first[1]} is no command", f"there is {', '.join((*_DATA, *_COMMANDS))}")
    reader = LineReader(source, line, first.end())
    command = known(location, reader)
    reader.take_end()
    return command


def _data_line(keyword: str, location: Location, text: str, at: int) -> Packet | Expect:
    found = _PORT.match(text, at)
    digits = found[1].lstrip("0") if found is not None else ""
    if found is None or len(digits) > _PORT_DIGITS or int(digits or "0") > MAX_PORT:
        place = Location(location.source, location.line, len(text[:at].rstrip()) + 2)
        raise fault(place, f"a port was expected behind {keyword}: a decimal number up to {MAX_PORT}")
    text = text.partition("#")[0]
    port, data = int(digits or "0"), text[found.end() :].rstrip()
    exact = keyword == "expect" and data.endswith("$")
    data = data.removesuffix("$") if exact else data
    wrong = _DATA[keyword].search(data)
    if wrong is not None:
        place = Location(location.source, location.line, found.end() + wrong.start() + 1)
        hint = {
            "$": "$ stands once, at the end of what is expected",
            "*": "only what is expected may be left open",
        }.get(wrong[0], "")
        raise fault(place, f"{wrong[0]!r} found; hexadecimal digits were expected", hint)
    nibbles = "".join(data.split()).lower()
    if len(nibbles) % 2 and (exact or keyword == "packet"):
        place = Location(location.source, location.line, found.end(1) + 1, len(text.rstrip()) - found.end(1))
        raise fault(place, f"{len(nibbles)} digits found; a frame is whole bytes, two digits each")
    if keyword == "packet":
        return Packet(location, port, bytes.fromhex(nibbles))
    return Expect(location, port, nibbles if nibbles or exact else None, exact)


# Tables


def _add(location: Location, reader: LineReader) -> Add:
    table = reader.take_name("the name of a table")
    priority = reader.take_number("a priority") if reader.sees_kind("number") else None
    keys: list[KeyText] = []
    while True:
        name = reader.take_name("a key such as h.f:0x2a, or an action such as send(port:1)")
        if reader.sees("("):
            break
        reader.take(":")
        value = reader.take_pattern("a number, or * where anything matches")
        joint = next((text for text in ("/", "..", "&&&") if reader.takes(text)), "")
        take_second = reader.take_word if joint == "/" else reader.take_value
        keys.append(KeyText(name, value, joint, take_second("a number") if joint else None))
    action = _action(name, reader)
    handle = reader.take_name("a name for the entry").text if reader.takes("=") else ""
    return Add(location, table, priority, tuple(keys), action, handle)


def _action(name: Word, reader: LineReader) -> ActionText:
    reader.take("(")
    arguments: list[tuple[Word, Word]] = []
    while not reader.takes(")"):
        if arguments:
            reader.take(",")
        parameter = reader.take_name("a parameter such as port:1")
        reader.take(":")
        arguments.append((parameter, reader.take_value("a number")))
    return ActionText(name, tuple(arguments))


def _setdefault(location: Location, reader: LineReader) -> SetDefault:
    table = reader.take_name("the name of a table")
    return SetDefault(location, table, _action(reader.take_name("an action such as send(port:1)"), reader))


def _remove(location: Location, reader: LineReader) -> RemoveAll:
    if not reader.takes_keyword("all"):
        reader.expected("all", "single entries cannot be removed")
    return RemoveAll(location)


# Extern objects


def _index(reader: LineReader) -> int:
    return reader.take_number("an index")


def _check_counter(location: Location, reader: LineReader) -> CheckCounter:
    name = reader.take_name("the name of a counter")
    reader.take("(")
    place: int | Word
    if reader.sees_kind("number"):
        place = reader.take_number("an index")
    else:
        place = reader.take_name("an index, or the name of an entry")
    reader.take(")")
    if reader.is_done:
        return CheckCounter(location, name, place)
    unit = next((text for text in ("packets", "bytes") if reader.takes_keyword(text)), "")
    if not unit:
        reader.expected("packets or bytes")
    condition = reader.take_condition()
    if condition is None:
        reader.expected("a comparison such as == 1")
    return CheckCounter(location, name, place, unit, condition)


def _counter_write(location: Location, reader: LineReader) -> CounterWrite:
    name, index = reader.take_name("the name of a counter"), _index(reader)
    return CounterWrite(location, name, index, reader.take_number("packets"), reader.take_number("bytes"))


def _register_read(location: Location, reader: LineReader) -> RegisterRead:
    name = reader.take_name("the name of a register")
    if not reader.sees_kind("number"):
        return RegisterRead(location, name, None)
    return RegisterRead(location, name, _index(reader), reader.take_condition())


def _register_write(location: Location, reader: LineReader) -> RegisterWrite:
    name, index = reader.take_name("the name of a register"), _index(reader)
    return RegisterWrite(location, name, index, reader.take_signed("a value"))


def _meter_write(has_index: bool) -> Callable[[Location, LineReader], MeterWrite]:
    def parsed(location: Location, reader: LineReader) -> MeterWrite:
        name = reader.take_name("the name of a meter")
        index = _index(reader) if has_index else None
        return MeterWrite(location, name, index, (reader.take_rate(), reader.take_rate()))

    return parsed


# Replication


def _ports(reader: LineReader) -> tuple[int, ...]:
    ports: list[int] = []
    while not reader.is_done:
        ports.append(reader.take_number("a port"))
    return tuple(ports)


def _mirror(is_group: bool) -> Callable[[Location, LineReader], MirrorAdd]:
    def parsed(location: Location, reader: LineReader) -> MirrorAdd:
        session = reader.take_number("a session")
        return MirrorAdd(location, session, reader.take_number("a group" if is_group else "a port"), is_group)

    return parsed


_COMMANDS: dict[str, Callable[[Location, LineReader], Command]] = {
    "no_packet": lambda location, reader: NoPacket(location),
    "wait": lambda location, reader: Wait(location),
    "add": _add,
    "setdefault": _setdefault,
    "remove": _remove,
    "check_counter": _check_counter,
    "counter_read": lambda location, reader: CounterRead(
        location, reader.take_name("the name of a counter"), _index(reader)
    ),
    "counter_write": _counter_write,
    "register_read": _register_read,
    "register_write": _register_write,
    "register_reset": lambda location, reader: RegisterReset(
        location, reader.take_name("the name of a register")
    ),
    "meter_get_rates": lambda location, reader: MeterRead(
        location, reader.take_name("the name of a meter"), _index(reader)
    ),
    "meter_set_rates": _meter_write(has_index=True),
    "meter_array_set_rates": _meter_write(has_index=False),
    "mirroring_add": _mirror(is_group=False),
    "mirroring_add_mc": _mirror(is_group=True),
    "mirroring_delete": lambda location, reader: MirrorDelete(location, reader.take_number("a session")),
    "mirroring_get": lambda location, reader: MirrorRead(location, reader.take_number("a session")),
    "mc_mgrp_create": lambda location, reader: GroupCreate(location, reader.take_number("a group")),
    "mc_node_create": lambda location, reader: NodeCreate(
        location, reader.take_number("a replication id"), _ports(reader)
    ),
    "mc_node_associate": lambda location, reader: NodeAssociate(
        location, reader.take_number("a group"), reader.take_number("the number of a node")
    ),
    "mc_node_update": lambda location, reader: NodeUpdate(
        location, reader.take_number("the number of a node"), _ports(reader)
    ),
}
"""Every command but packet and expect, by its first word in small letters."""
