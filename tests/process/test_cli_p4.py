# SPDX-License-Identifier: Apache-2.0
"""`nicemu p4`, and `nicemu table` with members and groups, against a real P4Runtime server."""

from __future__ import annotations

import json
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from nicemu.cli import main
from nicemu.control import P4RuntimeClient, P4RuntimeServer
from nicemu.errors import UsageError
from nicemu.p4 import compile_program
from nicemu.pipeline import CloneSession, Engine, Program, Replica
from nicemu.run.program_file import program_of

pytestmark = pytest.mark.process

Cli = Callable[..., Result]


@pytest.fixture(scope="module")
def program() -> Program:
    path = Path(__file__).parents[1] / "unit" / "control" / "switch.p4"
    return compile_program(path).program


@pytest.fixture
def engine(program: Program, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """The pipeline of the NIC that the commands find; it runs switch.p4."""
    engine = Engine()
    engine.load(program)
    server = P4RuntimeServer({1: engine}, f"unix:{tmp_path}/nic.sock")
    nic = types.SimpleNamespace(name="compute0", p4runtime=server.start())
    run = types.ModuleType("nicemu.run")
    run.__dict__.update(find_nic=lambda name: nic, program_of=program_of)
    monkeypatch.setitem(sys.modules, "nicemu.run", run)
    yield engine
    server.stop()


@pytest.fixture
def nicemu(engine: Engine) -> Cli:
    """Return a function that runs a command that must work."""

    def run(*words: str) -> Result:
        done = CliRunner().invoke(main, list(words), prog_name="nicemu", catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done

    return run


def refused(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(main, list(words), prog_name="nicemu")
    return done.exit_code, done.output


def test_the_objects_of_a_program_are_listed(nicemu: Cli) -> None:
    found = json.loads(nicemu("p4", "list", "--json").stdout)
    assert {"kind": "register", "name": "I.last", "size": 16} in found
    assert {item["kind"] for item in found} == {
        "counter",
        "meter",
        "register",
        "action profile",
        "value set",
        "digest",
    }


def test_a_register_is_written_and_read(nicemu: Cli, engine: Engine) -> None:
    nicemu("p4", "write", "last", "3", "0x0f")
    assert json.loads(nicemu("p4", "read", "last", "3", "--json").stdout) == [{"index": 3, "value": 15}]
    nicemu("p4", "write", "last", "*", "2")
    assert {item["value"] for item in json.loads(nicemu("p4", "read", "last", "--json").stdout)} == {2}
    nicemu("p4", "write", "pairs", "1", "count=7", "seen=1")
    (pair,) = json.loads(nicemu("p4", "read", "pairs", "1", "--json").stdout)
    assert pair["value"] == {"count": 7, "seen": 1}
    assert "count" in nicemu("p4", "read", "pairs").stdout


def test_counters_and_meters_are_written_and_read(nicemu: Cli) -> None:
    nicemu("p4", "write", "flows", "2", "packets=7", "bytes=800")
    assert json.loads(nicemu("p4", "read", "flows", "2", "--json").stdout) == [
        {"index": 2, "value": {"packets": 7, "bytes": 800}}
    ]
    rates = {"cir": 1, "cburst": 2, "pir": 3, "pburst": 4}
    nicemu("p4", "write", "rates", "2", *(f"{name}={value}" for name, value in rates.items()))
    found = json.loads(nicemu("p4", "read", "rates", "--json").stdout)
    assert [item["value"] for item in found[1:4]] == [None, rates, None]
    nicemu("p4", "write", "rates", "2")
    assert json.loads(nicemu("p4", "read", "rates", "2", "--json").stdout)[0]["value"] is None
    assert "7" in nicemu("p4", "read", "flows").stdout


def test_mirrors_and_multicast_groups_are_made_listed_and_removed(nicemu: Cli, engine: Engine) -> None:
    nicemu("p4", "mirror", "5", "3", "4:2", "--truncate", "64")
    nicemu("p4", "mirror", "5", "3", "4:1", "--truncate", "32")
    assert engine.objects.clone_sessions == {5: CloneSession((Replica(3), Replica(4, 1)), 32)}
    assert json.loads(nicemu("p4", "mirror", "--json").stdout) == [
        {"session": 5, "ports": ["3", "4:1"], "truncate": 32}
    ]
    nicemu("p4", "multicast", "7", "1", "2")
    assert "1, 2" in nicemu("p4", "multicast").stdout
    assert "32" in nicemu("p4", "mirror", "5").stdout  # and looking changes nothing
    assert json.loads(nicemu("p4", "multicast", "7", "--json").stdout) == [{"group": 7, "ports": ["1", "2"]}]
    assert engine.objects.multicast_groups == {7: (Replica(1), Replica(2))}
    nicemu("p4", "mirror", "5", "--delete")
    nicemu("p4", "multicast", "7", "--delete")
    assert (engine.objects.clone_sessions, engine.objects.multicast_groups) == ({}, {})


def test_entries_name_members_and_groups(nicemu: Cli, engine: Engine) -> None:
    nicemu("p4", "member", "ways", "1", "send", "port=5")
    nicemu("p4", "member", "ways", "2", "send", "port=6")
    engine.objects.profile("ways").insert_group(3, (), 4)
    nicemu("p4", "group", "ways", "3", "1", "2:3")
    assert engine.objects.profile("ways").max_sizes == {3: 4}
    nicemu("table", "add", "way", "group=3", "flow=9")
    nicemu("table", "add", "way", "member=1", "flow=8")
    assert [engine.process(bytes([9, hashed]), 1).port for hashed in range(4)] == [5, 6, 6, 6]
    nicemu("table", "modify", "way", "member=2", "flow=8")
    assert engine.process(bytes([8, 0]), 1).port == 6
    assert "group 3" in nicemu("table", "list", "way").stdout
    listed = json.loads(nicemu("table", "list", "way", "--json").stdout)
    assert [entry["group"] for entry in listed[0]["entries"][:1]] == [3]
    assert [entry["member"] for entry in listed[0]["entries"][1:]] == [2]
    assert json.loads(nicemu("p4", "group", "ways", "--json").stdout) == [
        {"group": 3, "members": ["1:1", "2:3"]}
    ]
    assert json.loads(nicemu("p4", "member", "ways", "--json").stdout) == [
        {"member": 1, "action": "I.send", "parameters": {"port": "5"}},
        {"member": 2, "action": "I.send", "parameters": {"port": "6"}},
    ]
    assert "port=6" in nicemu("p4", "member", "ways", "2").stdout
    code, output = refused("table", "add", "way", "flow=7", "group=3")
    assert (code, "the action, or member=N or group=N, stands before keys and parameters" in output) == (
        2,
        True,
    )
    code, output = refused("p4", "member", "ways", "1", "--delete")
    assert (code, "member 1 is used by a group or an entry" in output) == (1, True)


def test_a_direct_counter_or_meter_is_read_with_the_entries_of_its_table(nicemu: Cli) -> None:
    code, output = refused("p4", "read", "hits")
    assert (code, "I.hits is the direct counter of table I." in output) == (1, True)
    code, output = refused("p4", "write", "marks", "0")
    assert (code, "`table apply` sets it with the entries" in output) == (1, True)


def test_a_table_that_was_listed_is_applied_again(nicemu: Cli, engine: Engine, tmp_path: Path) -> None:
    nicemu("p4", "member", "ways", "1", "send", "port=5")
    nicemu("table", "add", "way", "member=1", "flow=8")
    kept = tmp_path / "kept.json"
    kept.write_text(nicemu("table", "list", "way", "--json").stdout)
    nicemu("table", "delete", "way", "flow=8")
    assert nicemu("table", "apply", str(kept)).stdout == "entries: 1 added, 0 changed, 0 deleted\n"
    assert engine.process(bytes([8, 0]), 1).port == 5
    same = json.loads(nicemu("table", "apply", str(kept), "--json").stdout)
    assert same == {"inserted": 0, "modified": 0, "deleted": 0, "others": 0}
    kept.write_text('[{"table": "way", "entries": [{"keys": {"lost": 1}, "member": 1}]}]')
    code, output = refused("table", "apply", str(kept))
    assert code == 1
    assert f"{kept}: $.tables[0].entries[0].keys.lost" in output


def test_a_value_set_is_filled_and_emptied(nicemu: Cli, engine: Engine) -> None:
    nicemu("p4", "value-set", "ignored", "9", "0x0a")
    assert json.loads(nicemu("p4", "read", "ignored", "--json").stdout) == [["0x9"], ["0xa"]]
    nicemu("p4", "value-set", "ignored", "--empty")
    assert json.loads(nicemu("p4", "read", "ignored", "--json").stdout) == []


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (("p4", "read", "nothing"), 1, "no counter or meter or register or value set nothing"),
        (("p4", "read", "last", "16"), 1, "there is no place 16"),
        (("p4", "write", "last", "x", "1"), 2, "or * for every place"),
        (("p4", "write", "last", "1", "-4"), 1, "'-4' is not a value"),
        (("p4", "write", "last", "1", "0x1000"), 1, "does not fit"),
        (("p4", "write", "pairs", "1", "colour=1"), 1, "no field colour; it has count, seen"),
        (("p4", "write", "rates", "1", "cir=1"), 1, "write all of them, or none"),
        (
            ("p4", "write", "rates", "1", "cir=1", "cburst=2", "eburst=3"),
            1,
            "two_rate_three_color has no eburst",
        ),
        (("p4", "multicast", "1", "x"), 2, "NUMBER or NUMBER:NUMBER was expected"),
        (("p4", "multicast", "1", "600"), 1, "a port up to 510"),
        (("p4", "mirror", "1", "--delete"), 1, "there is no clone session 1"),
        (("p4", "member", "ways", "1", "send"), 1, "no value for port"),
        (("p4", "member", "ways", "1"), 1, "there is no member 1"),
        (("p4", "multicast", "1"), 1, "there is no multicast group 1"),
        (("p4", "mirror", "1"), 1, "there is no clone session 1"),
        (("p4", "group", "ways", "1"), 1, "there is no group 1"),
        (("p4", "group", "ways", "--delete"), 2, "--delete needs the number"),
        (("p4", "mirror", "5", "1", "--delete"), 2, "--delete takes a number alone"),
        (("p4", "mirror", "5", "--delete", "--truncate", "4"), 2, "--delete takes a number alone"),
        (("p4", "multicast", "5", "1", "--delete"), 2, "--delete takes a number alone"),
        (("p4", "group", "ways", "1", "1", "--delete"), 2, "--delete takes a number alone"),
        (("p4", "member", "ways", "1", "send", "--delete"), 2, "--delete takes a number alone"),
        (("p4", "read", "last", "--nic", "127.0.0.1:99999999"), 1, "there are ports 0 to 65535"),
        (("p4", "value-set", "ignored"), 2, "--empty"),
        (("p4", "write", "flows", "2", "packets=-1"), 1, "'-1' is not a value"),
        (("p4", "write", "flows", "2", f"packets={1 << 63}"), 1, "does not fit"),
        (("p4", "read", "last", "9" * 23), 1, f"{'9' * 23} is out of range"),
        (("p4", "mirror", "5", "9", "--truncate", "99999999999"), 1, "99999999999 is out of range"),
        (("p4", "mirror", "99999999999", "1"), 1, "out of range"),
        (("p4", "mirror", "99999999999", "--delete"), 1, "out of range"),
        (("p4", "mirror", "5", "1:99999999999"), 1, "out of range"),
        (("p4", "multicast", "9" * 20, "1"), 1, "out of range"),
        (("p4", "multicast", "99999999999", "--delete"), 1, "out of range"),
        (("p4", "member", "ways", "99999999999", "send", "port=1"), 1, "out of range"),
        (("p4", "member", "ways", "99999999999", "--delete"), 1, "out of range"),
        (("p4", "group", "ways", "99999999999", "1"), 1, "out of range"),
        (("p4", "group", "ways", "1", "1:99999999999"), 1, "out of range"),
        (("p4", "group", "ways", "99999999999", "--delete"), 1, "out of range"),
        (("table", "add", "way", "member=99999999999", "flow=1"), 1, "out of range"),
        (("table", "add", "way", "member=1", "flow=1", "--priority", str(1 << 31)), 1, "out of range"),
        (("table", "add", "way", "send", "flow=1", "port=1"), 1, "take a member, group or set"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(
    engine: Engine, words: tuple[str, ...], code: int, sentence: str
) -> None:
    found, output = refused(*words)
    assert (found, sentence in output) == (code, True), output


def test_a_client_says_what_does_not_fit_and_goes_on(engine: Engine) -> None:
    address = sys.modules["nicemu.run"].find_nic("compute0").p4runtime
    with P4RuntimeClient(address) as client:
        calls: tuple[Callable[[], None], ...] = (
            lambda: client.objects.write_counter("flows", 1, 1 << 63),
            lambda: client.objects.write_counter("flows", 1, 1, -1),
            lambda: client.objects.set_multicast_group(2, [Replica(-1)]),
            lambda: client.objects.set_group("ways", 1, [(1, 1 << 31)]),
            lambda: client.arbitrate(1 << 128),
            lambda: client.arbitrate(-1),
        )
        for call in calls:
            with pytest.raises(UsageError, match=r"out of range|was expected"):
                call()
        client.objects.write_counter("flows", 1, (1 << 63) - 1)
        assert client.objects.read("flows", 1)[0].value == {"packets": (1 << 63) - 1, "bytes": 0}
