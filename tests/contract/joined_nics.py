# SPDX-License-Identifier: Apache-2.0
"""Two NICs with a host process each, whose queue pairs are connected with each other over some transport.

What carries their work is all that differs; programs see the same. Nothing here needs numba or hypothesis.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from nicemu.abi import Access, Limits, Opcode, RemoteSpan, Sge, Span, WorkCompletion, WorkRequest
from nicemu.errors import VerbsStatus
from nicemu.fabric import FabricMemory
from nicemu.host import Memory, Nic
from nicemu.nic import NicConfig, Owner, SmartNic
from nicemu.rdma import FLAG_IMMEDIATE_COUNTS, FLAG_IMPLICIT_RECEIVES, OutsideTransport
from nicemu.run import Simulation

GUARD = 64
EVERY_RIGHT = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
TIME_LIMIT_S = 60.0
IMPLICIT = FLAG_IMPLICIT_RECEIVES | FLAG_IMMEDIATE_COUNTS
EXPLICIT = FLAG_IMMEDIATE_COUNTS
LIMITS = Limits(counter_count=64, slot_count=512)


@dataclass
class Region:
    """Registered memory with guard bytes before and behind it."""

    memory: Memory | FabricMemory
    span: Span
    guard: bytes

    @property
    def data(self) -> bytes:
        """What lies in the region."""
        return bytes(self.memory.array[GUARD:-GUARD])

    def fill(self, data: bytes, offset: int = 0) -> None:
        """Write into the region, as its owner."""
        start = GUARD + offset
        self.memory.array[start : start + len(data)] = np.frombuffer(data, np.uint8)

    def word(self, offset: int = 0) -> int:
        """Return 8 bytes as a number."""
        return int.from_bytes(self.data[offset : offset + 8], "little")

    @property
    def guards_hold(self) -> bool:
        """Whether nothing was written beside the region."""
        array = self.memory.array
        return bytes(array[:GUARD]) + bytes(array[-GUARD:]) == self.guard


class End:
    """One NIC and its host process."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.device: SmartNic = simulation.nics[name]
        self.connection = simulation.open_nic(name)
        self.host = Nic(self.connection)
        (number,) = self.device.owners
        self.owner: Owner = self.device.owners[number]
        self.qp = 0
        self.regions: list[Region] = []

    def region(
        self,
        length: int | bytes,
        access: Access = EVERY_RIGHT,
        counter: int | None = None,
        pd: int | None = None,
    ) -> Region:
        """Return new memory, some of it registered; with random guards around that."""
        content = bytes(length) if isinstance(length, int) else length
        memory = self.host.allocate(len(content) + 2 * GUARD)
        guard = random.Random(len(self.regions)).randbytes(2 * GUARD)
        memory.array[:] = np.frombuffer(guard[:GUARD] + content + guard[GUARD:], np.uint8)
        key = self.device.memory.register(
            self.owner.pd if pd is None else pd,
            memory.address + GUARD,
            len(content),
            access,
            self.owner.number,
            counter,
        ).key
        self.owner.keys.add(key)
        made = Region(memory, Span(memory.address + GUARD, len(content), key), guard)
        self.regions.append(made)
        return made

    def statuses(self) -> list[tuple[int, VerbsStatus]]:
        """Take completions; return (wr_id, status)."""
        return [(one.wr_id, one.status) for one in self.host.take_completions()]


