# SPDX-License-Identifier: Apache-2.0
"""NICs of a topology on real interfaces, in a network namespace made for the test.

The control channels go over the namespace's loopback, RDMA over a cable: a veth pair, or a TAP interface and
the device behind it. The namespace's kernel, which is none of ours, finds a NIC there by ARP and pings it.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest

from nicemu.errors import NicemuError, UsageError
from nicemu.host import open_nic
from nicemu.programs import find_program
from nicemu.run import Instance, ask
from nicemu.wire import internet_checksum
from tests.network_namespace import enter_network_namespace, quiet_tap, until_up, veth_pair

from .live_nics import eventually, live_nics, statistics

pytestmark = pytest.mark.process

FIRMWARE = find_program("firmware/kv_storage.py").parent.parent / "benchmarks" / "rig" / "memory_firmware.py"
TOPOLOGY = """
fabric = "packet:here"
path_mtu = {path_mtu}
[nic.near]
p4 = "p4/kvserve.p4"
firmware = "{firmware}"
peers = ["far"]
address = "127.9.0.1"
roce_address = "10.9.0.1"
[nic.far]
fabric = "{far}"
p4 = "p4/kvserve.p4"
firmware = "{firmware}"
address = "127.9.0.2"
roce_address = "10.9.0.2"
"""
LENGTH = 300_000
In = Callable[[list[str], Callable[[], None]], None]


@pytest.fixture
def inside() -> Iterator[In]:
    """Run something in a network namespace of its own, after some commands of ip(8)."""
    with ThreadPoolExecutor(1) as thread:

        def run(commands: list[str], what: Callable[[], None]) -> None:
            problem = thread.submit(enter_network_namespace, ["link set lo up", *commands]).result(60)
            if problem:
                pytest.skip(problem)
            thread.submit(what).result(300)

        yield run


def topology(folder: Path, far: str, path_mtu: int = 4096) -> Path:
    path = folder / "cable.toml"
    path.write_text(TOPOLOGY.format(far=far, path_mtu=path_mtu, firmware=FIRMWARE))
    return path


def write_across(instance: Instance) -> None:
    """Write into memory of the far NIC, and find the bytes there."""
    with open_nic(instance.nics[0].socket) as nic:
        peer = nic.connect("far", length_bytes=LENGTH)
        remote = peer.span(peer.private_data["address"], LENGTH, peer.private_data["rkey"])
        memory = nic.allocate((LENGTH,), np.uint8, "host")
        memory.array[:] = np.random.default_rng(3).integers(0, 256, LENGTH, np.uint8)
        nic.write(nic.register(memory), remote)
        written = memory.array.tobytes()
        assert eventually(lambda: written in memory_of(instance.nics[1].pid))


def memory_of(pid: int) -> bytes:
    """Return a NIC's memory, as its process has it."""
    for entry in Path(f"/proc/{pid}/fd").iterdir():
        if os.readlink(entry).startswith("/memfd:nicemu-nic "):
            return entry.read_bytes()
    raise AssertionError(f"process {pid} has no memory of a NIC")


def echo(address: str) -> bool:
    """Have this namespace's kernel find an address by ARP and ping it; return whether that was answered."""
    request = struct.pack("!BBHHH", 8, 0, 0, 7, 1) + b"hear me out"
    request = request[:2] + internet_checksum(request).to_bytes(2, "big") + request[4:]
    with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP) as asking:
        asking.settimeout(10)
        asking.sendto(request, (address, 0))
        while True:
            answer, (host, _) = asking.recvfrom(2048)
            if host == address and answer[20] == 0:
                return answer[24:] == request[4:]


def test_nics_on_a_veth_pair_reach_each_other_and_the_kernel_reaches_them(tmp_path: Path, inside: In) -> None:
    def check() -> None:
        until_up("here", "there")
        with live_nics("veth", tmp_path, topology(tmp_path, "packet:there")) as instance:
            write_across(instance)
            assert echo("10.9.0.2")
            near, far = (statistics(nic) for nic in instance.nics)
            assert not [name for name in (*near, *far) if name.startswith(("rocev2.", "responder."))]

    inside([*veth_pair(), "address add 10.9.0.100/24 dev here"], check)


def test_a_nic_may_be_on_an_interface_over_af_xdp(tmp_path: Path, inside: In) -> None:
    def check() -> None:
        until_up("here", "there")
        with live_nics("xdp", tmp_path, topology(tmp_path, "xdp:there")) as instance:
            write_across(instance)
            assert echo("10.9.0.2")

    inside([*veth_pair(), "address add 10.9.0.100/24 dev here"], check)


def test_a_nic_behind_a_tap_interface_is_reached_by_one_on_it_and_by_the_kernel(
    tmp_path: Path, inside: In
) -> None:
    def check() -> None:
        with live_nics("tap", tmp_path, topology(tmp_path, "tap:here")) as instance:
            until_up("here")
            write_across(instance)
            assert echo("10.9.0.2")

    mtu = ["link set here mtu 4300", "link set here up", "address add 10.9.0.100/24 dev here"]
    inside([*quiet_tap("here"), *mtu], check)


@pytest.mark.slow
def test_a_nic_on_a_tap_interface_is_started_when_the_one_that_makes_it_has(
    tmp_path: Path, inside: In
) -> None:
    def check() -> None:
        for _ in range(2):
            with live_nics("made", tmp_path, topology(tmp_path, "tap:here")) as instance:
                until_up("here")
                write_across(instance)

    inside([], check)


@pytest.mark.parametrize(
    ("far", "other_end", "lost"),
    [
        ("packet:there", "there", "port.roce.packet.ENETDOWN"),
        ("tap:there", "spare", "port.roce.tap.interface_gone"),
    ],
)
def test_a_nic_whose_interface_is_deleted_goes_on_at_rest_and_says_so(
    tmp_path: Path, inside: In, far: str, other_end: str, lost: str
) -> None:
    def check() -> None:
        until_up("here")
        with live_nics("deleted", tmp_path, topology(tmp_path, far)) as instance:
            nic = instance.nics[1]
            assert ask(nic, "describe")["problem"] is None
            command = ["ip", "link", "delete", "there"]
            subprocess.run(command, check=True, timeout=20)
            told = ask(nic, "describe")
            assert told["problem"].startswith("interface there was deleted; make it again")
            assert eventually(lambda: statistics(nic).get(lost, 0) > 0)
            assert [statistics(nic)[lost] for _ in range(10)] == [1] * 10

    inside([command.replace("there", other_end) for command in veth_pair()], check)


def test_a_short_mtu_is_refused_with_the_cure(tmp_path: Path, inside: In) -> None:
    def check() -> None:
        until_up("here", "there")
        with (
            pytest.raises(NicemuError, match=r"ip link set here mtu 4160, or a smaller path_mtu"),
            live_nics("short", tmp_path, topology(tmp_path, "packet:there")),
        ):
            pass
        with live_nics("shorter", tmp_path, topology(tmp_path, "packet:there", 1024)) as instance:
            write_across(instance)

    inside(veth_pair(1500), check)


def test_two_nics_of_this_machine_cannot_share_an_interface(tmp_path: Path) -> None:
    with (
        ExitStack() as stack,
        pytest.raises(UsageError, match=r"near and far are both on packet:here; .* \(nic\.far\.fabric\)"),
    ):
        stack.enter_context(live_nics("shared", tmp_path, topology(tmp_path, "packet:here")))
