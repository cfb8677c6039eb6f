# SPDX-License-Identifier: Apache-2.0
"""Firmware of the benchmarks' NICs: whoever connects gets as much NIC memory as it asks for."""

from __future__ import annotations

from nicemu.errors import NicemuError
from nicemu.firmware import Connection, Nic, on_connect

MAX_BYTES = 32 << 20


@on_connect
def grant(nic: Nic, connection: Connection) -> dict[str, int]:
    """Allocate memory for a queue pair; answer with its address and key."""
    length_bytes = connection.private_data.get("length_bytes", 0)
    if not 0 < length_bytes <= MAX_BYTES:
        raise NicemuError(f"{length_bytes} bytes of NIC memory; between 1 and {MAX_BYTES} can be had")
    buffer = nic.allocate(length_bytes, remote=True)
    return {"address": buffer.address, "rkey": buffer.key}
