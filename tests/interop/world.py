# SPDX-License-Identifier: Apache-2.0
"""Our RoCEv2 engine on this machine, the kernel's rxe in a guest, and the cable between them.

Everything happens on one thread: whoever waits for something moves frames meanwhile. What passes on the
cable is written down with its direction, read with `struct` alone: a second opinion on `nicemu.wire`.
"""

from __future__ import annotations

import hashlib
import json
import random
import select
import struct
import sys
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from nicemu.abi import Access, Opcode, Sge, WorkRequest, registers
from nicemu.fabric import AnsweringPort, DatagramPort, Guest, GuestProcess, GuestTimeoutError, mac_of_host
from nicemu.pcie import Backing
from nicemu.rdma import (
    Arrival,
    Completion,
    MemoryRegionTable,
    QpState,
    RemoteQp,
    RoceEngine,
    new_state,
)
from nicemu.wire import PSN_MASK, parse_ipv4

OUR_IP, PEER_IP = "10.7.0.1", "10.7.0.2"
OUR_GID = "0000:0000:0000:0000:0000:ffff:0a07:0001"
PATIENCE_S = 30.0
NAP_S = 0.001
REGION_BYTES = 1 << 20
GUARD = b"\xa5" * 4096
PD = 1
ALL_RIGHTS = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
MTU_CODES = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
ACKNOWLEDGE = 0x11
Answer = Any
"""What JSON can say."""
_FIRST_BYTES = struct.Struct("!BBHII")
_ROCE = 42
"""Where the BTH starts in a frame."""


@dataclass(frozen=True, slots=True)
class Packet:
    """A RoCEv2 packet that passed: who sent it, when (ns), and its headers."""

    ours: bool
    time_ns: int
    opcode: int
    qp: int
    psn: int
    ack_request: bool
    body: bytes

    @classmethod
    def read(cls, ours: bool, time_ns: int, frame: bytes) -> Packet | None:
        """Read a frame; None if it carries no RoCEv2."""
        if len(frame) < _ROCE + 16 or frame[23] != 17 or frame[36:38] != b"\x12\xb7":
            return None
        opcode, _, _, qp, psn = _FIRST_BYTES.unpack_from(frame, _ROCE)
        return cls(ours, time_ns, opcode, qp & PSN_MASK, psn & PSN_MASK, bool(psn >> 31), frame[54:-4])

    @property
    def syndrome(self) -> int:
        """The syndrome of an acknowledgement."""
        return self.body[0]


class Regions:
    """Registered memory with guard bytes on both sides; `state` is where the engine finds it."""

    def __init__(self, rng: random.Random) -> None:
        self._public = Backing.anonymous(registers.PUBLIC_BYTES)
        self._table = MemoryRegionTable(self._public.address + registers.REGION_TABLE, rng)
        self._memories: dict[int, Backing] = {}
        self.state = new_state(self._public.address)

    def register(self, length_bytes: int, rights: Access) -> tuple[int, int]:
        """Return the key and the address of new memory, `length_bytes` of zeros."""
        number = len(self._memories)
        address = 0x7000_0000_0000 + (number << 32)
        memory = Backing.anonymous(length_bytes + 2 * len(GUARD))
        memory.view[: len(GUARD)] = memory.view[-len(GUARD) :] = GUARD
        self.state.backings[number] = memory.address
        region = self._table.register(PD, address, length_bytes, rights, number, len(GUARD))
        self._memories[region.key] = memory
        return region.key, address

    def content(self, key: int) -> memoryview:
        """Return the memory under a key."""
        return self._memories[key].view[len(GUARD) : -len(GUARD)]

    def guards_hold(self) -> bool:
        """Return whether nothing was written beside a region."""
        return all(
            memory.view[: len(GUARD)] == GUARD == memory.view[-len(GUARD) :]
            for memory in self._memories.values()
        )

    def close(self) -> None:
        """Give the memory back."""
        for backing in (*self._memories.values(), self._public):
            backing.close()


