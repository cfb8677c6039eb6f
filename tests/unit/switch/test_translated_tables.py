# SPDX-License-Identifier: Apache-2.0
"""Files of tables, where controllers see other values than programs, or not all tables, mean one thing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nicemu.control import P4RuntimeClient, P4RuntimeServer, Update
from nicemu.errors import ControlError, UsageError
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, Exact
from nicemu.switch import apply_tables, put_tables, save_tables

PROGRAM = compile_text("""
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("", string) type bit<10> name_t;
@p4runtime_translation("corp/port", 32) type bit<9> port_t;
header x_t { bit<8> a; bit<8> b; }
struct headers_t { x_t x; }
struct metadata_t { name_t n; port_t out_; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    value_set<name_t>(4) special;
    state start {
        b.extract(h.x);
        transition select((name_t) (bit<10>) h.x.b) { special: accept; _: accept; }
    }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<name_t>(4) last;
    action send(port_t p) { m.out_ = p; }
    action call(name_t n) { m.n = n; }
    @hidden table fixed { key = { h.x.b: exact; } actions = { NoAction; } entries = { 9: NoAction(); } }
    table names { key = { h.x.a: exact; } actions = { call; NoAction; } }
    table exactly { key = { m.n: exact @name("n"); } actions = { send; NoAction; } }
    action_selector(HashAlgorithm.crc16, 8, 8) choice;
    table maybe {
        key = { m.n: optional @name("n"); (port_t) s.ingress_port: ternary @name("port"); h.x.b: selector; }
        actions = { send; NoAction; }
        implementation = choice;
    }
    apply {
        m.out_ = (port_t) 9w511;
        fixed.apply();
        names.apply();
        last.write((bit<32>) h.x.b, m.n);
        if (!exactly.apply().hit) { maybe.apply(); }
        s.egress_spec = (bit<9>) m.out_;
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h.x); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
""").program


def call(name: str, **parameters: object) -> dict[str, object]:
    return {"name": name, "parameters": parameters}


GIVEN: dict[str, Any] = {
    "action_profiles": [{"profile": "choice", "members": [{"member": 1, "action": call("send", p=6)}]}],
    "tables": [
        {
            "table": "names",
            "entries": [
                {"keys": {"a": 1}, "action": call("call", n=5)},
                {"keys": {"a": 2}, "action": call("call", n="blue")},
                {"keys": {"a": 3}, "action": call("call", n="red")},
            ],
        },
        {
            "table": "exactly",
            "entries": [
                {"keys": {"n": 5}, "action": call("send", p=2)},
                {"keys": {"n": "blue"}, "action": call("send", p=3)},
            ],
        },
        {"table": "maybe", "entries": [{"keys": {"n": "red", "port": 7}, "priority": 1, "member": 1}]},
    ],
    "value_sets": [{"value_set": "special", "members": ["blue", "7"]}],
    "registers": [{"register": "last", "values": {"3": "red"}}],
}
ARRIVALS = [(1, 0), (2, 0), (3, 0), (3, 7), (4, 7)]


def ports(engine: Engine) -> list[int]:
    """Return where packets leave; they write the register's first place alone."""
    return [engine.process(bytes((name, 0)), port).port for name, port in ARRIVALS]


def written(folder: Path, document: object) -> Path:
    path = folder / "tables.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    made.load(PROGRAM)
    return made


@pytest.fixture
def client(engine: Engine, tmp_path: Path) -> Iterator[P4RuntimeClient]:
    address = f"unix:{tmp_path}/p4.sock"
    with P4RuntimeServer({1: engine}, address), P4RuntimeClient(address) as client:
        yield client


def test_a_file_means_the_same_here_and_behind_a_server(
    engine: Engine, client: P4RuntimeClient, tmp_path: Path
) -> None:
    here = Engine()
    here.load(PROGRAM)
    put_tables(here, written(tmp_path, GIVEN))
    apply_tables(client, written(tmp_path, GIVEN))
    assert ports(here) == ports(engine) == [2, 3, 0, 6, 0]


def test_what_is_saved_comes_back_whatever_numbers_texts_stand_for_then(
    engine: Engine, client: P4RuntimeClient, tmp_path: Path
) -> None:
    apply_tables(client, written(tmp_path, GIVEN))
    saved = tmp_path / "saved.json"
    save_tables(client, saved)
    document: Any = json.loads(saved.read_text())
    told = {table["table"]: table["entries"] for table in document["tables"]}
    assert [entry["keys"]["n"] for entry in told["I.exactly"]] == ["5", "blue"]
    assert told["I.maybe"][0]["keys"] == {"n": "red", "port": "7&&&0x1ff"}
    assert [entry["action"]["parameters"]["n"] for entry in told["I.names"]] == ["5", "blue", "red"]
    (special,) = document["value_sets"]
    assert [list(member.values()) for member in special["members"]] == [["blue"], ["7"]]
    assert document["registers"] == [{"register": "I.last", "values": {"3": "red"}}]

