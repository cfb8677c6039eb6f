# SPDX-License-Identifier: Apache-2.0
"""What this process puts down of itself when its NIC checks races: one log a process, in the NIC's folder.

Every object of this library writes into the log of its connection, if that has one; `nicemu.abi.EventLog` is
the log, `nicemu/testing/races/logs.py` names the events.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from typing import Any

from nicemu.abi import Connection, EventLog, SharedMemory, Span, file_writer

_log: EventLog | None = None


def process_log() -> EventLog | None:
    """Return this process's log: that of the first NIC it has opened that checks races."""
    return _log


def open_process_log(folder: str | None) -> EventLog | None:
    """Return this process's log, begun in `folder`; None if the NIC says that it checks no races."""
    global _log
    if _log is None and folder:
        _log = _begin(os.getpid(), Path(folder))
    return _log if folder else None


def _forget_log() -> None:
    """The log is that of the process that this one was forked from."""
    global _log
    _log = None


os.register_at_fork(after_in_child=_forget_log)


@cache
def _begin(pid: int, folder: Path) -> EventLog:
    return EventLog("host", f"process {pid}", file_writer(folder / f"host-{pid}.events"))


def tell_submitted(stream: object, name: str, reads: Iterable[Span], writes: Iterable[Span]) -> None:
    """Put down that work goes into a stream, if this process has a log."""
    if _log is not None:
        _log.submit(stream, name, reads, writes)


def tell_synchronized(stream: object) -> None:
    """Put down that all work in a stream has been waited for, if this process has a log."""
    if _log is not None:
        _log.synchronize(stream)


class LoggedConnection:
    """A connection that puts down what is asked through it, and what is answered."""

    def __init__(self, connection: Connection, log: EventLog) -> None:
        self._connection = connection
        self._log = log
        self.nic_name = connection.nic_name
        self.bar: SharedMemory = connection.bar

    def request(self, operation: str, **operands: Any) -> dict[str, Any]:  # noqa: ANN401
        """Ask the NIC's control side."""
        told = {"nic": self.nic_name, "operation": operation, "operands": operands}
        self._log.add_here("request", **told)
        reply = self._connection.request(operation, **operands)
        self._log.add_here("reply", **told, reply=reply)
        return reply

    def share(self, length_bytes: int, kind: str) -> tuple[SharedMemory, int]:
        """Allocate memory that the NIC maps too."""
        memory, address = self._connection.share(length_bytes, kind)
        self._log.add_here("share", nic=self.nic_name, address=address, length_bytes=length_bytes)
        return memory, address

    def notify(self) -> None:
        """Tell the NIC that memory has changed."""
        self._connection.notify()

    def wait(
        self, is_true: Callable[[], bool], timeout_s: float, wake: tuple[int, int] | None = None
    ) -> bool:
        """Wait until `is_true()`."""
        return self._connection.wait(is_true, timeout_s, wake)

    def insert(self, table: str, keys: dict[str, int], action: str, parameters: dict[str, int]) -> None:
        """Insert or replace a match-action entry."""
        self._log.add_here("request", nic=self.nic_name, operation="insert", operands={"table": table})
        self._connection.insert(table, keys, action, parameters)

    def delete(self, table: str, keys: dict[str, int]) -> None:
        """Delete a match-action entry if it is there."""
        self._log.add_here("request", nic=self.nic_name, operation="delete", operands={"table": table})
        self._connection.delete(table, keys)

    def close(self) -> None:
        """Give everything back."""
        self._connection.close()
        self._log.add_here("close", nic=self.nic_name)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - what only this kind of connection has
        return getattr(self._connection, name)
