# SPDX-License-Identifier: Apache-2.0
"""One packet on its way through a program."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .trace import Event


@dataclass(slots=True, eq=False)
class PacketState:
    """One packet on its way: its bytes, the parser's cursor, every variable, and what was asked for.

    `outcome` is the architecture's; `colours` are what direct meters have said of it, by their names.
    """

    frame: bytes
    places: dict[str, Any]
    outcome: Any
    trace: list[Event] | None = None
    cursor_bytes: int = 0
    turns: int = 0
    now_ns: int = 0
    emitted: list[bytes] = field(default_factory=list)
    colours: dict[str, int] = field(default_factory=dict)

    @property
    def payload(self) -> bytes:
        """The bytes behind those that the parser has taken."""
        return self.frame[self.cursor_bytes :]

    def departing(self) -> bytes:
        """Return what the deparser emitted, and the payload."""
        return b"".join((*self.emitted, self.payload))