Filter = Callable[[bytes], list[bytes]]


@dataclass
class Cable:
    """The wire, as our end of it sees it. The filters decide what becomes of each frame."""

    port: DatagramPort
    packets: list[Packet] = field(default_factory=list)
    leaving: Filter = lambda frame: [frame]
    arriving: Filter = lambda frame: [frame]


class World:
    """An engine of ours with address OUR_IP, and the peer in the guest, ready for connections."""

    def __init__(self, cable: Cable, peer: GuestProcess, numbers: Iterator[int], seed: int) -> None:
        self.cable = cable
        rng = random.Random(seed)
        self.memory = Regions(rng)
        self.drops: Counter[str] = Counter()
        self.mac = mac_of_host(parse_ipv4(OUR_IP))
        self.engine = RoceEngine(self.memory.state, self.mac, OUR_IP, rng, self.drops)
        self.completions: list[Completion] = []
        self.arrivals: list[Arrival] = []
        self.numbers = numbers
        self._peer = peer
        self._port = AnsweringPort(cable.port, self.mac, OUR_IP)
        self._unsent: deque[bytes] = deque()

    def ask(self, *orders: dict[str, Any]) -> list[Any]:
        """Give the peer orders and return their results, moving frames meanwhile."""
        self._peer.send("".join(json.dumps(order) + "\n" for order in orders))
        return [self._answer() for _ in orders]

    def _answer(self) -> Answer:
        answers: list[dict[str, Any]] = []

        def came() -> bool:
            try:
                answers.append(json.loads(self._peer.expect(r"^\{.*\}$", timeout_s=0)[0]))
            except GuestTimeoutError:
                return False
            return True

        self.run_until(came, "an answer of the peer's")
        if "error" in answers[0]:
            raise RuntimeError(f"the peer says: {answers[0]['error']}")
        return answers[0]["result"]

    def run_until(self, is_so: Callable[[], bool], what: str, limit_s: float = PATIENCE_S) -> None:
        """Move frames until something is so."""
        end = time.monotonic() + limit_s
        while not is_so():
            assert time.monotonic() < end, f"waited {limit_s} s for {what}; drops: {dict(self.drops)}"
            self.move(NAP_S)

    def run_for(self, seconds: float) -> None:
        """Move frames for a while."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.move(min(left, NAP_S))

    def move(self, nap_s: float = 0.0) -> None:
        """Move frames and time once; nap, where there is nothing to move, until a frame comes."""
        came = self._port.receive()
        for frame in came:
            for kept in self.cable.arriving(frame):
                self._note(False, kept)
                self.engine.on_frame(kept, time.monotonic_ns())
        deadline_ns = self.engine.next_deadline_ns()
        if deadline_ns is not None and deadline_ns <= time.monotonic_ns():
            self.engine.on_timer(time.monotonic_ns())
        made = self.engine.take_frames()
        for frame in made:
            for kept in self.cable.leaving(frame):
                self._note(True, kept)
                self._unsent.append(kept)
        self.completions += self.engine.take_completions()
        self.arrivals += self.engine.take_arrivals()
        for _ in range(self._port.send(list(self._unsent))):
            self._unsent.popleft()
        if nap_s and not came and not made:
            select.select([self._port.fileno() or 0], [], [], nap_s)

    def _note(self, ours: bool, frame: bytes) -> None:
        packet = Packet.read(ours, time.monotonic_ns(), frame)
        if packet is not None:
            self.cable.packets.append(packet)


class Connection:
    """Queue pair `qp` of ours, connected with `peer_qp` of rxe's; each has a region of its own.

    Attributes for our queue pair are those of `RoceEngine.create_qp`; for the peer's, those of verbs.
    """

    def __init__(
        self,
        world: World,
        path_mtu: int = 1024,
        *,
        our_psn: int = 0x100,
        peer_psn: int = 0x200,
        ours: dict[str, Any] | None = None,
        peers: dict[str, int] | None = None,
        rights: Access = ALL_RIGHTS,
        peer_rights: int | None = None,
        region_bytes: int = REGION_BYTES,
    ) -> None:
        self.world = world
        self.path_mtu = path_mtu
        self.qp = next(world.numbers)
        self.key, self.address = world.memory.register(region_bytes, rights)
        (opened,) = world.ask({"do": "open", "region_bytes": region_bytes, "rights": peer_rights})
        self.peer_qp, self.peer_key, self.peer_address = opened["qp"], opened["rkey"], opened["address"]
        verbs = {"timeout": 18, "retry_cnt": 7, "rnr_retry": 7, "min_rnr_timer": 12} | (peers or {})
        numbers = {"dest_qp_num": self.qp, "rq_psn": our_psn, "sq_psn": peer_psn}
        self._order("connect", path_mtu=MTU_CODES[path_mtu], **numbers, **verbs)
        remote = RemoteQp(mac_of_host(parse_ipv4(PEER_IP)), PEER_IP, self.peer_qp, peer_psn)
        attributes = {"timeout_ns": 2_000_000_000, "send_queue_depth": 512, "receive_queue_depth": 512}
        engine = world.engine
        engine.create_qp(self.qp, PD, path_mtu=path_mtu, **attributes | (ours or {}))
        engine.modify(self.qp, QpState.INIT)
        engine.modify(self.qp, QpState.RTR, remote=remote)
        engine.modify(self.qp, QpState.RTS, sq_psn=our_psn)
        self._next_id = count(1)

    # Our side

    def post(self, opcode: Opcode, length: int, *, offset: int = 0, **more: int) -> int:
        """Post work of ours on our region, towards `remote_offset` of the peer's; return its number."""
        wr_id = next(self._next_id)
        more.setdefault("rkey", self.peer_key)
        remote = more.pop("remote_address", self.peer_address + more.pop("remote_offset", 0))
        pieces = (Sge(self.address + offset, length, self.key),)
        work = WorkRequest(opcode, pieces, remote_address=remote, wr_id=wr_id, **more)  # type: ignore[arg-type]
        assert self.world.engine.post_send(self.qp, work, wr_id, time.monotonic_ns())
        return wr_id

    def receive(self, length: int, offset: int = 0, count: int = 1) -> None:
        """Post receives of ours, all into the same piece."""
        for _ in range(count):
            pieces = (Sge(self.address + offset, length, self.key),)
            assert self.world.engine.post_receive(self.qp, next(self._next_id), pieces)

    def completed(self, number: int = 1, limit_s: float = PATIENCE_S) -> list[Completion]:
        """Wait for completions of ours and take them."""
        done = self.world.completions
        self.world.run_until(lambda: len(done) >= number, f"{number} completions, got {done}", limit_s)
        taken = done[:number]
        del done[:number]
        return taken

    def arrived(self, number: int = 1) -> list[Arrival]:
        """Wait for arrivals here and take them."""
        came = self.world.arrivals
        self.world.run_until(lambda: len(came) >= number, f"{number} arrivals, got {came}")
        taken = came[:number]
        del came[:number]
        return taken

    def write(self, data: bytes, offset: int = 0) -> None:
        """Put bytes into our region."""
        self.world.memory.content(self.key)[offset : offset + len(data)] = data

    def read(self, length: int, offset: int = 0) -> bytes:
        """Return bytes of our region."""
        return bytes(self.world.memory.content(self.key)[offset : offset + length])

    # The peer's side

    def _order(self, do: str, **more: Answer) -> Answer:
        return self.world.ask({"do": do, "qp": self.peer_qp, **more})[0]

    def peer_fill(self, seed: int, length: int, offset: int = 0) -> bytes:
        """Fill the peer's region from a seed; return the same bytes."""
        self._order("fill", seed=seed, length=length, offset=offset)
        return some_bytes(seed, length)

    def peer_write(self, data: bytes, offset: int = 0) -> None:
        """Put a few bytes into the peer's region."""
        self._order("fill", hex=data.hex(), offset=offset)

    def peer_read(self, length: int, offset: int = 0) -> bytes:
        """Return a few bytes of the peer's region."""
        return bytes.fromhex(self._order("read", length=length, offset=offset))

    def peer_holds(self, data: bytes, offset: int = 0) -> bool:
        """Return whether the peer's region has these bytes."""
        found = self._order("digest", length=len(data), offset=offset)
        return bool(found == hashlib.sha256(data).hexdigest())

    def peer_receive(self, length: int, offset: int = 0, count: int = 1) -> None:
        """Post receives at the peer, all into the same piece."""
        self._order("receive", id=1000, length=length, offset=offset, count=count)

    def peer_post(self, op: str, length: int, *, offset: int = 0, **more: int) -> None:
        """Post work at the peer (`op` as in IBV_WR_op) towards `remote_offset` of our region."""
        if not op.startswith("SEND"):
            more.setdefault("rkey", self.key)
            more.setdefault("address", self.address + more.pop("remote_offset", 0))
        self._order("post", id=next(self._next_id), op=op, length=length, offset=offset, **more)

    def peer_completed(self, number: int = 1, time_limit_s: float = 20.0) -> list[dict[str, int]]:
        """Wait for completions at the peer."""
        found: list[dict[str, int]] = self._order("poll", count=number, time_limit_s=time_limit_s)
        assert len(found) == number, f"{number} completions were expected at the peer, came {found}"
        return found

    def peer_state(self) -> int:
        """Return the state of the peer's queue pair, as enum ibv_qp_state has it."""
        state: int = self._order("state")
        return state

    def close(self) -> None:
        """Destroy both queue pairs."""
        self.world.engine.destroy_qp(self.qp)
        self._order("close")

    # What passed

    def packets(self, *, ours: bool) -> list[Packet]:
        """Return the packets of this connection that one side has sent."""
        to = self.peer_qp if ours else self.qp
        return [packet for packet in self.world.cable.packets if packet.ours is ours and packet.qp == to]

    def syndromes(self, *, ours: bool) -> list[int]:
        """Return the syndromes of the acknowledgements that one side has sent."""
        return [packet.syndrome for packet in self.packets(ours=ours) if packet.opcode == ACKNOWLEDGE]


