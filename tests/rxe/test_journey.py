# SPDX-License-Identifier: Apache-2.0
"""A user comes back, over a real RDMA device: shipped programs and firmware, triggers and NVMe above it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator

import pytest

from nicemu.fabric import Pyverbs, VerbsTransport
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