class JoinedNics:
    """NICs "a" and "b"; `transport` as in `NicConfig`, with `outside` where that says "verbs".

    `deviations`: what ends in another status there than in the specification. `options`: of the RoCEv2
    engine, as in `NicConfig`.
    """

    def __init__(
        self,
        transport: str,
        outside: Mapping[str, OutsideTransport] | None = None,
        *,
        flags: int = IMPLICIT,
        compiled: bool = False,
        deviations: Mapping[str, VerbsStatus] | None = None,
        **options: bool,
    ) -> None:
        self.deviations = deviations or {}
        configs = [
            NicConfig(
                name,
                f"127.0.1.{number + 1}",
                number,
                1 << 20,
                LIMITS,
                transport=transport,
                selective_retransmission=options.get("selective_retransmission", False),
                congestion_control=options.get("congestion_control", False),
            )
            for number, name in enumerate("ab")
        ]
        self.simulation = Simulation(configs, compiled=compiled, transports=outside)
        self.a, self.b = End(self.simulation, "a"), End(self.simulation, "b")
        self.flags = flags
        self.join()

    def join(self) -> None:
        """Connect a new queue pair of each."""
        offers = []
        for end, other in ((self.a, "b"), (self.b, "a")):
            pairs = end.device.queue_pairs
            queue = end.owner.number * 4
            end.qp = pairs.create(pairs.peer(other), end.owner.pd, end.owner.number, self.flags, queue)
            end.owner.queue_pairs.add(end.qp)
            offers.append(pairs.offer(end.qp, {}))
        self.a.device.queue_pairs.connect(self.a.qp, offers[1])
        self.b.device.queue_pairs.connect(self.b.qp, offers[0])

    def disjoin(self) -> None:
        """Destroy the queue pairs."""
        for end in (self.a, self.b):
            end.device.connections.disconnect(end.owner, end.qp, True)

    def until(self, is_true: Callable[[], bool], what: str = "it") -> None:
        """Let the NICs run until something is so; fail if it does not come in time."""
        end = time.monotonic() + TIME_LIMIT_S
        self.simulation.settle()
        while not is_true():
            assert time.monotonic() < end, f"{what} has not come in {TIME_LIMIT_S} s"
            if not self.simulation.step():
                assert is_true(), f"{what} will never come: nothing is left to happen"

    def idle(self) -> None:
        """Let the NICs run until nothing is left to happen."""
        end = time.monotonic() + TIME_LIMIT_S
        while self.simulation.step():
            assert time.monotonic() < end, f"not idle in {TIME_LIMIT_S} s"

    def post(self, *work: WorkRequest, by: End | None = None) -> None:
        """Post work on the queue pair of a (or of `by`)."""
        end = by or self.a
        end.host.post(end.qp, *work)

    def ends(self, count: int, at: End | None = None) -> list[WorkCompletion]:
        """Return the next `count` completions at a (or `at`)."""
        end = at or self.a
        taken: list[WorkCompletion] = []

        def enough() -> bool:
            taken.extend(end.host.take_completions())
            return len(taken) >= count

        self.until(enough, f"{count} completions")
        assert len(taken) == count
        return taken

    def do(self, work: WorkRequest, by: End | None = None) -> VerbsStatus:
        """Post work and return how it ends."""
        self.post(work, by=by)
        (end,) = self.ends(1, by)
        return end.status

    def remote(self, region: Region) -> RemoteSpan:
        """Return a region of b as a's programs name it."""
        return RemoteSpan(self.a.qp, region.span.address, region.span.length_bytes, region.span.key)

    @property
    def guards_hold(self) -> bool:
        """Whether nothing was written beside any region."""
        return all(region.guards_hold for end in (self.a, self.b) for region in end.regions)

    def close(self) -> None:
        """Let go of the NICs."""
        for end in (self.a, self.b):
            end.host.close()


def work(
    opcode: Opcode,
    local: Region | None,
    remote: Region | None = None,
    length: int | None = None,
    *,
    at: int = 0,
    to: int = 0,
    **fields: int,
) -> WorkRequest:
    """Return a signaled request: `length` bytes at `at` of `local`, and at `to` of `remote`."""
    sges: tuple[Sge, ...] = ()
    if local is not None:
        whole = local.span.length_bytes - at if length is None else length
        sges = (Sge(local.span.address + at, whole, fields.pop("lkey", local.span.key)),)
    address = fields.pop("remote_address", 0 if remote is None else remote.span.address + to)
    rkey = fields.pop("rkey", 0 if remote is None else remote.span.key)
    return WorkRequest(opcode, sges, address, rkey, signaled=True, **fields)  # type: ignore[arg-type]


def some_bytes(length: int, seed: int = 0) -> bytes:
    """Return bytes that tell their places apart."""
    return random.Random(f"{length}/{seed}").randbytes(length)
