# SPDX-License-Identifier: Apache-2.0
"""`nicemu p4`: the objects of the program that a NIC runs, over P4Runtime, in the program's words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from nicemu.errors import UsageError

from .controlled import PIPELINE_OPTION, pipeline_of
from .show import JSON_OPTION, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicemu.control import ObjectClient, Place
    from nicemu.pipeline import MeterConfig, Replica

EVERYWHERE = "*"
"""The index that means every place of an array."""
DELETE_OPTION = click.option("--delete", is_flag=True, help="Remove it.")
_TWO_RATES = ("cir", "cburst", "pir", "pburst")
_ONE_RATE = ("cir", "cburst", "eburst")
_PAIR = re.compile(r"([0-9]+)(?::([0-9]+))?")


@click.group()
def p4() -> None:
    """Counters, meters, registers, action profiles, mirrors and multicast of the program that a NIC runs.

    Names are the program's, or the end of them. These counters are those of P4: for trigger counters see
    `nicemu counter`.
    """


@p4.command("list")
@PIPELINE_OPTION
@JSON_OPTION
def list_objects(nic: str | None, as_json: bool) -> None:
    """List the objects of the program, with how much each holds."""
    with _objects(nic) as objects:
        found = objects.all()
    if as_json:
        print_json([{"kind": item.kind, "name": item.name, "size": item.size} for item in found])
    else:
        print_table(["kind", "name", "size"], [[item.kind, item.name, item.size or None] for item in found])


@p4.command("read")
@click.argument("name")
@click.argument("index", type=click.IntRange(min=0), required=False)
@PIPELINE_OPTION
@JSON_OPTION
def read(name: str, index: int | None, nic: str | None, as_json: bool) -> None:
    """Read counter, meter, register or value set NAME, at INDEX or everywhere."""
    with _objects(nic) as objects:
        found = objects.find(name, ("counter", "meter", "register", "value set"))
        if found.kind == "value set":
            members = [_texts(member) for member in objects.value_set(found.name)]
            if as_json:
                print_json(members)
            else:
                print_table(["member"], [[", ".join(member)] for member in members], found.name)
            return
        places = objects.read(found.name, index)
    if as_json:
        print_json([{"index": place.index, "value": place.value} for place in places])
    else:
        print_table(*_columns(places, found.kind == "register"), found.name)


@p4.command("write", context_settings={"ignore_unknown_options": True})  # -4 is a value
@click.argument("name")
@click.argument("index")
@click.argument("values", nargs=-1, metavar="[VALUE | FIELD=VALUE...]")
@PIPELINE_OPTION
def write(name: str, index: str, values: tuple[str, ...], nic: str | None) -> None:
    """Write register, counter or meter NAME at INDEX, or with * everywhere.

    A register takes a number, a text or the name of a member, as its type is, or the fields of its struct; a
    counter packets=N and bytes=N; fields that are left out are 0; a meter cir, cburst, pir and pburst in its
    units (a second), one of one rate cir, cburst and eburst, or nothing, which is always green.
    """
    place = _index(index)
    with _objects(nic) as objects:
        found = objects.find(name)
        if found.kind == "register":
            if len(values) == 1 and "=" not in values[0]:
                objects.write_register(found.name, place, values[0])
            else:
                objects.write_register(found.name, place, _settings(values))
        elif found.kind == "counter":
            counts = _numbers(values, ("packets", "bytes"))
            objects.write_counter(found.name, place, counts.get("packets", 0), counts.get("bytes", 0))
        else:
            objects.write_meter(found.name, place, _meter(_numbers(values, (*_TWO_RATES, "eburst"))))


@p4.command("value-set")
@click.argument("name")
@click.argument("members", nargs=-1, metavar="[VALUE[,VALUE]...]")
@click.option("--empty", is_flag=True, help="Leave it without members.")
@PIPELINE_OPTION
def value_set(name: str, members: tuple[str, ...], empty: bool, nic: str | None) -> None:
    """Give value set NAME these members, with a comma between the values of one."""
    if empty == bool(members):
        raise click.UsageError(
            "members, or --empty, were expected; nicemu p4 read NAME shows those there are"
        )
    with _objects(nic) as objects:
        found = objects.find(name, ("value set",))
        objects.set_value_set(found.name, [member.split(",") for member in members])


@p4.command("mirror")
@click.argument("session", type=click.IntRange(min=1), required=False)
@click.argument("ports", nargs=-1, metavar="[PORT[:INSTANCE]...]")
@click.option(
    "--truncate", type=click.IntRange(min=0), default=0, metavar="BYTES", help="Cut copies to this."
)
@DELETE_OPTION
@PIPELINE_OPTION
@JSON_OPTION
def mirror(
    session: int | None, ports: tuple[str, ...], truncate: int, delete: bool, nic: str | None, as_json: bool
) -> None:
    """List clone sessions, all or one, or have copies of clone SESSION go to these ports."""
    from nicemu.pipeline import CloneSession

    _require_number(delete, session, ports, truncate)
    with _objects(nic) as objects:
        if delete and session is not None:
            objects.delete_clone_session(session)
        elif not ports:
            rows = [
                {"session": number, "ports": _port_texts(held.replicas), "truncate": held.truncate_bytes}
                for number, held in objects.clone_sessions().items()
                if session in (None, number)
            ]
            _require_found(rows, "clone session", session)
            _print_rows(rows, as_json, ("session", "ports", "truncate"))
        else:
            assert session is not None  # it stands before the ports
            objects.set_clone_session(session, CloneSession(_replicas(ports), truncate))


@p4.command("multicast")
@click.argument("group", type=click.IntRange(min=1), required=False)
@click.argument("ports", nargs=-1, metavar="[PORT[:INSTANCE]...]")
@DELETE_OPTION
@PIPELINE_OPTION
@JSON_OPTION
def multicast(
    group: int | None, ports: tuple[str, ...], delete: bool, nic: str | None, as_json: bool
) -> None:
    """List multicast groups, all or one, or have multicast GROUP go to these ports."""
    _require_number(delete, group, ports)
    with _objects(nic) as objects:
        if delete and group is not None:
            objects.delete_multicast_group(group)
        elif not ports:
            rows = [
                {"group": number, "ports": _port_texts(replicas)}
                for number, replicas in objects.multicast_groups().items()
                if group in (None, number)
            ]
            _require_found(rows, "multicast group", group)
            _print_rows(rows, as_json, ("group", "ports"))
        else:
            assert group is not None  # it stands before the ports
            objects.set_multicast_group(group, _replicas(ports))


@p4.command("member")
@click.argument("profile")
@click.argument("number", type=click.IntRange(min=1), required=False)
@click.argument("action", required=False)
@click.argument("settings", nargs=-1, metavar="[PARAM=VALUE...]")
@DELETE_OPTION
@PIPELINE_OPTION
@JSON_OPTION
def member(
    profile: str,
    number: int | None,
    action: str | None,
    settings: tuple[str, ...],
    delete: bool,
    nic: str | None,
    as_json: bool,
) -> None:
    """List the members of action profile PROFILE, all or one, or have member NUMBER run ACTION."""
    _require_number(delete, number, action)
    with _objects(nic) as objects:
        name = objects.find(profile, ("action profile",)).name
        if delete and number is not None:
            objects.delete_member(name, number)
        elif action is None:
            rows = [
                {"member": key, "action": call["name"], "parameters": call["parameters"]}
                for key, call in objects.shown_members(name).items()
                if number in (None, key)
            ]
            _require_found(rows, "member", number)
            _print_rows(rows, as_json, ("member", "action", "parameters"))
        else:
            assert number is not None  # it stands before the action
            objects.set_member(name, number, action, _settings(settings))


@p4.command("group")
@click.argument("profile")
@click.argument("number", type=click.IntRange(min=1), required=False)
@click.argument("members", nargs=-1, metavar="[MEMBER[:WEIGHT]...]")
@DELETE_OPTION
@PIPELINE_OPTION
@JSON_OPTION
def group(
    profile: str, number: int | None, members: tuple[str, ...], delete: bool, nic: str | None, as_json: bool
) -> None:
    """List the groups of selector PROFILE, all or one, or have group NUMBER hold these members."""
    _require_number(delete, number, members)
    with _objects(nic) as objects:
        name = objects.find(profile, ("action profile",)).name
        if delete and number is not None:
            objects.delete_group(name, number)
        elif not members:
            rows = [
                {"group": key, "members": [f"{one}:{weight}" for one, weight in held]}
                for key, held in objects.groups(name).items()
                if number in (None, key)
            ]
            _require_found(rows, "group", number)
            _print_rows(rows, as_json, ("group", "members"))
        else:
            assert number is not None  # it stands before the members
            pairs = [_pair(word, 1) for word in members]
            objects.set_group(name, number, pairs, objects.max_sizes(name).get(number, 0))


@contextmanager
def _objects(nic: str | None) -> Iterator[ObjectClient]:
    from nicemu.control import P4RuntimeClient, passing_role

    with P4RuntimeClient(pipeline_of(nic)[1], at_once=False, role=passing_role()) as client:
        yield client.objects


def _index(text: str) -> int | None:
    if text == EVERYWHERE:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 18:
        raise click.UsageError(f"index {text!r} found; a number, or * for every place, was expected")
    return int(text)


def _settings(words: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value) or name in found:
            raise click.UsageError(f"{word!r} found; NAME=VALUE was expected, each name once")
        found[name] = value
    return found


def _meter(rates: Mapping[str, int]) -> MeterConfig | None:
    """Return how a meter is to be configured, None for one that is always green. Raises: UsageError."""
    from nicemu.pipeline import MeterConfig

    if not rates:
        return None
    if set(rates) == set(_ONE_RATE):  # it has no peak of its own
        return MeterConfig(rates["cir"], rates["cburst"], rates["cir"], rates["cburst"], rates["eburst"])
    if not set(_TWO_RATES) <= set(rates):
        either = f"{', '.join(_TWO_RATES)}, or of one rate {', '.join(_ONE_RATE)}"
        raise UsageError(f"a meter has {either}; write all of them, or none")
    return MeterConfig(*(rates.get(name, 0) for name in (*_TWO_RATES, "eburst")))


def _numbers(words: Iterable[str], names: tuple[str, ...]) -> dict[str, int]:
    from nicemu.control import parse_value
    from nicemu.pipeline import ir

    given = _settings(words)
    unknown = [name for name in given if name not in names]
    if unknown:
        raise UsageError(f"{unknown[0]} found; {', '.join(names)} were expected")
    return {name: parse_value(text, 63, name, ir.Bits(63)) for name, text in given.items()}


def _pair(word: str, second: int) -> tuple[int, int]:
    match = _PAIR.fullmatch(word)
    if match is None or len(word) > 20:
        raise click.UsageError(f"{word!r} found; NUMBER or NUMBER:NUMBER was expected")
    return int(match[1]), int(match[2] or second)


def _replicas(words: Iterable[str]) -> tuple[Replica, ...]:
    from nicemu.pipeline import Replica

    return tuple(Replica(*_pair(word, 0)) for word in words)


def _port_texts(replicas: Iterable[Replica]) -> list[str]:
    return [f"{item.port}:{item.rid}" if item.rid else str(item.port) for item in replicas]


def _texts(member: Iterable[Any]) -> list[str]:
    from nicemu.pipeline import matches_text

    return [matches_text((match,)) for match in member]


def _columns(places: list[Place], is_register: bool) -> tuple[list[str], list[list[object]]]:
    """Return the columns and rows of what an array holds; numbers of a register as they are written."""

    def shown(value: object) -> object:
        is_number = is_register and isinstance(value, int) and not isinstance(value, bool)
        return str(value) if is_number else value

    fields = next((list(place.value) for place in places if isinstance(place.value, Mapping)), None)
    if fields is None:
        return ["index", "value"], [[place.index, shown(place.value)] for place in places]
    rows: list[list[object]] = []
    for place in places:
        values = place.value if isinstance(place.value, Mapping) else {}
        rows.append([place.index, *(shown(values.get(name)) for name in fields)])
    return ["index", *fields], rows


def _require_number(delete: bool, number: int | None, *others: object) -> None:
    """Raises: click.UsageError where what is to be deleted is not named, or told to be something."""
    if delete and number is None:
        raise click.UsageError("--delete needs the number of what to remove")
    if delete and any(others):
        raise click.UsageError("--delete takes a number alone")


def _require_found(rows: Sequence[object], what: str, number: int | None) -> None:
    """Raises: UsageError for one that was asked for and is not there."""
    if number is not None and not rows:
        raise UsageError(f"there is no {what} {number}")


def _print_rows(rows: list[dict[str, object]], as_json: bool, columns: tuple[str, ...]) -> None:
    if as_json:
        print_json(rows)
        return
    print_table(columns, [[_cell(row[name]) for name in columns] for row in rows])


def _cell(value: object) -> object:
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text}" for name, text in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list) else value
