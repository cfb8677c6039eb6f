# SPDX-License-Identifier: Apache-2.0
"""How frames leave the card: ports over queues, shared memory and UDP sockets, and ports that wrap ports.

And programs of deferred work on another fabric: a target over libfabric, which is loaded when one is opened.
And a PCIe fabric with an NVMe controller that is not ours: QEMU, without a guest.
And a transport over an RDMA device, which takes work instead of frames: by pyverbs, if that is installed.
And a guest: a virtual machine with the distribution's kernel, for its SoftRoCE.
Specifications: InfiniBand Architecture Specification Volume 1, Annex A17 (RoCEv2 over UDP); pcap-savefile(5).
"""

from .answering import AnsweringPort
from .cable import Cable
from .datagram import DatagramPort
from .fault import FaultPort, FaultRates
from .guest import Guest
from .guest_channel import GuestProcess, GuestResult, GuestTimeoutError
from .guest_initramfs import SHARE
from .guest_kernel import newest_kernel
from .guest_machine import GuestLink
from .guest_packages import PACKAGES, Package, install_command, missing_packages
from .guest_rxe import LOOPBACK_DEVICE, rdma_devices, rxe_here
from .libfabric import FabricMemory, LibfabricTarget, Loopback
from .libfabric_abi import libfabric_version
from .libfabric_counter import LibfabricCounter, LibfabricProgram
from .libfabric_domain import trigger_providers
from .loopback import LoopbackPort, loopback_pair
from .packet_capture import CapturedFrame, PacketCapture
from .packet_socket import PacketPort
from .pcap import PcapPort
from .pcapng import PcapngWriter
from .pcie_qemu import NIC_BAR, QemuFabric, QemuNamespace, QemuNvme, qemu_missing
from .port import MAX_FRAME_BYTES, Port
from .shared_memory import SharedMemoryPort
from .tap import TapPort
from .udp import RequestUdpPort, RoceUdpPort, UdpPeer, mac_of_host
from .verbs import VerbsTransport
from .verbs_library import Pyverbs, load_pyverbs, require_rdma_device

__all__ = [
    "LOOPBACK_DEVICE",
    "MAX_FRAME_BYTES",
    "NIC_BAR",
    "PACKAGES",
    "SHARE",
    "AnsweringPort",
    "Cable",
    "CapturedFrame",
    "DatagramPort",
    "FabricMemory",
    "FaultPort",
    "FaultRates",
    "Guest",
    "GuestLink",
    "GuestProcess",
    "GuestResult",
    "GuestTimeoutError",
    "LibfabricCounter",
    "LibfabricProgram",
    "LibfabricTarget",
    "Loopback",
    "LoopbackPort",
    "Package",
    "PacketCapture",
    "PacketPort",
    "PcapPort",
    "PcapngWriter",
    "Port",
    "Pyverbs",
    "QemuFabric",
    "QemuNamespace",
    "QemuNvme",
    "RequestUdpPort",
    "RoceUdpPort",
    "SharedMemoryPort",
    "TapPort",
    "UdpPeer",
    "VerbsTransport",
    "install_command",
    "libfabric_version",
    "load_pyverbs",
    "loopback_pair",
    "mac_of_host",
    "missing_packages",
    "newest_kernel",
    "qemu_missing",
    "rdma_devices",
    "require_rdma_device",
    "rxe_here",
    "trigger_providers",
]
