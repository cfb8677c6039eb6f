# SPDX-License-Identifier: Apache-2.0
"""The ports of a live NIC: one for request-protocol datagrams, and what carries RDMA frames."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from nicemu.clock import WallClock
from nicemu.errors import UsageError
from nicemu.fabric import (
    AnsweringPort,
    FaultPort,
    FaultRates,
    Interface,
    PacketPort,
    PcapPort,
    Port,
    RequestUdpPort,
    RoceUdpPort,
    SharedMemoryPort,
    TapPort,
    UdpPeer,
    XdpPort,
    interface_mtu,
)
from nicemu.nic import KV_PORT, NicConfig
from nicemu.wire import IP_DESTINATION_PLACE, FrameBatch

from .fabrics import PACKET_OVERHEAD_BYTES, TAP, XDP, interface_of, is_interface

_BATCH = 64
FAULTS = tuple(field.name for field in fields(FaultRates))


class LivePorts:
    """Sends and receives frames; RDMA frames only where the fabric carries some.

    Raises: UsageError if a socket or an interface cannot be had.
    """

    def __init__(self, config: NicConfig, settings: dict[str, Any]) -> None:
        self._config = config
        self._settings = settings
        self._injected: list[tuple[str, Counter[str]]] = []
        self._requests = self._wrap(RequestUdpPort(config.mac, config.ip, KV_PORT), "requests")
        self._roce_udp: RoceUdpPort | None = None
        self._roce: Port | None = None
        self._interface: Interface | None = None
        if settings["fabric"] == "udp":
            self._roce_udp = RoceUdpPort(config.mac, config.ip, config.ip)
            self._roce = self._wrap(self._roce_udp, "roce")
        elif is_interface(settings["fabric"]):
            port, self._interface = _open_interface(config, settings["fabric"])
            self._roce = self._wrap(port, "roce")
        self._shared: dict[bytes, Port] = {}
        self._turn = 0
        self.dropped = 0

    def _wrap(self, port: Port, kind: str) -> Port:
        faults = dict(self._settings.get("faults") or {})
        if faults:
            seed = f"{faults.pop('seed', 1)}/{self._config.name}/{kind}"
            port = faulty = FaultPort(port, random.Random(seed), FaultRates(**faults))
            self._injected.append((kind.partition(".")[0], faulty.injected))
        if self._settings.get("pcap"):
            epoch_ns = time.time_ns() - time.monotonic_ns()
            path = Path(self._settings["pcap"]) / f"{self._config.name}.{kind}.pcap"
            port = PcapPort(port, path, WallClock(), epoch_ns)
        return port

    @property
    def needs_polling(self) -> bool:
        """Whether RDMA frames come through memory that nothing can wait for."""
        return bool(self._shared)

    def sources(self) -> list[tuple[int, bool]]:
        """Descriptors to wait for, and whether RDMA frames come from each."""
        ports = [(self._requests, False), (self._roce, True)]
        return [
            (port.fileno() or 0, roce)
            for port, roce in ports
            if port is not None and port.fileno() is not None
        ]

    def add_peer(self, ip: str) -> None:
        """Let RDMA frames go to and come from a peer."""
        if self._roce_udp is not None:
            mac = NicConfig("peer", ip).mac
            self._roce_udp.add_peer(UdpPeer(mac, ip, ip, 4791))

    def add_shared(self, ip: str, port: SharedMemoryPort) -> None:
        """Let RDMA frames for `ip` go through a shared-memory port."""
        address = bytes(int(part) for part in ip.split("."))
        if address in self._shared:
            self._shared.pop(address).close()
        self._shared[address] = self._wrap(port, f"roce.{ip}")

    def send(self, frames: list[bytes]) -> int:
        """Send frames of the request protocol in order; return how many were taken."""
        return self._requests.send(frames)

    def receive(self) -> list[bytes]:
        """Return frames of the request protocol that have come in."""
        return self._requests.receive(_BATCH)

    def send_batch(self, batch: FrameBatch, first: int) -> int:
        """Send RDMA frames from number `first` on; return how many were taken."""
        if self._roce is not None:
            return self._roce.send_batch(batch, first)
        count, reached = batch.count, first
        try:
            for end, address in _destinations(batch, first):
                port, batch.count = self._shared.get(address), end
                if port is None:
                    self.dropped += end - reached
                    reached = end
                    continue
                reached += port.send_batch(batch, reached)
                if reached < end:
                    break
        finally:
            batch.count = count
        return reached - first

    def receive_batch(self, batch: FrameBatch) -> int:
        """Receive RDMA frames that have come in; with several ports, of the next one that has some."""
        if self._roce is not None:
            return self._roce.receive_batch(batch)
        ports = list(self._shared.values())
        for _ in ports:
            self._turn = (self._turn + 1) % len(ports)
            if ports[self._turn].receive_batch(batch):
                return batch.count
        batch.count = 0
        return 0

    def _all(self) -> list[tuple[str, Port]]:
        named: list[tuple[str, Port]] = [("port.requests", self._requests)]
        if self._roce is not None:
            named.append(("port.roce", self._roce))
        named.extend((f"port.roce.{number}", port) for number, port in enumerate(self._shared.values()))
        return named

    @property
    def problem(self) -> str:
        """Why no RDMA frames come and go, and what to do; "" if nothing is known to keep them."""
        return "" if self._interface is None else self._interface.problem

    def statistics(self) -> dict[str, int]:
        """Return drops of the ports by name, and how many frames that were sent `[faults]` befell."""
        counts = {
            f"{name}.{reason}": count for name, port in self._all() for reason, count in port.drops.items()
        }
        if self.dropped:
            counts["port.roce.no_route"] = self.dropped
        for kind, injected in self._injected:
            for fault in FAULTS:
                name = f"port.{kind}.faults.{fault}"
                counts[name] = counts.get(name, 0) + injected[fault]
        return counts

    def close(self) -> None:
        """Close all ports; captures are complete afterwards."""
        for _, port in self._all():
            port.close()


def _open_interface(config: NicConfig, fabric: str) -> tuple[Port, Interface]:
    """Return a port on an interface, where the NIC answers for its address, and the interface.

    Raises: UsageError if the interface cannot be had, or its MTU is too short for the path MTU.
    """
    name, needed = interface_of(fabric), config.path_mtu + PACKET_OVERHEAD_BYTES
    port: Port
    if fabric.startswith(TAP):
        port = tap = TapPort(name)
        name = tap.name
    else:
        port = XdpPort(name) if fabric.startswith(XDP) else PacketPort(name)
        mtu_bytes = interface_mtu(name)
        if mtu_bytes < needed:
            port.close()
            raise UsageError(
                f"{name} has an MTU of {mtu_bytes} bytes; path_mtu {config.path_mtu} needs {needed}: "
                f"ip link set {name} mtu {needed}, or a smaller path_mtu in the topology"
            )
    return AnsweringPort(port, config.roce_mac, config.roce_ip), Interface.of(name)


def _destinations(batch: FrameBatch, first: int) -> Iterator[tuple[int, bytes]]:
    """Yield rows of frames to one IP address: where each ends, and the address."""
    places = batch.offsets[first : batch.count, None] + np.arange(
        IP_DESTINATION_PLACE, IP_DESTINATION_PLACE + 4
    )
    addresses = batch.memory[places]
    ends = (addresses[1:] != addresses[:-1]).any(axis=1).nonzero()[0] + 1
    for end in (*ends.tolist(), len(addresses)):
        if end:
            yield first + end, addresses[end - 1].tobytes()
