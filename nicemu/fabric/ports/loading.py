# SPDX-License-Identifier: Apache-2.0
"""Compiles what ports run, or loads it, before frames come that would wait for it."""

from __future__ import annotations

import os

from nicemu.wire import FrameBatch, RcOpcode, RoceFramer, parse_ipv4

from .roce_udp import RoceUdpPort, UdpPeer
from .shared_memory import MINIMUM_RING_BYTES, SharedMemoryPort

_MAC, _IP = bytes([2, 0, 0, 0, 0, 1]), "127.0.0.1"


def load_ports() -> None:
    """Send a frame through shared memory, and one through a socket to itself."""
    near = SharedMemoryPort.create(MINIMUM_RING_BYTES)
    far = SharedMemoryPort.attach(os.dup(near.memory_fd))
    own = RoceUdpPort(_MAC, _IP, _IP, 0)
    own.add_peer(UdpPeer(_MAC, _IP, _IP, own.udp_port))
    batch = FrameBatch()
    batch.fill([RoceFramer(_MAC, _MAC, parse_ipv4(_IP), parse_ipv4(_IP)).frame(RcOpcode.SEND_ONLY, 1, 0)])
    near.send_batch(batch)
    far.receive_batch(batch)
    own.send_batch(batch)
    own.receive_batch(batch)
    for port in (near, far, own):
        port.close()
