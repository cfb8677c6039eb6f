# SPDX-License-Identifier: Apache-2.0
"""`nicemu table list`, `add`, `modify`, `delete`, `default`, `clear`, `apply`, `save`: table entries over
P4Runtime, in the program's words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from nicemu.errors import UsageError

from .controlled import PIPELINE_OPTION, pipeline_of
from .progress import Progress
from .show import JSON_OPTION, print_json, print_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from nicemu.control import P4RuntimeClient, ReadEntry, TableSchema, Update
    from nicemu.pipeline import Choice
    from nicemu.switch import Applied

PRIORITY_OPTION = click.option(
    "--priority",
    type=click.IntRange(min=1),
    default=None,
    help="For tables with a ternary, range or optional key; the larger wins.",
)


@click.group()
def table() -> None:
    """Table entries of the program that a NIC runs.

    A value is a number (42, 0x2a), an IPv4, IPv6 or MAC address. A match is a value, VALUE/PREFIX_LEN (lpm,
    ternary), VALUE&&&MASK (ternary), LOW..HIGH (range), or * (anything).
    """


@table.command("list")
@click.argument("name", metavar="[TABLE]", required=False)
@PIPELINE_OPTION
@JSON_OPTION
def list_entries(name: str | None, nic: str | None, as_json: bool) -> None:
    """List the entries of TABLE, or of every table, with how often each was hit."""
    with _client(nic) as client:
        schemas = client.tables()
        if name is not None:
            schemas = [_named(name, schemas, "the program", "table")]
        found = [(schema, _entries(client, schema)) for schema in schemas]
    if as_json:
        print_json([_table_json(schema, entries) for schema, entries in found])
        return
    for position, (schema, entries) in enumerate(found):
        if position:
            click.echo()
        _print_entries(schema, entries)
    if not found:
        click.echo("the program has no table")


@table.command("add")
@click.argument("name", metavar="TABLE")
@click.argument("action")
@click.argument("settings", metavar="KEY=VALUE... [PARAM=VALUE...]", nargs=-1)
@PRIORITY_OPTION
@PIPELINE_OPTION
def add(name: str, action: str, settings: tuple[str, ...], priority: int | None, nic: str | None) -> None:
    """Add an entry to TABLE that runs ACTION; in a table with an action profile, member=N or group=N.

    Keys and parameters go by their names, or by the end of them: session for headers.kv.session; where a key
    and a parameter have one name, by key.NAME and parameter.NAME.
    """
    _write("insert", name, action, _settings(settings), priority, nic)


@table.command("modify")
@click.argument("name", metavar="TABLE")
@click.argument("action")
@click.argument("settings", metavar="KEY=VALUE... [PARAM=VALUE...]", nargs=-1)
@PRIORITY_OPTION
@PIPELINE_OPTION
def modify(name: str, action: str, settings: tuple[str, ...], priority: int | None, nic: str | None) -> None:
    """Have the entry of TABLE with these matches run ACTION instead; timeout and meter stay."""
    _write("modify", name, action, _settings(settings), priority, nic)


@table.command("delete")
@click.argument("name", metavar="TABLE")
@click.argument("settings", metavar="KEY=VALUE...", nargs=-1)
@PRIORITY_OPTION
@PIPELINE_OPTION
def delete(name: str, settings: tuple[str, ...], priority: int | None, nic: str | None) -> None:
    """Delete the entry of TABLE with these matches."""
    given = _settings(settings)
    with _client(nic) as client:
        schema = _named(name, client.tables(), "the program", "table")
        keys, _ = _divided(given, [key.name for key in schema.keys], [])
        client.delete(schema.name, keys, _priority(schema, priority))


@table.command("default")
@click.argument("name", metavar="TABLE")
@click.argument("action", required=False)
@click.argument("settings", metavar="[PARAM=VALUE...]", nargs=-1)
@PIPELINE_OPTION
def default(name: str, action: str | None, settings: tuple[str, ...], nic: str | None) -> None:
    """Have TABLE run ACTION for what matches no entry, or again what the program says."""
    from nicemu.control import Update

    given = _settings(settings)
    with _client(nic) as client:
        schema = _named(name, client.tables(), "the program", "table")
        called, values = None, dict[str, str]()
        if action is not None:
            named = _named(action, schema.actions, f"table {schema.name}", "action")
            called, (_, values) = named.name, _divided(given, [], [item.name for item in named.params])
        present = client.read_default(schema.name, meters=schema.has_meter)
        chosen = Update("modify", schema.name, {}, called, values, default=True)
        client.write([replace(chosen, meter=present.meter, note=present.entry.note)])


@table.command("clear")
@click.argument("names", metavar="TABLE...", nargs=-1, required=True)
@PIPELINE_OPTION
@JSON_OPTION
def clear(names: tuple[str, ...], nic: str | None, as_json: bool) -> None:
    """Delete the entries of each TABLE, but for those that are const in the program; defaults stay."""
    from nicemu.control import Update

    with _client(nic) as client:
        known = client.tables()
        found = [_named(name, known, "the program", "table") for name in names]
        updates = [
            Update(
                "delete",
                schema.name,
                dict(zip((key.name for key in schema.keys), item.entry.matches, strict=True)),
                priority=item.entry.priority,
            )
            for schema in {one.name: one for one in found}.values()
            for item in client.read(schema.name)
            if not item.const
        ]
        if updates:
            client.write(updates)
    if as_json:
        print_json({"deleted": len(updates)})
    else:
        click.echo(f"entries: {len(updates)} deleted")


@table.command("save")
@click.argument("file", metavar="FILE", type=click.Path(dir_okay=False, path_type=Path))
@PIPELINE_OPTION
def save(file: Path, nic: str | None) -> None:
    """Write what the program holds to FILE, whole or not at all, - for the standard output.

    Entries and defaults with what they have counted, members and groups, value sets, registers, counters,
    meters, multicast groups and clone sessions. nicemu table apply FILE has it hold all but the counts of
    entries again, nicemu switch --tables FILE those, too.
    """
    from nicemu.run import program_of
    from nicemu.switch import save_tables

    with _client(nic) as client:
        count = save_tables(client, file, program_of)
    click.echo(f"entries: {count} written to {file}", err=str(file) == "-")


@table.command("apply")
@click.argument("file", metavar="FILE", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@PIPELINE_OPTION
@JSON_OPTION
def apply(file: Path, nic: str | None, as_json: bool) -> None:
    """Have the program hold what FILE says, a JSON file as nicemu switch --tables reads it.

    What nicemu table list --json prints is one, too. Entries that FILE does not name stay, but for those of
    tables that it calls complete, and so do counts of entries. A fault in FILE changes nothing.
    """
    applied = _applied(pipeline_of(nic)[1], file)
    if as_json:
        print_json(asdict(applied))
    else:
        click.echo(_told(applied))


def applied_text(address: str, file: Path) -> str:
    """Have the program at an address hold what a file of tables says; return what to tell of it."""
    return _told(_applied(address, file))


def _applied(address: str, file: Path) -> Applied:
    from nicemu.run import program_of
    from nicemu.switch import apply_tables

    progress = Progress("entries")
    try:
        with _client_at(address) as client:
            return apply_tables(client, file, progress.tell, program_of)
    finally:
        progress.end()


def _told(applied: Applied) -> str:
    counts = f"{applied.inserted} added, {applied.modified} changed, {applied.deleted} deleted"
    return f"entries: {counts}" + (f"; other writes: {applied.others}" if applied.others else "")


def _client(nic: str | None) -> AbstractContextManager[P4RuntimeClient]:
    return _client_at(pipeline_of(nic)[1])


@contextmanager
def _client_at(address: str) -> Iterator[P4RuntimeClient]:
    from nicemu.control import P4RuntimeClient, passing_role

    with P4RuntimeClient(address, at_once=False, role=passing_role()) as client:
        yield client


def _write(
    kind: str, name: str, action: str, given: Mapping[str, str], priority: int | None, nic: str | None
) -> None:
    from nicemu.control import Update

    with _client(nic) as client:
        schema = _named(name, client.tables(), "the program", "table")
        if "=" in action and _choice(action) is None:
            instead = ", or member=N or group=N," if schema.has_profile else ""
            raise click.UsageError(f"{action!r} found; the action{instead} stands before keys and parameters")
        choice, rank = _choice(action), _priority(schema, priority)
        if choice is not None:
            keys, _ = _divided(given, [key.name for key in schema.keys], [])
            _write_one(client, schema, Update(kind, schema.name, keys, priority=rank, choice=choice))
            return
        parameters = _named(action, schema.actions, f"table {schema.name}", "action").params
        keys, values = _divided(given, [key.name for key in schema.keys], [item.name for item in parameters])
        _write_one(client, schema, Update(kind, schema.name, keys, action, values, rank))


def _write_one(client: P4RuntimeClient, schema: TableSchema, update: Update) -> None:
    """Write one change; an entry that is modified keeps its idle timeout, its meter's rates and what its
    controller has noted with it.
    """
    if update.kind == "modify":
        present = client.read_one(schema.name, update.keys, update.priority)
        if present is not None:
            timeout, note = present.entry.idle_timeout_ns, present.entry.note
            update = replace(update, idle_timeout_ns=timeout, meter=present.meter, note=note)
    client.write([update])


def _priority(schema: TableSchema, given: int | None) -> int:
    """Return the priority of an entry, 0 where its table has none. Raises: click.UsageError."""
    if given is None and schema.has_priority:
        raise click.UsageError(
            f"entries of {schema.name} have priorities: write --priority NUMBER; the larger wins"
        )
    return given or 0


def _choice(word: str) -> Choice | None:
    """Return the member or group of an action profile that stands for an action, if one does."""
    from nicemu.pipeline import Group, Member

    name, _, number = word.partition("=")
    if name not in ("member", "group") or not number.isascii() or not number.isdigit():
        return None
    return Member(int(number)) if name == "member" else Group(int(number))


def _settings(words: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not (name and equals and value):
            raise click.UsageError(f"{word!r} found; NAME=VALUE was expected")
        if name in found:
            raise click.UsageError(f"{name} is given twice")
        found[name] = value
    return found


def _divided(
    given: Mapping[str, str], keys: Sequence[str], parameters: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Return what is meant for the keys, and what for the action's parameters, by their whole names."""
    from nicemu.pipeline import key_name

    own = {(False, name) for name in keys} | {(True, name) for name in parameters}
    divided: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for word, value in given.items():
        meant = _meant(key_name(word), own)
        if len(meant) != 1:
            hint = "write one of these names"
            if len({name for _, name in meant}) == 1:
                hint = f"write key.{word} or parameter.{word}"
            raise UsageError(
                f"{word} is {'several' if meant else 'none'} of the keys ({', '.join(keys) or 'none'}) and "
                f"parameters ({', '.join(parameters) or 'none'}); {hint}"
            )
        is_parameter, name = meant[0]
        if name in divided[is_parameter]:
            raise UsageError(f"{name} is given twice")
        divided[is_parameter][name] = value
    return divided


