# SPDX-License-Identifier: Apache-2.0
"""What a file of tables says comes to hold in a program behind P4Runtime, and nothing else changes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from nicemu.control import P4RuntimeClient, P4RuntimeServer, Update
from nicemu.control.metadata import Metadata
from nicemu.errors import ControlError, P4RuntimeCode, UsageError
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, Exact, MeterConfig, P4Info, Program, TableEntry
from nicemu.switch import Applied, apply_tables, put_tables, save_tables, state_of
from tests.unit.switch.every_kind import PROGRAM
from tests.unit.switch.test_state_file import GIVEN, NOTHING, SEND_4

Apply = Callable[[object], Applied]
HIGH = {"name": "I.send", "parameters": {"port": "9"}}


@pytest.fixture
def engine() -> Engine:
    engine = Engine()
    engine.load(PROGRAM)
    return engine


@pytest.fixture
def client(engine: Engine, tmp_path: Path) -> Iterator[P4RuntimeClient]:
    address = f"unix:{tmp_path}/p4.sock"
    with P4RuntimeServer({1: engine}, address), P4RuntimeClient(address) as client:
        yield client


@pytest.fixture
def apply(client: P4RuntimeClient, tmp_path: Path) -> Apply:
    def apply(document: object) -> Applied:
        path = tmp_path / "tables.json"
        path.write_text(json.dumps(document))
        return apply_tables(client, path)

    return apply


def without_counts(state: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a state without what only a switch that begins again goes on from."""
    if isinstance(state, list):
        return [without_counts(item) for item in state]
    if not isinstance(state, dict):
        return state
    left_out = ("hits", "misses", "bytes", "green", "yellow", "red")
    return {name: without_counts(item) for name, item in state.items() if name not in left_out}


def test_everything_in_a_file_is_there_and_a_second_time_changes_no_entry(
    engine: Engine, apply: Apply, tmp_path: Path
) -> None:
    here = Engine()
    here.load(PROGRAM)
    path = tmp_path / "given.json"
    path.write_text(json.dumps(GIVEN))
    put_tables(here, path)
    first = apply(GIVEN)
    assert without_counts(state_of(engine)) == without_counts(state_of(here))
    assert first.inserted
    assert first.others
    assert not first.deleted
    again = apply(GIVEN)
    assert (again.inserted, again.modified, again.deleted) == (0, 0, 0)
    assert without_counts(state_of(engine)) == without_counts(state_of(here))


def test_what_a_program_holds_can_be_written_down_and_comes_back(
    engine: Engine, client: P4RuntimeClient, apply: Apply
) -> None:
    apply(GIVEN)
    kept = state_of(engine)
    for table in engine.tables():
        for entry in engine.read(table.name):
            if not engine.table(table.name).is_const(entry):
                client.delete(
                    table.name,
                    dict(zip([key.name for key in table.keys], entry.matches, strict=True)),
                    entry.priority,
                )
    engine.insert("I.plain", TableEntry((Exact(77),), "NoAction", ()))
    assert apply(kept).deleted == 1  # I.plain is complete without it
    assert without_counts(state_of(engine)) == without_counts(kept)


COLOURS = ("green", "yellow", "red")


def without_colours(state: Any) -> Any:  # noqa: ANN401 - JSON
    """Return a state without what meters have marked, which no client reads."""
    if isinstance(state, list):
        return [without_colours(item) for item in state]
    if not isinstance(state, dict):
        return state
    kept = {name: without_colours(item) for name, item in state.items() if name not in COLOURS}
    return {name: item for name, item in kept.items() if item != {} or state[name] == {}}


def test_what_is_saved_is_the_state_that_the_engine_holds(
    engine: Engine, client: P4RuntimeClient, apply: Apply, tmp_path: Path
) -> None:
    apply(GIVEN)
    for first in range(8):
        engine.process(bytes([first, 0, 0, 0, 0, 0]), 0, now_ns=0)
    path = tmp_path / "saved.json"
    count = save_tables(client, path)
    saved, held = json.loads(path.read_text()), without_colours(state_of(engine))
    for table in (*saved["tables"], *held["tables"]):
        del table["hits"]  # of entries that are gone, too
    assert saved == held
    assert count == sum(len(table["entries"]) for table in held["tables"])
    assert any(entry["hits"] for table in held["tables"] for entry in table["entries"])


def test_a_file_that_cannot_be_written_is_told_and_one_that_is_there_stays_where_reading_fails(
    client: P4RuntimeClient, tmp_path: Path
) -> None:
    with pytest.raises(UsageError, match="cannot be written"):
        save_tables(client, tmp_path / "no" / "saved.json")
    path = tmp_path / "saved.json"
    path.write_text("before")

    def refuse(text: bytes, p4info: P4Info | None) -> Program:
        raise ControlError(P4RuntimeCode.INVALID_ARGUMENT, "no program of ours")

    with pytest.raises(UsageError, match="no program of ours"):
        save_tables(client, path, refuse)
    assert path.read_text() == "before"
    assert list(tmp_path.glob(".saved*")) == []


