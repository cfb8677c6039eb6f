# SPDX-License-Identifier: Apache-2.0
"""What one NIC is made of: names, addresses, memory, limits, namespaces, costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import IPv4Address

from nicemu.abi import Limits, registers
from nicemu.errors import UsageError
from nicemu.rdma import LONGEST_TIMEOUT_NS
from nicemu.timing import Timings

TRANSPORTS = ("direct", "port", "verbs")


@dataclass(frozen=True, slots=True)
class NamespaceConfig:
    """An NVMe namespace of the NIC's controller."""

    nsid: int
    block_count: int
    block_bytes: int = 4096
    path: str = ""


@dataclass(frozen=True, slots=True)
class NicConfig:
    """One NIC. `transport` says what carries RDMA to its peers: "direct" (a copy on this machine), "port"
    (RoCEv2 frames) or "verbs" (an RDMA device outside). `ack_timeout_ns`: how long its RoCEv2 queue pairs
    wait for an answer before they send again. `spin_us` is how long the datapath spins after an event before
    it naps, up to `nap_us`. `roce_ips`: the IP addresses of NICs in RDMA frames, by their `ip`, where these
    differ. `selective_retransmission`, `congestion_control`: of its RoCEv2 queue pairs, as in
    `RoceEngine.create_qp`."""

    name: str
    ip: str
    number: int = 0
    memory_bytes: int = 64 << 20
    limits: Limits = field(default_factory=Limits)
    namespaces: tuple[NamespaceConfig, ...] = ()
    transport: str = "direct"
    path_mtu: int = 4096
    ack_timeout_ns: int = 67_108_864
    event_timeout_ns: int = 5_000_000_000
    event_queue_depth: int = 256
    spin_us: int = 50
    nap_us: int = 200
    seed: int = 1
    timings: Timings = field(default_factory=Timings)
    roce_ips: Mapping[str, str] = field(default_factory=dict)
    selective_retransmission: bool = False
    congestion_control: bool = False

    def __post_init__(self) -> None:
        if not self.name or not self.name.replace("-", "_").isidentifier():
            raise UsageError(f"a NIC's name is a word of letters, digits, - and _; {self.name!r} is not")
        if self.transport not in TRANSPORTS:
            raise UsageError(f"{self.name}: transport {self.transport!r} is none of {', '.join(TRANSPORTS)}")
        if self.path_mtu not in (256, 512, 1024, 2048, 4096):
            raise UsageError(f"{self.name}: path_mtu {self.path_mtu} is none of 256, 512, 1024, 2048, 4096")
        if self.limits.counter_count > registers.MAX_COUNTERS:
            raise UsageError(
                f"{self.name}: {self.limits.counter_count} counters; at most {registers.MAX_COUNTERS}"
            )
        if self.memory_bytes < 1 << 20:
            raise UsageError(f"{self.name}: memory_bytes {self.memory_bytes} is less than 1 MiB")
        if not 0 <= self.ack_timeout_ns <= LONGEST_TIMEOUT_NS:
            raise UsageError(
                f"{self.name}: ack_timeout_ns {self.ack_timeout_ns} is negative or more than "
                f"{LONGEST_TIMEOUT_NS}; 0 waits for ever"
            )
        IPv4Address(self.ip)

    @property
    def mac(self) -> bytes:
        """A locally administered MAC address made of the IP address."""
        return mac_of(self.ip)

    @property
    def roce_ip(self) -> str:
        """The NIC's own IP address in RDMA frames."""
        return self.roce_ips.get(self.ip, self.ip)

    @property
    def roce_mac(self) -> bytes:
        """The MAC address that goes with it."""
        return mac_of(self.roce_ip)


def mac_of(ip: str) -> bytes:
    """Return the MAC address of the NIC with an IP address: locally administered, and made of that."""
    return b"\x02\x00" + IPv4Address(ip).packed
