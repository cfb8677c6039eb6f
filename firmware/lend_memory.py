# SPDX-License-Identifier: Apache-2.0
"""Firmware that lends every connection as much NIC memory as it asks for in `bytes`."""

from __future__ import annotations

from nicemu.firmware import Connection, Nic, on_connect


@on_connect
def lend(nic: Nic, connection: Connection) -> dict[str, int]:
    """Return what a peer has to know of its memory."""
    buffer = nic.allocate(connection.private_data["bytes"], remote=True)
    return {"address": buffer.address, "length_bytes": buffer.length_bytes, "rkey": buffer.key}
