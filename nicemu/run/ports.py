# SPDX-License-Identifier: Apache-2.0
"""The ports of a live NIC: one for request-protocol datagrams, and what carries RDMA frames."""

from __future__ import annotations

import random
import time
from pathlib import Path
from typing import Any

from nicemu.clock import WallClock
from nicemu.fabric import (
    FaultPort,
    FaultRates,
    PcapPort,
    Port,
    RequestUdpPort,
    RoceUdpPort,
    SharedMemoryPort,
    UdpPeer,
)
from nicemu.nic import KV_PORT, NicConfig

_DESTINATION_IP = slice(30, 34)
_BATCH = 64


class LivePorts:
    """Sends and receives frames; RDMA frames only where the fabric is "udp" or "shm"."""

    def __init__(self, config: NicConfig, settings: dict[str, Any]) -> None:
        self._config = config
        self._settings = settings
        self._requests = self._wrap(RequestUdpPort(config.mac, config.ip, KV_PORT), "requests")
        self._roce_udp: RoceUdpPort | None = None
        self._roce: Port | None = None
        if settings["fabric"] == "udp":
            self._roce_udp = RoceUdpPort(config.mac, config.ip, config.ip)
            self._roce = self._wrap(self._roce_udp, "roce")
        self._shared: dict[bytes, Port] = {}
        self.dropped = 0

    def _wrap(self, port: Port, kind: str) -> Port:
        faults = dict(self._settings.get("faults") or {})
        if faults:
            seed = f"{faults.pop('seed', 1)}/{self._config.name}/{kind}"
            port = FaultPort(port, random.Random(seed), FaultRates(**faults))
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

    def send(self, frames: list[bytes], roce: bool) -> int:
        """Send frames in order; return how many were taken."""
        if not roce:
            return self._requests.send(frames)
        if self._roce is not None:
            return self._roce.send(frames)
        for accepted, frame in enumerate(frames):
            port = self._shared.get(frame[_DESTINATION_IP])
            if port is None:
                self.dropped += 1
            elif port.send([frame]) == 0:
                return accepted
        return len(frames)

    def receive(self, roce: bool) -> list[bytes]:
        """Return frames that have come in."""
        if not roce:
            return self._requests.receive(_BATCH)
        if self._roce is not None:
            return self._roce.receive(_BATCH)
        return [frame for port in self._shared.values() for frame in port.receive(_BATCH)]

    def _all(self) -> list[tuple[str, Port]]:
        named: list[tuple[str, Port]] = [("port.requests", self._requests)]
        if self._roce is not None:
            named.append(("port.roce", self._roce))
        named.extend((f"port.roce.{number}", port) for number, port in enumerate(self._shared.values()))
        return named

    def statistics(self) -> dict[str, int]:
        """Return drops of the ports by name."""
        counts = {
            f"{name}.{reason}": count for name, port in self._all() for reason, count in port.drops.items()
        }
        if self.dropped:
            counts["port.roce.no_route"] = self.dropped
        return counts

    def close(self) -> None:
        """Close all ports; captures are complete afterwards."""
        for _, port in self._all():
            port.close()