    other = Engine()
    other.load(PROGRAM)
    address = f"unix:{tmp_path}/other.sock"
    with P4RuntimeServer({1: other}, address), P4RuntimeClient(address) as another:
        for place, text in enumerate(("yellow", "red", "green")):  # which get the first numbers
            update = Update("insert", "names", {"a": 100 + place}, "call", {"n": text})
            another.write([update])
        apply_tables(another, saved)
        assert ports(other) == ports(engine) == [2, 3, 0, 6, 0]
        assert apply_tables(another, saved).inserted == 0
        assert len(another.objects.value_set("special")) == 2
        save_tables(another, tmp_path / "again.json")
    assert json.loads((tmp_path / "again.json").read_text())["registers"] == document["registers"]


def test_a_client_lists_texts_that_a_file_brought(client: P4RuntimeClient, tmp_path: Path) -> None:
    with P4RuntimeClient(client._address) as another:
        apply_tables(another, written(tmp_path, GIVEN))
    (entry,) = client.objects.read("last", 3)
    assert entry.value == "red"


def test_a_hidden_table_keeps_what_the_program_says_and_is_no_matter_of_a_file(
    engine: Engine, client: P4RuntimeClient, tmp_path: Path
) -> None:
    hidden = {"tables": [{"table": "fixed", "entries": [{"keys": {"b": 1}, "action": "NoAction"}]}]}
    with pytest.raises(UsageError, match=r"table I\.fixed is @hidden"):
        apply_tables(client, written(tmp_path, hidden))
    assert len(engine.table("I.fixed").rows()) == 1


@pytest.mark.parametrize(
    ("port", "sentence"),
    [("4&&&0xf", "a mask of 32 ones"), ("4&&&0xff", "a mask of 32 ones")],
)
def test_what_a_server_would_refuse_is_told_before_anything_is_written(
    engine: Engine, client: P4RuntimeClient, tmp_path: Path, port: str, sentence: str
) -> None:
    document = {
        "action_profiles": GIVEN["action_profiles"],
        "tables": [
            {"table": "exactly", "entries": [{"keys": {"n": "red"}, "action": call("send", p=2)}]},
            {"table": "maybe", "entries": [{"keys": {"port": port}, "priority": 1, "member": 1}]},
        ],
    }
    with pytest.raises(UsageError, match=sentence):
        apply_tables(client, written(tmp_path, document))
    assert not engine.objects.profile("choice").members
    assert not engine.table("I.exactly").rows()


def test_a_whole_value_may_be_written_as_controllers_do(
    engine: Engine, client: P4RuntimeClient, tmp_path: Path
) -> None:
    keys = {"n": "red", "port": "7&&&0xffffffff"}
    tables = [{"table": "maybe", "entries": [{"keys": keys, "priority": 1, "member": 1}]}]
    apply_tables(client, written(tmp_path, {**GIVEN, "tables": [GIVEN["tables"][0], *tables]}))
    assert ports(engine)[3] == 6


def test_a_text_that_means_anything_in_a_file_is_not_saved(client: P4RuntimeClient, tmp_path: Path) -> None:
    entry = Update("insert", "exactly", {"n": "*"}, "send", {"p": 1})
    with pytest.raises(ControlError, match="exact"):
        client.write([entry])
    client.write([Update("insert", "exactly", {"n": Exact(ord("*"))}, "send", {"p": 1})])
    with pytest.raises(ControlError, match=r"key n is the text \*, which means anything here"):
        save_tables(client, tmp_path / "saved.json")


@pytest.mark.parametrize("text", ["\ud800", "", "a\0b"])
def test_what_is_no_text_is_a_fault_with_its_place(engine: Engine, tmp_path: Path, text: str) -> None:
    document = {"tables": [{"table": "exactly", "entries": [{"keys": {"n": text}, "action": "NoAction"}]}]}
    with pytest.raises(UsageError, match=r"entries\[0\]\.keys\.n"):
        put_tables(engine, written(tmp_path, document))
