# SPDX-License-Identifier: Apache-2.0
"""A live NIC as a `Connection`: its BAR mapped, slow requests over a UNIX socket, waking by an eventfd."""

from __future__ import annotations

import json
import os
import select
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nicemu.abi import SharedMemory, seconds, shown
from nicemu.clock import PATIENCE
from nicemu.control import P4RuntimeClient, passing_role
from nicemu.errors import ControlError, NicemuError, P4RuntimeCode, ResourceError, UsageError, family_of
from nicemu.pcie import Backing

from .device import Nic
from .recording import open_process_log
from .wakeups import Wakeups

SPIN_S = 20e-6
REQUEST_TIMEOUT_S = 30.0
RECHECK_S = 1.0
"""A waiting process looks for itself this often, should a wake-up not come (an error raises only a counter's
E).
"""


class LiveConnection:
    """Implements `nicemu.abi.Connection` for a NIC process whose control socket is at `path`.

    Any thread may ask and wait; they are answered one at a time.
    """

    def __init__(self, path: Path, spin_s: float = SPIN_S) -> None:
        self.nic_name = path.stem
        self._spin_s = spin_s
        self._closed = False
        self._requests = 0
        self._lock = threading.RLock()
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._socket.connect(str(path))
        except OSError as error:
            self._socket.close()
            raise UsageError(f"no NIC serves at {path}: {error}; is it up? (`nicemu status`)") from error
        self._socket.settimeout(REQUEST_TIMEOUT_S)
        reply, fds = self._exchange({"op": "open"})
        self.bar: SharedMemory = Backing.from_fd(fds[0], int(reply["bar_bytes"]))
        self._eventfd = fds[1]
        self.log = open_process_log(reply.get("races"))
        self._p4runtime = str(reply["p4runtime"])
        self._answers = select.poll()  # a host may have more descriptors than select(2) takes
        self._answers.register(self._socket, select.POLLIN)
        self._wakeups = Wakeups(self._eventfd, self._socket.fileno(), self._look_alive)

    def _exchange(
        self, message: dict[str, Any], fds: tuple[int, ...] = ()
    ) -> tuple[dict[str, Any], list[int]]:
        with self._lock:
            return self._exchange_alone(message, fds)

    def _exchange_alone(
        self, message: dict[str, Any], fds: tuple[int, ...]
    ) -> tuple[dict[str, Any], list[int]]:
        if self._closed:
            raise UsageError(f"the connection to {self.nic_name} is closed; open the NIC again")
        self._requests += 1
        try:
            socket.send_fds(self._socket, [json.dumps({**message, "request": self._requests}).encode()], fds)
            while True:
                reply, received = self._receive()
                if reply.get("request") == self._requests:
                    break
                for fd in received:  # the late answer to a request that nobody waits for any more
                    os.close(fd)
        except OSError as error:
            raise NicemuError(f"{self.nic_name} does not answer: {error}") from error
        if "error" in reply:
            said = str(reply["error"])
            raise family_of(reply.get("kind"))(
                said if said.startswith(self.nic_name) else f"{self.nic_name}: {said}"
            )
        return reply, received

    def _receive(self) -> tuple[dict[str, Any], list[int]]:
        data, received, _, _ = socket.recv_fds(self._socket, 1 << 18, 8)
        if not data:
            raise NicemuError(f"{self.nic_name} has ended")
        reply: dict[str, Any] = json.loads(data)
        return reply, received

    def request(self, operation: str, **operands: Any) -> dict[str, Any]:  # noqa: ANN401
        """Ask the NIC's control side."""
        return self._exchange({"op": operation, **operands})[0]

    def share(self, length_bytes: int, kind: str) -> tuple[SharedMemory, int]:
        """Allocate memory that the NIC maps too."""
        installed = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        if length_bytes > installed:
            raise ResourceError(f"{length_bytes} bytes wanted; this machine has {installed} bytes of memory")
        backing = Backing.memfd(f"nicemu-{kind}", length_bytes)
        assert backing.fd is not None
        try:
            reply, _ = self._exchange(
                {"op": "share", "length_bytes": length_bytes, "kind": kind}, (backing.fd,)
            )
        except BaseException:
            backing.close()
            raise
        return backing, int(reply["address"])

    def notify(self) -> None:
        """Nothing: the NIC polls."""

    def wait(
        self, is_true: Callable[[], bool], timeout_s: float, wake: tuple[int, int] | None = None
    ) -> bool:
        """Spin briefly, then sleep until the NIC wakes this process; (0, 0) stands for a wait of
        microseconds.
        """
        deadline = time.monotonic() + timeout_s * PATIENCE
        spin_until = time.monotonic() + self._spin_s
        while True:
            heard = self._wakeups.heard
            if is_true():
                return True
            now = time.monotonic()
            if now > deadline:
                return is_true()
            if now < spin_until:
                continue
            if wake == (0, 0):
                self._look_alive()
                time.sleep(20e-6)
            elif wake is not None:
                self.request("wake", counter=wake[0], threshold=wake[1])
                wake = None
            else:
                self._wakeups.sleep(heard, min(deadline - now, RECHECK_S))

    def _look_alive(self) -> None:
        """Take late answers, which nobody waits for any more. Raises: NicemuError if the NIC has ended."""
        if not self._lock.acquire(blocking=False):  # it answers another thread, which reads the socket
            return
        try:
            if self._answers.poll(0):
                for late in self._receive()[1]:
                    os.close(late)
        finally:
            self._lock.release()

    # Tables

    def insert(self, table: str, keys: dict[str, int], action: str, parameters: dict[str, int]) -> None:
        """Insert or replace an entry, over P4Runtime.

        The channel is closed again: an open one keeps threads busy in a process that should be able to sleep.
        """
        with P4RuntimeClient(self._p4runtime, role=passing_role()) as client:
            try:
                client.insert(table, keys, action, parameters)
            except ControlError as error:
                if error.code is not P4RuntimeCode.ALREADY_EXISTS:
                    raise
                client.modify(table, keys, action, parameters)

    def delete(self, table: str, keys: dict[str, int]) -> None:
        """Delete an entry if it is there, over P4Runtime."""
        with P4RuntimeClient(self._p4runtime, role=passing_role()) as client:
            try:
                client.delete(table, keys)
            except ControlError as error:
                if error.code is not P4RuntimeCode.NOT_FOUND:
                    raise

    def close(self) -> None:
        """Leave: the NIC cancels this process's work and frees what it had. Closing twice is closing once."""
        if self._closed:
            return
        self._closed = True
        self._socket.close()
        os.close(self._eventfd)


