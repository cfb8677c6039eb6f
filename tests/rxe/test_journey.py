# SPDX-License-Identifier: Apache-2.0
"""A user comes back, over a real RDMA device: shipped programs and firmware, triggers and NVMe above it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from nicemu.fabric import Pyverbs, VerbsTransport
from nicemu.host import open_nic
from nicemu.programs import find_program, load_module
from tests.conformance.stepped_world import STORAGE, World

pytestmark = pytest.mark.rxe
SESSION = b"the first user  "


@pytest.fixture
def world(verbs: Pyverbs, device_name: str) -> Iterator[World]:
    """Three NICs, each with the device opened for itself."""
    transports = {name: VerbsTransport(device_name) for name in ("compute0", *STORAGE)}
    made = World("verbs", slots=2, transports=transports)
    yield made
    made.connection.close()
    for transport in transports.values():
        transport.close()


def test_a_session_that_was_stored_comes_back_byte_for_byte(world: World) -> None:
    left = world.leave(SESSION)
    assert world.store.durable.errors == 0
    offered = world.resume.offer()
    slot = world.fetch(SESSION)
    assert slot is not None
    assert slot == offered
    assert world.bytes_of(slot) == left.data
    assert world.counted_on_storage("nvme.completion_errors") == 0


@pytest.mark.slow
def test_the_demo_holds_with_nics_that_are_processes(verbs: Pyverbs, device_name: str) -> None:
    command = ["nicemu", "demo", "--fabric", f"verbs:{device_name}", "--blocks", "16", "--json"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr + finished.stdout
    assert all(json.loads(finished.stdout)["held"].values())


TWO_NICS = """
name = "reconnect"
fabric = "{fabric}"

[nic.near]
p4 = "p4/kvmatch.p4"
firmware = "examples/softroce_loopback/lender.py"
peers = ["far"]

[nic.far]
p4 = "p4/kvserve.p4"
firmware = "examples/softroce_loopback/lender.py"
"""


@pytest.fixture
def two_nics(verbs: Pyverbs, device_name: str, tmp_path: Path) -> Iterator[Path]:
    """Two NICs that are processes, each with the device opened for itself."""
    topology = tmp_path / "reconnect.toml"
    topology.write_text(TWO_NICS.format(fabric=f"verbs:{device_name}"))
    nicemu("up", str(topology))
    yield topology
    nicemu("down", str(topology))


def nicemu(*words: str) -> str:
    """Run a command; return what it said."""
    done = subprocess.run(["nicemu", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


@pytest.mark.slow
def test_a_nic_that_was_killed_is_reached_again_when_it_was_started_anew(two_nics: Path) -> None:
    """Its queue pairs, keys and regions are gone from the device with it; those of its peer are in error."""
    loop = load_module(find_program("examples/softroce_loopback/loopback.py")).loop
    with open_nic("near", topology="reconnect") as nic:
        assert loop(nic, "far") == 4096
        (far,) = [one for one in json.loads(nicemu("status", "--json")) if one["nic"] == "far"]
        os.kill(far["pid"], signal.SIGKILL)
        nicemu("up", str(two_nics))
        assert loop(nic, "far") == 4096
