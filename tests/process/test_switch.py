# SPDX-License-Identifier: Apache-2.0
"""`nicemu switch` between interfaces of a network namespace made for the test, under a controller."""

from __future__ import annotations

import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from nicemu.bmv2 import load_bmv2_text
from nicemu.capture import PcapWriter, read_capture
from nicemu.cli.lazy_group import INTERRUPTED
from nicemu.control import P4RuntimeClient, ReceivedPacket, Update
from nicemu.fabric import PacketPort
from nicemu.p4 import compile_text
from tests.network_namespace import enter_network_namespace, until_up
from tests.unit.bmv2.router_json import router_json

pytestmark = pytest.mark.process

PROGRAM = """
#include <core.p4>
#include <v1model.p4>
header ethernet_t { bit<48> destination; bit<48> source; bit<16> ethertype; }
struct headers_t { ethernet_t ethernet; }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.ethernet); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action forward(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    table bridge {
        key = { h.ethernet.destination: exact; }
        actions = { forward; drop; }
        default_action = drop;
    }
    apply { bridge.apply(); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
ECHO = (
    PROGRAM.replace(
        "struct headers_t {",
        '@controller_header("packet_in") header in_t { bit<16> port; } '
        '@controller_header("packet_out") header out_t { bit<16> port; } '
        "struct headers_t { in_t came; out_t sent; ",
    )
    .replace("b.extract(h.ethernet)", "b.extract(h.sent); b.extract(h.ethernet)")
    .replace("bridge.apply()", "h.sent.setInvalid(); h.came = {7}; s.egress_spec = 510")
)
"""What a controller sends comes back to it, as from port 7."""
TABLES = [
    {
        "table": "bridge",
        "entries": [
            {
                "keys": {"destination": "02:00:00:00:00:01"},
                "action": {"name": "forward", "parameters": {"port": 1}},
            }
        ],
    }
]
NEAR = ("near0", "near1")
TIMEOUT_S = 60.0


def frame(last_of_destination: int, text: bytes) -> bytes:
    return bytes([2, 0, 0, 0, 0, last_of_destination, 2, 0, 0, 0, 0, 9, 0x88, 0xB5]) + text.ljust(50, b".")


def received(port: PacketPort) -> bytes:
    """Return the next frame that comes at a port."""
    file = port.fileno()
    assert file is not None
    assert select.select([file], [], [], TIMEOUT_S)[0], "no frame came"
    (found,) = port.receive(1)
    return found


def in_a_namespace(what: Callable[[], None]) -> None:
    pairs = [("near0", "far0"), ("near1", "far1")]
    commands = ["link set lo up"]
    for near, far in pairs:
        commands.append(f"link add {near} type veth peer name {far}")
        commands += [f"link set {name} addrgenmode none up" for name in (near, far)]
    with ThreadPoolExecutor(1) as thread:
        problem = thread.submit(enter_network_namespace, commands).result(60)
        if problem:
            pytest.skip(problem)
        thread.submit(what).result(300)


def run_in(folder: Path, *words: str, program: Sequence[str] = ("bridge.p4",)) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "nicemu", "switch", *program, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def started(
    folder: Path, *words: str, program: Sequence[str] = ("bridge.p4", "--tables", "tables.json")
) -> subprocess.Popen[str]:
    """Start the command and wait until it says that its ports are open."""
    (folder / "bridge.p4").write_text(PROGRAM)
    (folder / "tables.json").write_text(json.dumps(TABLES))
    process = run_in(folder, *words, program=program)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("ports "):
            assert line.endswith(":near0, 1 packet:near1\n")
            return process
    raise AssertionError(f"the switch ended with {process.wait()}")


@pytest.mark.parametrize("kind", ["packet", "xdp"])
def test_frames_pass_between_interfaces_as_file_and_controller_say_until_ctrl_c(
    tmp_path: Path, kind: str
) -> None:
    address = f"unix:{tmp_path}/switch.sock"

    def check() -> None:
        until_up("near0", "near1", "far0", "far1")
        far0, far1 = PacketPort("far0"), PacketPort("far1")
        near = ("--port", f"0={kind}:near0", "--port", "1=near1")
        words = (*near, "--p4runtime", address, "--capture", "seen", "--json")
        process = started(tmp_path, *words)
        try:
            far0.send([frame(7, b"to nobody"), frame(1, b"to one")])
            assert received(far1) == frame(1, b"to one")
            with P4RuntimeClient(address) as client:
                keys, action = {"h.ethernet.destination": "02:00:00:00:00:02"}, {"port": 0}
                client.write([Update("insert", "I.bridge", keys, "I.forward", action)])
                client.send_packet(frame(2, b"from the controller"))
                assert received(far0) == frame(2, b"from the controller")
            far1.send([frame(2, b"back")])
            assert received(far0) == frame(2, b"back")
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
            far0.close()
            far1.close()
        assert process.returncode == 0
        told = json.loads(output)
        assert told["packets"] == 4
        assert told["out"] == {"0": 2, "1": 1}
        assert told["dropped"] == {"pipeline.dropped": 1}
        assert told["engine"] == "kernel"
        seen = {name: [item.data for item in read_capture(tmp_path / f"seen/{name}.pcap")] for name in NEAR}
        assert seen["near0"][2:] == [frame(2, b"from the controller"), frame(2, b"back")]
        assert seen["near1"] == [frame(1, b"to one"), frame(2, b"back")]

    in_a_namespace(check)


def test_a_controller_brings_bmv2_json_to_the_device_that_it_means(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/switch.sock"

    def check() -> None:
        until_up("near0", "near1", "far0", "far1")
        near = ("--port", "0=packet:near0", "--port", "1=near1")
        process = started(tmp_path, *near, "--p4runtime", address, "--device-id", "7")
        try:
            with P4RuntimeClient(address, device_id=7) as client:
                text = json.dumps(router_json())
                client.load(text, load_bmv2_text(text.encode(), "router.json").p4info)
                assert client.p4info().program == "router"
        finally:
            process.kill()
            process.communicate()

    in_a_namespace(check)


def test_a_controller_brings_the_program_of_a_switch_that_has_none(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/switch.sock"

    def check() -> None:
        until_up("near0", "near1", "far0", "far1")
        near = ("--port", "0=packet:near0", "--port", "1=near1")
        process = started(tmp_path, *near, "--p4runtime", address, "--json", program=())
        far0, far1 = PacketPort("far0"), PacketPort("far1")
        try:
            far0.send([frame(1, b"before")])
            with P4RuntimeClient(address) as client:
                compiled = compile_text(PROGRAM)
                client.load(compiled.program.to_json(), compiled.p4info)
                keys = {"h.ethernet.destination": "02:00:00:00:00:01"}
                client.write([Update("insert", "I.bridge", keys, "I.forward", {"port": 1})])
            far0.send([frame(1, b"behind")])
            assert received(far1) == frame(1, b"behind")
            process.send_signal(signal.SIGINT)
            output, _ = process.communicate(timeout=TIMEOUT_S)
        finally:
            process.kill()
            process.communicate()
            far0.close()
            far1.close()
        told = json.loads(output)
        assert (told["out"], told["dropped"]) == ({"1": 1}, {"switch.no_program": 1})
        assert told["engine"] == "kernel"

    in_a_namespace(check)


@pytest.mark.parametrize("with_headers", [True, False], ids=["with_headers", "without_headers"])
def test_a_switch_without_interfaces_has_its_packets_from_controllers(
    tmp_path: Path, with_headers: bool
) -> None:
    """Who tries what a controller does needs no interfaces, and nobody has to be root."""
    text = ECHO if with_headers else PROGRAM.replace("bridge.apply()", "s.egress_spec = 510")
    metadata = [{"port": 1}, {"port": 7}] if with_headers else [{}, {}]
    address = f"unix:{tmp_path}/switch.sock"
    process = run_in(tmp_path, "--p4runtime", address, "--json", program=())
    assert process.stderr is not None
    try:
        for line in process.stderr:
            if line.startswith("ports none"):
                break
        with P4RuntimeClient(address) as client:
            compiled = compile_text(text)
            client.load(compiled.program.to_json(), compiled.p4info)
            client.send_packet(frame(1, b"to itself"), metadata[0])
            came = client.receive(TIMEOUT_S)
            assert isinstance(came, ReceivedPacket)
            assert (came.payload, came.metadata) == (frame(1, b"to itself"), metadata[1])
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert (process.returncode, json.loads(output)["out"]) == (0, {"host": 1})


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
def test_ctrl_c_and_a_closed_terminal_end_a_long_run_with_whole_files(
    tmp_path: Path, number: signal.Signals
) -> None:
    (tmp_path / "bridge.p4").write_text(PROGRAM)
    (tmp_path / "tables.json").write_text(json.dumps(TABLES))
    with open(tmp_path / "in.pcap", "wb") as file:
        writer = PcapWriter(file)
        for when in range(400_000):
            writer.write(when, frame(1, b""))
    out = tmp_path / "out.pcap"
    words = ("--tables", "tables.json", "--in", "in.pcap", "--out", "1=out.pcap", "--json")
    process = run_in(tmp_path, *words, "--state", "state.json", "--engine", "interpreter")
    try:
        end = time.monotonic() + TIMEOUT_S
        while not out.exists() or out.stat().st_size < 10_000:
            assert time.monotonic() < end, "nothing is written"
            select.select([], [], [], 0.01)
        process.send_signal(number)
        output, _ = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED
    packets, is_interrupted = (json.loads(output)[name] for name in ("packets", "interrupted"))
    assert is_interrupted
    assert packets < 400_000
    assert sum(1 for _ in read_capture(out)) == packets
    tables = json.loads((tmp_path / "state.json").read_text())["tables"]
    assert max(table["hits"] for table in tables) == packets


ENDLESS = """
from pathlib import Path

