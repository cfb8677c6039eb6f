# SPDX-License-Identifier: Apache-2.0
"""Ports by what a command line calls them: tap:NAME, packet:INTERFACE, xdp:INTERFACE, LOCAL,REMOTE."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from nicemu.errors import UsageError

if TYPE_CHECKING:
    from nicemu.fabric import Port


def opened_port(text: str) -> Port:
    """Open the port that a command line names. Raises: UsageError for what is none; ResourceError."""
    from nicemu.fabric import DatagramPort, PacketPort, TapPort, XdpPort

    kind, _, name = text.partition(":")
    if kind == "tap":
        return TapPort(name)
    if kind == "packet":
        return PacketPort(name)
    if kind == "xdp":
        return XdpPort(name)
    local, comma, remote = text.partition(",")
    if not comma or not local or not remote:
        raise UsageError(
            f"{text!r} is no port: write tap:NAME, packet:INTERFACE, xdp:INTERFACE, or LOCAL,REMOTE (paths)"
        )
    return DatagramPort((Path(local), Path(remote)))
