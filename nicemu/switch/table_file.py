# SPDX-License-Identifier: Apache-2.0
"""A JSON file of what a controller puts into a program: entries, and the state of its extern objects.

docs/p4.md has its form. A list alone is its `tables`, as `nicemu table list --json` prints them. Names and
values are written as on the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nicemu.control import Texts, TextValues, parse_match, parse_value
from nicemu.errors import ControlError, P4RuntimeCode, UsageError
from nicemu.garbage import garbage_waits
from nicemu.pipeline import (
    HOST_PORT,
    ActionInfo,
    ActionSet,
    CloneSession,
    Count,
    CounterArray,
    Engine,
    Group,
    KeyInfo,
    Match,
    Member,
    Meter,
    MeterArray,
    RegisterArray,
    Replica,
    Row,
    TableEntry,
    TableStatus,
    full_name,
    ir,
    key_name,
)

from .located import Located, read_document
from .meter_text import give_meter
from .state_file import register_type_names

_COUNTED = ("hits", "bytes")
_LOOKUPS = ("hits", "misses")
_OF_TABLE = ("entries", "default", "default_entry", "size", "complete")
"""What `state_file` says of an entry and of a table beside what a controller gives."""
_MAX_16_BITS = 0xFFFF
"""The last multicast group, and the last egress_rid."""
_MAX_31_BITS = (1 << 31) - 1
_MAX_32_BITS = (1 << 32) - 1
_MAX_63_BITS = (1 << 63) - 1
_MAX_64_BITS = (1 << 64) - 1
_MAY_BE_TEXTS = ("exact", "optional")
"""Kinds of keys that controllers may give texts for."""
_AT_ONCE = 4096
"""Entries that a table is given at once."""


@dataclass(slots=True)
class Put:
    """How many entries a file held, and what else it names: arrays with an index each, the others alone."""

    entries: int = 0
    places: list[tuple[str, int]] = field(default_factory=list)
    value_sets: list[str] = field(default_factory=list)
    groups: list[int] = field(default_factory=list)
    sessions: list[int] = field(default_factory=list)


def put_tables(
    engine: Engine,
    path: Path,
    tell: Callable[[int], None] = lambda entries: None,
    texts: Texts | None = None,
) -> int:
    """Put what a file holds into the running program, in its order; return how many entries there were.

    `tell` hears from time to time how many entries are in. `texts` are those that stand for numbers already,
    and learns those that the file names.
    Raises: UsageError with the file and the place in it; some of what stands before that has been put.
    """
    return put_file(engine, path, tell, texts=texts).entries


def put_file(
    engine: Engine,
    path: Path,
    tell: Callable[[int], None] = lambda entries: None,
    *,
    replacing: bool = False,
    texts: Texts | None = None,
) -> Put:
    """As `put_tables`, and return what was put; entries, members and groups that are there are an error
    unless the file's are `replacing` them.
    """
    with garbage_waits():
        document = read_document(path)
        if isinstance(document.value, list):
            document = Located({"tables": document.value}, document.file)
        return _TableFile(engine, tell, replacing, texts).put(document)


class _TableFile:
    """What is put where; the parts take effect in the order in which they need each other."""

    def __init__(
        self, engine: Engine, tell: Callable[[int], None], replacing: bool, texts: Texts | None
    ) -> None:
        self._engine, self._tell, self._replacing = engine, tell, replacing
        self._tables = {table.name: table for table in engine.tables()}
        self._structs = {struct.name: struct for struct in engine.program.structs} if engine.program else {}
        self._type_names = register_type_names(engine)
        self._members = {
            listed.name: {member.name: member.value for member in listed.members}
            for listed in (engine.program.enums if engine.program else ())
        }
        """The values of enums' members, by the names of both."""
        self._errors = engine.program.errors if engine.program else ()
        self._actions: dict[str, dict[str, ActionInfo]] = {}
        """The actions of tables and profiles, by their owner and by what they are called in the file."""
        self._names: dict[tuple[str, str], str] = {}
        """The whole names of keys, likewise."""
        self._values = TextValues(engine.program, texts)
        self._put = Put()
        self._given: set[tuple[str, Hashable]] = set()
        """What the file has given, by its owner, where it is to replace what is there."""
        self._written: dict[tuple[str, Hashable], str] = {}
        """Where the file has written what a later place would write over, by its owner."""
        self._parts: Mapping[str, Callable[[Located], None]] = {
            "action_profiles": self._profile,
            "tables": self._table,
            "value_sets": self._value_set,
            "registers": self._register,
            "counters": self._counter,
            "meters": self._meters,
            "multicast_groups": self._group,
            "clone_sessions": self._session,
        }

    def put(self, document: Located) -> Put:
        given = document.members((), tuple(self._parts))
        for part, put in self._parts.items():
            for item in given[part].items() if part in given else ():
                put(item)
        return self._put

    # Tables

    def _table(self, item: Located) -> None:
        given = item.members(("table",), (*_OF_TABLE, *_LOOKUPS))
        table = self._tables[_name(given["table"], self._tables, "the program: table")]
        is_complete = "complete" in given and given["complete"].flag()
        before = self._written.get(("tables", table.name))
        if before is not None and (is_complete or ("complete", table.name) in self._written):
            raise item.fault(f"is of {table.name}, as is {before}; one that is complete stands alone")
        self._written["complete" if is_complete else "tables", table.name] = item.place
        self._written["tables", table.name] = item.place
        for name in ("default", "default_entry"):
            if name in given:
                self._write_once(name, table.name, given[name])
        if is_complete:
            empty(self._engine, table.name)
        entries = given["entries"].items() if "entries" in given else []
        for first in range(0, len(entries), _AT_ONCE):
            self._insert(table, entries[first : first + _AT_ONCE], counted=is_complete)
            self._tell(self._put.entries)
        if is_complete:
            held = self._engine.table(table.name)
            held.hits, held.misses = (_number(given, name, last=_MAX_64_BITS) for name in _LOOKUPS)
        if "default" in given:
            call = self._call(table.actions, table.name, given["default"])
            with given["default"]:
                if (call.action, call.parameters) != (table.default_action, table.default_parameters):
                    self._engine.set_default(table.name, call.action, call.parameters)
        if "default_entry" in given:
            state = given["default_entry"].members((), ("meter", *_COUNTED))
            self._check_meter(table, state)
            self._give(self._engine.table(table.name).default_row(), state, is_complete)

    def _insert(self, table: TableStatus, items: Sequence[Located], *, counted: bool) -> None:
        """Put entries; a table takes many at once sooner than one by one."""
        made = [(item, *self._entry(table, item, counted=counted)) for item in items]
        new = [(item, given, entry) for item, given, entry in made if entry is not None]
        held = self._engine.table(table.name)
        refused = held.insert_many([entry for _, _, entry in new], self._engine.now_ns)
        for (item, given, entry), error in zip(new, refused, strict=True):
            with item:
                is_there = error is not None and error.code is P4RuntimeCode.ALREADY_EXISTS
                if self._replaces(table.name, (entry.matches, entry.priority), is_there):
                    note = held.row(entry.matches, entry.priority).entry.note
                    held.modify(entry._replace(note=note))
                elif error is not None:
                    raise error
            if counted or "meter" in given:
                self._give(held.row(entry.matches, entry.priority), given, counted)
        self._put.entries += len(new)

    def _replaces(self, owner: str, key: Hashable, is_there: bool) -> bool:
        """Return whether the file's is to take the place of what is there: not of what stood in the file."""
        if not self._replacing or (owner, key) in self._given:
            return False
        self._given.add((owner, key))
        return is_there

    def _entry(
        self, table: TableStatus, item: Located, *, counted: bool
    ) -> tuple[Mapping[str, Located], TableEntry | None]:
        """Return the parts of an entry, and what is to be put, None for a const one."""
        chosen = ("action", "member", "group", "actions")
        given = item.members(("keys",), (*chosen, "priority", "idle_timeout_ns", "const", "meter", *_COUNTED))
        self._check_meter(table, given)
        if "const" in given and given["const"].value:  # the program has it by itself, if it still has it
            matches = self._matches(table.keys, table.name, given["keys"])
            with suppress(ControlError):
                row = self._engine.row(table.name, matches, _number(given, "priority", last=_MAX_31_BITS))
                self._give(row, given, counted)
            return given, None
        names = [name for name in chosen if name in given]
        if len(names) != 1:
            raise item.fault(f"has {' and '.join(names) or 'none'} of {', '.join(chosen)}; one was expected")
        call = ir.ActionCall("")
        choice: Member | Group | ActionSet | None = None
        if "action" in given:
            call = self._call(table.actions, table.name, given["action"])
        elif "actions" in given:
            calls = given["actions"].items()
            choice = ActionSet(
                tuple((self._call(table.actions, table.name, one), _weight(one)) for one in calls)
            )
        else:
            choice = Member(given["member"].number()) if "member" in given else Group(given["group"].number())
        return given, TableEntry(
            self._matches(table.keys, table.name, given["keys"]),
            call.action,
            call.parameters,
            _number(given, "priority", last=_MAX_31_BITS),
            choice,
            _number(given, "idle_timeout_ns", last=_MAX_63_BITS),
        )

    def _check_meter(self, table: TableStatus, given: Mapping[str, Located]) -> None:
        if "meter" in given and not self._engine.table(table.name).spec.meter:
            raise given["meter"].fault(f"is for a table with a direct meter; {table.name} has none")

    def _give(self, row: Row, given: Mapping[str, Located], counted: bool) -> None:
        """Have an entry's meter and, where it is `counted`, its counts go on from what is given."""
        if "meter" in given:
            give_meter(row.meter, given["meter"])
        if counted:
            row.hits, row.bytes = (_number(given, name, last=_MAX_64_BITS) for name in _COUNTED)

    def _matches(self, keys: Sequence[KeyInfo], owner: str, item: Located) -> tuple[Match, ...]:
        given = {}
        for word, text in item.members((), None).items():
            name = self._names.get((owner, word))
            if name is None:
                name = _name(text, [key.name for key in keys], "key", key_name(word))
                self._names[owner, word] = name
            if name in given:
                raise text.fault(f"is {name}, which has a value already; one was expected")
            given[name] = text
        matches = []
        for key in keys:
            part = given.get(key.name)
            if part is None and key.match_kind == "exact":
                raise item.fault(f"lacks {key.name}, an exact key")
            with part or item:
                value = part.number_or_text(is_bool=isinstance(key.type, ir.Bool)) if part else "*"
                if value != "*" and key.type_name in self._values and key.match_kind in _MAY_BE_TEXTS:
                    value = self._values.number(key.type_name, value, key.name)
                if key.controller_bits:
                    value = _as_program_has(value, key)
                matches.append(parse_match(value, key.match_kind, key.width, key.name, key.type))
        return tuple(matches)

    def _call(self, actions: Sequence[ActionInfo], owner: str, item: Located) -> ir.ActionCall:
        if isinstance(item.value, str):
            item = Located({"name": item.value}, item.file, item.place)
        given = item.members(("name",), ("parameters", "weight"))
        known = self._actions.setdefault(owner, {})
        action = known.get(given["name"].word())
        if action is None:
            names = {action.name: action for action in actions}
            action = known[given["name"].word()] = names[_name(given["name"], names, f"{owner}: action")]
        wanted = [param.name for param in action.params]
        held = given["parameters"].members(wanted) if "parameters" in given else {}
        if wanted and not held:
            raise item.fault(f"lacks parameters, of which {action.name} has {', '.join(wanted)}")
        numbers = []
        for param in action.params:
            given_value = held[param.name].number_or_text(is_bool=isinstance(param.type, ir.Bool))
            with held[param.name]:
                if param.type_name in self._values:
                    given_value = self._values.number(param.type_name, given_value, param.name)
                numbers.append(parse_value(given_value, param.width, param.name, param.type))
        return ir.ActionCall(action.name, tuple(numbers))

    # What is no table

    def _profile(self, item: Located) -> None:
        given = item.members(("profile",), ("members", "groups"))
        with given["profile"]:
            profile = self._engine.objects.profile(given["profile"].word())
        actions = {
            action.name: action
            for table in self._tables.values()
            for action in table.actions
            if action.name in profile.actions
        }
        for member in given["members"].items() if "members" in given else ():
            parts = member.members(("member", "action"))
            call = self._call(tuple(actions.values()), profile.name, parts["action"])
            number = parts["member"].number(_MAX_32_BITS, first=1)
            is_there = self._replaces(f"members of {profile.name}", number, number in profile.members)
            with member:
                (profile.modify_member if is_there else profile.insert_member)(number, call)
        for group in given["groups"].items() if "groups" in given else ():
            parts = group.members(("group", "members"), ("max_size",))
            held = [one.members(("member",), ("weight",)) for one in parts["members"].items()]
            weighted = tuple(
                (one["member"].number(), _number(one, "weight", 1, _MAX_31_BITS)) for one in held
            )
            number = parts["group"].number(_MAX_32_BITS, first=1)
            put_group = profile.insert_group
            if self._replaces(f"groups of {profile.name}", number, number in profile.groups):
                put_group = profile.modify_group
            with group:
                put_group(number, weighted, _number(parts, "max_size", last=_MAX_31_BITS))

    def _value_set(self, item: Located) -> None:
        given = item.members(("value_set", "members"))
        with given["value_set"]:
            found = self._engine.objects.value_set(given["value_set"].word())
        self._write_once("value sets", found.spec.name, given["value_set"])
        members = [
            self._member_of(found.keys, found.spec.name, member) for member in given["members"].items()
        ]
        with item:
            if len(set(members)) != len(members):
                raise UsageError(f"value set {found.spec.name} is given a member twice")
            found.replace(members)
        self._put.value_sets.append(found.spec.name)

    def _member_of(self, keys: Sequence[KeyInfo], owner: str, item: Located) -> tuple[Match, ...]:
        """Return a member of a value set; one of a single field may be written without its name."""
        if len(keys) == 1 and not isinstance(item.value, dict):
            item = Located({keys[0].name: item.value}, item.file, item.place)
        return self._matches(keys, owner, item)

    def _register(self, item: Located) -> None:
        given = item.members(("register", "values"))
        with given["register"]:
            register = self._engine.objects.register(given["register"].word())
        for index, value in self._places(register, given["values"]):
            with value:
                type_name = self._type_names.get(register.name, "")
                register.write(index, self._stored(register.type, type_name, value))

    def _stored(self, kind: ir.Type, type_name: str, item: Located) -> Any:  # noqa: ANN401 - what a register holds
        if type_name in self._values:
            return self._values.number(type_name, item.number_or_text(), "the value")
        members = self._members.get(type_name, {})
        if isinstance(item.value, str) and item.value in members:
            return members[item.value]
        if isinstance(kind, ir.Bits):
            number = parse_value(item.number_or_text(), kind.width, "the value", kind)
            return number - (kind.signed and number >> kind.width - 1) * (1 << kind.width)
        if isinstance(kind, ir.Bool):
            return parse_value(item.number_or_text(is_bool=True), 1, "the value", kind)
        if isinstance(kind, ir.ErrorCode):
            if item.value not in self._errors:
                raise item.fault(f"is no error of the program; it has {', '.join(self._errors)}")
            return self._errors.index(item.value)
        if isinstance(kind, ir.Named) and kind.name in self._structs:
            parts = self._structs[kind.name].fields
            given = item.members([part.name for part in parts])
            return {part.name: self._stored(part.type, part.type_name, given[part.name]) for part in parts}
        raise item.fault(f"is no value of {kind} that can be written here")

    def _counter(self, item: Located) -> None:
        given = item.members(("counter", "values"))
        with given["counter"]:
            counter = self._engine.objects.counter(given["counter"].word())
        for index, value in self._places(counter, given["values"]):
            parts = value.members((), ("packets", "bytes"))
            counter.counts[index] = Count(
                *(parts[name].number(_MAX_64_BITS) if name in parts else 0 for name in ("packets", "bytes"))
            )

    def _meters(self, item: Located) -> None:
        given = item.members(("meter", "values"))
        with given["meter"]:
            array = self._engine.objects.meter(given["meter"].word())
        for index, value in self._places(array, given["values"]):
            give_meter(array.meters.setdefault(index, Meter()), value)

    def _group(self, item: Located) -> None:
        given = item.members(("group", "replicas"))
        group = given["group"].number(_MAX_16_BITS, first=1)
        self._write_once("multicast groups", group, given["group"])
        with item:
            self._engine.objects.hold_group(group, _replicas(given["replicas"]))
        self._put.groups.append(group)

    def _session(self, item: Located) -> None:
        given = item.members(("session", "replicas"), ("truncate_bytes",))
        session = CloneSession(
            _replicas(given["replicas"]), _number(given, "truncate_bytes", last=_MAX_31_BITS)
        )
        number = given["session"].number(_MAX_32_BITS)
        self._write_once("clone sessions", number, given["session"])
        with item:
            self._engine.objects.hold_session(number, session)
        self._put.sessions.append(number)

    def _places(
        self, array: CounterArray | MeterArray | RegisterArray, values: Located
    ) -> Iterator[tuple[int, Located]]:
        """Yield the values of an array that a file gives, each with its index, which stands there once."""
        for word, value in values.members((), None).items():
            with value:
                index = array.checked(parse_value(word, 32, "index"))
            self._write_once(array.name, index, value)
            self._put.places.append((array.name, index))
            yield index, value

    def _write_once(self, owner: str, key: Hashable, item: Located) -> None:
        """Remember where something is written. Raises: UsageError if the file has written it already."""
        if (before := self._written.get((owner, key))) is not None:
            raise item.fault(f"is the same as {before}; one was expected")
        self._written[owner, key] = item.place


