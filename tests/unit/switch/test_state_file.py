# SPDX-License-Identifier: Apache-2.0
"""What a program holds at the end is written as what it may hold at the beginning."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.pipeline import Count, Engine, Exact, Group, MeterConfig, TableEntry
from nicemu.switch import put_tables, state_of, writing_state
from tests.unit.switch.every_kind import PROGRAM

SEND_4 = {"name": "I.send", "parameters": {"port": "4"}}
NOTHING = {"name": "NoAction", "parameters": {}}
GIVEN = {
    "action_profiles": [
        {
            "profile": "I.choice",
            "members": [{"member": 5, "action": SEND_4}, {"member": 6, "action": NOTHING}],
            "groups": [
                {
                    "group": 9,
                    "members": [{"member": 5, "weight": 2}, {"member": 6, "weight": 1}],
                    "max_size": 4,
                }
            ],
        }
    ],
    "tables": [
        {"table": "I.plain", "entries": [{"keys": {"h.h.a": "1"}, "action": SEND_4}], "default": SEND_4},
        {"table": "I.route", "entries": [{"keys": {"h.h.address": "10.0.0.0/8"}, "action": SEND_4}]},
        {
            "table": "I.filter",
            "entries": [
                {
                    "keys": {"h.h.a": "16&&&0xf0", "h.h.b": "1..9", "m.x": "3"},
                    "action": SEND_4,
                    "priority": 7,
                },
                {"keys": {"h.h.a": "*", "h.h.b": "5..5", "m.x": "*"}, "action": NOTHING, "priority": 6},
            ],
        },
        {
            "table": "I.balance",
            "entries": [{"keys": {"h.h.a": "1"}, "member": 5}, {"keys": {"h.h.a": "2"}, "group": 9}],
        },
        {
            "table": "I.limited",
            "entries": [
                {
                    "keys": {"h.h.a": "1"},
                    "action": {"name": "I.mark", "parameters": {"port": "1"}},
                    "meter": {"cir": 1, "cburst": 8, "pir": 1, "pburst": 15},
                }
            ],
        },
        {"table": "I.aging", "entries": [{"keys": {"h.h.a": "1"}, "action": NOTHING, "idle_timeout_ns": 5}]},
    ],
    "value_sets": [{"value_set": "P.known", "members": [{"f": "1"}]}],
    "registers": [
        {"register": "I.offset", "values": {"1": -128}},
        {"register": "I.flags", "values": {"0": True}},
        {"register": "I.pairs", "values": {"3": {"low": "1", "high": "0xff"}}},
        {"register": "I.faults", "values": {"2": "NoMatch"}},
    ],
    "counters": [{"counter": "I.counted", "values": {"7": {"packets": 2, "bytes": 100}}}],
    "meters": [
        {
            "meter": "I.rates",
            "values": {
                "2": {"cir": 1, "cburst": 1, "pir": 2, "pburst": 2},
                "3": {
                    "cir": 0,
                    "cburst": 0,
                    "pir": 0,
                    "pburst": 0,
                    "green": {"packets": 5, "bytes": 50},
                    "yellow": {"packets": 0, "bytes": 0},
                    "red": {"packets": 1, "bytes": 9},
                },
            },
        }
    ],
    "multicast_groups": [{"group": 1, "replicas": [{"port": 2, "rid": 0}, {"port": 3, "rid": 4}]}],
    "clone_sessions": [{"session": 5, "replicas": [{"port": 6, "rid": 0}], "truncate_bytes": 64}],
}
ENGINES = [Engine, pytest.param(CompiledEngine, marks=pytest.mark.skipif(not JIT, reason="NICEMU_JIT is 0"))]


def engine_with(kind: Callable[[], Engine], folder: Path, document: Any) -> Engine:  # noqa: ANN401
    engine, path = kind(), folder / "given.json"
    engine.load(PROGRAM)
    path.write_text(json.dumps(document))
    put_tables(engine, path)
    return engine


@pytest.mark.parametrize("kind", ENGINES)
def test_what_is_written_means_the_same_when_it_is_read(kind: Callable[[], Engine], tmp_path: Path) -> None:
    held = state_of(engine_with(kind, tmp_path, GIVEN))
    assert {name: part for name, part in held.items() if name != "tables"} == {
        name: part for name, part in GIVEN.items() if name != "tables"
    }
    assert state_of(engine_with(kind, tmp_path, held)) == held
    entries = {table["table"]: len(table["entries"]) for table in held["tables"]}
    assert entries == {
        "I.plain": 1,
        "I.route": 1,
        "I.acl": 1,
        "I.filter": 2,
        "I.balance": 2,
        "I.aging": 1,
        "I.initial": 3,
        "I.limited": 1,
    }


@pytest.mark.parametrize("kind", ENGINES)
def test_what_packets_have_left_is_written(kind: Callable[[], Engine], tmp_path: Path) -> None:
    engine = engine_with(kind, tmp_path, GIVEN)
    for _ in range(3):
        engine.process(bytes.fromhex("01 2a 0a000001 ff"), 0)
    held = state_of(engine)
    plain = next(table for table in held["tables"] if table["table"] == "I.plain")
    assert (plain["hits"], plain["misses"]) == (3, 0)
    assert [(entry["hits"], entry["bytes"]) for entry in plain["entries"]] == [(3, 21)]
    (counted,) = held["counters"]
    assert counted["values"] == {"1": {"packets": 3, "bytes": 21}, "7": {"packets": 2, "bytes": 100}}
    assert {"register": "I.seen", "values": {"1": "42"}} in held["registers"]


@pytest.mark.parametrize("kind", ENGINES)
def test_what_was_counted_is_counted_on(kind: Callable[[], Engine], tmp_path: Path) -> None:
    first = engine_with(kind, tmp_path, GIVEN)
    first.process(bytes.fromhex("01 2a 0a000001 ff"), 0)
    first.process(bytes.fromhex("09 2a 0a000001 ffff"), 0)
    first.table("I.limited").default_row().meter.configure(MeterConfig(1, 2, 3, 4), 0)
    second = engine_with(kind, tmp_path, state_of(first))
    assert state_of(second) == state_of(first)
    second.process(bytes.fromhex("01 2a 0a000001 ff"), 0)
    plain = next(table for table in state_of(second)["tables"] if table["table"] == "I.plain")
    assert (plain["hits"], plain["misses"]) == (2, 1)
    assert plain["default_entry"] == {"hits": 1, "bytes": 8}
    assert [(entry["hits"], entry["bytes"]) for entry in plain["entries"]] == [(2, 14)]


@pytest.mark.parametrize("kind", ENGINES)
def test_what_const_entries_have_counted_is_counted_on(kind: Callable[[], Engine], tmp_path: Path) -> None:
    """One in a table of const entries with priorities, and one beside entries that may change."""
    engine = engine_with(kind, tmp_path, {})
    (acl,) = engine.read("acl")
    for row in (engine.row("acl", acl.matches, acl.priority), engine.row("initial", (Exact(3),))):
        row.hits, row.bytes = 5, 500
    again = engine_with(kind, tmp_path, state_of(engine))
    assert state_of(again) == state_of(engine)
    initial = next(table for table in state_of(again)["tables"] if table["table"] == "I.initial")
    assert {entry["hits"] for entry in initial["entries"] if entry["const"]} == {5}
    again.process(bytes.fromhex("03 01 0a000001 ff"), 0)
    assert again.row("initial", (Exact(3),)).hits == 6


def test_a_const_entry_that_the_program_no_longer_has_is_passed_over(tmp_path: Path) -> None:
    held = state_of(engine_with(Engine, tmp_path, {}))
    initial = next(table for table in held["tables"] if table["table"] == "I.initial")
    initial["entries"].append({**initial["entries"][0], "keys": {"h.h.a": "0x63"}, "const": True, "hits": 5})
    assert len(engine_with(Engine, tmp_path, held).read("initial")) == 3


@pytest.mark.parametrize("kind", ENGINES)
def test_meters_mark_by_the_rates_given_and_what_they_marked_is_written(
    kind: Callable[[], Engine], tmp_path: Path
) -> None:
    engine = engine_with(kind, tmp_path, GIVEN)
    for _ in range(3):
        engine.process(bytes.fromhex("01 02 0a000001 ff"), 0, now_ns=1000)
    held = state_of(engine)
    (rates,) = held["meters"]
    assert rates["values"]["2"] == {
        **{"cir": 1, "cburst": 1, "pir": 2, "pburst": 2},
        **{"green": {"packets": 1, "bytes": 7}, "yellow": {"packets": 1, "bytes": 7}},
        "red": {"packets": 1, "bytes": 7},
    }
    limited = next(table for table in held["tables"] if table["table"] == "I.limited")
    marked = [limited["entries"][0]["meter"][colour]["packets"] for colour in ("green", "yellow", "red")]
    assert marked == [1, 1, 1]
    again = engine_with(kind, tmp_path, held)
    assert state_of(again) == held
    again.process(bytes.fromhex("01 02 0a000001 ff"), 0, now_ns=2000)
    (rates,) = state_of(again)["meters"]
    assert rates["values"]["2"]["green"] == {"packets": 2, "bytes": 14}  # its buckets are full again


@pytest.mark.parametrize("kind", ENGINES)
def test_meters_that_were_all_given_rates_are_written_at_every_place(
    kind: Callable[[], Engine], tmp_path: Path
) -> None:
    engine = engine_with(kind, tmp_path, {})
    config = MeterConfig(1, 2, 1, 2, excess_burst=5)
    engine.objects.meter("rates").fill(config, 0)
    engine.objects.meter("rates").configure(1, None, 0)
    again = engine_with(kind, tmp_path, state_of(engine)).objects.meter("rates").meters
    assert [again[index].config if index in again else None for index in range(4)] == [
        config,
        None,
        config,
        config,
    ]


@pytest.mark.parametrize("kind", ENGINES)
def test_initial_entries_that_a_controller_has_changed_do_not_come_back(
    kind: Callable[[], Engine], tmp_path: Path
) -> None:
    engine = engine_with(kind, tmp_path, GIVEN)
    engine.delete("initial", (Exact(1),))
    engine.modify("initial", TableEntry((Exact(2),), "I.send", (9,)))
    again = engine_with(kind, tmp_path, state_of(engine))
    assert again.read("initial") == [
        TableEntry((Exact(3),), "I.send", (3,)),
        TableEntry((Exact(2),), "I.send", (9,)),
    ]


@pytest.mark.parametrize("kind", ENGINES)
def test_a_counter_that_was_set_everywhere_is_written_everywhere(
    kind: Callable[[], Engine], tmp_path: Path
) -> None:
    engine = engine_with(kind, tmp_path, {})
    engine.objects.counter("counted").fill(Count(5, 500))
    engine.objects.counter("counted").counts[2] = Count()
    again = engine_with(kind, tmp_path, state_of(engine))
    places = [again.objects.counter("counted").counts.get(index, Count()) for index in range(8)]
    assert [place.packets for place in places] == [5, 5, 0, 5, 5, 5, 5, 5]


def test_a_group_without_members_is_one(tmp_path: Path) -> None:
    engine = engine_with(Engine, tmp_path, {})
    engine.objects.profile("choice").insert_group(9, (), 3)
    engine.insert("balance", TableEntry((Exact(1),), "", (), 0, Group(9)))
    again = engine_with(Engine, tmp_path, state_of(engine))
    assert again.objects.profile("choice").groups == {9: ()}
    assert again.objects.profile("choice").max_sizes == {9: 3}


def test_a_program_that_holds_nothing_has_its_tables_alone(tmp_path: Path) -> None:
    held = state_of(engine_with(Engine, tmp_path, {}))
    assert list(held) == ["tables"]


def test_a_file_is_written_at_the_end_and_not_before(tmp_path: Path) -> None:
    engine, path = engine_with(Engine, tmp_path, GIVEN), tmp_path / "state.json"
    path.write_text("before")
    with writing_state(path) as write:
        assert path.read_text() == "before"
        write(engine)
    assert json.loads(path.read_text()) == state_of(engine)
    assert [item.name for item in tmp_path.iterdir() if item.name.startswith(".")] == []


def test_a_run_that_fails_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    with pytest.raises(UsageError), writing_state(path):
        raise UsageError("the run failed")
    assert list(tmp_path.iterdir()) == []


def test_a_link_goes_on_to_lead_to_the_file(tmp_path: Path) -> None:
    file, link = tmp_path / "held.json", tmp_path / "link.json"
    file.touch()
    link.symlink_to(file)
    with writing_state(link) as write:
        write(engine_with(Engine, tmp_path, GIVEN))
    assert link.is_symlink()
    assert json.loads(file.read_text())["tables"]


def test_a_pipe_is_written_too(tmp_path: Path) -> None:
    engine, path, read = engine_with(Engine, tmp_path, GIVEN), tmp_path / "pipe", []
    os.mkfifo(path)
    reader = threading.Thread(target=lambda: read.append(path.read_text()))
    reader.start()
    with writing_state(path) as write:
        write(engine)
    reader.join()
    assert json.loads(read[0]) == state_of(engine)


def test_a_file_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    told = pytest.raises(UsageError, match=r"state\.json cannot be written: No such file")
    with told, writing_state(tmp_path / "missing" / "state.json"):
        raise AssertionError("it began")
