# SPDX-License-Identifier: Apache-2.0
"""A compute NIC, two storage NICs and a host in virtual time, with the shipped programs and made-up KV."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from ipaddress import IPv4Address

import numpy as np

from nicemu.fabric import FaultRates
from nicemu.host import Nic, Packet
from nicemu.kv import KvLayout, KvProtocolError, Manifest, Request, chunks_of, decode
from nicemu.nic import NamespaceConfig, NicConfig
from nicemu.p4 import compile_program
from nicemu.pipeline import Program
from nicemu.programs import find_program, load_module
from nicemu.rdma import OutsideTransport
from nicemu.run import SimulatedConnection, Simulation
from nicemu.timing import Cost, Timings
from nicemu.wire import ETHERTYPE_IPV4, Ethernet, MalformedError, encode_udp_frame

swap_out = load_module(find_program("host/kv_swap_out.py"))
resume = load_module(find_program("host/kv_resume.py"))

LAYOUT = KvLayout(2, 2, 16, 1, 8, np.dtype(np.float32))
"""4 chunks of two segments of 512 bytes."""
TIMINGS = Timings(link=Cost(1000, 0.1), nvme_read=Cost(20_000, 0.2), nvme_write=Cost(10_000, 0.2))
STORAGE = ("storage0", "storage1")
CLIENT, CLIENT_PORT, KV_PORT = IPv4Address("127.0.1.100").packed, 5555, 19286
COMPUTE = IPv4Address("127.0.1.1").packed
POISON = 0xA5


@dataclass(frozen=True, slots=True)
class Kv:
    """What one session left with the storage NICs: its tokens, and all bytes of its cache."""

    tokens: tuple[int, ...]
    data: bytes


def nic_configs(transport: str, timings: Timings = TIMINGS, seed: int = 1) -> list[NicConfig]:
    """One compute NIC without a namespace, two storage NICs with one of 4 MiB each."""
    spaces = (NamespaceConfig(1, 1024),)
    small = 16 << 20
    return [
        NicConfig("compute0", "127.0.1.1", 1, small, transport=transport, timings=timings, seed=seed),
        *(
            NicConfig(
                name,
                f"127.0.1.{number}",
                number,
                small,
                namespaces=spaces,
                transport=transport,
                timings=timings,
                seed=seed,
            )
            for number, name in enumerate(STORAGE, start=2)
        ),
    ]


@cache
def compiled_program(path: str) -> Program:
    """Compile a shipped P4 program once for all worlds; NICs do not change what they run."""
    return compile_program(find_program(path)).program


def load_journey(simulation: Simulation) -> None:
    """Load the journey's programs and firmware on NICs that were made of `nic_configs`."""
    simulation.nics["compute0"].pipeline.load(compiled_program("p4/kvmatch.p4"))
    simulation.load_firmware("compute0", "firmware/kv_requestor.py")
    for name in STORAGE:
        simulation.nics[name].pipeline.load(compiled_program("p4/kvserve.p4"))
        simulation.load_firmware(name, "firmware/kv_storage.py")


def request_frame(request: Request) -> bytes:
    """Return the frame that carries a user's request to the compute NIC."""
    ethernet = Ethernet(b"\x02\x00" + COMPUTE, b"\x02\x00" + CLIENT, ETHERTYPE_IPV4)
    return encode_udp_frame(ethernet, CLIENT, COMPUTE, CLIENT_PORT, KV_PORT, request.encode())


