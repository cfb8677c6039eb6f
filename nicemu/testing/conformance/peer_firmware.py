# SPDX-License-Identifier: Apache-2.0
"""Firmware of the peer NIC: it grants memory, and otherwise does what the bench tells it."""

from __future__ import annotations

from nicemu.firmware import Connection, Nic, on_connect


@on_connect
def grant(nic: Nic, connection: Connection) -> dict[str, int]:
    """Grant as much memory as the process asks for."""
    buffer = nic.allocate(connection.private_data["length_bytes"], remote=True, atomic=True)
    place = {"address": buffer.address, "length_bytes": buffer.length_bytes, "rkey": buffer.key}
    return {**place, "qp": connection.qp_num}
