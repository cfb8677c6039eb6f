# SPDX-License-Identifier: Apache-2.0
"""`nicemu trace`: what running NICs do, while a command runs, for a time, or until Ctrl-C."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from nicemu.errors import NicemuError, UsageError
from nicemu.run import RunningNic, bring_up, take_down, trace_nics

pytestmark = pytest.mark.process

NICEMU = [sys.executable, "-m", "nicemu"]
SEND = """
import sys
from nicemu.host import open_nic
with open_nic(sys.argv[1]) as nic:
    nic.counters("done")
    nic.allocate((2, 4096))
    nic.transmit(bytes(64))
"""
TWO_NICS = """
[nic.left]
p4 = "p4/kvmatch.p4"
firmware = "firmware/kv_requestor.py"
memory = "2 MiB"

[nic.right]
p4 = "p4/kvmatch.p4"
firmware = "firmware/kv_requestor.py"
memory = "2 MiB"
"""


@pytest.fixture(scope="module")
def nics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RunningNic]]:
    """Two NICs in the background, in folders of the module's own."""
    topology = tmp_path_factory.mktemp("topology") / "two.toml"
    topology.write_text(TWO_NICS)
    with pytest.MonkeyPatch.context() as patch, TemporaryDirectory(prefix="nicemu-test-") as folder:
        patch.setenv("XDG_RUNTIME_DIR", folder)
        yield bring_up(topology)
        with suppress(NicemuError):
            take_down(None)


def events_in(path: Path) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    return events


def test_a_trace_holds_what_the_nics_do_while_a_command_runs(nics: list[RunningNic], tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    command = [*NICEMU, "trace", str(file), "--json", "--", sys.executable, "-c", SEND, "left"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "tracing left, right until the command ends" in done.stderr
    told = json.loads(done.stdout)
    assert set(told["events"]) == {"left", "right"}
    events = events_in(file)
    assert len(events) == sum(told["events"].values())
    pids = {event["args"]["name"]: event["pid"] for event in events if event["name"] == "process_name"}
    assert pids == {nic.name: nic.pid for nic in nics}
    sent = [event for event in events if (event["name"], event["pid"]) == ("sent", pids["left"])]
    assert [event["args"]["bytes"] for event in sent] == [64]


def test_the_exit_status_is_that_of_the_command(nics: list[RunningNic], tmp_path: Path) -> None:
    command = [*NICEMU, "trace", str(tmp_path / "trace.json"), "--nic", "left", "--", "sh", "-c", "exit 3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout.count("left")) == (3, 1), done.stderr


def test_ctrl_c_ends_a_trace_and_writes_it(nics: list[RunningNic], tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    command = [*NICEMU, "trace", str(file)]
    with ExitStack() as stack:
        process = stack.enter_context(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        )
        stack.callback(process.kill)
        assert process.stderr is not None
        assert process.stderr.readline() == "tracing left, right until Ctrl-C\n"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert output.startswith(f"{file}: 4 events (left 2, right 2)")
    assert len(events_in(file)) == 4


def test_a_nic_is_traced_by_one_at_a_time(nics: list[RunningNic], tmp_path: Path) -> None:
    left, right = nics

    def again() -> None:
        with pytest.raises(NicemuError, match="left is traced already"):
            trace_nics([right, left], tmp_path / "again.json", lambda: None)
        assert trace_nics([right], tmp_path / "right.json", lambda: None) == {"right": 2}

    assert trace_nics([left], tmp_path / "left.json", again) == {"left": 2}


def test_a_nic_forgets_a_trace_whose_reader_is_gone(nics: list[RunningNic], tmp_path: Path) -> None:
    command = [*NICEMU, "trace", str(tmp_path / "lost.json")]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        process.stderr.readline()
        process.kill()
    assert trace_nics(nics, tmp_path / "next.json", lambda: None) == {"left": 2, "right": 2}


def test_where_nothing_can_be_written_nothing_is_traced(nics: list[RunningNic], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no trace can be written there"):
        trace_nics(nics, tmp_path / "no folder" / "trace.json", pytest.fail)