def _meant(word: str, own: set[tuple[bool, str]]) -> list[tuple[bool, str]]:
    """Return which of some keys and, with True, parameters a word means: a name, the end of one, or either
    behind `key.` or `parameter.`.
    """
    ending = f".{word}"
    found = [item for item in own if item[1] == word] or [item for item in own if item[1].endswith(ending)]
    kind, dot, rest = word.partition(".")
    if found or not dot or kind not in ("key", "parameter"):
        return found
    return _meant(rest, {item for item in own if item[0] is (kind == "parameter")})


def _named(name: str, things: Iterable[Any], where: str, noun: str) -> Any:  # noqa: ANN401 - whatever has a name
    known = {thing.name: thing for thing in things}
    if name in known:
        return known[name]
    meant = [whole for whole in known if whole.endswith(f".{name}")]
    if len(meant) != 1:
        count = "several of the same" if meant else "no"
        raise UsageError(f"{where} has {count} {noun} {name}; it has {', '.join(known) or 'none'}")
    return known[meant[0]]


def _entries(client: P4RuntimeClient, schema: TableSchema) -> list[ReadEntry]:
    """Return the entries of a table, the default entry last."""
    asked = {"hits": True, "meters": schema.has_meter}
    return [*client.read(schema.name, **asked), client.read_default(schema.name, **asked)]


