# SPDX-License-Identifier: Apache-2.0
"""Firmware that lends every connection a page of NIC memory."""

from __future__ import annotations

from nicemu.firmware import Connection, Nic, on_connect


@on_connect
def lend(nic: Nic, connection: Connection) -> dict[str, int]:
    """Return what a peer has to know of its page."""
    page = nic.allocate(4096, remote=True)
    return {"address": page.address, "length_bytes": page.length_bytes, "rkey": page.key}
