# SPDX-License-Identifier: Apache-2.0
"""The seam between a host program and a NIC, live or stepped: memory, requests, notification, waiting.

`nicemu.host` implements it over mapped memory and a UNIX socket; `nicemu.run.Simulation` implements it so
that `wait` advances virtual time. The host library above it is the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class SharedMemory(Protocol):
    """Memory that host and NIC both see: `view` its bytes, `address` its raw address in the host process."""

    view: memoryview
    address: int
    length_bytes: int


class Connection(Protocol):
    """What a host process has of one NIC."""

    nic_name: str
    bar: SharedMemory

    def request(self, operation: str, **operands: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Ask the NIC's control side for something slow: counters, keys, connections.

        Raises: NicemuError with the NIC's own sentence if it refuses.
        """
        ...

    def share(self, length_bytes: int, kind: str) -> tuple[SharedMemory, int]:
        """Allocate memory that the NIC maps too; return it and its bus address."""
        ...

    def notify(self) -> None:
        """Tell the NIC that memory has changed; a NIC that polls needs no telling."""
        ...

    def wait(
        self, is_true: Callable[[], bool], timeout_s: float, wake: tuple[int, int] | None = None
    ) -> bool:
        """Wait until `is_true()`; False if that takes longer than `timeout_s`.

        `wake`: a counter and a threshold at which the NIC shall wake this process; None: when a packet
        arrives.
        """
        ...

    def insert(self, table: str, keys: dict[str, int], action: str, parameters: dict[str, int]) -> None:
        """Insert or replace a match-action entry (exact keys)."""
        ...

    def delete(self, table: str, keys: dict[str, int]) -> None:
        """Delete a match-action entry if it is there."""
        ...

    def close(self) -> None:
        """Give everything back."""
        ...
