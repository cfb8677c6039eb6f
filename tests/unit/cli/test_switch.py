# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import json
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from nicemu.capture import PcapngWriter, PcapWriter, read_capture
from nicemu.kernels import statements
from tests.unit.switch.conftest import SWITCH

Cli = Callable[..., Result]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "switch.p4").write_text(SWITCH)
    with open(tmp_path / "in.pcap", "wb") as file:
        writer = PcapWriter(file)
        for time_ns, text in enumerate(("01aa", "0abb", "02cc", "ff", "", "fd")):
            writer.write(time_ns, bytes.fromhex(text))
    return tmp_path


def frames(path: Path) -> list[str]:
    return [frame.data.hex() for frame in read_capture(path)]


def test_a_capture_goes_through_a_program_and_the_rest_is_counted(nicemu: Cli, folder: Path) -> None:
    result = nicemu("switch", "switch.p4", "--in", "in.pcap", "--out", "2=two.pcap", "--out", "out.pcap")
    assert result.exit_code == 0, result.output
    assert frames(folder / "two.pcap") == ["02cc"]
    assert frames(folder / "out.pcap") == ["01aa", "0abb", "", "fd"]
    first, *rest = result.stdout.splitlines()
    assert first.startswith("6 packets in, 8 bytes; ")
    assert rest == [
        "  out port 0: 1",
        "  out port 1: 1",
        "  out port 2: 1",
        "  out port 10: 1",
        "  out host: 1",
        "  dropped, pipeline.dropped: 1",
    ]


def test_the_summary_is_told_as_json(nicemu: Cli, folder: Path) -> None:
    told = json.loads(nicemu("switch", "switch.p4", "--in", "4=in.pcap", "--json").stdout)
    assert told["out"] == {"0": 1, "1": 1, "2": 1, "10": 1, "host": 1}
    assert (told["packets"], told["bytes"], told["dropped"]) == (6, 8, {"pipeline.dropped": 1})
    assert told["packets_per_second"] > 0


