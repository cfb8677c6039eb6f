# SPDX-License-Identifier: Apache-2.0
"""What README.md and docs/ show of NICs that are up is run: commands, and programs that open a NIC."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from nicemu.run import Instance
from tests.conformance.pages import BLOCKS, ROOT, SNIPPETS, Block, folder_of, place, text_of

TOPOLOGY = "examples/two_storage_nodes.toml"
TIMEOUT_S = 300.0
GONE_S = 20.0
ACTIVATE = ". .venv/bin/activate"


def _environment(folder: Path) -> dict[str, str]:
    """Folders of its own for what runs, and a `nicemu` on the path that is the one under test."""
    for name in ("bin", "run", "data"):
        (folder / name).mkdir()
    command = folder / "bin" / "nicemu"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m nicemu "$@"\n')
    command.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")])),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "XDG_DATA_HOME": str(folder / "data"),
    }


@dataclass(frozen=True, slots=True)
class Shell:
    """Runs commands as a reader does, in a folder of their own."""

    environment: dict[str, str]

    def run(self, command: list[str], cwd: Path) -> str:
        """Run to the end, which must be a success; return what it printed."""
        done = subprocess.run(
            command,
            cwd=cwd,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}"
        return done.stdout

    def left_behind(self) -> list[Path]:
        """What still lies in the runtime root, but for lock files."""
        root = Path(self.environment["XDG_RUNTIME_DIR"]) / "nicemu"
        return [path for path in root.glob("*") if path.suffix != ".lock"]


@pytest.fixture
def shell() -> Iterator[Shell]:
    """A shell in which nothing is up."""
    with tempfile.TemporaryDirectory(prefix="nicemu-docs-") as folder:
        shell = Shell(_environment(Path(folder)))
        yield shell
        if shell.left_behind():
            shell.run(["nicemu", "down"], Path(folder))


def is_running(pid: int) -> bool:
    """Whether a process runs; one that has ended does not, though nobody may have waited for it yet."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.process
def test_the_commands_of_the_first_thing_run_and_leave_nothing_behind(shell: Shell, tmp_path: Path) -> None:
    section = text_of("README.md").split("**1. ", 1)[1].split("**2. ", 1)[0]
    commands = [line[4:] for line in section.splitlines() if line.startswith("    ")]
    assert commands[0] == ACTIVATE, "the environment is the tests' own"
    assert commands[-1] == "nicemu down"
    shell.run(["bash", "-euxc", "\n".join(commands[1:-1])], tmp_path)
    pids = [nic["pid"] for nic in json.loads(shell.run(["nicemu", "status", "--json"], tmp_path))]
    assert len(pids) == 3
    shell.run(["nicemu", "down"], tmp_path)
    assert not shell.left_behind()
    deadline = time.monotonic() + GONE_S
    while running := [pid for pid in pids if is_running(pid)]:
        assert time.monotonic() < deadline, f"{running} still run"
        time.sleep(0.05)


@pytest.fixture(scope="module")
def live() -> Iterator[Shell]:
    """A shell in which the NICs of the shipped topology are up, `compute0` once."""
    with tempfile.TemporaryDirectory(prefix="nicemu-docs-") as folder:
        shell = Shell(_environment(Path(folder)))
        with pytest.MonkeyPatch.context() as patch:
            for name in ("XDG_RUNTIME_DIR", "XDG_DATA_HOME"):
                patch.setenv(name, shell.environment[name])
            instance = Instance.start(TOPOLOGY, name=f"test-{os.getpid()}-docs")
        with instance:
            yield shell
        assert not shell.left_behind()


@pytest.mark.process
@pytest.mark.parametrize("block", [block for block in SNIPPETS if block.is_live], ids=place)
def test_a_snippet_runs_against_live_nics(block: Block, live: Shell, tmp_path: Path) -> None:
    live.run([sys.executable, "-W", "error", "-c", block.text], folder_of(block.page, tmp_path))


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "sh"], ids=place)
def test_the_commands_of_a_page_run(block: Block, live: Shell, tmp_path: Path) -> None:
    live.run(["bash", "-euxc", block.text], folder_of(block.page, tmp_path))
