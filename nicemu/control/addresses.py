# SPDX-License-Identifier: Apache-2.0
"""Where a P4Runtime server may be reached."""

from __future__ import annotations

import ipaddress
import os

from nicemu.errors import UsageError


def checked_address(address: str, allow_remote: bool = False) -> str:
    """Return an address that can be served. Raises: UsageError."""
    if address.startswith("unix:"):
        path = address.removeprefix("unix:")
        if not path.startswith("/") or path.startswith("//"):
            raise UsageError(f"address {address!r}: an absolute path was expected, as unix:/run/nic0.sock")
        if len(os.fsencode(path)) > 107:
            raise UsageError(f"address {address!r}: a socket's path has at most 107 bytes")
        return address
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(
            f"address {address!r} found; unix:/path or host:port was expected, as 127.0.0.1:9559"
        )
    try:
        loopback = ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        loopback = host == "localhost"
    if not loopback and not allow_remote:
        raise UsageError(
            f"address {address!r} can be reached from other machines, and P4Runtime here asks nobody "
            "who they are; use 127.0.0.1 or unix:/path (nicemu switch has --allow-remote)"
        )
    return address
