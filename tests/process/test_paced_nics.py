# SPDX-License-Identifier: Apache-2.0
"""Live NICs under a profile: what they do takes no less time than it would on the hardware of the profile."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from nicemu.errors import UsageError
from nicemu.host import open_nic
from nicemu.model import Operation, Way, read_profile, transfer_s
from nicemu.run import Instance

from .live_nics import TOPOLOGY, statistics

pytestmark = pytest.mark.process

SLOW = """
based_on = "physical"
[link]
s_per_byte = 5e-9
latency_s = 5e-3
"""
LENDER = """
from nicemu.firmware import Connection, Nic, on_connect

@on_connect
def lend(nic: Nic, connection: Connection) -> dict[str, int]:
    page = nic.allocate(connection.private_data["bytes"], remote=True)
    return {"address": page.address, "rkey": page.key}
"""
TWO = """profile = "slow.toml"
[nic.a]
p4 = "p4/kvmatch.p4"
firmware = "{folder}/lender.py"
peers = ["b"]
[nic.b]
p4 = "p4/kvmatch.p4"
firmware = "{folder}/lender.py"
"""
LENGTH = 1 << 20


@pytest.mark.parametrize("operation", Operation)
def test_a_transfer_takes_what_the_profile_says_once(operation: Operation, tmp_path: Path) -> None:
    """10 ms of a slow link, so that what the machine adds is small; the least of five tries is not two."""
    (tmp_path / "slow.toml").write_text(SLOW)
    (tmp_path / "lender.py").write_text(LENDER)
    (tmp_path / "two.toml").write_text(TWO.format(folder=tmp_path))
    profile = read_profile(tmp_path / "slow.toml").having({"software.chunk_bytes": 0})
    wanted_s = transfer_s(profile, Way.TRIGGERED, operation, LENGTH)
    assert 0.010 < wanted_s < 0.025
    name = f"paced-{operation}-{os.getpid()}"
    with Instance.start(tmp_path / "two.toml", data=tmp_path, name=name) as instance:
        took = _took_s(str(instance.nics[0].socket), operation)
    assert min(took) >= wanted_s
    assert min(took) < 2 * wanted_s, took


def _took_s(socket: str, operation: Operation) -> list[float]:
    """Seconds that transfers took, one after another, as a host that waits sees them."""
    took = []
    with open_nic(socket) as nic:
        local = nic.register(nic.allocate((LENGTH,)))
        peer = nic.connect("b", bytes=LENGTH)
        far = peer.span(peer.private_data["address"], LENGTH, peer.private_data["rkey"])
        go, done = nic.counters("go", "done")
        for number in range(1, 6):
            with nic.program("one") as program:
                step = program.when(go >= number)
                if operation is Operation.STORE:
                    step.write(local, far, then=done)
                else:
                    step.read(local, far, then=done)
            program.arm()
            begin = time.monotonic()
            go.add()
            done.wait(number)
            took.append(time.monotonic() - begin)
    return took


READER = """
from nicemu.firmware import Nic, on_start

@on_start
async def read(nic: Nic) -> None:
    buffer = nic.allocate(4096)
    took_ns = []
    for _ in range(5):
        begin_ns = nic.now_ns
        await nic.nvme_read(1, 0, 1, buffer.address)
        took_ns.append(nic.now_ns - begin_ns)
    for _ in range(min(took_ns) // 1_000_000):
        nic.count("read.milliseconds")
"""


def test_an_nvme_read_takes_what_the_profile_says_once(tmp_path: Path) -> None:
    """The least of five reads: that the machine stops for as long in each of them is not to be expected."""
    (tmp_path / "slow.toml").write_text('based_on = "physical"\n[nvme]\nread_intercept = 20000\n')
    (tmp_path / "reader.py").write_text(READER)
    (tmp_path / "one.toml").write_text(
        f'profile = "slow.toml"\n[nic.a]\np4 = "p4/kvserve.p4"\nfirmware = "{tmp_path}/reader.py"\n'
        '[[nic.a.namespace]]\nnsid = 1\npath = "a.nvme"\nsize = "1 MiB"\ncreate = true\n'
    )
    with Instance.start(tmp_path / "one.toml", data=tmp_path, name=f"paced-nvme-{os.getpid()}") as instance:
        took_ms = statistics(instance.nics[0])["read.milliseconds"]
    assert 20 <= took_ms < 40


def test_a_profile_that_is_none_is_told_before_anything_starts(tmp_path: Path) -> None:
    (tmp_path / "two.toml").write_text(
        'profile = "quick.toml"\n' + TWO.format(folder=tmp_path).partition("\n")[2]
    )
    (tmp_path / "lender.py").write_text(LENDER)
    with pytest.raises(UsageError, match=r"there is no profile .*quick\.toml; seed, physical or a TOML file"):
        Instance.start(tmp_path / "two.toml", data=tmp_path)
    with pytest.raises(UsageError, match=r"there is no profile .*none"):
        Instance.start(TOPOLOGY, data=tmp_path, profile="none", name=f"paced-none-{os.getpid()}")
