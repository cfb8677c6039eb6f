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
from contextlib import suppress
from pathlib import Path
from typing import Any

from nicemu.abi import SharedMemory
from nicemu.control import P4RuntimeClient
from nicemu.errors import ControlError, NicemuError, P4RuntimeCode, ResourceError, UsageError
from nicemu.pcie import Backing

from .device import Nic
from .recording import open_process_log

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
        self._poll = select.poll()
        for fd in (self._eventfd, self._socket.fileno()):
            self._poll.register(fd, select.POLLIN)

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
            family = UsageError if reply.get("kind") == "UsageError" else NicemuError
            said = str(reply["error"])
            raise family(said if said.startswith(self.nic_name) else f"{self.nic_name}: {said}")
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
        deadline = time.monotonic() + timeout_s
        spin_until = time.monotonic() + self._spin_s
        while not is_true():
            now = time.monotonic()
            if now > deadline:
                return is_true()
            if now < spin_until:
                continue
            if wake == (0, 0):
                self._look_alive()
                time.sleep(20e-6)
                continue
            if wake is not None:
                self.request("wake", counter=wake[0], threshold=wake[1])
                wake = None
                continue
            self._look_alive(min(deadline - now, RECHECK_S))
        return True

    def _look_alive(self, timeout_s: float = 0.0) -> None:
        """Wait for a wake-up. Raises: NicemuError if the NIC has ended."""
        for fd, _ in self._poll.poll(timeout_s * 1000):
            if fd == self._eventfd:
                with suppress(BlockingIOError):  # another thread has read it
                    os.eventfd_read(self._eventfd)
            elif self._lock.acquire(blocking=False):  # else it answers another thread, which reads it
                try:
                    waiting = select.poll()  # a host may have more descriptors than select(2) takes
                    waiting.register(self._socket, select.POLLIN)
                    if waiting.poll(0):
                        for late in self._receive()[1]:
                            os.close(late)
                finally:
                    self._lock.release()

    # Tables

    def insert(self, table: str, keys: dict[str, int], action: str, parameters: dict[str, int]) -> None:
        """Insert or replace an entry, over P4Runtime.

        The channel is closed again: an open one keeps threads busy in a process that should be able to sleep.
        """
        with P4RuntimeClient(self._p4runtime) as client:
            try:
                client.insert(table, keys, action, parameters)
            except ControlError as error:
                if error.code is not P4RuntimeCode.ALREADY_EXISTS:
                    raise
                client.modify(table, keys, action, parameters)

    def delete(self, table: str, keys: dict[str, int]) -> None:
        """Delete an entry if it is there, over P4Runtime."""
        with P4RuntimeClient(self._p4runtime) as client:
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


def open_nic(name: str | Path, spin_s: float = SPIN_S) -> Nic:
    """Open a NIC that is up: by the path of its control socket, or by name.

    Raises: UsageError if there is none of that name, or more than one.
    """
    path = Path(name)
    if path.suffix != ".sock":
        base = os.environ.get("XDG_RUNTIME_DIR")
        root = Path(base) / "nicemu" if base else Path(tempfile.gettempdir()) / f"nicemu-{os.getuid()}"
        found = sorted(root.glob(f"*/{name}.sock"))
        if len(found) != 1:
            raise UsageError(f"{len(found)} NICs called {name} are up; `nicemu status` lists them")
        path = found[0]
    return Nic(LiveConnection(path, spin_s))
