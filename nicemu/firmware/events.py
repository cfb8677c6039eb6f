# SPDX-License-Identifier: Apache-2.0
"""What firmware reacts to: events, arrivals, peers that connect."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(eq=False, slots=True)
class Event:
    """What a match-action program posted: a name, its fields, and the packet it held (empty: none).

    `request["field"]` is a field's value. `port` is where the packet came in: 0, or `HOST_PORT` for what the
    host or a controller sent. `settled` becomes true when it was passed on. A handler that returns without
    passing it on has consumed it; when a handler fails, the packet goes on as if no program had held it: what
    came from the network to the host, as a miss, and all else to the network.
    """

    name: str
    fields: dict[str, int]
    frame: bytes = b""
    port: int = 0
    settled: bool = False

    def __getitem__(self, name: str) -> int:
        return self.fields[name]


@dataclass(frozen=True, slots=True)
class Arrival:
    """A peer's operation that has arrived on queue pair `qp_num`; its bytes are visible."""

    qp_num: int
    opcode: int
    imm_data: int
    byte_len: int
    wr_id: int


@dataclass(frozen=True, slots=True)
class Connection:
    """A peer that connects: who it is, its IPv4 address as a number, and the local queue pair it will use."""

    peer: str
    ip: int
    qp_num: int
    private_data: dict[str, int]