@pytest.mark.parametrize("engine", ["interpreter", "kernel"])
def test_packets_that_a_capture_has_not_all_of_are_counted(nicemu: Cli, folder: Path, engine: str) -> None:
    for name, kind in (("cut.pcap", "pcap"), ("cut.pcapng", "pcapng")):
        with open(folder / name, "wb") as file:
            if kind == "pcap":
                file.write(struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, 2, 1))
                file.write(
                    struct.pack("<IIII", 0, 1, 2, 60) + b"\1a" + struct.pack("<IIII", 0, 2, 1, 1) + b"\2"
                )
            else:
                writer = PcapngWriter(file)
                writer.add_interface("one")
                writer.write(0, 1, b"\1a", 60, outbound=False)
                writer.write(0, 2, b"\2", 1, outbound=False)
        result = nicemu("switch", "switch.p4", "--in", name, "--engine", engine)
        assert result.exit_code == 0, result.output
        told = result.stdout.splitlines()[1:]
        assert told == [
            "  out port 1: 1",
            "  out port 2: 1",
            "  cut by the capture, and processed as they are there: 1",
        ]
    both = ("--in", "1=cut.pcap", "--in", "2=cut.pcapng", "--json")
    assert json.loads(nicemu("switch", "switch.p4", *both, "--engine", engine).stdout)["cut"] == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--in", "in.pcap", "--out", "1="), "--out 1=: nothing stands behind =; write PORT=NAME"),
        (("--in", "in.pcap", "--out", "-", "--state", "-"), "--out - and --state - are both stdout"),
        (("--port", "0=lo", "--port", "1=lo"), "--port 1=lo: another port is on lo"),
    ],
)
def test_a_call_that_means_nothing_is_refused(
    nicemu: Cli, folder: Path, words: tuple[str, ...], message: str
) -> None:
    result = nicemu("switch", "switch.p4", *words)
    assert (result.exit_code, message in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize("name", ["switch.p4", "link.p4", "tables.json"])
def test_what_is_read_is_not_written_over(nicemu: Cli, folder: Path, name: str) -> None:
    (folder / "tables.json").write_text("{}")
    (folder / "link.p4").symlink_to("switch.p4")
    before = (folder / name).read_text()
    given = ("switch", "switch.p4", "--tables", "tables.json", "--in", "in.pcap")
    result = nicemu(*given, "--out", f"1={name}")
    assert (result.exit_code, "is read or written besides" in result.stderr) == (1, True), result.stderr
    assert (folder / name).read_text() == before


def test_the_port_of_the_host_is_the_host(nicemu: Cli, folder: Path) -> None:
    given = ("switch", "switch.p4", "--in", "in.pcap", "--cpu-port", "2")
    assert nicemu(*given, "--out", "2=cpu.pcap", "--out", "rest.pcap").exit_code == 0
    assert nicemu(*given, "--out", "host=host.pcap").exit_code == 0
    assert frames(folder / "cpu.pcap") == frames(folder / "host.pcap") != []
    refused = nicemu(*given, "--out", "2=cpu.pcap", "--out", "host=host.pcap")
    assert (refused.exit_code, "that is the host, which has host.pcap" in refused.stderr) == (1, True)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--in", "in.pcap", "--out", "600=x.pcap"), "--out: standard_metadata_t has ports 0 to 511"),
        (("--in", "in.pcap", "--out", "new/"), "--out: a file was expected, and a folder is named"),
        (("--in", "missing.pcap", "--engine", "kernel"), "missing.pcap"),
    ],
)
def test_what_cannot_be_is_told_before_anything_is_compiled(
    nicemu: Cli, folder: Path, words: tuple[str, ...], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nicemu.kernels.CompiledEngine.load", None)
    result = nicemu("switch", "switch.p4", *words)
    assert (result.exit_code in (1, 2), message in result.stderr) == (True, True), result.stderr


@pytest.mark.parametrize("engine", ["interpreter", "kernel"])
def test_standard_input_and_output_are_captures_too(folder: Path, engine: str) -> None:
    command = [sys.executable, "-m", "nicemu", "switch", "switch.p4", "--in", "-", "--out", "-", "--json"]
    given = (folder / "in.pcap").read_bytes()
    done = subprocess.run(
        [*command, "--engine", engine], input=given, capture_output=True, check=True, timeout=60
    )
    (folder / "out.pcap").write_bytes(done.stdout)
    assert frames(folder / "out.pcap") == ["01aa", "0abb", "02cc", "", "fd"]
    assert json.loads(done.stderr)["packets"] == 6


@pytest.mark.parametrize("engine", ["interpreter", "kernel"])
def test_a_port_may_be_the_host_s_too(nicemu: Cli, folder: Path, engine: str) -> None:
    given = ("switch", "switch.p4", "--in", "in.pcap", "--engine", engine, "--cpu-port", "2")
    result = nicemu(*given, "--out", "host=host.pcap")
    assert result.exit_code == 0, result.output
    assert "02cc" in frames(folder / "host.pcap")
    assert "  out host: 2" in result.stdout
    refused = nicemu("switch", "p4/kvmatch.p4", *given[2:])
    assert (refused.exit_code, "--cpu-port is for v1model" in refused.stderr) == (1, True)


@pytest.mark.parametrize("engine", ["interpreter", "kernel"])
def test_what_a_program_logs_is_printed_where_it_is_wanted(nicemu: Cli, folder: Path, engine: str) -> None:
    text = SWITCH.replace("if (h", 'log_msg("to {}", {h.h.port}); if (h', 1)
    assert text != SWITCH
    (folder / "logs.p4").write_text(text)
    given = ("switch", "logs.p4", "--in", "4=in.pcap", "--engine", engine)
    assert "to 1" not in nicemu(*given).stderr
    lines = nicemu(*given, "--log").stderr.splitlines()
    assert lines[:2] == ["0.000000000 port 4: to 1", "0.000000001 port 4: to 10"]


@pytest.mark.parametrize("engine", ["interpreter", "kernel"])
def test_what_passed_before_a_capture_was_cut_is_told_with_the_error(
    nicemu: Cli, folder: Path, engine: str
) -> None:
    source = folder / "in.pcap"
    source.write_bytes(source.read_bytes()[:-1])
    result = nicemu("switch", "switch.p4", "--in", "in.pcap", "--engine", engine)
    assert (result.exit_code, "in the middle of a header or record; it was cut" in result.stderr) == (1, True)
    assert result.stdout.startswith("5 packets in, 7 bytes; ")
    assert "  out port 10: 1" in result.stdout


def test_without_a_program_a_controller_has_to_bring_one(nicemu: Cli, folder: Path) -> None:
    result = nicemu("switch", "--in", "in.pcap")
    assert (result.exit_code, "PROGRAM is missing; a controller may bring one" in result.stderr) == (2, True)


def test_groups_come_from_the_file_of_tables(nicemu: Cli, folder: Path) -> None:
    (folder / "tables.json").write_text(
        json.dumps({"multicast_groups": [{"group": 1, "replicas": [{"port": 3}, {"port": 4}]}]})
    )
    with open(folder / "group.pcap", "wb") as file:
        PcapWriter(file).write(0, b"\xfe")
    result = nicemu("switch", "switch.p4", "--in", "group.pcap", "--tables", "tables.json")
    assert result.stdout.splitlines()[1:] == ["  out port 3: 1", "  out port 4: 1"]


def test_what_a_program_holds_at_the_end_is_written_and_can_be_given_again(nicemu: Cli, folder: Path) -> None:
    run = ("switch", "p4/kvmatch.p4", "--in", "in.pcap")
    assert nicemu(*run, "--state", "state.json").exit_code == 0
    held = json.loads((folder / "state.json").read_text())
    assert [(table["table"], table["entries"]) for table in held["tables"]] == [("KvMatch.session", [])]
    call = {"manifest_address": 1, "manifest_bytes": 2, "hits_counter": 3}
    held["tables"][0]["entries"] = [
        {"keys": {"session": 7}, "action": {"name": "fetch_session", "parameters": call}}
    ]
    (folder / "state.json").write_text(json.dumps(held))
    assert nicemu(*run, "--tables", "state.json", "--state", "state.json").exit_code == 0
    (entry,) = json.loads((folder / "state.json").read_text())["tables"][0]["entries"]
    assert (entry["keys"], entry["hits"]) == ({"headers.kv.session": "0x7"}, 0)
    told = nicemu(*run, "--state", "-").stdout
    assert json.loads(told[told.index("{") :])["tables"][0]["table"] == "KvMatch.session"
    for other in ("in.pcap", "out.pcap"):
        result = nicemu(*run, "--out", "out.pcap", "--state", other)
        assert (result.exit_code, "write another file" in result.stderr) == (1, True)
    assert "it is a folder; name a file in it" in nicemu(*run, "--state", ".").stderr
    refused = nicemu("switch", "switch.p4", "--in", "in.pcap", "--state", "missing/state.json")
    assert (refused.exit_code, "missing/state.json cannot be written" in refused.stderr) == (1, True)
    assert refused.stdout == ""


def test_a_program_of_a_nic_leaves_packets_to_the_host_and_the_firmware(nicemu: Cli, folder: Path) -> None:
    result = nicemu("switch", "p4/kvmatch.p4", "--in", "in.pcap")
    assert result.stdout.splitlines()[1:] == ["  dropped, parser.too_short: 6"]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "--in FILE or --port PORT=NAME says where packets come from"),
        (("--p4runtime", "unix:/x", "--out", "b"), "--out is for captures"),
        (("--in", "a", "--port", "0=b"), "either --in FILE or --port PORT=NAME"),
        (("--in", "a", "--for", "1"), "--for and --p4runtime are for interfaces"),
        (("--in", "a", "--p4runtime", "unix:/x"), "--for and --p4runtime are for interfaces"),
        (("--in", "a", "--capture", "b"), "--capture is for interfaces"),
        (("--in", "a", "--device-id", "1"), "--device-id and --allow-remote say how P4Runtime is served"),
        (("--port", "0=a", "--allow-remote"), "--device-id and --allow-remote say how P4Runtime is served"),
        (("--port", "0=a", "--for", "nan"), "nan is no number of seconds"),
        (("--port", "0=a", "--out", "b"), "--out is for captures"),
        (("--port", "a"), "--port a: PORT=NAME was expected"),
        (("--in", "a", "--port", "1", "--port", "2"), "--port 2: the --in without a port has 1"),
        (("--in", "a", "--port", "65536"), "--port 65536: a port is at most 65535"),
        (("--in", "host=a"), "--in host=a: PORT=NAME was expected"),
        (("--in", "a", "--in", "0=b"), "--in 0=b: port 0 has a"),
        (("--in", "a", "--out", "b", "--out", "c"), "--out c: the rest has b"),
        (("--in", "zero=a"), "--in zero=a: zero is no port, a number is; a file called so is ./zero=a"),
        (("--in", "a", "--out", "hots=b"), "--out hots=b: hots is no port, a number or host is"),
        (("--in", "65536=a"), "--in 65536=a: ports have numbers of 0 to 65535"),
        (("--in", "a", "--out", "70000=b"), "--out 70000=b: ports have numbers of 0 to 65535"),
        (("--in", "a", "--out", f"{'9' * 5000}=b"), "ports have numbers of 0 to 65535"),
    ],
)
def test_what_contradicts_itself_is_refused(
    nicemu: Cli, folder: Path, words: tuple[str, ...], told: str
) -> None:
    result = nicemu("switch", "switch.p4", *words)
    assert (result.exit_code, told in result.stderr) == (2, True), result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("switch", "switch.p4", "--in", "512=in.pcap"),
        ("switch", "switch.p4", "--in", "in.pcap", "--port", "512"),
        ("packet", "switch.p4", "--pcap", "in.pcap", "--port", "512"),
    ],
)
def test_no_packet_comes_in_on_a_port_that_the_architecture_cannot_name(
    nicemu: Cli, folder: Path, words: tuple[str, ...]
) -> None:
    result = nicemu(*words)
    assert result.exit_code == 1
    assert "standard_metadata_t has ports 0 to 511; 512 is none of them" in result.stderr


