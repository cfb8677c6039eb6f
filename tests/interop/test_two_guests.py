# SPDX-License-Identifier: Apache-2.0
"""A compute node and a storage node, each a guest with a kernel of its own: the example that boots both."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from nicemu.fabric import install_command, missing_packages

pytestmark = [pytest.mark.interop, pytest.mark.slow]

EXAMPLE = Path(__file__).parents[2] / "examples" / "softroce_loopback" / "two_guests.py"
LIMIT_S = 1200.0
"""For guests of two processors each on a machine that has two, and other work."""


def run(*words: str) -> str:
    """Run the example; return what both nodes said."""
    lacking = [one for one in missing_packages() if one.boots or one.name == "python3-pyverbs"]
    if lacking:
        reason = f"no two guests without {', '.join(one.name for one in lacking)}; {install_command(lacking)}"
        if os.environ.get("NICEMU_INTEROP") == "required":
            pytest.fail(reason)
        pytest.skip(reason)
    command = [sys.executable, str(EXAMPLE), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def packets(said: str) -> tuple[int, int]:
    """Return what the kernel of the storage node has sent and received."""
    counted = re.search(r"^storage +\| link rxe1/1 sent_pkts (\d+) rcvd_pkts (\d+)", said, re.MULTILINE)
    assert counted is not None, said
    return int(counted[1]), int(counted[2])


def test_a_program_of_deferred_work_runs_between_two_kernels() -> None:
    said = run()
    assert "compute0 wrote 4096 bytes to storage0 and read them back; they are right" in said
    assert min(packets(said)) >= 2, "a write and a read, and their answers"


def test_the_kv_journey_holds_with_the_storage_nic_behind_another_kernel() -> None:
    said = run("--journey")
    held = re.findall(r"^compute +\| +(yes|NO ) +(.+)$", said, re.MULTILINE)
    assert len(held) >= 12, said
    assert {answer for answer, _ in held} == {"yes"}, said
    assert min(packets(said)) >= 100, "40 chunks there, and 20 of them back"
