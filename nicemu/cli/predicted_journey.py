# SPDX-License-Identifier: Apache-2.0
"""What `nicemu demo --time=virtual` runs: the journey in the stepper under a profile; what happens when."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

from nicemu.errors import NicemuError
from nicemu.host import Nic, Packet
from nicemu.kv import Answer, KvProtocolError, Request, decode
from nicemu.model import Profile
from nicemu.programs import find_program, load_module
from nicemu.run import Simulation, Topology, TraceWriter, simulate, write_trace
from nicemu.wire import ETHERTYPE_IPV4, Ethernet, UdpFrame, encode_udp_frame

USER, OTHER = b"1" * 16, b"2" * 16
PROMPTS = (b"A NIC moves my KV cache while the host sleeps. Tell me how.", b" And what if I come back?")
OTHER_PROMPT = b"I am the second user, and I need the memory of the first one now."
CLIENT, CLIENT_PORT, KV_PORT = IPv4Address("127.0.1.200").packed, 5555, 19286
SLOTS = 3

_TOLD = {
    ("pipeline", "firmware"): "P4 matches a request, and posts an event to firmware",
    ("rdma", "arrival"): "a write with immediate lands",
    ("rdma", "completed"): "an RDMA write of firmware completes",
    ("trigger", "firmware_event"): "a trigger starts firmware",
    ("nvme", "read"): "an NVMe read begins",
    ("nvme", "write"): "an NVMe write begins",
    ("nvme", "flush"): "an NVMe flush begins",
    ("nvme", "completed"): "an NVMe command completes",
    ("host", "packet"): "a packet reaches the host's ring",
}
"""What is told of a journey: things that a block does, by what observers of a NIC hear."""


@dataclass
class Happening:
    """What one block of a NIC did, again and again: first and last time in microseconds, how often."""

    nic: str
    block: str
    what: str
    first_us: float
    last_us: float
    count: int = 0
    bytes: int = 0

    @property
    def told(self) -> str:
        """The same in words."""
        return _TOLD[self.block, self.what]


@dataclass
class Phase:
    """A part of the journey: how long it took in microseconds of virtual time, and what happened in it."""

    name: str
    took_us: float = 0.0
    bytes: int = 0
    happenings: list[Happening] = field(default_factory=list)


@dataclass
class Prediction:
    """What the journey is predicted to take. `held` says of each claim whether it was so."""

    profile: str
    title: str
    fabric: str
    phases: list[Phase] = field(default_factory=list)
    held: dict[str, bool] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether every claim held."""
        return bool(self.held) and all(self.held.values())

    def as_data(self) -> dict[str, Any]:
        """The prediction as JSON-able data."""
        return {**asdict(self), "ok": self.ok}


