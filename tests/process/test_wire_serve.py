# SPDX-License-Identifier: Apache-2.0
"""`nicemu wire serve`, as a process, with clients on the other end of its link."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from nicemu.cli import main
from nicemu.fabric import DatagramPort, RoceEndpoint
from nicemu.testing import RpingClient

pytestmark = pytest.mark.process
LIMIT_S = 120.0


def start(folder: Path, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "nicemu", "wire", "serve", f"{folder / 'a'},{folder / 'b'}"]
    return subprocess.Popen(
        [*command, "--ip", "10.7.0.1", *options], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def until_serving(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        if "serves rping" in line:
            return
    pytest.fail("it has ended and serves nobody")


def test_a_client_is_served_counted_and_told_of(tmp_path: Path) -> None:
    process = start(tmp_path, "--clients", "1", "--json")
    try:
        until_serving(process)
        with RoceEndpoint(DatagramPort((tmp_path / "b", tmp_path / "a")), "10.7.0.2") as nic:
            client = RpingClient(nic, "10.7.0.1")
            client.ping(1000)
            client.close()
        out, errors = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors
    told = json.loads(out)
    assert told["rping"] == {"clients": 1, "operations": 2, "moved_bytes": 2000}
    assert told["ib_write_bw"]["clients"] == 0
    assert told["problems"] == []


def test_it_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    process = start(tmp_path, "--perftest", "ib_send_lat")
    try:
        until_serving(process)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, errors
    assert not (tmp_path / "a").exists()


def test_a_program_that_is_not_served_is_refused_before_anything_is_loaded() -> None:
    result = CliRunner().invoke(main, ["wire", "serve", "a,b", "--ip", "10.7.0.1", "--perftest", "ib_write"])
    assert result.exit_code == 1
    assert "'ib_write' is no program that is served; they are ib_write_bw" in result.output