def _print_entries(schema: TableSchema, entries: list[ReadEntry]) -> None:
    columns = [f"{key.name} ({key.match_kind})" for key in schema.keys]
    columns += [*(["priority"] if schema.has_priority else []), "action", "hits"]
    columns += ["bytes"] if schema.has_counter else []
    rows = []
    for item in entries:
        row: list[object] = [*_key_cells(schema, item)]
        if schema.has_priority:
            row.append(None if item.default else item.entry.priority)
        counts = [item.hits, item.hit_bytes] if schema.has_counter else [item.hits]
        rows.append([*row, _call_text(schema, item), *counts])
    count = len(entries) - 1
    title = f"{schema.name}: {count} of {schema.info.size} entries"
    print_table(columns, rows, title)


def _key_cells(schema: TableSchema, item: ReadEntry) -> list[str]:
    from nicemu.control import match_text

    if item.default:
        return ["(default)", *[""] * len(schema.keys)][: len(schema.keys)]
    return [match_text(match, key.width) for key, match in zip(schema.keys, item.entry.matches, strict=True)]


def _table_json(schema: TableSchema, entries: list[ReadEntry]) -> dict[str, object]:
    from nicemu.control import choice_json, entry_json

    return {
        "table": schema.name,
        "size": schema.info.size,
        "entries": [
            {
                **entry_json(schema.keys, schema.actions, item.entry),
                "const": item.const,
                "hits": item.hits,
                **({"bytes": item.hit_bytes} if schema.has_counter else {}),
                **_meter_json(item),
            }
            for item in entries
            if not item.default
        ],
        "default": choice_json(schema.actions, entries[-1].entry)["action"],
        "misses": entries[-1].hits,
        **({"default_entry": meter} if (meter := _meter_json(entries[-1])) else {}),
    }


def _meter_json(item: ReadEntry) -> dict[str, object]:
    """Return the rates of an entry's direct meter, as files of tables have them."""
    from nicemu.switch import meter_json

    return {"meter": meter_json(item.meter)} if item.meter is not None else {}


def _call_text(schema: TableSchema, item: ReadEntry) -> str:
    from nicemu.control import choice_json

    ((kind, value),) = choice_json(schema.actions, item.entry).items()
    if kind == "action":
        settings = ", ".join(f"{name}={text}" for name, text in value["parameters"].items())
        return f"{item.entry.action}({settings})"
    return f"{kind} {value}" if isinstance(value, int) else "a set of actions"