def empty(engine: Engine, table: str) -> None:
    """Delete the entries of a table but for const ones."""
    held = engine.table(table)
    for entry in held.read():
        if not held.is_const(entry):
            engine.delete(table, entry.matches, entry.priority)


def _replicas(item: Located) -> tuple[Replica, ...]:
    """Return where copies go, each somewhere else, as P4Runtime wants it."""
    found: dict[Replica, None] = {}
    for replica in item.items():
        given = replica.members(("port",), ("rid",))
        rid = given["rid"].number(_MAX_16_BITS) if "rid" in given else 0
        made = Replica(given["port"].number(HOST_PORT), rid)
        if made in found:
            raise replica.fault("names a port and rid that stand in this list already")
        found[made] = None
    return tuple(found)


def _name(item: Located, known: Iterable[str], subject: str, word: str | None = None) -> str:
    with item:
        return full_name(item.word() if word is None else word, known, subject)


def _as_program_has(value: int | str, key: KeyInfo) -> int | str:
    """Return a whole value of a key of which controllers see more or fewer bits, as they write it."""
    if not isinstance(value, str):
        return value
    number, joint, mask = value.partition("&&&" if key.match_kind == "ternary" else "/")
    ones = (1 << key.given_width) - 1
    is_whole = mask.strip() in (f"{ones:#x}", str(ones)) if joint == "&&&" else mask == str(key.given_width)
    return number if joint and is_whole else value


def _weight(item: Located) -> int:
    return _number(item.members((), None), "weight", 1, _MAX_31_BITS) if isinstance(item.value, dict) else 1


def _number(given: Mapping[str, Located], name: str, default: int = 0, last: int | None = None) -> int:
    return given[name].number(last) if name in given else default
