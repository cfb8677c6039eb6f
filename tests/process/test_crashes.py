# SPDX-License-Identifier: Apache-2.0
"""Processes that are killed: what lives on, what the others are told, and what is durable."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from nicemu.cli.journey import Helper
from nicemu.run import RunningNic, ask
from tests.process.live_nics import (
    TOPOLOGY,
    LiveHost,
    eventually,
    is_alive,
    live_nics,
    statistics,
    swap_out,
    unique_name,
)

pytestmark = pytest.mark.process

FIRST, SECOND = b"1" * 16, b"2" * 16


def counters_of(nic: RunningNic) -> list[str]:
    return [counter["name"] for counter in ask(nic, "describe")["counters"]]


@pytest.mark.slow
def test_a_nic_killed_in_mid_transfer_takes_nobody_along_and_loses_nothing_durable(tmp_path: Path) -> None:
    kept = {}
    with live_nics("killed", tmp_path) as instance:
        killed = instance.processes["storage0"]
        with LiveHost(instance) as host:
            kept[FIRST] = host.leave(FIRST)
            kept[SECOND] = host.leave(SECOND, 50)
            assert host.fetch(FIRST) == kept[FIRST][1]
            os.kill(killed.pid, signal.SIGSTOP)
            slot, _, _ = host.produce()  # what goes there is under way, and stays so
            os.kill(killed.pid, signal.SIGKILL)
            with pytest.raises(swap_out.PeerLostError, match="storage0 is gone"):
                host.store.wait(5.0)
            host.resume.drop(slot)
            killed.wait(5)
            assert host.fetch(FIRST) is None, "a chunk came from a NIC that is dead"
            compute, _, storage1 = instance.nics
            assert statistics(compute)["peer.lost"] == 1
            assert statistics(compute)["kv.storage_not_connected"] == 1
            assert host.nic.connected_peers() == ["storage1"]
            assert is_alive(storage1.pid)
        with LiveHost(instance, storage=("storage1",)) as host:
            _, data = host.leave(b"3" * 16)
            assert host.fetch(b"3" * 16) == data
    with live_nics("restarted", tmp_path) as instance, LiveHost(instance) as host:
        for session, (tokens, data) in kept.items():
            host.publish(session, tokens)
            landed = host.fetch(session)
            assert landed is not None, statistics(instance.nics[0])
            assert landed[: len(data)] == data
        assert not any("catalogue" in name for nic in instance.nics for name in statistics(nic))


@pytest.mark.slow
def test_when_the_launcher_is_killed_its_nics_end_by_themselves(tmp_path: Path) -> None:
    launcher = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import json, sys, time\n"
            "from pathlib import Path\n"
            "from nicemu.run import Instance\n"
            "instance = Instance.start(sys.argv[1], data=Path(sys.argv[2]), name=sys.argv[3])\n"
            "pids = [process.pid for process in instance.processes.values()]\n"
            "print(json.dumps([pids, str(instance.folder)]), flush=True)\n"
            "time.sleep(60)\n",
            TOPOLOGY,
            str(tmp_path),
            name := unique_name("launcher"),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert launcher.stdout is not None
        pids, folder = json.loads(launcher.stdout.readline())
        assert len(pids) == 3
        assert all(is_alive(pid) for pid in pids)
    finally:
        launcher.kill()
        launcher.wait()
        if launcher.stdout is not None:
            launcher.stdout.close()
    assert eventually(lambda: not any(is_alive(pid) for pid in pids))
    assert not list(Path(folder).glob("*.sock")), "a socket that nobody serves is left"
    with live_nics("again", tmp_path) as instance:  # nothing holds the namespace files
        assert len(instance.nics) == 3
    assert not Path(folder).exists(), "the next start has not removed what was left"
    assert not Path(folder).with_name(f"{name}.lock").exists()


def test_a_killed_host_leaves_nothing_at_the_nic_and_the_next_one_is_served(tmp_path: Path) -> None:
    with live_nics("host", tmp_path) as instance:
        compute = instance.nics[0]
        before = statistics(compute)["trigger.slots_in_use"]
        host = Helper("examples/demo_host.py", tmp_path / "host.log")
        try:
            host.do("open", nic=str(compute.socket), storage=["storage0", "storage1"], config={"blocks": 4})
            host.do("offer")
            assert set(counters_of(compute)) >= {"kv_produced", "kv_durable", "kv_hits"}
            assert len(ask(instance.nics[1], "describe")["peers"]["compute0"]) == 1
        finally:
            os.killpg(host.process.pid, signal.SIGKILL)
            host.end()
        assert eventually(lambda: counters_of(compute) == [])
        assert eventually(lambda: ask(instance.nics[1], "describe")["peers"]["compute0"] == [])
        assert ask(compute, "describe")["peers"] == {"storage0": [], "storage1": []}
        assert statistics(compute)["trigger.slots_in_use"] == before
        with LiveHost(instance) as following:
            _, data = following.leave(FIRST)
            assert following.fetch(FIRST) == data
            array = following.nic.allocate((64,), np.uint8)
            assert not array.array.any()
        assert eventually(lambda: counters_of(compute) == [])
