# SPDX-License-Identifier: Apache-2.0
"""The sockets of an NVMe/TCP target: any NVMe controller, for a host's unmodified driver."""

from __future__ import annotations

import select
import socket
from collections import Counter
from types import TracebackType
from typing import Final, Self
from weakref import WeakSet

from nicemu.clock import PATIENCE, Clock, WallClock
from nicemu.errors import ResourceError, UsageError
from nicemu.nvme import NvmeRegisters

from .association import Association, ServedController
from .connection import Connection
from .qualified_name import subsystem_name_fault

DEFAULT_SUBSYSTEM: Final = "nqn.2014-08.org.nicemu:nvme"
_CHUNK_BYTES: Final = 256 << 10
_MAX_PORT: Final = 0xFFFF
_MAX_CONNECTIONS: Final = 16
"""More than there are queue pairs (`QUEUES`)."""
_UNSENT_BYTES: Final = 4 << 20
"""While more than that waits to be sent, nothing is read from a connection."""
_BUSY_S: Final = 20e-6


_served_registers: WeakSet[NvmeRegisters] = WeakSet()
"""Registers of the controllers that this process serves."""


class NvmeTcpTarget:
    """Serves a controller to one host at a time, at `address`; port 0 takes any. `run` does the work.

    A connection has 10 s until its Connect command is accepted. There are 16 at most: for one more, the
    oldest without Connect makes room. `faults` counts connections that were ended, by a name of why.
    Raises: UsageError if the port or the subsystem's name is none, or the controller is served already;
    ResourceError if the address cannot be bound.
    """

    def __init__(
        self,
        served: ServedController,
        address: tuple[str, int] = ("127.0.0.1", 4420),
        subsystem: str = DEFAULT_SUBSYSTEM,
        clock: Clock | None = None,
    ) -> None:
        self.faults: Counter[str] = Counter()
        self._name = f"{address[0]}:{address[1]}"
        if not 0 <= address[1] <= _MAX_PORT:
            raise UsageError(f"port {address[1]} is none; take one of 1 to {_MAX_PORT}, or 0 for any")
        if fault := subsystem_name_fault(subsystem):
            raise UsageError(f"{subsystem!r} is no name for a subsystem: {fault}")
        if served.registers in _served_registers:
            raise UsageError(
                "the controller is served by an NVMe/TCP target already; close that, or serve another"
            )
        self.association = Association(served, subsystem)
        try:
            self._listener = socket.create_server(address, backlog=_MAX_CONNECTIONS)
        except (OSError, UnicodeError) as error:
            raise ResourceError(f"no NVMe/TCP target at {self._name}: {error}") from error
        self._name = f"{address[0]}:{self.port}"
        self._listener.setblocking(False)
        self._connections: dict[socket.socket, Connection] = {}
        self._clock = clock or WallClock(PATIENCE)
        self._registers: NvmeRegisters = served.registers
        _served_registers.add(self._registers)

    @property
    def port(self) -> int:
        """The TCP port."""
        return int(self._listener.getsockname()[1])

    def run(self, timeout_s: float = 0.01) -> None:
        """Move bytes and commands once; wait for some, `timeout_s` at most, if nothing is under way.

        Raises: UsageError after `close`.
        """
        if self._listener.fileno() < 0:
            raise UsageError(f"the NVMe/TCP target at {self._name} is closed; open another to serve on")
        readable = [one for one, state in self._connections.items() if len(state.output) < _UNSENT_BYTES]
        writable = [one for one, state in self._connections.items() if state.output]
        wait_s = _BUSY_S if self.association.is_busy else timeout_s
        ready, _, _ = select.select([self._listener, *readable], writable, [], wait_s)
        for one in ready:
            if one is not self._listener:
                self._receive(one)
        now_ns = self._clock.now_ns()
        if self._listener in ready:
            self._accept(now_ns)
        self.association.run(now_ns)
        for one, state in list(self._connections.items()):
            self._send(one, state)
            state.watch(now_ns)
            if state.is_over and not state.output:
                self._drop(one)

    def close(self) -> None:
        """End every connection; the controller is disabled."""
        for one in list(self._connections):
            self._drop(one)
        self._listener.close()
        _served_registers.discard(self._registers)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self, now_ns: int) -> None:
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            return
        if len(self._connections) >= _MAX_CONNECTIONS:
            self._make_room()
        accepted.setblocking(False)
        accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._connections[accepted] = Connection(self.association, now_ns)

    def _make_room(self) -> None:
        """Drop the oldest connection that is no queue pair (any more): of those that are, there are fewer."""
        oldest = next(one for one, state in self._connections.items() if state.qid is None or state.is_over)
        self._connections[oldest].end("made_room")
        self._drop(oldest)

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
