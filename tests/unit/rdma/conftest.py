# SPDX-License-Identifier: Apache-2.0
"""Two RoCEv2 engines, each with guarded memory, and a wire between them that can misbehave."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from nicemu.abi import Access, Opcode, Sge, WorkRequest, registers
from nicemu.errors import VerbsStatus
from nicemu.pcie import PAGE_BYTES, Backing, store_u32, store_u64
from nicemu.rdma import RdmaState, new_state
from nicemu.rdma.roce import (
    AccessError,
    Arrival,
    Completion,
    QpState,
    RoceEngine,
)

GUARD_BYTES = 64
GUARD = b"\xa5" * GUARD_BYTES
ALL_RIGHTS = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
FIRST_KEY = 0x100
BACKING = 3


class GuardedMemory:
    """Registered memory, a guard on both sides of each region; keys count up from FIRST_KEY.

    The regions stand in a NIC's table, and are found by the reference engine's protocol too.
    """

    def __init__(self, length_bytes: int = 1 << 20) -> None:
        self._public = Backing.anonymous(registers.PUBLIC_BYTES)
        self._backing = Backing.anonymous(length_bytes)
        self._regions: dict[int, tuple[int, int, memoryview, Access]] = {}
        self._used = 0
        self.state: RdmaState = new_state(self._public.address)
        self.state.backings[BACKING] = self._backing.address

    def register(self, address: int, content: bytes, pd: int = 1, access: Access = ALL_RIGHTS) -> int:
        key = FIRST_KEY + len(self._regions)
        start = self._used + GUARD_BYTES
        start += (address - start) % PAGE_BYTES  # raw addresses are aligned as those of the region are
        self._used = start + len(content) + GUARD_BYTES
        memory = self._backing.view[start - GUARD_BYTES : self._used]
        memory[:] = GUARD + content + GUARD
        self._regions[key] = (pd, address, memory, access)
        entry = self._public.address + registers.REGION_TABLE + key * registers.REGION_BYTES
        store_u32(entry + 12, BACKING)
        store_u64(entry + 16, address)
        store_u64(entry + 24, len(content))
        store_u64(entry + 32, start)
        self._enter(key)
        return key

    def _enter(self, key: int) -> None:
        pd, _, _, access = self._regions[key]
        entry = self._public.address + registers.REGION_TABLE + key * registers.REGION_BYTES
        store_u32(entry + 4, pd)
        store_u32(entry + 8, int(access))
        store_u32(entry, key)

    def allow(self, key: int, access: Access) -> None:
        """Change the rights of a region."""
        pd, address, memory, _ = self._regions[key]
        self._regions[key] = (pd, address, memory, access)
        self._enter(key)

    def deregister(self, key: int) -> None:
        pd, address, memory, _ = self._regions[key]
        self._regions[key] = (pd ^ 0xFFFF, address, memory, Access(0))
        store_u32(self._public.address + registers.REGION_TABLE + key * registers.REGION_BYTES, 0)

    def content(self, key: int) -> bytes:
        return bytes(self._regions[key][2][GUARD_BYTES:-GUARD_BYTES])

    def fill(self, key: int, content: bytes) -> None:
        self._regions[key][2][GUARD_BYTES : GUARD_BYTES + len(content)] = content

    def guards_hold(self) -> bool:
        return all(
            memory[:GUARD_BYTES] == GUARD and memory[-GUARD_BYTES:] == GUARD
            for _, _, memory, _ in self._regions.values()
        )

    def local(self, pd: int, address: int, length: int, lkey: int, write: bool) -> memoryview:
        needed = Access.LOCAL_WRITE if write else Access(0)
        return self._find(pd, lkey, address, length, needed, VerbsStatus.LOC_PROT_ERR)

    def remote(self, pd: int, rkey: int, address: int, length: int, access: Access) -> memoryview:
        return self._find(pd, rkey, address, length, access, VerbsStatus.REM_ACCESS_ERR)

    def _find(
        self, pd: int, key: int, address: int, length: int, access: Access, status: VerbsStatus
    ) -> memoryview:
        owner, start, memory, rights = self._regions.get(key, (-1, 0, memoryview(b""), Access(0)))
        end = start + len(memory) - 2 * GUARD_BYTES
        if owner != pd or rights & access != access or not start <= address <= address + length <= end:
            raise AccessError(status, f"key {key:#x}")
        offset = GUARD_BYTES + address - start
        return memory[offset : offset + length]


class Wire:
    """Carries frames one way, and loses, repeats, reorders or corrupts some of them."""

    def __init__(self, rng: random.Random, rates: dict[str, float]) -> None:
        self._rng = rng
        self._rates = rates

    def carry(self, frames: list[bytes]) -> list[bytes]:
        arriving: list[bytes] = []
        for frame in frames:
            if self._happens("loss"):
                continue
            if self._happens("corruption"):
                place = self._rng.randrange(len(frame))
                frame = (
                    frame[:place] + bytes([frame[place] ^ 1 << self._rng.randrange(8)]) + frame[place + 1 :]
                )
            arriving.append(frame)
            if self._happens("duplication"):
                arriving.append(frame)
        for place in range(len(arriving) - 1):
            if self._happens("reordering"):
                arriving[place], arriving[place + 1] = arriving[place + 1], arriving[place]
        return arriving

    def _happens(self, fault: str) -> bool:
        return self._rng.random() < self._rates.get(fault, 0.0)


class Node:
    """An engine with its memory and what it has reported."""

    def __init__(self, number: int, seed: int) -> None:
        self.memory = GuardedMemory()
        self.drops: Counter[str] = Counter()
        mac = b"\x02\0\0\0\0" + bytes([number])
        self.engine = RoceEngine(self.memory.state, mac, f"10.0.0.{number}", random.Random(seed), self.drops)
        self.completions: list[Completion] = []
        self.arrivals: list[Arrival] = []

    def collect(self) -> None:
        self.completions += self.engine.take_completions()
        self.arrivals += self.engine.take_arrivals()

    def statuses(self) -> list[VerbsStatus]:
        return [completion.status for completion in self.completions]


class TwoEngines:
    """Queue pair 7 of node `a` is connected with queue pair 9 of node `b`; both are ready to send."""

    A_QP, B_QP = 7, 9

    def __init__(
        self,
        seed: int = 1,
        rates: dict[str, float] | None = None,
        psns: tuple[int, int] | None = None,
        b: dict[str, Any] | None = None,
        **attributes: Any,  # noqa: ANN401
    ) -> None:
        rng = random.Random(seed)
        self.a, self.b = Node(1, seed), Node(2, seed + 1)
        self.wires = Wire(rng, rates or {}), Wire(rng, rates or {})
        self.now_ns = 0
        self.frames_sent: list[bytes] = []
        self.a.engine.create_qp(self.A_QP, 1, **attributes)
        self.b.engine.create_qp(self.B_QP, 1, **{**attributes, **(b or {})})
        ends = self.a.engine.local(self.A_QP), self.b.engine.local(self.B_QP)
        if psns is not None:
            ends = replace(ends[0], psn=psns[0]), replace(ends[1], psn=psns[1])
        for engine, own, remote in zip((self.a.engine, self.b.engine), ends, ends[::-1], strict=True):
            engine.modify(own.qp_num, QpState.INIT)
            engine.modify(own.qp_num, QpState.RTR, remote=remote)
            engine.modify(own.qp_num, QpState.RTS, sq_psn=own.psn)

    def post(self, opcode: Opcode, key: int, pieces: Iterable[tuple[int, int]], **fields: int) -> bool:
        """Post from node a; pieces are (address, length) of region `key`."""
        sges = tuple(Sge(address, length, key) for address, length in pieces)
        context = fields.pop("context", 0)
        work = WorkRequest(opcode, sges, **fields)  # type: ignore[arg-type]
        return self.a.engine.post_send(self.A_QP, work, context, self.now_ns)

    def exchange(self, limit: int | None = None) -> bool:
        """Move frames once in both directions; False if there were none."""
        moved = False
        for source, target, wire in ((self.a, self.b, self.wires[0]), (self.b, self.a, self.wires[1])):
            frames = source.engine.take_frames(limit)
            self.frames_sent += frames
            moved = moved or bool(frames)
            for frame in wire.carry(frames):
                target.engine.on_frame(frame, self.now_ns)
            source.collect()
            target.collect()
        return moved

    def run(self, limit: int | None = None, max_steps: int = 100_000) -> None:
        """Move frames and time until nothing is left to do."""
        for _ in range(max_steps):
            if self.exchange(limit):
                self.now_ns += 1000
                continue
            deadlines = [d for n in (self.a, self.b) if (d := n.engine.next_deadline_ns()) is not None]
            if not deadlines:
                return
            self.now_ns = max(self.now_ns, min(deadlines))
            for node in (self.a, self.b):
                node.engine.on_timer(self.now_ns)
        raise AssertionError("the engines never come to rest")


@pytest.fixture
def connect() -> Callable[..., TwoEngines]:
    return TwoEngines


@pytest.fixture
def new_memory() -> Callable[[], GuardedMemory]:
    return GuardedMemory
