# SPDX-License-Identifier: Apache-2.0
"""Programs as users write them, over live NICs that keep logs; `nicemu races` finds what has no order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from nicemu.run import Instance
from tests.process.live_nics import live_nics

pytestmark = pytest.mark.process

TIMEOUT_S = 60
PROGRAM = """
import sys

from nicemu.host import HostStream, open_nic
from nicemu.kv import Lease

with open_nic(sys.argv[1]) as nic:
    memory = nic.allocate((4096,))
    local = nic.register(memory)
    produced, delivered = nic.counters("produced", "delivered")
    storage = nic.connect("storage0", slot_count=1, slot_bytes=4096)
    lease = Lease.of_data(storage.private_data)
    with nic.program("swap out") as program:
        program.when(produced >= 1).write(local, storage.span(lease.slots, 4096, lease.rkey), then=delivered)
    program.arm()
    stream = HostStream()
    stream.submit(lambda: memory.array.fill(7), writes=[local])
    produced.trigger_after(stream)
    stream.synchronize()
    if sys.argv[2] == "right":
        delivered.wait(1)
    memory.view("w")[:] = 9  # PLANTED
    delivered.wait(1)
    stream.close()
"""


def run(instance: Instance, folder: Path, form: str) -> None:
    """Run the program in a process of its own."""
    script = folder / f"{form}.py"
    script.write_text(PROGRAM)
    socket = instance.nics[0].socket
    subprocess.run([sys.executable, str(script), str(socket), form], check=True, timeout=TIMEOUT_S)


def races(instance: Instance, expected_status: int) -> dict[str, Any]:
    """What `nicemu races` says of these NICs."""
    done = subprocess.run(
        [sys.executable, "-m", "nicemu", "races", "--json"],
        env={**os.environ, "XDG_RUNTIME_DIR": str(instance.folder.parent.parent)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == expected_status, done.stderr
    told: dict[str, Any] = json.loads(done.stdout)[instance.folder.name]
    return told


def test_a_planted_race_is_found_over_live_nics_and_the_program_put_right_is_silent(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path_factory.mktemp("r")))
    with live_nics("races", tmp_path, check_races=True) as instance:
        run(instance, tmp_path, "right")
        told = races(instance, 0)
        assert told["races"] == []
        assert told["declared_accesses"] == 2
        run(instance, tmp_path, "wrong")
        told = races(instance, 1)
    (race,) = told["races"]
    assert race["kind"] == "source_overwritten"
    line = PROGRAM.splitlines().index('    memory.view("w")[:] = 9  # PLANTED') + 1
    places = [access["place"] for access in race["accesses"]]
    assert places[0] == f"{tmp_path / 'wrong.py'}:{line}"
    assert "delivered.wait(1)" in race["cure"]
    assert (told["lost_events"], told["contradictions"]) == (0, 0)
