# SPDX-License-Identifier: Apache-2.0
"""The demo as a command: what it says, and that nothing of it is left, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.process.live_nics import eventually

pytestmark = pytest.mark.process


class Place:
    """Runtime and temporary folders of a demo's own."""

    def __init__(self, folder: Path) -> None:
        self.run, self.tmp = folder / "run", folder / "tmp"
        self.run.mkdir(mode=0o700)
        self.tmp.mkdir()

    def start(self, *words: str) -> subprocess.Popen[str]:
        environment = {**os.environ, "XDG_RUNTIME_DIR": str(self.run), "TMPDIR": str(self.tmp)}
        command = [sys.executable, "-m", "nicemu", *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True)

    def is_up(self) -> bool:
        return bool(list(self.run.glob("nicemu/*/state")))

    def left(self) -> list[str]:
        """What lies in the folders, and processes that were started with one of their files."""
        lying = [str(path) for root in (self.run / "nicemu", self.tmp) for path in root.glob("*")]
        return lying + self.processes()

    def processes(self) -> list[str]:
        found = []
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = entry.read_bytes().decode(errors="replace")
            except OSError:
                continue
            if str(self.run) in command:
                found.append(command)
        return found


@pytest.fixture
def place() -> Iterator[Place]:
    with TemporaryDirectory(prefix="nicemu-test-") as folder:
        yield Place(Path(folder))


def ended(process: subprocess.Popen[str], meanwhile: Callable[[], None]) -> bool:
    meanwhile()
    return process.poll() is not None


@pytest.mark.slow
def test_a_demo_that_is_interrupted_again_and_again_stops_and_removes_everything(place: Place) -> None:
    demo = place.start("demo")
    try:
        assert eventually(place.is_up, 120.0)
        interrupt = lambda: demo.send_signal(signal.SIGINT)  # noqa: E731
        assert eventually(lambda: ended(demo, interrupt), 60.0)
        assert demo.communicate()[1] == "interrupted; everything was stopped\n"
        assert demo.returncode == 130
    finally:
        demo.kill()
        demo.communicate()
    assert place.left() == []


def test_what_a_demo_that_was_killed_leaves_is_removed_by_down(place: Place) -> None:
    demo = place.start("demo")
    try:
        assert eventually(place.is_up, 120.0)
    finally:
        demo.kill()
        demo.communicate()
    assert eventually(lambda: place.processes() == [])
    assert len(place.left()) == 3  # the runtime folder, its lock, the data
    down = place.start("down")
    assert down.communicate()[1] == "Error: no topology is up\n"
    assert place.left() == []


@pytest.mark.slow
def test_the_report_says_what_carried_rdma(place: Place, tmp_path: Path) -> None:
    demo = place.start("demo", "--fabric", "direct", "--pcap", str(tmp_path / "pcap"), "--json")
    told, errors = demo.communicate()
    assert demo.returncode == 0, errors
    assert json.loads(told)["fabric"] == "udp"
    assert place.left() == []


def test_a_trace_that_cannot_be_written_is_refused_before_anything_starts(
    place: Place, tmp_path: Path
) -> None:
    demo = place.start("demo", "--trace", str(tmp_path / "missing" / "trace.json"))
    _, errors = demo.communicate()
    assert demo.returncode == 1
    assert errors.startswith("demo failed: --trace ")
    assert len(errors.splitlines()) == 1
    assert place.left() == []