from nicemu.pipeline import extern

@extern("bit<8> never()")
def never():
    Path("begun").touch()
    while True:
        pass
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_packet_that_does_not_end_is_given_up_where_ctrl_c_comes_again(
    tmp_path: Path, number: signal.Signals
) -> None:
    """What passed before stands in whole files; what the engine holds is not told as its state."""
    declared = PROGRAM.replace("struct headers_t", "extern bit<8> never(); struct headers_t", 1)
    asked = "apply { if (s.packet_length > 100) { bit<8> x = never(); } bridge"
    (tmp_path / "bridge.p4").write_text(declared.replace("apply { bridge", asked, 1))
    (tmp_path / "endless.py").write_text(ENDLESS)
    with open(tmp_path / "in.pcap", "wb") as file:
        writer = PcapWriter(file)
        for when, payload in enumerate((b"came", bytes(200), b"never")):
            writer.write(when, frame(1, payload))
    words = ("--externs", "endless.py", "--in", "in.pcap", "--out", "out.pcap", "--json")
    process = run_in(tmp_path, *words, "--state", "state.json", "--engine", "interpreter")
    try:
        end = time.monotonic() + TIMEOUT_S
        again = 0.0
        while process.poll() is None:
            assert time.monotonic() < end, "it does not end"
            if (tmp_path / "begun").exists() and time.monotonic() >= again:
                process.send_signal(number)
                again = time.monotonic() + 2  # not while it is ending
            select.select([], [], [], 0.05)
        output, told = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED, told
    assert json.loads(output)["interrupted"]
    assert len(list(read_capture(tmp_path / "out.pcap"))) <= 1
    assert not (tmp_path / "state.json").exists()