class World:
    """The NICs, and a host process with `slots` session slots, each with poisoned memory."""

    def __init__(
        self,
        transport: str = "direct",
        *,
        slots: int = 4,
        seed: int = 1,
        faults: FaultRates | None = None,
        timings: Timings = TIMINGS,
        check_races: bool = False,
        compiled: bool = False,
        transports: Mapping[str, OutsideTransport] | None = None,
    ) -> None:
        self.simulation = Simulation(
            nic_configs(transport, timings, seed),
            seed=seed,
            faults=faults,
            check_races=check_races,
            compiled=compiled,
            transports=transports,
        )
        load_journey(self.simulation)
        self.compute = self.simulation.nics["compute0"]
        self.kv: dict[bytes, Kv] = {}
        self.random = np.random.default_rng(seed)
        self.answers: deque[bytes] = self.simulation.add_client(CLIENT)
        self._request_id = 0
        self.open_host(slots)

    def open_host(self, slots: int) -> None:
        """Let a host process in: connect, allocate and register its memory."""
        self.connection: SimulatedConnection = self.simulation.open_nic("compute0")
        self.nic = Nic(self.connection)
        self.nic.listen()
        peers = [self.nic.connect(name, slot_count=16, slot_bytes=4096) for name in STORAGE]
        self.store = swap_out.SwapOut(self.nic, peers)
        self.resume = resume.Resume(self.nic, LAYOUT, slots)
        self.stream = self.simulation.stream()
        for slot in range(slots):
            self.poison(slot)

    def poison(self, slot: int) -> None:
        """Fill a slot with a pattern that no cache holds."""
        self.resume.memory[slot].view("w").view(np.uint8).fill(POISON)

    def bytes_of(self, slot: int) -> bytes:
        """What lies in a slot."""
        return bytes(self.resume.memory[slot].view("r").tobytes())

    def leave(self, session: bytes, token_count: int = 32) -> Kv:
        """Produce a session's KV in a slot, layer by layer, have it stored, publish it, give the slot up."""
        tokens = tuple(int(token) for token in self.random.integers(0, 1 << 16, token_count))
        slot = self.resume.take()
        array = self.resume.memory[slot].array
        self.poison(slot)
        chunks = chunks_of(LAYOUT, tokens, model="made up", salt=b"tests")
        base = self.store.produced.success
        self.store.arm(
            self.resume.memory[slot],
            self.resume.spans[slot].key,
            chunks,
            lambda chunk: base + chunk.layer + 1,
        )
        blocks = LAYOUT.blocks_of(token_count)
        for layer in range(LAYOUT.layers):
            content = self.random.integers(0, 256, array[layer, :, :blocks].nbytes, np.uint8)
            layer_bytes = array.nbytes // LAYOUT.layers
            span = self.resume.spans[slot][layer * layer_bytes : (layer + 1) * layer_bytes]
            self.resume.memory[slot].view("w", span)
            array[layer, :, :blocks] = content.view(np.float32).reshape(array[layer, :, :blocks].shape)
            self.store.produced.trigger_after(self.stream)
        self.store.wait()
        self.publish(session, tokens)
        self.kv[session] = Kv(tokens, self.bytes_of(slot))
        self.poison(slot)
        self.resume.drop(slot)
        return self.kv[session]

    def publish(self, session: bytes, tokens: tuple[int, ...]) -> None:
        """Let the NIC fetch a session that is stored."""
        chunks = chunks_of(LAYOUT, tokens, model="made up", salt=b"tests")
        placed = [(chunk, self.store.storage_number(chunk)) for chunk in chunks]
        self.resume.publish(Manifest.of(LAYOUT, session, len(tokens), placed))

    def come_back(self, session: bytes, after_ns: int = 0) -> None:
        """The user of a session sends a follow-up."""
        self._request_id += 1
        frame = request_frame(Request(self._request_id, session, b"And then?"))
        when_ns = self.simulation.clock.now_ns() + after_ns
        self.simulation.schedule(when_ns, lambda: self.simulation.send("compute0", frame))

    def receive(self, timeout_s: float = 5.0) -> tuple[Packet, bytes] | None:
        """Return the next request that reaches the host, with its session; other packets are passed over."""
        while (packet := self.nic.receive(timeout_s)) is not None:
            try:
                request = decode(packet.payload)
            except (MalformedError, KvProtocolError):
                continue
            if isinstance(request, Request):
                return packet, request.session
        return None

    def fetch(self, session: bytes) -> int | None:
        """Have a session come back; return the slot it landed in, None for a miss."""
        self.come_back(session)
        received = self.receive()
        assert received is not None
        packet, name = received
        assert name == session
        slot: int | None = self.resume.landed(packet)
        return slot

    def counted(self, nic: str, name: str) -> int:
        """A count of a NIC."""
        return self.simulation.nics[nic].statistics().get(name, 0)

    def counted_on_storage(self, name: str) -> int:
        """A count over both storage NICs."""
        return sum(self.counted(nic, name) for nic in STORAGE)
