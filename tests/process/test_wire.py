# SPDX-License-Identifier: Apache-2.0
"""Ports on interfaces, captures of interfaces and cables, and `nicemu wire capture`, in real sockets."""

from __future__ import annotations

import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from scapy.utils import RawPcapNgReader

from nicemu.capture import CapturedFrame
from nicemu.cli import main
from nicemu.errors import UsageError
from nicemu.fabric import (
    AnsweringPort,
    DatagramPort,
    FinishedPacketPort,
    Interface,
    PacketCapture,
    PacketPort,
    TapPort,
)
from nicemu.wire import (
    RcOpcode,
    RoceFramer,
    UdpFrame,
    internet_checksum,
    parse_ipv4,
    verify_udp_checksum,
)
from tests.network_namespace import (
    enter_network_namespace,
    in_network_namespace,
    quiet_tap,
    until_up,
    veth_pair,
)

pytestmark = pytest.mark.process
LIMIT_S = 30.0
UDP_SEGMENT = 103  # <linux/udp.h>
MAC_A, MAC_B = b"\x02\0\0\0\0\1", b"\x02\0\0\0\0\2"
FRAMER = RoceFramer(MAC_A, MAC_B, parse_ipv4("10.0.0.1"), parse_ipv4("10.0.0.2"))


def frame(number: int, length: int = 64) -> bytes:
    return FRAMER.frame(RcOpcode.SEND_ONLY, 0xABCDE, number, payload=[bytes(length)])


def frames_of(file: Path) -> list[tuple[bytes, Any]]:
    """Return what scapy reads from a capture: the frames, and what is said of each."""
    reader: Any = RawPcapNgReader
    return list(reader(io.BytesIO(file.read_bytes())))


def captured(capture: PacketCapture, count: int) -> list[CapturedFrame]:
    """Wait for so many frames."""
    frames: list[CapturedFrame] = []
    end = time.monotonic() + LIMIT_S
    while len(frames) < count and time.monotonic() < end:
        select.select(capture.filenos(), [], [], 1)
        frames += capture.receive()
    return frames


# Interfaces


def test_a_capture_sees_both_directions_with_their_times() -> None:
    def make() -> tuple[PacketCapture, PacketPort, PacketPort]:
        until_up("here", "there")
        return PacketCapture("here"), PacketPort("here"), PacketPort("there")

    capture, here, there = in_network_namespace(veth_pair(), make)
    with ExitStack() as stack:
        for one in (capture, here, there):
            stack.callback(one.close)
        before_ns = time.time_ns()
        here.send([frame(1, 9000)])
        there.send([frame(2)])
        seen = captured(capture, 2)
        assert [(one.data, one.outbound, one.interface) for one in seen] == [
            (frame(1, 9000), True, 0),
            (frame(2), False, 0),
        ]
        assert seen[0].original_bytes == len(frame(1, 9000))
        assert before_ns - 10_000_000 < seen[0].time_ns <= seen[1].time_ns <= time.time_ns()
        assert capture.statistics() == [(2, 0)]
        assert capture.interfaces == ("here",)
        assert not capture.waits
    with pytest.raises(UsageError, match="is closed"):
        capture.receive()


def test_a_capture_keeps_a_burst_that_nobody_looks_at() -> None:
    def make() -> tuple[PacketCapture, PacketPort]:
        until_up("here", "there")
        return PacketCapture("there"), PacketPort("here", 64 << 20)

    capture, here = in_network_namespace(veth_pair(), make)
    frames = [frame(number, 1024) for number in range(5000)]
    sent = 0
    while sent < len(frames):
        sent += here.send(frames[sent:])
    assert [one.data for one in captured(capture, 5000)] == frames
    assert capture.statistics() == [(5000, 0)]
    capture.close()
    here.close()


def test_vlan_tags_are_put_back_into_captures() -> None:
    def make() -> tuple[PacketCapture, PacketPort]:
        until_up("here", "there")
        return PacketCapture("there"), PacketPort("here")

    capture, here = in_network_namespace(veth_pair(), make)
    tagged = frame(1)[:12] + b"\x81\0\x60\x05" + frame(1)[12:]
    here.send([tagged])
    (seen,) = captured(capture, 1)
    assert (seen.data, seen.original_bytes) == (tagged, len(tagged))
    capture.close()
    here.close()


