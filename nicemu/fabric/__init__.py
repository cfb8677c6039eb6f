# SPDX-License-Identifier: Apache-2.0
"""How frames leave the card: ports over queues, shared memory and UDP sockets, and ports that wrap ports.

Specifications: InfiniBand Architecture Specification Volume 1, Annex A17 (RoCEv2 over UDP); pcap-savefile(5).
"""

from .fault import FaultPort, FaultRates
from .loopback import LoopbackPort, loopback_pair
from .pcap import PcapPort
from .port import MAX_FRAME_BYTES, Port
from .shared_memory import SharedMemoryPort
from .udp import RequestUdpPort, RoceUdpPort, UdpPeer, mac_of_host

__all__ = [
    "MAX_FRAME_BYTES",
    "FaultPort",
    "FaultRates",
    "LoopbackPort",
    "PcapPort",
    "Port",
    "RequestUdpPort",
    "RoceUdpPort",
    "SharedMemoryPort",
    "UdpPeer",
    "loopback_pair",
    "mac_of_host",
]