def test_a_gzipped_capture_is_read_and_none_is_promised(nicemu: Cli, folder: Path) -> None:
    (folder / "in.pcap.gz").write_bytes(gzip.compress((folder / "in.pcap").read_bytes()))
    assert nicemu("switch", "switch.p4", "--in", "in.pcap.gz").stdout.startswith("6 packets in, ")
    result = nicemu("switch", "switch.p4", "--in", "in.pcap.gz", "--out", "out.pcap.gz")
    assert (result.exit_code, (folder / "out.pcap.gz").exists()) == (1, False)
    assert "out.pcap.gz would not be gzipped; write out.pcap and gzip it" in result.stderr


def test_large_captures_are_compiled_for_and_the_engine_may_be_chosen(nicemu: Cli, folder: Path) -> None:
    (folder / "plain.p4").write_text(SWITCH.replace("s.mcast_grp = 1;", ""))
    with open(folder / "large.pcap", "wb") as file:
        writer = PcapWriter(file)
        for number in range(17_000):
            writer.write(number, bytes([number % 3]) + bytes(63))
    found: dict[tuple[str, ...], dict[str, object]] = {}
    for words in ((), ("--engine", "kernel"), ("--engine", "interpreter")):
        out = ("--out", f"{len(found)}.pcap")
        result = nicemu("switch", "plain.p4", "--in", "large.pcap", *out, "--json", *words)
        found[words] = json.loads(result.stdout)
        assert (folder / f"{len(found) - 1}.pcap").read_bytes() == (folder / "0.pcap").read_bytes()
    assert [told.pop("engine") for told in found.values()] == ["kernel", "kernel", "interpreter"]
    for told in found.values():
        del told["seconds"], told["packets_per_second"]
        assert told == found[()]