def test_a_finished_packet_has_what_the_kernel_leaves_to_interfaces() -> None:
    """A datagram's checksum, the segments of what is handed over as one (UDP_SEGMENT), the VLAN's tag."""
    sends = """
import socket
for size in (11, 3000):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.setsockopt(socket.IPPROTO_UDP, 103, 1000 if size > 1000 else 0)
        s.sendto(bytes(range(256)) * (size // 256) + bytes(size % 256), ("10.8.0.2", 4791))
"""

    tagged = frame(1)[:12] + b"\x81\0\x60\x05" + frame(1)[12:]

    def make() -> FinishedPacketPort:
        until_up("here", "there")
        port = FinishedPacketPort("here")
        for words in (
            "address add 10.8.0.1/24 dev there",
            "neighbour add 10.8.0.2 lladdr 02:00:00:00:00:02 dev there",
        ):
            subprocess.run(["ip", *words.split()], check=True, timeout=20)
        subprocess.run([sys.executable, "-c", sends], check=True, timeout=20)
        with closing(PacketPort("there")) as there:
            there.send([tagged])
        return port

    port = in_network_namespace(veth_pair(1500), make)
    came: list[bytes] = []
    end = time.monotonic() + LIMIT_S
    while len(came) < 5 and time.monotonic() < end:
        select.select([port.fileno() or 0], [], [], 0.1)
        came += port.receive()
    *datagrams, last = came
    assert [len(one) for one in datagrams] == [42 + 11, *[42 + 1000] * 3]
    for one in datagrams:
        pseudo = one[26:34] + bytes((0, 17)) + len(one[34:]).to_bytes(2, "big")
        assert internet_checksum(one[14:34]) == 0
        assert internet_checksum(pseudo + one[34:]) == 0
    assert last == tagged
    assert port.drops == {}
    port.close()


def test_the_kernel_pings_a_nic_behind_a_tap_interface() -> None:
    def make() -> tuple[AnsweringPort, subprocess.Popen[str]]:
        port = AnsweringPort(TapPort("nic"), b"\x02\0\x0a\x07\0\1", "10.7.0.1")
        subprocess.run(["ip", "address", "add", "10.7.0.2/24", "dev", "nic"], check=True, timeout=20)
        script = "import socket, sys; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        script += "s.connect(('10.7.0.1', 4791)); s.send(bytes(4000)); print('sent')"
        return port, subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)

    port, asking = in_network_namespace(quiet_tap("nic"), make)
    arrived: list[bytes] = []
    end = time.monotonic() + LIMIT_S
    while not arrived and time.monotonic() < end:
        select.select([port.fileno() or 0], [], [], 0.1)
        arrived += [one for one in port.receive() if one[12:14] == b"\x08\0" and one[23] == 17]
    assert asking.communicate(timeout=LIMIT_S)[0] == "sent\n"
    assert arrived[0][:6] == b"\x02\0\x0a\x07\0\1", "the kernel has learnt the address by ARP"
    assert len(arrived[0]) == 14 + 20 + 8 + 4000
    port.close()


def test_frames_that_the_kernel_refuses_are_counted() -> None:
    def make() -> tuple[PacketPort, TapPort]:
        until_up("here", "there")
        tap = TapPort("tap")
        subprocess.run(["ip", "link", "set", "tap", "down"], check=True, timeout=20)
        return PacketPort("here"), tap

    port, tap = in_network_namespace(veth_pair(1500) + quiet_tap("tap"), make)
    assert port.send([frame(1, 4000), frame(2)]) == 2
    assert port.drops == {"packet.EMSGSIZE": 1}
    assert tap.send([frame(1)]) == 1
    assert tap.drops == {"tap.EIO": 1}
    port.close()
    tap.close()


