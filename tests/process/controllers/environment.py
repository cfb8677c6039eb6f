# SPDX-License-Identifier: Apache-2.0
"""Controllers of others, each in an environment of its own, since they ask for other versions of protobuf.

An environment is made once and kept in the cache folder. Where packages cannot be installed the tests skip
with pip's reason. A variable may name the Python of an environment that has the controller already.
"""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from nicemu.control import P4RuntimeServer, p4info_text
from nicemu.p4 import compile_program
from nicemu.pipeline import Engine, p4info_of
from nicemu.switch import SharedEngine

INSTALL_LIMIT_S = 240
SCRIPT_LIMIT_S = 40
TICK_S = 0.02
PROGRAMS = {
    "switch": Path(__file__).parents[2] / "unit" / "control" / "switch.p4",
    "kinds": Path(__file__).with_name("kinds.p4"),
}


@dataclass(frozen=True)
class Controller:
    """A controller by its name and version on PyPI; `variable` may name a Python that has it."""

    package: str
    version: str
    variable: str

    def python(self) -> str:
        """Return the Python of an environment with this controller; skip the test where there can be none."""
        named = os.environ.get(self.variable)
        if named:
            return named
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nicemu" / "controllers"
        version = f"{sys.version_info.major}.{sys.version_info.minor}"
        folder = base / f"{self.package}-{self.version}-python{version}"
        base.mkdir(parents=True, exist_ok=True)
        with (base / f"{folder.name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not (folder / "complete").exists():
                self._make(folder)
        return str(folder / "bin" / "python")

    def _make(self, folder: Path) -> None:
        install = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--retries", "0"]
        install += ["--timeout", "20", "--disable-pip-version-check", f"{self.package}=={self.version}"]
        for command in ([sys.executable, "-m", "venv", "--clear", str(folder)], install):
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_LIMIT_S)
            except subprocess.TimeoutExpired:
                pytest.skip(f"no {self.package}: it was not installed within {INSTALL_LIMIT_S} s")
            if done.returncode != 0:
                reason = (done.stderr.strip() or done.stdout.strip() or "no reason told").splitlines()[-1]
                pytest.skip(f"no {self.package}, which pip cannot install: {reason}")
        (folder / "complete").touch()


P4RUNTIME_SHELL = Controller("p4runtime-shell", "0.0.6", "NICEMU_P4RUNTIME_SHELL")
FINSY = Controller("finsy", "0.30.0", "NICEMU_FINSY")
P4NET = Controller("p4net", "1.8.0", "NICEMU_P4NET")


@dataclass
class Served:
    """An engine that a server has, and what scripts of a controller are told of it."""

    engine: Engine
    address: str
    folder: Path
    lock: threading.Lock

    def run(self, controller: Controller, script: str, *, frames: tuple[bytes, ...] = ()) -> list[str]:
        """Return what a script prints behind "= ".

        For each line "frame" the next of `frames` comes in by port 4, and the script may read a line.
        """
        process = subprocess.Popen(
            [controller.python(), "-u", "-c", script, self.address, str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder), "GRPC_ENABLE_FORK_SUPPORT": "0"},
        )
        limit = threading.Timer(SCRIPT_LIMIT_S, process.kill)
        limit.start()
        waiting = list(frames)
        lines = []
        try:
            assert process.stdin is not None
            assert process.stdout is not None
            for line in process.stdout:
                if line.strip() == "frame":
                    with self.lock:
                        self.engine.process(waiting.pop(0), 4, now_ns=time.monotonic_ns())
                    process.stdin.write("\n")
                    process.stdin.flush()
                elif line.startswith("= "):
                    lines.append(line[2:].strip())
            _, complaint = process.communicate()
        finally:
            limit.cancel()
            process.kill()
            process.wait()
        assert process.returncode == 0, complaint
        return lines


@contextmanager
def served(folder: Path) -> Iterator[Served]:
    """Serve an engine of its own, whose clock goes on; the programs of this folder lie beside it as files."""
    for name, source in PROGRAMS.items():
        program = compile_program(source).program
        (folder / f"{name}.p4info.txt").write_text(p4info_text(p4info_of(program)))
        (folder / f"{name}.json").write_text(program.to_json())
    engine, lock = Engine(), threading.Lock()
    server = P4RuntimeServer({1: SharedEngine(engine, lock)}, "127.0.0.1:0")
    found = Served(engine, server.start(), folder, lock)
    stopping = threading.Event()

    def tick() -> None:
        while not stopping.wait(TICK_S):
            with found.lock:
                engine.tick(time.monotonic_ns())

    clock = threading.Thread(target=tick)
    clock.start()
    try:
        yield found
    finally:
        stopping.set()
        clock.join()
        server.stop()
