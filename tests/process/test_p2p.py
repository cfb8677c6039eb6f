# SPDX-License-Identifier: Apache-2.0
"""A live NIC whose namespace QEMU's NVMe controller holds: same programs, same bytes, nothing left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from nicemu.errors import NicemuError, UsageError
from nicemu.fabric import qemu_missing
from nicemu.run import ask, load_topology
from tests.process.live_nics import LAYOUT, LiveHost, eventually, is_alive, live_nics, statistics

pytestmark = [
    pytest.mark.process,
    pytest.mark.p2p,
    pytest.mark.skipif(bool(qemu_missing()), reason=qemu_missing() or "QEMU is here"),
]

TOPOLOGY = """
[nic.compute0]
p4 = "p4/kvmatch.p4"
firmware = "firmware/kv_requestor.py"
peers = ["storage0"]

[nic.storage0]
p4 = "p4/kvserve.p4"
firmware = "firmware/kv_storage.py"
memory = "64 MiB"
controller = "qemu"

[[nic.storage0.namespace]]
nsid = 1
path = "storage0.nvme"
size = "16 MiB"
create = true
"""
SESSION = b"s" * 16


def topology(folder: Path, text: str = TOPOLOGY) -> Path:
    path = folder / "p2p.toml"
    path.write_text(text)
    return path


def children(pid: int) -> list[int]:
    return [
        int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split()
    ]


@pytest.mark.slow
def test_sessions_come_back_live_after_a_nic_was_killed_and_until_its_controller_is(tmp_path: Path) -> None:
    path = topology(tmp_path)
    with live_nics("p2p", tmp_path, path) as instance, LiveHost(instance, storage=("storage0",)) as host:
        tokens, data = host.leave(SESSION)
        assert host.fetch(SESSION) == data
        counts = statistics(instance.nics[1])
        assert counts["dma.nic.nic_bytes"] > 0
        assert not [name for name in counts if name.startswith("dma.nvme")]
        storage = instance.processes["storage0"].pid
        (qemu,) = children(storage)
        os.kill(storage, signal.SIGKILL)
        assert eventually(lambda: not is_alive(qemu))
    assert data[: LAYOUT.chunk_bytes // 2] in (tmp_path / "storage0.nvme").read_bytes()
    with live_nics("p2p", tmp_path, path) as instance, LiveHost(instance, storage=("storage0",)) as host:
        host.publish(SESSION, tokens)
        assert host.fetch(SESSION) == data
        storage = instance.processes["storage0"].pid
        (qemu,) = children(storage)
        os.kill(qemu, signal.SIGKILL)
        assert host.fetch(SESSION) is None
        assert statistics(instance.nics[1])["nvme.controller_lost"] == 1
        assert "QEMU is lost" in str(ask(instance.nics[1], "describe"))
        assert is_alive(storage)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('controller = "qemu"', 'controller = "spdk"', "controller is 'spdk'; there are nicemu, qemu"),
        ('memory = "64 MiB"', 'memory = "48 MiB"', "whose length is a power of two"),
    ],
)
def test_an_impossible_controller_is_refused_with_its_key(
    tmp_path: Path, old: str, new: str, message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        load_topology(topology(tmp_path, TOPOLOGY.replace(old, new)))


def test_a_nic_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with (
        pytest.raises(NicemuError, match="apt-get install qemu-system-x86"),
        live_nics("p2p", tmp_path, topology(tmp_path)),
    ):
        pass
