# SPDX-License-Identifier: Apache-2.0
"""Finds the NIC processes of this user that run, asks them, and stops them."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from nicemu.clock import PATIENCE
from nicemu.errors import NicemuError, UsageError
from nicemu.programs import find_program

from .folders import ATTACHED, claim, discard, held_in, is_held, remove_abandoned, runtime_root
from .messages import receive, send
from .state import TopologyState
from .trace import merge_traces

ANSWER_TIMEOUT_S = 10.0 * PATIENCE
STOP_ANSWER_TIMEOUT_S = 2.0
STOP_TIMEOUT_S = 10.0 * PATIENCE
KILL_TIMEOUT_S = 2.0 * PATIENCE


class TakenDown(NamedTuple):
    """The names of NICs that `take_down` has stopped, and of those that had ended before."""

    stopped: list[str]
    ended: list[str]


@dataclass(frozen=True, slots=True)
class RunningNic:
    """A NIC process that serves. `socket` is its control socket, `p4runtime` the address of its P4Runtime
    server, `ended` what to say if it serves no more though nobody has stopped it.
    """

    name: str
    topology: str
    pid: int
    socket: Path
    p4runtime: str
    program: str
    firmware: str
    ip: str
    ended: str = ""

    @property
    def settings(self) -> Path:
        """The file that its process was started with, and holds as long as it runs."""
        return self.socket.with_suffix(".json")


def known_nics(topology: str | Path | None = None) -> list[RunningNic]:
    """Return the NICs of a topology that is up (its name, or its file), or of all; those that have ended too.

    Raises: UsageError if none of that name is up, and there is no such file.
    """
    wanted = None if topology is None else _name_of(topology)
    return [nic for folder in _folders() if wanted in (None, _topology_in(folder)) for nic in nics_of(folder)]


def running_nics() -> list[RunningNic]:
    """Return all NICs that run, of all topologies that are up."""
    return [nic for nic in known_nics() if not nic.ended]


def _folders() -> list[Path]:
    return sorted(path for path in runtime_root().iterdir() if path.is_dir())


def _topology_in(folder: Path) -> str:
    """Return the name of the topology that a folder is of."""
    state = TopologyState.read(folder)
    return folder.name if state is None else state.topology


def _name_of(topology: str | Path) -> str:
    """Return the name of a topology: what is given, if one of that name is up, else what the file says."""
    names = {_topology_in(folder) for folder in _folders()}
    if str(topology) in names:
        return str(topology)
    try:
        place = find_program(topology)
    except UsageError as error:
        there = ", ".join(sorted(names)) or "none is"
        raise UsageError(f"no topology {topology} is up ({there}), and {error}") from None
    from .topology import load_topology

    return load_topology(place).name


def nics_of(folder: Path) -> list[RunningNic]:
    """Return the NICs that have come up in a topology's folder; none if all have ended with a program that
    ran them itself.
    """
    state, held = TopologyState.read(folder), held_in(folder)
    if state is None or (not held and (folder / ATTACHED).exists()):
        return []
    return [
        RunningNic(
            nic.name,
            state.topology,
            nic.pid,
            folder / f"{nic.name}.sock",
            f"unix:{folder / f'{nic.name}.p4rt'}",
            nic.program,
            nic.firmware,
            nic.ip,
            "" if nic.name in held else _epitaph(folder, nic.name),
        )
        for nic in state.nics
    ]


def _epitaph(folder: Path, name: str) -> str:
    again = "" if (folder / ATTACHED).exists() else "; `nicemu up` of its topology starts it again"
    return f"{name} has ended, see {folder / f'{name}.log'}{again}"


def find_nic(name: str | None) -> RunningNic:
    """Return the running NIC called `name`; without a name the only one.

    Raises: UsageError if there is none, or it is not clear which.
    """
    if name is not None and (":" in name or "/" in name):
        raise UsageError(f"--nic {name}: the name of a NIC that is up was expected here, not an address")
    known = known_nics()
    nics = [nic for nic in known if not nic.ended]
    fitting = [nic for nic in nics if name is None or nic.name == name]
    if len(fitting) == 1:
        return fitting[0]
    if name is not None and not fitting:
        for nic in known:
            if nic.name == name:
                raise UsageError(nic.ended)
        for log in runtime_root().glob(f"*/{name}.log"):
            raise UsageError(f"{name} has ended, see {log}")
    if not nics and known:
        raise UsageError(f"no NIC is up: {'; '.join(nic.ended for nic in known)}")
    if not nics:
        wanted = "" if name is None else f", {name} neither"
        raise UsageError(f"no NIC is up{wanted}; start some with `nicemu up examples/two_storage_nodes.toml`")
    names = ", ".join(f"{nic.name} ({nic.topology})" for nic in nics)
    raise UsageError(f"--nic must name one of the NICs that are up: {names}")


def ask(nic: RunningNic, operation: str, **operands: Any) -> dict[str, Any]:  # noqa: ANN401
    """Ask a NIC process something and return its answer.

    Raises: NicemuError with the NIC's sentence if it refuses or does not answer.
    """
    return _ask(nic, {"op": operation, **operands}, ANSWER_TIMEOUT_S)


def _ask(nic: RunningNic, message: dict[str, Any], timeout_s: float) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as link:
        try:
            link.settimeout(timeout_s)
            link.connect(str(nic.socket))
            send(link, message)
            answer = receive(link)
        except OSError as error:
            raise NicemuError(f"{nic.name} does not answer: {error}") from error
    if answer is None:
        raise NicemuError(f"{nic.name} closed the connection")
    if "error" in answer[0]:
        raise NicemuError(str(answer[0]["error"]))
    return answer[0]


def take_down(topology: str | Path | None) -> TakenDown:
    """Stop the NICs of a topology (its name, or its file), or of all, and remove what they have left there;
    return the names of those stopped, and of those that had ended.

    What a program runs itself, or what is being started, is left alone. If something fails for one topology,
    the others are stopped all the same.
    Raises: UsageError if none of it is up or there is no such file, NicemuError at the end for what failed.
    """
    wanted = None if topology is None else _name_of(topology)
    remove_abandoned()
    stopped: list[str] = []
    ended: list[str] = []
    failures: list[str] = []
    is_busy = False
    for folder in _folders():
        state = TopologyState.read(folder)
        if wanted not in (None, _topology_in(folder)):
            continue
        lock = claim(folder)
        if lock is None:
            is_busy = True
            continue
        try:
            known = nics_of(folder)
            nics = [nic for nic in known if not nic.ended]
            ended += [nic.name for nic in known if nic.ended]
            stopped += [nic.name for nic in nics]
            failures += _stop(nics)
            if state is not None and state.trace is not None:
                merge_traces(Path(state.trace))
        except Exception as error:
            failures.append(f"{folder.name}: {error}")
        finally:
            discard(folder, lock)
    if failures:
        done = f"stopped {', '.join(stopped)}, but " if stopped else ""
        raise NicemuError(done + "; ".join(failures))
    if not stopped and not ended:
        if wanted is None:
            raise UsageError("no topology is up")
        why = ": a program runs it and will stop it, or it is being started" if is_busy else ""
        raise UsageError(f"topology {wanted} is not up{why}")
    return TakenDown(stopped, ended)


def _stop(nics: list[RunningNic]) -> list[str]:
    """Stop NICs and wait until their processes have ended; return what went wrong."""
    with ExitStack() as opened:
        processes = {nic.name: _open_process(nic, opened) for nic in nics}
        for nic in nics:
            try:
                _ask(nic, {"op": "stop"}, STOP_ANSWER_TIMEOUT_S)
            except NicemuError:
                _signal(processes[nic.name], signal.SIGTERM)
        if left := _await_end(nics, processes, STOP_TIMEOUT_S):
            for nic in left:
                _signal(processes[nic.name], signal.SIGKILL)
            left = _await_end(left, processes, KILL_TIMEOUT_S)
    return [f"{nic.name} (process {nic.pid}) does not end" for nic in left]


def _open_process(nic: RunningNic, opened: ExitStack) -> int | None:
    """Return a pidfd of a NIC's process, closed with `opened`; none if another has its number by now."""
    try:
        process = os.pidfd_open(nic.pid)
        opened.callback(os.close, process)
        words = Path(f"/proc/{nic.pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return None
    return process if os.fsencode(nic.settings) in words else None


def _await_end(
    nics: list[RunningNic], processes: dict[str, int | None], timeout_s: float
) -> list[RunningNic]:
    """Return those whose processes still run after that time."""
    deadline = time.monotonic() + timeout_s
    left = nics
    while left := [nic for nic in left if is_held(nic.settings) or _runs(processes[nic.name])]:
        if time.monotonic() > deadline:
            break
        time.sleep(0.01)
    return left


def _runs(process: int | None) -> bool:
    """Whether a process has not ended: its last thread ends a moment after its files, and locks, are gone."""
    if process is None:
        return False
    end = select.poll()
    end.register(process, select.POLLIN)
    return not end.poll(0)


def _signal(process: int | None, number: signal.Signals) -> None:
    if process is not None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(process, number)