def some_bytes(seed: int, length: int) -> bytes:
    """Return the bytes that a seed stands for, here and at the peer."""
    return random.Random(seed).randbytes(length)


def start_peer(guest: Guest) -> GuestProcess:
    """Start the peer in a guest, on the device of its first link; it is ready then."""
    script = Path(__file__).with_name("peer.py")
    process = guest.start([sys.executable, "-I", str(script), "rxe1", OUR_GID])
    process.expect('"ready"', timeout_s=PATIENCE_S * 2)
    return process


def warm_up() -> None:
    """Have our engine compiled before time counts: one queue pair writes to another of the same engine."""
    rng = random.Random(1)
    memory = Regions(rng)
    key, address = memory.register(4096, ALL_RIGHTS)
    engine = RoceEngine(memory.state, bytes(6), OUR_IP, rng, Counter())
    for number in (1, 2):
        engine.create_qp(number, PD)
    for number in (1, 2):
        engine.modify(number, QpState.INIT)
        engine.modify(number, QpState.RTR, remote=engine.local(3 - number))
        engine.modify(number, QpState.RTS)
    engine.post_receive(2, 1)
    work = WorkRequest(Opcode.RDMA_WRITE, (Sge(address, 64, key),), remote_address=address, rkey=key)
    engine.post_send(1, work, 0, 0)
    engine.on_timer(0)
    while frames := engine.take_frames():
        for frame in frames:
            engine.on_frame(frame, 0)
    assert len(engine.take_completions()) == len(engine.take_arrivals()) == 1
    memory.close()