def test_entries_that_a_file_does_not_name_stay(apply: Apply, client: P4RuntimeClient) -> None:
    apply([{"table": "I.plain", "entries": [{"keys": {"h.h.a": "1"}, "action": SEND_4}]}])
    other = [
        {"keys": {"h.h.a": "2"}, "action": SEND_4},
        {"keys": {"h.h.a": "1"}, "action": HIGH},
    ]
    assert apply([{"table": "I.plain", "entries": other}]) == Applied(inserted=1, modified=1)
    held = {item.entry.matches: item.entry.parameters for item in client.read("I.plain")}
    assert held == {(Exact(1),): (9,), (Exact(2),): (4,)}


def test_a_complete_table_holds_what_the_file_says_alone(apply: Apply, client: P4RuntimeClient) -> None:
    entries = [{"keys": {"h.h.a": str(key)}, "action": SEND_4} for key in (1, 2, 3)]
    apply([{"table": "I.plain", "entries": entries}])
    assert apply([{"table": "I.plain", "complete": True, "entries": entries[:1]}]) == Applied(deleted=2)
    assert len(client.read("I.plain")) == 1


def test_an_entry_keeps_its_meter_and_its_counts_unless_the_file_says_another(
    engine: Engine, apply: Apply
) -> None:
    rates = {"cir": 10, "cburst": 20, "pir": 30, "pburst": 40}
    mark = {"name": "I.mark", "parameters": {"port": "1"}}
    entry = {"keys": {"h.h.a": "1"}, "action": mark}
    apply([{"table": "I.limited", "entries": [{**entry, "meter": rates}]}])
    engine.process(bytes([1, 0, 0, 0, 0, 0]), 0, now_ns=0)
    apply([{"table": "I.limited", "entries": [{**entry, "action": NOTHING}]}])
    row = engine.row("I.limited", (Exact(1),))
    assert (row.entry.action, row.hits) == ("NoAction", 1)
    assert row.meter_config is not None
    assert row.meter_config.peak_rate == 30
    apply([{"table": "I.limited", "entries": [{**entry, "meter": {}}]}])
    assert engine.row("I.limited", (Exact(1),)).meter_config is None


def test_a_default_action_is_written_where_it_is_another(engine: Engine, apply: Apply) -> None:
    assert apply([{"table": "I.plain", "default": HIGH}]) == Applied(modified=1)
    assert engine.table("I.plain").default_row().entry.parameters == (9,)
    assert apply([{"table": "I.plain", "default": HIGH}]) == Applied()


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([{"table": "I.plain", "entries": [{"keys": {"h.h.a": "1"}, "action": "I.lost"}]}], "I.lost"),
        ([{"table": "I.acl", "entries": [{"keys": {}, "action": NOTHING, "priority": 1}]}], "entries[0]"),
        ({"registers": [{"register": "seen", "values": {"99": 1}}]}, "registers[0].values.99"),
    ],
)
def test_a_fault_at_the_end_of_a_file_changes_nothing(
    engine: Engine, apply: Apply, document: object, words: str
) -> None:
    before = state_of(engine)
    good = {"table": "I.plain", "entries": [{"keys": {"h.h.a": "8"}, "action": SEND_4}]}
    parts: Any = {"tables": document} if isinstance(document, list) else document
    parts = {**parts, "tables": [good, *parts.get("tables", [])]}
    with pytest.raises(UsageError) as caught:
        apply(parts)
    assert words in str(caught.value)
    assert state_of(engine) == before


@pytest.mark.parametrize("is_there", [False, True])
def test_what_stands_twice_in_a_file_is_refused(engine: Engine, apply: Apply, is_there: bool) -> None:
    entry = {"keys": {"h.h.a": "1"}, "action": SEND_4}
    if is_there:
        apply([{"table": "I.plain", "entries": [entry]}])
    before = state_of(engine)
    with pytest.raises(UsageError, match=r"entries\[1\]: table I.plain has an entry for 0x1 already"):
        apply([{"table": "I.plain", "entries": [entry, {**entry, "action": HIGH}]}])
    member = {"member": 5, "action": SEND_4}
    with pytest.raises(UsageError, match=r"members\[1\]: .* member 5"):
        apply({"action_profiles": [{"profile": "I.choice", "members": [member, member]}]})
    assert state_of(engine) == before


def test_what_finds_no_room_beside_what_is_there_is_refused_before_anything_is_written(
    engine: Engine, apply: Apply
) -> None:
    before = state_of(engine)
    members = [{"member": number, "action": SEND_4} for number in range(1, 18)]
    with pytest.raises(UsageError, match=r"members\[16\]: .*I.choice: is full: its size is 16"):
        apply({"action_profiles": [{"profile": "I.choice", "members": members}]})
    assert state_of(engine) == before


