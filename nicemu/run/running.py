# SPDX-License-Identifier: Apache-2.0
"""Finds the NIC processes of this user that run, asks them, and stops them."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import socket
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nicemu.errors import NicemuError, UsageError

from .messages import receive, send
from .topology import load_topology
from .trace import merge_traces

STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class RunningNic:
    """A NIC process that serves. `socket` is its control socket, `p4runtime` the address of its P4Runtime
    server.
    """

    name: str
    topology: str
    pid: int
    socket: Path
    p4runtime: str
    program: str
    firmware: str
    ip: str


def runtime_root() -> Path:
    """Return the folder, readable by its owner alone, that holds a folder for each running topology."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(base) / "nicemu" if base else Path(tempfile.gettempdir()) / f"nicemu-{os.getuid()}"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = root.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UsageError(
            f"{root} belongs to somebody else or is open to others; remove it or set XDG_RUNTIME_DIR"
        )
    return root


def lock_of(folder: Path) -> Path:
    """Return the lock file of a topology's folder; whoever runs the topology holds it."""
    return folder.with_name(f"{folder.name}.lock")


def running_nics() -> list[RunningNic]:
    """Return all NICs of all topologies that are up."""
    found = []
    for state in sorted(runtime_root().glob("*/state.json")):
        try:
            told = json.loads(state.read_text())
        except (OSError, ValueError):
            continue
        for nic in told["nics"]:
            path = state.parent / f"{nic['name']}.sock"
            if not path.exists() or not _alive(int(nic["pid"])):
                continue
            found.append(
                RunningNic(
                    nic["name"],
                    told["topology"],
                    int(nic["pid"]),
                    path,
                    f"unix:{path.with_suffix('.p4rt')}",
                    nic["program"],
                    nic["firmware"],
                    nic["ip"],
                )
            )
    return found


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def find_nic(name: str | None) -> RunningNic:
    """Return the running NIC called `name`; without a name the only one.

    Raises: UsageError if there is none, or it is not clear which.
    """
    nics = running_nics()
    fitting = [nic for nic in nics if name is None or nic.name == name]
    if len(fitting) == 1:
        return fitting[0]
    if name is not None and not fitting:
        for status in runtime_root().glob(f"*/{name}.status"):
            told = json.loads(status.read_text())
            raise UsageError(
                f"{name} has ended{': ' + told['error'] if 'error' in told else ''}; see {status.parent}"
            )
    if not nics:
        raise UsageError("no NIC is up; start some with `nicemu up examples/two_storage_nodes.toml`")
    names = ", ".join(f"{nic.name} ({nic.topology})" for nic in nics)
    raise UsageError(f"--nic must name one of the NICs that are up: {names}")


def ask(nic: RunningNic, operation: str, **operands: Any) -> dict[str, Any]:  # noqa: ANN401
    """Ask a NIC process something and return its answer.

    Raises: NicemuError with the NIC's sentence if it refuses or does not answer.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        try:
            link.settimeout(10.0)
            link.connect(str(nic.socket))
            send(link, {"op": operation, **operands})
            answer = receive(link)
        except OSError as error:
            raise NicemuError(f"{nic.name} does not answer: {error}") from error
    if answer is None:
        raise NicemuError(f"{nic.name} closed the connection")
    if "error" in answer[0]:
        raise NicemuError(str(answer[0]["error"]))
    return answer[0]


def take_down(topology: Path | None) -> list[str]:
    """Stop the NICs of a topology (of all, without one); return the names of those that were stopped.

    Raises: UsageError if none of it is up.
    """
    wanted = None if topology is None else load_topology(topology).name
    stopped: list[str] = []
    for folder in sorted(path for path in runtime_root().iterdir() if path.is_dir()):
        nics = [nic for nic in running_nics() if nic.socket.parent == folder]
        if not _is_abandoned(folder) and (not nics or (folder / "attached").exists()):
            continue  # somebody is starting it, or runs it and will stop it
        if wanted is not None and all(nic.topology != wanted for nic in nics):
            continue
        state = folder / "state.json"
        trace = json.loads(state.read_text()).get("trace") if state.exists() else None
        for nic in nics:
            _stop(nic)
            stopped.append(nic.name)
        if trace is not None:
            merge_traces(Path(trace))
        shutil.rmtree(folder, ignore_errors=True)
        lock_of(folder).unlink(missing_ok=True)
    if not stopped:
        raise UsageError(f"{'no topology' if wanted is None else f'topology {wanted}'} is up")
    return stopped


def _is_abandoned(folder: Path) -> bool:
    """Whether nobody holds the lock of a topology's folder."""
    try:
        with lock_of(folder).open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return True
    except BlockingIOError:
        return False
    return True


def _stop(nic: RunningNic) -> None:
    try:
        ask(nic, "stop")
    except NicemuError:
        os.kill(nic.pid, signal.SIGTERM)
    deadline = time.monotonic() + STOP_TIMEOUT_S
    while _alive(nic.pid) and nic.socket.exists():
        if time.monotonic() > deadline:
            os.kill(nic.pid, signal.SIGKILL)
            return
        time.sleep(0.01)
