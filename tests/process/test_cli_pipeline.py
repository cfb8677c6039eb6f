# SPDX-License-Identifier: Apache-2.0
"""`nicemu load` and `nicemu table` against a real P4Runtime server with the pipeline behind it."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nicemu.cli import main
from nicemu.control import P4RuntimeClient, P4RuntimeServer, Update
from nicemu.control.metadata import Metadata
from nicemu.pipeline import Engine, Exact, Lpm, OwnExterns, TableEntry, extern, p4info_of
from nicemu.run import loadable_program, read_program
from nicemu.run.program_file import program_of
from tests.unit.bmv2.router_json import router_json

pytestmark = pytest.mark.process

Cli = Callable[..., Result]
SESSION = 0x0123456789ABCDEF_0123456789ABCDEF
ENTRY = ("session=0x0123456789abcdef0123456789abcdef", "manifest_address=4096", "manifest_bytes=64")
ROUTES = """
#include <core.p4>
#include <nicemu.p4>
header ip_t { bit<32> dst; }
struct headers_t { ip_t ip; }
struct metadata_t {}
parser P(packet_in packet, out headers_t headers, inout metadata_t metadata, inout nic_metadata_t nic) {
    state start { packet.extract(headers.ip); transition accept; }
}
control R(inout headers_t headers, inout metadata_t metadata, inout nic_metadata_t nic) {
    action send(bit<16> port) { send_to_port(port); }
    table route { key = { headers.ip.dst: lpm; } actions = { send; NoAction; } size = 8; }
    table acl { key = { headers.ip.dst: ternary; } actions = { send; NoAction; } size = 8; }
    apply { route.apply(); acl.apply(); }
}
control D(packet_out packet, in headers_t headers, in metadata_t metadata, in nic_metadata_t nic) {
    apply { packet.emit(headers); }
}
SmartNic(P(), R(), D()) main;
"""


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The pipeline of the NIC that the commands find."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    engine = Engine()
    server = P4RuntimeServer({1: engine}, f"unix:{tmp_path}/nic.sock", reader=program_of)
    nic = types.SimpleNamespace(name="compute0", p4runtime=server.start())
    run = types.ModuleType("nicemu.run")
    run.__dict__.update(
        find_nic=lambda name: nic,
        ask=lambda asked, operation: {"missing_externs": engine.missing_externs},
        read_program=read_program,
        program_of=program_of,
        loadable_program=loadable_program,
    )
    monkeypatch.setitem(sys.modules, "nicemu.run", run)
    yield engine
    server.stop()


@pytest.fixture
def nicemu() -> Cli:
    return lambda *words: CliRunner().invoke(main, list(words), prog_name="nicemu")


def test_a_loaded_program_runs_and_takes_entries(engine: Engine, nicemu: Cli) -> None:
    assert nicemu("load", "p4/kvmatch.p4").stdout == "compute0 runs kvmatch: 1 table, 2 actions\n"
    assert engine.program is not None
    added = nicemu("table", "add", "session", "fetch_session", *ENTRY, "hits_counter=7")
    assert (added.exit_code, added.output) == (0, "")
    entry = TableEntry((Exact(SESSION),), "KvMatch.fetch_session", (4096, 64, 7))
    assert list(engine.read("KvMatch.session")) == [entry]
    deleted = nicemu("table", "delete", "session", ENTRY[0])
    assert (deleted.exit_code, deleted.output) == (0, "")
    assert list(engine.read("KvMatch.session")) == []


def test_a_switch_is_reached_by_the_address_of_its_p4runtime(
    engine: Engine, nicemu: Cli, tmp_path: Path
) -> None:
    address = f"unix:{tmp_path}/nic.sock"
    assert nicemu("load", "p4/kvmatch.p4", "--nic", address).stdout.startswith(f"{address} runs kvmatch: ")
    added = nicemu("table", "add", "session", "fetch_session", *ENTRY, "hits_counter=7", "--nic", address)
    assert (added.exit_code, added.output) == (0, "")
    assert "KvMatch.session: 1 of" in nicemu("table", "list", "--nic", address).stdout
    assert nicemu("p4", "list", "--nic", address).exit_code == 0
    nobody = nicemu("table", "list", "--nic", f"unix:{tmp_path}/nobody.sock")
    assert (nobody.exit_code, f"unix:{tmp_path}/nobody.sock" in nobody.stderr) == (1, True)


def test_bmv2_json_is_loaded_and_takes_entries(engine: Engine, nicemu: Cli, tmp_path: Path) -> None:
    path = tmp_path / "router.json"
    path.write_text(json.dumps(router_json()))
    assert nicemu("load", str(path)).stdout == "compute0 runs router: 3 tables, 5 actions\n"
    added = nicemu("table", "add", "route", "forward", "h.ip.dst=0x0100/8", "dst=2", "port=5")
    assert (added.exit_code, added.output) == (0, "")
    assert list(engine.read("route")) == [TableEntry((Lpm(0x0100, 8),), "I.forward", (2, 5))]


def test_a_controller_brings_bmv2_json_as_it_is(engine: Engine, tmp_path: Path) -> None:
    text = json.dumps(router_json())
    with P4RuntimeClient(f"unix:{tmp_path}/nic.sock") as client:
        client.load(text, p4info_of(program_of(text.encode())))
    assert engine.program is not None
    assert [table.name for table in engine.program.tables] == ["I.route", "I.acl", "I.known"]


def test_a_program_with_errors_leaves_the_running_one(engine: Engine, nicemu: Cli, tmp_path: Path) -> None:
    nicemu("load", "p4/kvmatch.p4")
    before = engine.program
    broken = tmp_path / "broken.p4"
    broken.write_text("#include <core.p4>\n#include <nowhere.p4>\nheader h { bit<0> x; }\n")
    result = nicemu("load", str(broken))
    assert result.exit_code == 1
    assert "broken.p4:2:" in result.stderr
    assert engine.program is before


def test_a_program_starts_anew_or_keeps_what_it_holds_as_the_user_says(
    engine: Engine, nicemu: Cli, tmp_path: Path
) -> None:
    first, larger, other = (tmp_path / f"{name}.p4" for name in ("first", "larger", "other"))
    first.write_text(ROUTES)
    larger.write_text(ROUTES.replace("size = 8", "size = 9"))
    other.write_text(ROUTES.replace("route", "way"))
    nicemu("load", str(first))
    nicemu("table", "add", "route", "send", "dst=10.0.0.0/8", "port=3")
    entries = list(engine.read("R.route"))
    assert nicemu("load", str(larger), "--keep").exit_code == 0
    assert list(engine.read("R.route")) == entries
    refused = nicemu("load", str(other), "--keep")
    assert "does not fit the new program: table R.route with 1 entries has no place there" in refused.stderr
    assert list(engine.read("R.route")) == entries
    assert nicemu("load", str(larger)).exit_code == 0
    assert list(engine.read("R.route")) == []


def test_a_listing_shows_entries_as_they_are_typed(engine: Engine, nicemu: Cli) -> None:
    nicemu("load", "p4/kvmatch.p4")
    nicemu("table", "add", "session", "fetch_session", *ENTRY, "hits_counter=7")
    lines = nicemu("table", "list").stdout.splitlines()
    assert lines[0] == "KvMatch.session: 1 of 4096 entries"
    assert lines[1].split() == ["headers.kv.session", "(exact)", "action", "hits", "bytes"]
    call = "KvMatch.fetch_session(manifest_address=0x1000, manifest_bytes=0x40, hits_counter=0x7)"
    assert lines[3].split() == [f"{SESSION:#x}", *call.split(), "0", "0"]
    assert lines[4].split()[:2] == ["(default)", "NoAction()"]


def test_the_same_listing_as_json(engine: Engine, nicemu: Cli) -> None:
    nicemu("load", "p4/kvmatch.p4")
    nicemu("table", "add", "session", "fetch_session", *ENTRY, "hits_counter=7")
    (table,) = json.loads(nicemu("table", "list", "session", "--json").stdout)
    assert (table["table"], table["size"], table["default"]["name"]) == ("KvMatch.session", 4096, "NoAction")
    parameters = {"manifest_address": "0x1000", "manifest_bytes": "0x40", "hits_counter": "0x7"}
    assert table["entries"] == [
        {
            "keys": {"headers.kv.session": f"{SESSION:#x}"},
            "priority": 0,
            "action": {"name": "KvMatch.fetch_session", "parameters": parameters},
            "const": False,
            "hits": 0,
            "bytes": 0,
        }
    ]


def test_prefixes_masks_and_priorities_come_back_as_they_went(
    engine: Engine, nicemu: Cli, tmp_path: Path
) -> None:
    (tmp_path / "routes.p4").write_text(ROUTES)
    assert nicemu("load", str(tmp_path / "routes.p4")).exit_code == 0
    nicemu("table", "add", "route", "send", "dst=10.0.0.0/8", "port=3")
    nicemu("table", "add", "acl", "send", "dst=0x10&&&0xf0", "port=4", "--priority", "9")
    nicemu("table", "add", "acl", "NoAction", "--priority", "1")
    listed = {
        table["table"]: table["entries"] for table in json.loads(nicemu("table", "list", "--json").stdout)
    }
    assert [entry["keys"] for entry in listed["R.route"]] == [{"headers.ip.dst": "0xa000000/8"}]
    found = {entry["priority"]: entry["keys"]["headers.ip.dst"] for entry in listed["R.acl"]}
    assert found == {9: "0x10&&&0xf0", 1: "*"}
    assert "(default)" in nicemu("table", "list", "acl").stdout
    assert nicemu("table", "delete", "acl", "dst=0x10&&&0xf0", "--priority", "9").exit_code == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("sessions", "fetch_session"), "the program has no table sessions; it has KvMatch.session"),
        (("session", "fetch"), "has no action fetch; it has KvMatch.fetch_session, NoAction"),
        (("session", "NoAction"), "headers.kv.session is exact: it needs a value"),
        (("session", "NoAction", "session=1", "port=3"), "port is none of the keys (headers.kv.session)"),
        (("session", "fetch_session", "session=1"), "no value for parameter manifest_address"),
        (("session", "NoAction", "session=zero"), "'zero' is not a value"),
        (("session", "NoAction", f"session={1 << 128}"), "is bit<128>"),
    ],
)
def test_an_entry_that_does_not_fit_is_refused_with_a_sentence(
    engine: Engine, nicemu: Cli, words: tuple[str, ...], sentence: str
) -> None:
    nicemu("load", "p4/kvmatch.p4")
    result = nicemu("table", "add", *words)
    assert result.exit_code == 1
    assert sentence in result.stderr
    assert list(engine.read("KvMatch.session")) == []


def test_an_entry_that_is_there_already_is_refused(engine: Engine, nicemu: Cli) -> None:
    nicemu("load", "p4/kvmatch.p4")
    for status in (0, 1):
        assert nicemu("table", "add", "session", "NoAction", "session=1").exit_code == status


def test_a_modified_entry_runs_the_other_action(engine: Engine, nicemu: Cli) -> None:
    nicemu("load", "p4/kvmatch.p4")
    nicemu("table", "add", "session", "fetch_session", *ENTRY, "hits_counter=7")
    assert nicemu("table", "modify", "session", "NoAction", ENTRY[0]).exit_code == 0
    assert list(engine.read("KvMatch.session")) == [TableEntry((Exact(SESSION),), "NoAction")]


METERED = """
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
    action send(bit<9> port) { rate.read(m.colour); s.egress_spec = port; }
    action mark() { rate.read(m.colour); }
    table t {
        key = { h.h.a: optional; }
        actions = { send; mark; }
        default_action = mark;
        meters = rate;
        support_timeout = true;
    }
    apply { t.apply(); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


def test_a_modified_entry_keeps_its_timeout_and_its_meter_and_a_listing_has_them(
    engine: Engine, nicemu: Cli, tmp_path: Path
) -> None:
    program, tables = tmp_path / "metered.p4", tmp_path / "tables.json"
    program.write_text(METERED)
    rates = {"cir": 1, "cburst": 2, "pir": 3, "pburst": 4}
    entries = [
        {
            "keys": keys,
            "priority": 1,
            "action": {"name": "send", "parameters": {"port": 1}},
            "idle_timeout_ns": 10**9,
            "meter": rates,
        }
        for keys in ({"a": 5}, {})
    ]
    tables.write_text(json.dumps({"tables": [{"table": "t", "entries": entries}]}))
    assert nicemu("load", str(program), "--tables", str(tables)).exit_code == 0
    for key in ("a=5", "a=*"):
        assert nicemu("table", "modify", "t", "mark", key, "--priority", "1").exit_code == 0
    (listed,) = json.loads(nicemu("table", "list", "--json").stdout)
    assert [entry["action"]["name"] for entry in listed["entries"]] == ["I.mark"] * 2
    assert [entry["idle_timeout_ns"] for entry in listed["entries"]] == [10**9] * 2
    assert [entry["meter"] for entry in listed["entries"]] == [rates] * 2
    assert "default_entry" not in listed
    with P4RuntimeClient(f"unix:{tmp_path}/nic.sock") as client:
        noted = Update("modify", "t", {"a": 5}, "mark", priority=1, note=Metadata(3, b"mine"))
        client.write([noted])
    assert nicemu("table", "modify", "t", "send", "a=5", "port=2", "--priority", "1").exit_code == 0
    assert Metadata(3, b"mine") in [entry.note for entry in engine.read("t")]
    assert nicemu("table", "modify", "t", "mark", "a=6", "--priority", "1").exit_code == 1


def test_without_a_program_there_is_nothing_to_list(engine: Engine, nicemu: Cli) -> None:
    result = nicemu("table", "list")
    told = "Error: FAILED_PRECONDITION (9): device 1 runs no program; load one first\n"
    assert (result.exit_code, result.stderr) == (1, told)


def test_load_tells_the_externs_that_a_nic_lacks_alone(nicemu: Cli, engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "own.p4"
    text = ROUTES.replace("control R(", "extern void seen(in bit<32> to);\ncontrol R(")
    path.write_text(text.replace("apply { route", "apply { seen(headers.ip.dst); route"))
    assert "nothing does what extern seen does" in nicemu("load", str(path)).stderr

    @extern("void seen(in bit<32> to)")
    def seen(to: int) -> None:
        pass

    engine.use_externs(OwnExterns([seen]))
    assert "nothing does" not in nicemu("load", str(path)).stderr


def test_load_puts_a_file_of_tables_into_the_program(nicemu: Cli, engine: Engine, tmp_path: Path) -> None:
    program, tables = tmp_path / "routes.p4", tmp_path / "tables.json"
    program.write_text(ROUTES)
    entry = {"keys": {"dst": "10.0.0.0/8"}, "action": {"name": "send", "parameters": {"port": 7}}}
    tables.write_text(json.dumps([{"table": "route", "entries": [entry]}]))
    told = nicemu("load", str(program), "--tables", str(tables)).stdout.splitlines()
    assert told[-1] == "entries: 1 added, 0 changed, 0 deleted"
    assert [found.parameters for found in engine.read("R.route")] == [(7,)]
    wrong = CliRunner().invoke(main, ["load", str(program), "--tables", str(tmp_path / "none.json")])
    assert (wrong.exit_code, "there is no such file" in wrong.stderr) == (1, True)
    tables.write_text('[{"table": "rout", "entries": []}]')
    wrong = CliRunner().invoke(main, ["load", str(program), "--tables", str(tables)])
    assert (wrong.exit_code, "rout" in wrong.stderr) == (1, True)
    assert len(engine.read("R.route")) == 1  # the program was not loaded again


def test_what_a_nic_holds_is_saved_cleared_and_put_back(engine: Engine, nicemu: Cli, tmp_path: Path) -> None:
    program = tmp_path / "routes.p4"
    program.write_text(ROUTES)
    nicemu("load", str(program))
    nicemu("table", "add", "route", "send", "dst=10.0.0.0/8", "port=3")
    nicemu("table", "default", "route", "send", "port=7")
    kept = tmp_path / "kept.json"
    assert nicemu("table", "save", str(kept)).stdout == f"entries: 1 written to {kept}\n"
    assert nicemu("table", "clear", "route", "R.route").stdout == "entries: 1 deleted\n"
    assert json.loads(nicemu("table", "clear", "route", "--json").stdout) == {"deleted": 0}
    nicemu("table", "default", "route")
    assert nicemu("table", "apply", str(kept)).stdout == "entries: 1 added, 1 changed, 0 deleted\n"
    assert list(engine.read("R.route")) == [TableEntry((Lpm(10 << 24, 8),), "R.send", (3,))]
    assert [table.default_parameters for table in engine.tables() if table.name == "R.route"] == [(7,)]


def test_a_saved_state_goes_to_the_standard_output_alone(engine: Engine, nicemu: Cli, tmp_path: Path) -> None:
    program = tmp_path / "routes.p4"
    program.write_text(ROUTES)
    nicemu("load", str(program))
    result = nicemu("table", "save", "-")
    assert [table["table"] for table in json.loads(result.stdout)["tables"]] == [
        table.name for table in engine.tables()
    ]


def test_a_file_of_tables_is_applied_to_a_program_that_came_as_bmv2_json(
    nicemu: Cli, engine: Engine, tmp_path: Path
) -> None:
    data = json.dumps(router_json()).encode()
    with P4RuntimeClient(f"unix:{tmp_path}/nic.sock") as client:
        client.load(data, p4info_of(program_of(data)))
    table = engine.tables()[0]
    kept = tmp_path / "kept.json"
    kept.write_text(json.dumps([{"table": table.name, "default": {"name": table.default_action}}]))
    assert nicemu("table", "apply", str(kept)).stdout == "entries: 0 added, 0 changed, 0 deleted\n"
