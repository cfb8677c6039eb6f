# SPDX-License-Identifier: Apache-2.0
"""Small worlds for tests of trigger logic: hosts at stepped NICs, and peers whose memory can be seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from nicemu.abi import Limits, RemoteSpan
from nicemu.errors import UsageError
from nicemu.firmware import Arrival, Buffer, Connection, Registry
from nicemu.firmware import Nic as Card
from nicemu.host import Nic
from nicemu.nic import NamespaceConfig, NicConfig
from nicemu.run import Simulation, SteppedStream

PEER_BYTES = 1 << 16
"""Memory that a peer grants, unless told otherwise."""

_NIC_BYTES = 4 << 20
_SLOT_COUNT = 1 << 16
_STORAGE = NamespaceConfig(nsid=1, block_count=256)


class _Granting:
    """Firmware that grants whoever connects the same memory, and remembers what arrived."""

    def __init__(self, length_bytes: int) -> None:
        self._length_bytes = length_bytes
        self.buffer: Buffer | None = None
        self.arrivals: list[Arrival] = []
        self.card: Any = None

    def registry(self) -> Registry:
        return Registry(connect=self._connect, arrival=self._arrived)

    def _connect(self, card: Card, connection: Connection) -> dict[str, int]:
        if self.buffer is None:
            self.card = card
            self.buffer = card.allocate(self._length_bytes, remote=True, atomic=True)
        return {"address": self.buffer.address, "rkey": self.buffer.key, "number": connection.qp_num}

    async def _arrived(self, _: Card, arrival: Arrival) -> None:
        self.arrivals.append(arrival)


class PeerMemory:
    """A peer that a host is connected to: its memory, by RDMA (`span`) and from the test (`array`, `bytes`).

    `arrivals` holds what its firmware has heard of: messages, and writes with immediate.
    """

    def __init__(self, world: World, host: str, name: str) -> None:
        self._world = world
        self._host = host
        self.name = name
        connected = world[host].connect(name)
        granting = world.granting[name]
        assert granting.buffer is not None
        self._buffer, self._card = granting.buffer, granting.card
        self._number = connected.private_data["number"]
        self.arrivals = granting.arrivals
        self.qp_num = connected.qp_num
        self.span = RemoteSpan(
            connected.qp_num, self._buffer.address, self._buffer.length_bytes, self._buffer.key
        )

    @property
    def array(self) -> np.ndarray[Any, Any]:
        """The peer's memory, as bytes that can be stored to."""
        space = self._world.simulation.nics[self.name].memory.space
        return np.frombuffer(space.view(self._buffer.address, self._buffer.length_bytes), np.uint8)

    @property
    def bytes(self) -> bytes:
        """A copy of the peer's memory."""
        return self.array.tobytes()

    def words(self) -> np.ndarray[Any, Any]:
        """The peer's memory as unsigned 64-bit words, which atomics change."""
        return self.array.view(np.uint64)

    def post_receive(self, start: int, stop: int, wr_id: int = 0) -> None:
        """Have the peer post a receive: the next message of this queue pair lands in its bytes start:stop."""
        self._card.post_receive(self._number, self._buffer, start, stop - start, wr_id)
        self._world.simulation.settle()

    def another_queue_pair(self) -> PeerMemory:
        """Connect once more: the same memory, reached through a queue pair of its own."""
        return PeerMemory(self._world, self._host, self.name)


class World:
    """NICs in one process: `world["compute0"]` is a host at that NIC, `world.peer()` a peer of it."""

    def __init__(
        self,
        *names: str,
        limits: str | Limits = "unlimited",
        compiled: bool = False,
        transport: str = "direct",
        peer_bytes: int = PEER_BYTES,
    ) -> None:
        if len(names) < 2:
            raise UsageError("a world has two NICs at least: one for a host, and its peer")
        held = limits if isinstance(limits, Limits) else Limits.named(limits)
        if held == Limits():
            held = Limits(slot_count=_SLOT_COUNT)
        configs = [
            NicConfig(
                name,
                f"127.0.1.{number}",
                number,
                _NIC_BYTES + peer_bytes,
                limits=held,
                namespaces=(_STORAGE,) if name.startswith("storage") else (),
                transport=transport,
            )
            for number, name in enumerate(names, start=1)
        ]
        self.simulation = Simulation(configs, compiled=compiled)
        self.granting = {name: _Granting(peer_bytes) for name in names}
        for name, granting in self.granting.items():
            self.simulation.nics[name].load_firmware(granting.registry(), 0)
        self._hosts: dict[str, Nic] = {}
        self._peers: dict[tuple[str, str], PeerMemory] = {}

    def __getitem__(self, name: str) -> Nic:
        if name not in self._hosts:
            self._hosts[name] = Nic(self.simulation.open_nic(name))
        return self._hosts[name]

    def peer(self, name: str | None = None, host: str | None = None) -> PeerMemory:
        """Return a peer (by default the second NIC) of a host (by default at the first NIC)."""
        names = list(self.simulation.nics)
        key = host or names[0], name or names[1]
        if key not in self._peers:
            self._peers[key] = PeerMemory(self, *key)
        return self._peers[key]

    def stream(self) -> SteppedStream:
        """Return a stream in virtual time."""
        return self.simulation.stream()

    def close(self) -> None:
        """Close the hosts."""
        self.simulation.step_by(None)
        for nic in self._hosts.values():
            nic.close()
        self._hosts.clear()


class VirtualTime:
    """The clock of one or more simulations, which stands still until it is moved."""

    def __init__(self, simulations: list[Simulation]) -> None:
        self._simulations = simulations

    @property
    def now_ns(self) -> int:
        """Virtual time in nanoseconds; 0 before there is a NIC."""
        return max((one.clock.now_ns() for one in self._simulations), default=0)

    def advance(self, duration_ns: int) -> None:
        """Let time pass, and happen what happens meanwhile."""
        for simulation in self._simulations:
            simulation.run_until(lambda: False, duration_ns)

    def run_until(self, is_true: Callable[[], bool], timeout_ns: int = 1_000_000_000) -> bool:
        """Go on until `is_true()`, as a host that polls; False if that does not happen in time."""
        return any(one.run_until(is_true, timeout_ns) for one in self._simulations)

    def run_until_idle(self) -> None:
        """Go on until nothing is left to happen."""
        for simulation in self._simulations:
            simulation.run_until_idle()