def test_a_program_that_cannot_be_compiled_is_interpreted_and_that_is_said(
    nicemu: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(statements, "MAX_STATEMENTS", 1)
    (folder / "plain.p4").write_text(SWITCH.replace("s.mcast_grp = 1;", ""))
    result = nicemu("switch", "plain.p4", "--in", "in.pcap", "--engine", "kernel")
    assert result.exit_code == 1
    reason = "it would have more than 1 statements"
    assert f"plain cannot be compiled to a kernel: {reason}; --engine interpreter runs it" in result.stderr
    monkeypatch.setattr("nicemu.cli.switch.LARGE_BYTES", 1)
    result = nicemu("switch", "plain.p4", "--in", "in.pcap")
    assert result.stderr == f"plain is interpreted: {reason}\n"
    assert ", interpreted\n" in result.stdout


def test_externs_of_the_program_are_done_by_a_python_file(nicemu: Cli, folder: Path) -> None:
    text = SWITCH.replace("header ", "extern void look(in bit<9> port);\nheader ", 1)
    (folder / "own.p4").write_text(text.replace("apply {", "apply { look(1);", 1))
    (folder / "look.py").write_text(
        "from nicemu.pipeline import extern\n"
        "@extern('void look(in bit<9> port)')\ndef look(port): print(port)\n"
    )
    told = nicemu(
        "switch", "own.p4", "--in", "in.pcap", "--out", "out.pcap", "--externs", "look.py", "--json"
    )
    assert told.exit_code == 0, told.output
    assert json.loads(told.stdout)
    assert told.stderr.splitlines().count("1") > 1
    assert frames(folder / "out.pcap") == ["01aa", "0abb", "02cc", "", "fd"]
    told = nicemu("switch", "own.p4", "--in", "in.pcap", "--out", "out.pcap")
    assert "nothing does what extern look does" in told.stderr
    assert "extern.missing" in told.stdout
