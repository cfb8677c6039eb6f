# SPDX-License-Identifier: Apache-2.0
"""Processes that run tests for `nicemu stf --jobs` end with the one that started them, and on Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from nicemu.cli.lazy_group import INTERRUPTED
from tests.unit.stf.conftest import SWITCH

from .live_nics import eventually
from .test_sweep import left_of

pytestmark = pytest.mark.process

PROGRAM = SWITCH.format(ingress="s.egress_spec = 1;", parts="", egress="")
LONG = "packet 0 0102\nexpect 1 0102\n" * 20_000
WORK_ON_CTRL_C = """
import os, signal, sys, time
from nicemu.workers import worker_processes

def interrupt():
    if not interrupted:
        interrupted.append(True)
        os.kill(os.getpid(), signal.SIGINT)

interrupted = []
os.register_at_fork(**{sys.argv[1]: interrupt})
try:
    with worker_processes(2, "fork") as pool:
        pool.submit(time.sleep, 3600).result()
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize(
    ("number", "status"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, INTERRUPTED)]
)
def test_no_worker_is_left_when_one_process_is_told_to_end(
    number: signal.Signals, status: int, tmp_path: Path
) -> None:
    for number_of_test in range(16):
        (tmp_path / f"{number_of_test}.p4").write_text(PROGRAM)
        (tmp_path / f"{number_of_test}.stf").write_text(LONG)
    run = subprocess.Popen(
        [sys.executable, "-m", "nicemu", "stf", str(tmp_path), "--jobs", "2"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        assert eventually(lambda: len(left_of(run.pid)) == 3, 30)
        os.kill(run.pid, number)
        assert run.wait(20) == status
        assert eventually(lambda: not left_of(run.pid), 20)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(run.pid, signal.SIGKILL)
        run.wait()


@pytest.mark.parametrize("moment", ["before", "after_in_parent"])
def test_ctrl_c_in_the_moment_of_a_fork_is_not_forgotten(moment: str) -> None:
    run = [sys.executable, "-c", WORK_ON_CTRL_C, moment]
    told = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True)
    assert (told.stdout, told.stderr) == ("interrupted\n", "")