def test_ports_on_an_interface_that_is_deleted_say_so_and_wake_nobody_for_ever() -> None:
    def make() -> tuple[PacketPort, TapPort, list[str]]:
        until_up("here", "there")
        port, tap = PacketPort("here"), TapPort("tap")
        until_up("tap")
        interfaces = [Interface.of("here"), Interface.of("tap")]
        before = [one.problem for one in interfaces]
        for name in ("here", "tap"):
            subprocess.run(["ip", "link", "delete", name], check=True, timeout=20)
        for command in veth_pair():
            subprocess.run(["ip", *command.split()], check=True, timeout=20)  # others of the same names
        return port, tap, [*before, *(one.problem for one in interfaces)]

    port, tap, problems = in_network_namespace(veth_pair() + quiet_tap("tap"), make)
    assert problems[:2] == ["", ""]
    assert problems[2].startswith("interface here was deleted; make it again, then stop the topology")
    assert problems[3].startswith("interface tap was deleted")
    for one in (port, tap):
        one.receive()
        waiting = select.poll()
        waiting.register(one.fileno() or 0, select.POLLIN)
        assert waiting.poll(0) == []
        assert one.receive() == []
        assert one.send([frame(1), frame(2)]) == 2
        one.close()
    assert port.drops == {"packet.ENETDOWN": 1, "packet.interface_gone": 2}
    assert tap.drops == {"tap.interface_gone": 3}


def test_an_interface_that_is_down_or_has_nothing_at_its_other_end_is_a_problem() -> None:
    def make() -> list[str]:
        until_up("here", "there")
        here, there = Interface.of("here"), Interface.of("there")
        subprocess.run(["ip", "link", "set", "there", "down"], check=True, timeout=20)
        return [here.problem, there.problem]

    assert in_network_namespace(veth_pair(), make) == [
        "interface here has no carrier: nothing is at its other end",
        "interface there is down: ip link set there up",
    ]


def datagrams(to: int, count: int, length: int) -> bytes:
    """Send a row of datagrams, which the kernel carries as one, to a port here; return what is in them."""
    payload = os.urandom(count * length - 1)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.setsockopt(socket.IPPROTO_UDP, UDP_SEGMENT, length)
        sender.sendto(payload, ("127.0.0.1", to))
    return payload


def test_datagrams_that_the_kernel_carries_as_one_are_captured_one_by_one() -> None:
    def make() -> tuple[PacketCapture, socket.socket, bytes]:
        capture, receiver = PacketCapture("lo"), socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        receiver.bind(("127.0.0.1", 0))
        return capture, receiver, datagrams(receiver.getsockname()[1], 40, 1500)

    capture, receiver, payload = in_network_namespace(["link set lo up"], make)
    with receiver:
        seen = [UdpFrame.decode(one.data) for one in captured(capture, 40)]
    assert [bytes(one.payload) for one in seen] == [payload[at : at + 1500] for at in range(0, 59_999, 1500)]
    for one in seen:
        verify_udp_checksum(one)  # the IP header's has been, by `decode`
    assert [bool(one.udp.checksum) for one in seen] == [True] * 40
    first = seen[0].ip.identification
    assert [one.ip.identification for one in seen] == [(first + n) & 0xFFFF for n in range(40)]
    assert (capture.statistics(), capture.unsplit) == ([(40, 0)], 0)
    capture.close()


def test_a_capture_waits_for_an_interface_that_is_down_and_ends_with_it() -> None:
    def make() -> tuple[PacketCapture, PacketPort]:
        until_up("here", "there")
        return PacketCapture("here"), PacketPort("there")

    def at_rest(capture: PacketCapture) -> bool:
        waiting = select.poll()
        waiting.register(capture.filenos()[0], select.POLLIN)
        return waiting.poll(0) == []

    # What is done to the interface is done in its namespace, by a thread that stays there.
    with ThreadPoolExecutor(1) as thread:
        problem = thread.submit(enter_network_namespace, veth_pair()).result(60)
        if problem:
            pytest.skip(problem)
        capture, port = thread.submit(make).result(60)

        def ip(words: str) -> None:
            command = ["ip", *words.split()]
            thread.submit(subprocess.run, command, check=True, timeout=20).result(60)

        ip("link set here down")
        assert capture.receive() == []
        assert capture.news() == ["interface here is down: the capture waits; ip link set here up"]
        assert at_rest(capture)
        assert (capture.receive(), capture.news(), capture.ended) == ([], [], False)
        ip("link set here up")
        capture.receive()
        assert capture.news() == ["interface here is up again: the capture goes on"]
        thread.submit(until_up, "here", "there").result(60)
        port.receive()
        assert port.send([frame(1)]) == 1
        assert [one.data for one in captured(capture, 1)] == [frame(1)]
        ip("link set here down")
        capture.receive()
        ip("link delete here")
        for command in veth_pair():
            ip(command)  # another one of the same name
        capture.news()
        capture.receive()
        assert capture.news() == ["interface here was deleted: the capture ends"]
        assert at_rest(capture)
        assert capture.waits
        end = time.monotonic() + LIMIT_S
        while not capture.ended:
            assert time.monotonic() < end
            capture.receive()
        assert (capture.waits, capture.news()) == (False, [])
        capture.close()
        port.close()