def test_a_program_of_another_kind_is_told_of(client: P4RuntimeClient, tmp_path: Path) -> None:
    def refuse(data: bytes, p4info: P4Info | None) -> Program:
        raise ControlError(P4RuntimeCode.INVALID_ARGUMENT, "is not JSON")

    (tmp_path / "tables.json").write_text("[]")
    with pytest.raises(UsageError, match=r"write single entries \(nicemu table add\): is not JSON"):
        apply_tables(client, tmp_path / "tables.json", reader=refuse)


def test_what_comes_in_between_is_told(engine: Engine, client: P4RuntimeClient, tmp_path: Path) -> None:
    """Somebody else fills the table while the file is read."""
    path = tmp_path / "tables.json"
    path.write_text(
        json.dumps([{"table": "I.plain", "entries": [{"keys": {"h.h.a": "1"}, "action": SEND_4}]}])
    )
    with pytest.raises(ControlError, match="plain"):
        apply_tables(
            client, path, lambda _: engine.insert("I.plain", TableEntry((Exact(1),), "NoAction", ()))
        )


CONST = compile_text("""
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; }
struct headers_t { h_t h; }
struct metadata_t { bit<2> colour; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    direct_meter<bit<2>>(MeterType.packets) rate;
    action mark(bit<9> port) { rate.read(m.colour); s.egress_spec = port; }
    action miss() { rate.read(m.colour); }
    table t {
        key = { h.h.a: exact; }
        actions = { mark; miss; }
        const default_action = miss;
        meters = rate;
        const entries = { 1: mark(7); 2: mark(8); }
    }
    apply { t.apply(); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
""").program


def test_meters_of_const_entries_and_defaults_are_written_and_saved(tmp_path: Path) -> None:
    rates = {"cir": 1, "cburst": 2, "pir": 3, "pburst": 4}
    path, saved = tmp_path / "tables.json", tmp_path / "saved.json"
    entry = {
        "keys": {"a": 1},
        "const": True,
        "action": {"name": "mark", "parameters": {"port": 7}},
        "meter": rates,
    }
    table = {"table": "t", "entries": [entry], "default_entry": {"meter": rates}}
    path.write_text(json.dumps({"tables": [table]}))
    engines = [Engine(), Engine()]
    for number, engine in enumerate(engines):
        engine.load(CONST)
        address = f"unix:{tmp_path}/{number}.sock"
        with P4RuntimeServer({1: engine}, address), P4RuntimeClient(address) as client:
            apply_tables(client, path if number == 0 else saved)
            if number == 0:
                save_tables(client, saved)
    first, second = (engine.table("I.t") for engine in engines)
    assert [row.meter_config for row in first.rows()] == [MeterConfig(1, 2, 3, 4), None]
    assert [row.meter_config for row in second.rows()] == [MeterConfig(1, 2, 3, 4), None]
    assert second.default_row().meter_config == MeterConfig(1, 2, 3, 4)


def test_what_a_controller_has_noted_with_entries_stays_where_they_are_modified(
    engine: Engine, client: P4RuntimeClient, apply: Apply
) -> None:
    noted = Metadata(7, b"mine")
    client.write([Update("insert", "I.plain", {"a": 5}, "send", {"port": 1}, note=noted)])
    client.write([Update("modify", "I.plain", {}, "NoAction", default=True, note=noted)])
    assert client.read_one("I.plain", {"a": 5}) is not None
    table = {
        "table": "I.plain",
        "entries": [{"keys": {"a": 5}, "action": {"name": "send", "parameters": {"port": 2}}}],
        "default": {"name": "send", "parameters": {"port": 3}},
    }
    assert apply([table]).modified == 2
    (row,) = engine.table("I.plain").rows()
    assert (row.entry.parameters, row.entry.note) == ((2,), noted)
    default = engine.table("I.plain").default_row().entry
    assert (default.parameters, default.note) == ((3,), noted)
    assert apply([table]) == Applied()


def test_where_others_interfere_it_is_told_that_the_file_can_be_applied_again(
    client: P4RuntimeClient, engine: Engine, apply: Apply, monkeypatch: pytest.MonkeyPatch
) -> None:
    write = client.write

    def interfere(updates: Sequence[Update]) -> None:
        engine.insert("I.plain", TableEntry((Exact(6),), "I.send", (2,)))
        write(updates)

    entries = [{"keys": {"h.h.a": str(a)}, "action": HIGH} for a in (5, 6, 7)]
    monkeypatch.setattr(client, "write", interfere)
    with pytest.raises(
        ControlError, match=r"1 of 3 updates failed; .*; apply .*tables\.json again"
    ) as refused:
        apply([{"table": "I.plain", "entries": entries}])
    assert refused.value.code is P4RuntimeCode.ALREADY_EXISTS
    monkeypatch.undo()
    assert apply([{"table": "I.plain", "entries": entries}]) == Applied(modified=1)
    assert len(engine.read("I.plain")) == 3
