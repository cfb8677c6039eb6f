# SPDX-License-Identifier: Apache-2.0
"""The connection of a NIC that this process cannot use any more: closed, or left behind by a fork."""

from __future__ import annotations

from typing import Any

from nicemu.errors import UsageError


class ClosedConnection:
    """What a closed NIC has instead of a connection: whatever is asked of it is refused."""

    log = None

    def __init__(self, nic_name: str, said: str) -> None:
        self.nic_name = nic_name
        self._said = said

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        raise UsageError(self._said)