class PredictedJourney:
    """The journey over a topology's NICs in virtual time. What GPU and host compute takes no time."""

    def __init__(
        self, topology: Topology, profile: Profile, fabric: str | None, blocks: int, trace: Path | None
    ) -> None:
        self.simulation: Simulation = simulate(topology, profile, fabric=fabric)
        self.prediction = Prediction(profile.name, profile.title, fabric or topology.fabric)
        self._trace = trace
        self._writers = {
            name: TraceWriter(name, number) for number, name in enumerate(self.simulation.nics, start=1)
        }
        self._happened: dict[tuple[str, str, str], Happening] = {}
        self._begin_ns = 0
        compute = topology.nics[0]
        for name, nic in self.simulation.nics.items():
            nic.observe = self._observer(name)
        self._compute = compute.name
        self._clients = self.simulation.add_client(CLIENT)
        serving = load_module(find_program("examples/serving.py"))
        self.nic = Nic(self.simulation.open_nic(compute.name))
        self.stream = self.simulation.stream()
        names = list(compute.peers)
        self.server = serving.Server(self.nic, self.stream, names, slots=SLOTS, config={"blocks": blocks})
        self._requests = 0

    def _observer(self, name: str) -> Callable[[str, str, dict[str, Any]], None]:
        clock = self.simulation.clock
        to_file = self._writers[name].observer(clock.now_ns)

        def observe(block: str, what: str, details: dict[str, Any]) -> None:
            to_file(block, what, details)
            at_us = (clock.now_ns() - self._begin_ns) / 1000
            happening = Happening(name, block, what, at_us, at_us)
            happening = self._happened.setdefault((name, block, what), happening)
            happening.last_us = at_us
            happening.count += 1
            if what != "completed":  # which has the bytes of the last of several writes alone
                happening.bytes += int(details.get("bytes", 0))

        return observe

    def _begin(self) -> None:
        self.simulation.run_until_idle()
        self._happened.clear()
        self._begin_ns = self.simulation.clock.now_ns()

    def _end(self, name: str, length_bytes: int) -> Phase:
        took_us = (self.simulation.clock.now_ns() - self._begin_ns) / 1000
        happened = [replace(item) for item in self._happened.values() if (item.block, item.what) in _TOLD]
        happened.sort(key=lambda item: (item.first_us, item.last_us, item.nic, item.what))
        phase = Phase(name, took_us, length_bytes, happened)
        self.prediction.phases.append(phase)
        return phase

    def _ask(self, session: bytes, prompt: bytes) -> Packet:
        self._requests += 1
        compute = self.simulation.nics[self._compute].config
        ethernet = Ethernet(compute.mac, b"\x02\x00" + CLIENT, ETHERTYPE_IPV4)
        own = IPv4Address(compute.ip).packed
        request = Request(self._requests, session, prompt).encode()
        self.simulation.send(
            self._compute, encode_udp_frame(ethernet, CLIENT, own, CLIENT_PORT, KV_PORT, request)
        )
        while (packet := self.nic.receive()) is not None:
            try:
                if isinstance(decode(packet.payload), Request):
                    return packet
            except KvProtocolError:
                continue
        raise NicemuError("no request reached the host")

    def run(self, progress: Callable[[str], None]) -> Prediction:
        """Run it: user 1's KV leaves, another takes its memory, user 1 comes back and goes on."""
        held, layout = self.prediction.held, self.server.layout
        progress("user 1 asks; after each layer the GPU rings the doorbell, and the NICs store the chunks")
        self._begin()
        first = self.server.handle(self._ask(USER, PROMPTS[0]))
        self.server.make_durable(USER)
        stored = first.chunks_armed * layout.chunk_bytes
        self._end("user 1's KV leaves, and is durable", stored)
        session = self.server.sessions[USER]
        tokens, chunks = len(session.tokens), len(session.stored)
        left = self._digest(session.slot, tokens)
        progress("user 1's KV is dropped, another user gets its memory")
        slot = session.slot
        self.server.drop(USER)
        self.server.handle(self._ask(OTHER, OTHER_PROMPT))
        self.server.make_durable(OTHER)
        held["the other user got user 1's memory"] = self.server.sessions[OTHER].slot == slot
        landing = self.server.resume.free[0]
        self.stream.launch("poison", slot=landing)
        self.stream.synchronize()
        self.server.resume.offer()
        progress("user 1 comes back: P4 match, fetch, NVMe to NIC to KV memory")
        self._begin()
        packet = self._ask(USER, PROMPTS[1])
        self._end("user 1 comes back, and the NICs bring the KV home", chunks * layout.chunk_bytes)
        held["it landed in the poisoned slot"] = packet.info[:2] == (1, landing)
        held["the bytes that came back are the bytes that left"] = self._digest(landing, tokens) == left
        third = self.server.handle(packet)
        held["only new tokens were computed"] = (
            third.computed_tokens == len(self.server.sessions[USER].tokens) - tokens
        )
        self.simulation.run_until_idle()
        answers = [decode(bytes(UdpFrame.decode(frame).payload)) for frame in self._clients]
        told = [answer for answer in answers if isinstance(answer, Answer) and answer.session == USER]
        held["user 1 was answered, the second time from the restored cache"] = [
            answer.restored for answer in told
        ] == [False, True]
        if self._trace is not None:
            self._write_trace(self._trace)
        return self.prediction

    def _digest(self, slot: int, tokens: int) -> object:
        self.stream.launch("digest", slot=slot, tokens=tokens)
        results: Sequence[object] = self.stream.synchronize()
        return results[-1]

    def _write_trace(self, path: Path) -> None:
        now_ns, events = self.simulation.clock.now_ns(), []
        for name, writer in self._writers.items():
            events += writer.finish(self.simulation.nics[name].statistics(), now_ns)
        write_trace(path, events)