@pytest.mark.parametrize("words", [("--engine", "kernel"), ("--engine", "interpreter"), ()])
@pytest.mark.parametrize("is_open", [True, False], ids=["that_waits", "that_nobody_has_opened"])
def test_ctrl_c_ends_the_wait_for_a_pipe_with_whole_files(
    tmp_path: Path, words: tuple[str, ...], is_open: bool
) -> None:
    (tmp_path / "bridge.p4").write_text(PROGRAM)
    (tmp_path / "tables.json").write_text(json.dumps(TABLES))
    os.mkfifo(tmp_path / "pipe")
    ports = ("--in", "pipe", "--out", "out.pcap", "--tables", "tables.json", "--json")
    process = run_in(tmp_path, *ports, *words)
    try:
        if is_open:
            with open(tmp_path / "pipe", "wb") as pipe:
                PcapWriter(pipe).write(1, frame(1, b"came"))
                pipe.flush()
                while int.from_bytes(fcntl.ioctl(pipe, termios.FIONREAD, bytes(4)), sys.byteorder):
                    assert process.poll() is None
                    select.select([], [], [], 0.02)  # until all of it was read
                until_asleep(process, "pipe_read")
                process.send_signal(signal.SIGINT)
                output, told = process.communicate(timeout=TIMEOUT_S)
        else:
            until_asleep(process, "wait_for_partner")
            process.send_signal(signal.SIGINT)
            output, told = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED, told
    assert json.loads(output)["packets"] == int(is_open)
    assert [item.data for item in read_capture(tmp_path / "out.pcap")] == [frame(1, b"came")] * is_open


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_pipe_that_nobody_reads_can_be_given_up(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "bridge.p4").write_text(PROGRAM)
    with open(tmp_path / "in.pcap", "wb") as file:
        PcapWriter(file).write(1, frame(1, b"came"))
    os.mkfifo(tmp_path / "pipe")
    process = run_in(tmp_path, "--in", "in.pcap", "--out", "pipe", "--json")
    try:
        until_asleep(process, "wait_for_partner")
        process.send_signal(number)
        output, told = process.communicate(timeout=TIMEOUT_S)
    finally:
        process.kill()
    assert process.returncode == INTERRUPTED, told
    assert json.loads(output)["packets"] == 0


def until_asleep(process: subprocess.Popen[str], where: str) -> None:
    """Wait until a process sleeps in a function of the kernel that has this in its name."""
    end, seen = time.monotonic() + TIMEOUT_S, {"0"}
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()
        channel = Path(f"/proc/{process.pid}/wchan").read_text(encoding="utf-8")
        if where in channel:
            return
        seen.add(channel)
        select.select([], [], [], 0.02)
    if seen == {"0"}:
        pytest.skip("this kernel does not say where a process sleeps (/proc/PID/wchan)")
    raise AssertionError(f"it has slept in {seen}")


def test_it_ends_by_itself_when_its_time_is_over(tmp_path: Path) -> None:
    def check() -> None:
        until_up("near0", "near1")
        begun = time.monotonic()
        process = started(tmp_path, "--port", "0=near0", "--port", "1=packet:near1", "--for", "0.2")
        output, _ = process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0
        assert time.monotonic() - begun >= 0.2
        assert output.startswith("0 packets in, 0 bytes; ")

    in_a_namespace(check)