def test_what_is_no_interface_is_said_to_be_none() -> None:
    def make() -> None:
        with pytest.raises(UsageError, match=r"no interface 'nothing' .*; here are layer3, lo"):
            PacketPort("nothing")
        with pytest.raises(UsageError, match="layer3 carries no Ethernet frames"):
            PacketCapture("layer3")
        with pytest.raises(UsageError, match="layer3 cannot be had: Invalid argument; it is no TAP"):
            TapPort("layer3")
        with pytest.raises(UsageError, match="takes no MTU of 9999999 bytes"):
            TapPort("tap", 9_999_999)
        port = TapPort("tap")
        with pytest.raises(UsageError, match="another program has it"):
            TapPort("tap")
        port.close()

    in_network_namespace(["tuntap add dev layer3 mode tun"], make)


@pytest.mark.parametrize("name", ["", "a" * 16, "a/b"])
def test_names_that_no_interface_can_have_are_refused(name: str) -> None:
    for make in (PacketPort, PacketCapture, TapPort):
        with pytest.raises(UsageError, match="is no name of an interface"):
            make(name)


# The command


class Nodes:
    """Two ports that `nicemu wire capture` joins, and the words that name the ends of the cable."""

    def __init__(self, folder: Path) -> None:
        paths = {name: folder / name for name in ("a", "b", "cable-a", "cable-b")}
        self.a = DatagramPort((paths["a"], paths["cable-a"]))
        self.b = DatagramPort((paths["b"], paths["cable-b"]))
        self.words = [f"{paths[f'cable-{name}']},{paths[name]}" for name in ("a", "b")]
        self._plugged = [paths["cable-a"], paths["cable-b"]]

    def until_plugged(self) -> None:
        """Wait until the cable is there."""
        end = time.monotonic() + LIMIT_S
        while not all(path.exists() for path in self._plugged):
            assert time.monotonic() < end


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[Nodes]:
    nodes = Nodes(tmp_path)
    yield nodes
    nodes.a.close()
    nodes.b.close()


Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Start `nicemu wire capture`; it is killed after the test."""
    with ExitStack() as stack:

        def started(*words: str) -> subprocess.Popen[str]:
            command = [sys.executable, "-m", "nicemu", "wire", "capture", *words]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = stack.enter_context(subprocess.Popen(command, text=True, **pipes))  # type: ignore[call-overload]
            stack.callback(process.kill)
            return process  # type: ignore[no-any-return]

        yield started


def passed_on(port: DatagramPort, count: int) -> list[bytes]:
    frames: list[bytes] = []
    end = time.monotonic() + LIMIT_S
    while len(frames) < count and time.monotonic() < end:
        select.select([port.fileno() or 0], [], [], 1)
        frames += port.receive()
    return frames


def test_a_cable_is_captured_until_there_is_enough(nodes: Nodes, start: Start, tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    process = start(*nodes.words, "--out", str(out), "--print", "--count", "3", "--json")
    nodes.until_plugged()
    nodes.a.send([frame(1), frame(2)])
    assert passed_on(nodes.b, 2) == [frame(1), frame(2)]
    spoiled = frame(3)[:-1] + b"?"
    nodes.b.send([spoiled])
    said, _ = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    lines, _, told = said.partition("{")
    assert [line.split(" > ")[1] for line in lines.splitlines()] == [
        "10.0.0.2 SEND_ONLY qp 0xabcde psn 0x1 len 64 icrc ok",
        "10.0.0.2 SEND_ONLY qp 0xabcde psn 0x2 len 64 icrc ok",
        "10.0.0.2 SEND_ONLY qp 0xabcde psn 0x3 len 64 icrc WRONG",
    ]
    counts = json.loads("{" + told)
    assert counts == {
        "file": str(out), "frames": 3, "rocev2": 3, "wrong_icrc": 1, "bytes": 3 * len(frame(1)), "unsplit": 0,
        "dropped": 0,
    }  # fmt: skip
    found = frames_of(out)
    assert [data for data, _ in found] == [frame(1), frame(2), spoiled]
    assert [about.ifname.decode().partition(",")[0][-7:] for _, about in found] == ["cable-a"] * 2 + [
        "cable-b"
    ]


def test_a_capture_whose_file_takes_no_more_says_so_and_what_it_has_seen(nodes: Nodes, start: Start) -> None:
    process = start(*nodes.words, "--out", "/dev/full")
    nodes.until_plugged()
    nodes.a.send([frame(1)])
    said = process.communicate(timeout=LIMIT_S)[1].splitlines()
    assert process.returncode == 1
    assert said[1] == "/dev/full: 1 frame, 122 bytes, 1 RoCEv2, 0 lost"
    assert said[2].startswith("Error: /dev/full cannot be written any more (No space left on device)")
    assert len(said) == 3


def test_a_capture_of_an_interface_that_is_deleted_ends_with_its_summary(start: Start) -> None:
    def make() -> subprocess.Popen[str]:
        until_up("here", "there")
        process = start("here", "--print", "--for", "60")
        assert process.stderr is not None
        assert process.stderr.readline() == "capturing here\n"
        subprocess.run(["ip", "link", "delete", "here"], check=True, timeout=20)
        return process

    process = in_network_namespace(veth_pair(), make)
    said = process.communicate(timeout=LIMIT_S)[1].splitlines()
    assert process.returncode == 1
    assert said[-2:] == [
        "interface here was deleted: the capture ends",
        "0 frames, 0 bytes, 0 RoCEv2, 0 lost",
    ]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_capture_that_is_interrupted_is_whole(
    nodes: Nodes, start: Start, tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "out.pcapng"
    process = start(*nodes.words, "--out", str(out))
    nodes.until_plugged()
    nodes.a.send([frame(number) for number in range(5)])
    assert len(passed_on(nodes.b, 5)) == 5
    process.send_signal(number)
    _, said = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0
    assert said.splitlines()[-1].endswith("5 frames, 610 bytes, 5 RoCEv2, 0 lost")
    assert len(frames_of(out)) == 5
    assert not list(tmp_path.glob("cable-*")), "its paths are removed"


def test_an_interface_is_captured_into_a_pipe(start: Start) -> None:
    if os.geteuid() != 0:
        pytest.skip("captures of interfaces need root (CAP_NET_RAW)")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        process = start("lo", "--print", "--for", "20", "--count", "100000")
        assert process.stderr is not None
        assert process.stdout is not None
        assert process.stderr.readline() == "capturing lo\n"
        mark = os.getpid() & 0xFFFFFF
        packet = FRAMER.frame(RcOpcode.SEND_ONLY, mark, 7)[42:]
        line = ""
        end = time.monotonic() + LIMIT_S
        while f"qp {mark:#x} " not in line:
            assert time.monotonic() < end
            sender.sendto(packet, ("127.0.0.1", 4791))
            line = process.stdout.readline()
        assert f"127.0.0.1 > 127.0.0.1 SEND_ONLY qp {mark:#x} psn 0x7 len 0 icrc WRONG" in line
        process.send_signal(signal.SIGINT)
        assert process.wait(LIMIT_S) == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["lo"], "--out FILE, --print, or both"),
        (["lo", "--out", "-", "--print"], "nothing else can be printed"),
        (["tap:nic", "--print"], "name the port that its cable leads to"),
        (["a,b", "--print"], "name the port that its cable leads to"),
        (["a,b", "eth1", "--print"], "'eth1' is no port: write tap:NAME, packet:INTERFACE, xdp:"),
        (["/missing/a,b", "c,d", "--print"], "cannot receive at /missing/a: No such file"),
        (["a,b", "c,d", "--out", "/missing/out"], "/missing/out cannot be written: No such file"),
    ],
)
def test_a_capture_that_cannot_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, ["wire", "capture", *words])
    assert done.exit_code != 0
    assert said in done.output
    assert list(tmp_path.iterdir()) == []
