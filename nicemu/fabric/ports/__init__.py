# SPDX-License-Identifier: Apache-2.0
"""Ports: how frames leave the card, over queues, shared memory, sockets, interfaces; ports that wrap ports.

Specifications: InfiniBand Architecture Specification Volume 1, Annex A17 (RoCEv2 over UDP); pcap-savefile(5).
"""

from .answering import AnsweringPort
from .arp import ETHERTYPE_ARP, Arp, asking_frame
from .cable import Cable
from .datagram import DatagramPort
from .fault import FaultPort, FaultRates
from .finished_packets import FinishedPacketPort
from .frame_ring import put_frames, take_frames
from .interface import Interface, interface_mtu
from .link_model import LinkModel
from .loading import load_ports
from .loopback import LoopbackPort, loopback_pair
from .packet_capture import PacketCapture
from .packet_socket import PacketPort
from .pcap import PcapPort
from .port import MAX_FRAME_BYTES, Port, check_port
from .roce_udp import RoceUdpPort, UdpPeer
from .shared_memory import SharedMemoryPort
from .switch_model import EcnMarking, PauseThresholds, SwitchModel, SwitchPort
from .tap import TapPort
from .udp import RequestUdpPort, mac_of_host
from .udp_segments import Incoming, Outgoing, receive_frames, send_frames
from .xdp import XdpPort

__all__ = [
    "ETHERTYPE_ARP",
    "MAX_FRAME_BYTES",
    "AnsweringPort",
    "Arp",
    "Cable",
    "DatagramPort",
    "EcnMarking",
    "FaultPort",
    "FaultRates",
    "FinishedPacketPort",
    "Incoming",
    "Interface",
    "LinkModel",
    "LoopbackPort",
    "Outgoing",
    "PacketCapture",
    "PacketPort",
    "PauseThresholds",
    "PcapPort",
    "Port",
    "RequestUdpPort",
    "RoceUdpPort",
    "SharedMemoryPort",
    "SwitchModel",
    "SwitchPort",
    "TapPort",
    "UdpPeer",
    "XdpPort",
    "asking_frame",
    "check_port",
    "interface_mtu",
    "load_ports",
    "loopback_pair",
    "mac_of_host",
    "put_frames",
    "receive_frames",
    "send_frames",
    "take_frames",
]
