# SPDX-License-Identifier: Apache-2.0
"""What joins the NICs of a topology, by the name that a topology file gives it."""

from __future__ import annotations

from collections.abc import Mapping

from nicemu.errors import UsageError

FABRICS = {"direct": "direct", "udp": "port", "shm": "port"}
"""What carries RDMA, and the transport that it is to a NIC. Beside these are names with an operand."""
VERBS, PACKET, XDP, TAP = "verbs:", "packet:", "xdp:", "tap:"
"""Prefixes: an RDMA device; an interface of this machine, over AF_PACKET or AF_XDP; a TAP interface, whose
other end the NIC is."""
_NAMED = {VERBS: "verbs", PACKET: "port", XDP: "port", TAP: "port"}
PACKET_OVERHEAD_BYTES = 20 + 8 + 12 + 16 + 4 + 4
"""What RoCEv2 puts around a payload in the IP packet: IPv4, UDP, BTH, RETH, immediate and ICRC."""


def transport_of(fabric: object, where: str = "") -> str:
    """Return which transport of `NicConfig` a fabric is.

    Raises: UsageError if there is no such fabric.
    """
    if isinstance(fabric, str):
        for prefix, transport in _NAMED.items():
            if fabric.startswith(prefix) and fabric != prefix:
                return transport
        if fabric in FABRICS:
            return FABRICS[fabric]
    raise UsageError(
        f"{where}fabric {fabric!r} is none of {', '.join(FABRICS)}, verbs:DEVICE, packet:INTERFACE, "
        "xdp:INTERFACE, tap:NAME"
    )


def is_interface(fabric: str) -> bool:
    """Return whether RDMA frames go through an interface, where a NIC has an address of its own."""
    return fabric.startswith((PACKET, XDP, TAP))


def interface_of(fabric: str) -> str:
    """Return the name of the interface."""
    return fabric.partition(":")[2]


def makes_interface(ends: Mapping[str, str], name: str) -> bool:
    """Return whether a NIC makes an interface that another one is on, and so has to start before it.

    `ends` says where each NIC is.
    """
    interface = interface_of(ends[name])
    others = (interface_of(end) for other, end in ends.items() if other != name and is_interface(end))
    return ends[name].startswith(TAP) and interface in others


def is_on_machine(fabric: str) -> bool:
    """Return whether a fabric joins NICs of one machine only."""
    return fabric in ("direct", "shm")
