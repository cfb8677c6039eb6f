# SPDX-License-Identifier: Apache-2.0
"""Ports: how frames leave the card, over queues, shared memory, sockets, interfaces; ports that wrap ports.

Specifications: InfiniBand Architecture Specification Volume 1, Annex A17 (RoCEv2 over UDP); pcap-savefile(5).
"""

from .answering import AnsweringPort
from .arp import ETHERTYPE_ARP, Arp, asking_frame
from .cable import Cable
from .datagram import DatagramPort
from .fault import FaultPort, FaultRates
from .loopback import LoopbackPort, loopback_pair
from .packet_capture import CapturedFrame, PacketCapture
from .packet_socket import PacketPort
from .pcap import PcapPort
from .pcapng import PcapngWriter
from .port import MAX_FRAME_BYTES, Port
from .shared_memory import SharedMemoryPort
from .tap import TapPort
from .udp import RequestUdpPort, RoceUdpPort, UdpPeer, mac_of_host

__all__ = [
    "ETHERTYPE_ARP",
    "MAX_FRAME_BYTES",
    "AnsweringPort",
    "Arp",
    "Cable",
    "CapturedFrame",
    "DatagramPort",
    "FaultPort",
    "FaultRates",
    "LoopbackPort",
    "PacketCapture",
    "PacketPort",
    "PcapPort",
    "PcapngWriter",
    "Port",
    "RequestUdpPort",
    "RoceUdpPort",
    "SharedMemoryPort",
    "TapPort",
    "UdpPeer",
    "asking_frame",
    "loopback_pair",
    "mac_of_host",
]
