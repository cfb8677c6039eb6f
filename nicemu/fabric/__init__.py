# SPDX-License-Identifier: Apache-2.0
"""How frames leave the card: ports over queues, shared memory and UDP sockets, and ports that wrap ports.

And programs of deferred work on another fabric: a target over libfabric, which is loaded when one is opened.
Specifications: InfiniBand Architecture Specification Volume 1, Annex A17 (RoCEv2 over UDP); pcap-savefile(5).
"""

from .fault import FaultPort, FaultRates
from .libfabric import FabricMemory, LibfabricTarget, Loopback
from .libfabric_abi import libfabric_version
from .libfabric_counter import LibfabricCounter, LibfabricProgram
from .libfabric_domain import trigger_providers
from .loopback import LoopbackPort, loopback_pair
from .pcap import PcapPort
from .port import MAX_FRAME_BYTES, Port
from .shared_memory import SharedMemoryPort
from .udp import RequestUdpPort, RoceUdpPort, UdpPeer, mac_of_host

__all__ = [
    "MAX_FRAME_BYTES",
    "FabricMemory",
    "FaultPort",
    "FaultRates",
    "LibfabricCounter",
    "LibfabricProgram",
    "LibfabricTarget",
    "Loopback",
    "LoopbackPort",
    "PcapPort",
    "Port",
    "RequestUdpPort",
    "RoceUdpPort",
    "SharedMemoryPort",
    "UdpPeer",
    "libfabric_version",
    "loopback_pair",
    "mac_of_host",
    "trigger_providers",
]