def open_nic(name: str | Path, spin_s: float = SPIN_S, topology: str | None = None) -> Nic:
    """Open a NIC that is up: by the path of its control socket, or by name.

    `topology` says whose it is where several topologies have a NIC of that name; `nicemu status` shows both.
    Raises: UsageError if there is none of that name, or more than one.
    """
    if not isinstance(name, (str, Path)):
        raise UsageError(f"a NIC is named by text or by the path of its socket, not {shown(name)} (EINVAL)")
    spin_s = seconds(spin_s, "spin_s")
    path = Path(name)
    if path.suffix != ".sock":
        path = _find_socket(str(name), topology)
    return Nic(LiveConnection(path, spin_s))


def _find_socket(name: str, topology: str | None) -> Path:
    base = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(base) / "nicemu" if base else Path(tempfile.gettempdir()) / f"nicemu-{os.getuid()}"
    up = [(path, _topology_of(path.parent)) for path in sorted(root.glob("*/*.sock"))]
    found = [(path, its) for path, its in up if path.stem == name and topology in (None, its)]
    if len(found) == 1:
        return found[0][0]
    if not found:
        known = ", ".join(f"{path.stem} ({its})" for path, its in up) or "none"
        wanted = name if topology is None else f"{name} of topology {topology}"
        raise UsageError(f"no NIC called {wanted} is up; up are {known} (`nicemu up` starts a topology)")
    topologies = [its for _, its in found]
    raise UsageError(
        f"{len(found)} NICs called {name} are up, of the topologies {', '.join(topologies)}; choose one: "
        f"open_nic({name!r}, topology={topologies[0]!r})"
    )


def _topology_of(folder: Path) -> str:
    """Return what `nicemu status` calls the topology whose NICs run in a folder."""
    try:
        return str(json.loads((folder / "state").read_text(encoding="utf-8"))["topology"])
    except (OSError, ValueError, KeyError, TypeError):
        return folder.name
