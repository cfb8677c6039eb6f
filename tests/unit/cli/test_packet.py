# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from nicemu.capture import PcapWriter

Cli = Callable[..., Result]
PROGRAM = """
#include <core.p4>
#include <nicemu.p4>
header byte_t { bit<8> kind; bit<8> value; }
struct headers_t { byte_t h; byte_t g; }
struct metadata_t { }
parser P(packet_in b, out headers_t headers, inout metadata_t m, inout nic_metadata_t nic) {
    state start { b.extract(headers.h); transition accept; }
}
control C(inout headers_t headers, inout metadata_t m, inout nic_metadata_t nic) {
    TriggerCounter() hits;
    action count(bit<32> counter) { hits.add(counter, 1); }
    table t { key = { headers.h.kind: exact; } actions = { count; NoAction; } }
    apply {
        t.apply();
        headers.h.value = 7;
        if (headers.h.kind == 9) { headers.g = { 0xaa, 0xbb }; }
        if (headers.h.kind == 8) { drop_packet(); } else { send_to_port(nic.ingress_port); }
    }
}
control D(packet_out b, in headers_t headers, in metadata_t m, in nic_metadata_t nic) {
    apply { b.emit(headers); }
}
SmartNic(P(), C(), D()) main;
"""

DIGEST = """
#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> kind; bit<8> value; }
struct headers_t { byte_t h; }
struct metadata_t { }
struct seen_t { byte_t h; bit<8> x; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { digest<seen_t>(7, { h.h, h.h.value }); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.p4"
    path.write_text(PROGRAM)
    return str(path)


@pytest.fixture
def capture(tmp_path: Path) -> str:
    path = tmp_path / "two.pcap"
    with open(path, "wb") as file:
        writer = PcapWriter(file)
        writer.write(1, bytes.fromhex("0105"))
        writer.write(2, bytes.fromhex("0906ff"))
    return str(path)


def test_a_packet_is_told_step_by_step_to_the_bytes_that_leave(nicemu: Cli, program: str) -> None:
    result = nicemu("packet", program, "--hex", "0x01 05:ff", "--port", "3")
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines()
    assert lines[0] == "program: 3 bytes on port 3"
    assert "    table C.t (headers.h.kind=0x1): miss" in lines
    assert "    headers.h.value = 0x5 -> 0x7" in lines
    assert lines[-5:] == [
        "    emit headers.h",
        "      kind = 0x1, value = 0x7",
        "leaves by port 3, 3 bytes",
        "  - 0001  05",
        "  + 0001  07",
    ]


def test_a_packet_of_a_capture_is_chosen_as_wireshark_numbers_them(
    nicemu: Cli, program: str, capture: str
) -> None:
    lines = nicemu("packet", program, "--pcap", capture, "--index", "2").stdout.splitlines()
    assert lines[0] == "program: 3 bytes on port 0"
    assert lines[-3:] == ["leaves by port 0, 5 bytes", "  - 0001  06", "  + 0001  07 aa bb"]
    beyond = nicemu("packet", program, "--pcap", capture, "--index", "3")
    assert (beyond.exit_code, beyond.stderr) == (
        1,
        f"Error: {capture} has 2 packets; --index 3 is none of them\n",
    )


def test_a_digest_is_told_as_its_data(nicemu: Cli, tmp_path: Path) -> None:
    program = tmp_path / "digest.p4"
    program.write_text(DIGEST, encoding="utf-8")
    lines = nicemu("packet", str(program), "--hex", "0105").stdout.splitlines()
    assert lines[-1] == "then DigestPosted(name=seen_t, receiver=0x7, data={h={kind=0x1, value=0x5}, x=0x5})"
    (told,) = json.loads(nicemu("packet", str(program), "--hex", "0105", "--json").stdout)["effects"]
    assert (told["event"], told["data"]) == ("digest_posted", {"h": {"kind": 1, "value": 5}, "x": 5})


def test_entries_of_a_file_are_met_and_effects_are_told(nicemu: Cli, program: str, tmp_path: Path) -> None:
    tables = tmp_path / "tables.json"
    action = {"name": "count", "parameters": {"counter": 21}}
    tables.write_text(json.dumps([{"table": "t", "entries": [{"keys": {"kind": 1}, "action": action}]}]))
    lines = nicemu("packet", program, "--hex", "0105", "--tables", str(tables)).stdout.splitlines()
    assert "    table C.t (headers.h.kind=0x1): hit, entry 0x1" in lines
    assert lines[-1] == "then CounterAdd(counter=0x15, value=0x1)"
    told = json.loads(nicemu("packet", program, "--hex", "0105", "--tables", str(tables), "--json").stdout)
    assert told["effects"] == [{"event": "counter_add", "counter": 21, "value": 1}]


def test_a_drop_tells_its_reason(nicemu: Cli, program: str) -> None:
    assert nicemu("packet", program, "--hex", "0805").stdout.splitlines()[-1] == "dropped: pipeline.dropped"
    assert nicemu("packet", program, "--hex", "08").stdout.splitlines()[-2:] == [
        "    reject: PacketTooShort at byte 0",
        "dropped: parser.too_short",
    ]


def test_the_json_has_the_same_events(nicemu: Cli, program: str) -> None:
    told = json.loads(nicemu("packet", program, "--hex", "0105", "--port", "3", "--json").stdout)
    assert (told["program"], told["port"], told["frame"], told["disposition"]) == (
        "program",
        3,
        "0105",
        "port",
    )
    assert told["departures"] == [
        {
            "where": "port",
            "port": 3,
            "frame": "0107",
            "changes": [{"at_before": 1, "before": "05", "at_after": 1, "after": "07"}],
        }
    ]
    assert {"event": "assigned", "place": "headers.h.value", "old": 5, "new": 7} in told["trace"]


@pytest.mark.parametrize("words", [(), ("--hex", "00", "--pcap", "file")])
def test_one_packet_has_to_be_named(nicemu: Cli, program: str, words: tuple[str, ...]) -> None:
    result = nicemu("packet", program, *words)
    assert (result.exit_code, "one of --hex BYTES and --pcap FILE" in result.stderr) == (2, True)


def test_an_index_is_of_a_capture(nicemu: Cli, program: str) -> None:
    result = nicemu("packet", program, "--hex", "00", "--index", "2")
    assert (result.exit_code, "--index says which packet of --pcap FILE" in result.stderr) == (2, True)


def test_what_is_no_hexadecimal_is_refused(nicemu: Cli, program: str) -> None:
    result = nicemu("packet", program, "--hex", "0g")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: --hex 0g: two hexadecimal digits a byte were expected\n",
    )


def test_externs_of_the_program_are_done_by_a_python_file(nicemu: Cli, program: str, tmp_path: Path) -> None:
    own = PROGRAM.replace("header byte_t", "extern bit<8> more(in bit<8> v);\nheader byte_t")
    Path(program).write_text(
        own.replace("headers.h.value = 7;", "headers.h.value = more(headers.h.value);"), encoding="utf-8"
    )
    does = tmp_path / "more.py"
    does.write_text(
        "from nicemu.pipeline import extern\n@extern('bit<8> more(in bit<8> v)')\ndef more(v): return v + 1\n"
    )
    told = nicemu("packet", program, "--hex", "01ff", "--externs", str(does))
    assert "ValueError: 256 is no bit<8>: 0 to 255" in told.stdout
    assert "dropped: extern.ValueError" in told.stdout
    says = tmp_path / "says.py"
    says.write_text(does.read_text().replace("return", "print('seen'); return"))
    told = nicemu("packet", program, "--hex", "0101", "--externs", str(says), "--json")
    assert (json.loads(told.stdout)["program"], told.stderr) == (Path(program).stem, "seen\n")
    told = nicemu("packet", program, "--hex", "0101")
    assert "nothing does what extern more does: packets that call it are dropped" in told.stderr
    assert "more(0x1), nothing in Python does it" in told.stdout.replace(": nothing", ", nothing")
    wrong = tmp_path / "wrong.py"
    wrong.write_text("1 / 0")
    told = nicemu("packet", program, "--hex", "0101", "--externs", str(wrong))
    assert (told.exit_code, "wrong.py:1: ZeroDivisionError: division by zero" in told.stderr) == (1, True)


PUNTED = """#include <core.p4>
#include <v1model.p4>
struct headers_t { }
struct metadata_t { }
parser P(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = 64; }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out packet, in headers_t h) { apply { } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
"""


def test_a_port_may_be_the_controller_s_too(nicemu: Cli, tmp_path: Path, program: str) -> None:
    path = tmp_path / "punted.p4"
    path.write_text(PUNTED)
    given = ("packet", str(path), "--hex", "0102", "--json")
    assert json.loads(nicemu(*given).stdout)["disposition"] == "port"
    assert json.loads(nicemu(*given, "--cpu-port", "64").stdout)["disposition"] == "host"
    refused = nicemu("packet", program, "--hex", "0102", "--cpu-port", "64")
    assert (refused.exit_code, "--cpu-port is for v1model" in refused.stderr) == (1, True)


def test_headers_and_metadata_are_called_as_the_program_calls_them(nicemu: Cli, tmp_path: Path) -> None:
    text = PUNTED.replace(
        "apply { s.egress_spec = 64; }", "apply { s.egress_spec = 64; m.mark = 3; h.b.x = 9; }"
    )
    text = text.replace("struct headers_t { }", "header byte_t { bit<8> x; } struct headers_t { byte_t b; }")
    text = text.replace("struct metadata_t { }", "struct metadata_t { bit<8> mark; }")
    path = tmp_path / "named.p4"
    path.write_text(text.replace("{ transition", "{ packet.extract(h.b); transition"))
    told = nicemu("packet", str(path), "--hex", "0102").stdout
    for line in ("extract h.b,", "s.egress_spec = 0x0 -> 0x40", "m.mark = 0x0 -> 0x3", "h.b.x = 0x1 -> 0x9"):
        assert line in told
