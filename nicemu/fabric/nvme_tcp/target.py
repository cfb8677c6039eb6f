# SPDX-License-Identifier: Apache-2.0
"""The sockets of an NVMe/TCP target: any NVMe controller, for a host's unmodified driver."""

from __future__ import annotations

import select
import socket
import time
from collections import Counter
from types import TracebackType
from typing import Final, Self

from nicemu.errors import ResourceError

from .association import Association, ServedController
from .connection import Connection

DEFAULT_SUBSYSTEM: Final = "nqn.2014-08.org.nicemu:nvme"
_CHUNK_BYTES: Final = 256 << 10
_MAX_CONNECTIONS: Final = 16
_UNSENT_BYTES: Final = 4 << 20
"""While more than that waits to be sent, nothing is read from a connection."""
_BUSY_S: Final = 20e-6


class NvmeTcpTarget:
    """Serves a controller to one host at a time, at `address`; port 0 takes any. `run` does the work.

    `faults` counts connections that were terminated, by a name of why.
    Raises: ResourceError if the address cannot be bound.
    """

    def __init__(
        self,
        served: ServedController,
        address: tuple[str, int] = ("127.0.0.1", 4420),
        subsystem: str = DEFAULT_SUBSYSTEM,
    ) -> None:
        self.faults: Counter[str] = Counter()
        self.association = Association(served, subsystem)
        try:
            self._listener = socket.create_server(address, backlog=_MAX_CONNECTIONS)
        except OSError as error:
            raise ResourceError(f"no NVMe/TCP target at {address[0]}:{address[1]}: {error}") from error
        self._listener.setblocking(False)
        self._connections: dict[socket.socket, Connection] = {}

    @property
    def port(self) -> int:
        """The TCP port."""
        return int(self._listener.getsockname()[1])

    def run(self, timeout_s: float = 0.01) -> None:
        """Move bytes and commands once; wait for some, `timeout_s` at most, if nothing is under way."""
        readable = [one for one, state in self._connections.items() if len(state.output) < _UNSENT_BYTES]
        writable = [one for one, state in self._connections.items() if state.output]
        wait_s = _BUSY_S if self.association.is_busy else timeout_s
        ready, _, _ = select.select([self._listener, *readable], writable, [], wait_s)
        for one in ready:
            if one is self._listener:
                self._accept()
            else:
                self._receive(one)
        self.association.run(time.monotonic_ns())
        for one, state in list(self._connections.items()):
            self._send(one, state)
            if state.is_over and not state.output:
                self._drop(one)

    def close(self) -> None:
        """End every connection; the controller is disabled."""
        for one in list(self._connections):
            self._drop(one)
        self._listener.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return
        if len(self._connections) >= _MAX_CONNECTIONS:
            self.faults["too many connections"] += 1
            accepted.close()
            return
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[accepted] = Connection(self.association)

    def _receive(self, one: socket.socket) -> None:
        state = self._connections[one]
        try:
            data = one.recv(_CHUNK_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if data:
            state.feed(data)
        else:
            self._drop(one)

    def _send(self, one: socket.socket, state: Connection) -> None:
        if not state.output or one not in self._connections:
            return
        try:
            del state.output[: one.send(state.output)]
        except BlockingIOError:
            return
        except OSError:
            state.output.clear()
            state.is_over = True

    def _drop(self, one: socket.socket) -> None:
        state = self._connections.pop(one)
        if state.ended_by:
            self.faults[state.ended_by] += 1
        self.association.leave(state)
        one.close()
