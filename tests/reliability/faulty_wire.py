# SPDX-License-Identifier: Apache-2.0
"""Two engines with many connections, busy both ways, on a wire that loses, repeats, reorders and corrupts.

Every connection has an own part of each memory, and what it is asked for is told by the naive model. Faults
come from a seed, so a run is the same each time.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from nicemu.abi import Access, Opcode, Sge, registers
from nicemu.errors import VerbsStatus
from nicemu.pcie import Backing, store_u32, store_u64
from nicemu.rdma import ArrivalKind, QpState, RoceEngine, new_state
from tests.reliability.interleavings import ALL_RIGHTS, IOVA, KEY, PD, work_of
from tests.reliability.naive_model import (
    CompareSwap,
    FetchAdd,
    NaiveModel,
    Operation,
    Read,
    Receive,
    Send,
    Write,
)

Array = np.ndarray[Any, Any]
MTUS = (256, 512, 1024, 2048, 4096)
SOURCE_BYTES, RESULT_BYTES = 1 << 14, 1 << 17
"""Of what a connection asks from: what it writes and sends, and, behind it, what is brought home."""
CELLS_BYTES, TARGET_BYTES, QUIET_BYTES = 64, 1 << 14, 1 << 13
"""Of what it asks about: cells for atomics, what is written, and what is only read."""
NEAR_BYTES, FAR_BYTES = SOURCE_BYTES + RESULT_BYTES, CELLS_BYTES + TARGET_BYTES + QUIET_BYTES
LONGEST_BYTES = 6000
DEPTH, TURN_NS = 16, 10_000
FIRST_NUMBER = 100


@dataclass(frozen=True)
class Rates:
    """Shares of packets that are lost, come twice, come late and change a bit."""

    loss: float = 0.0
    duplication: float = 0.0
    reordering: float = 0.0
    corruption: float = 0.0


def operations_of(rng: random.Random, count: int, mtu: int) -> tuple[list[Operation], list[Receive]]:
    """Draw operations of every kind, of no byte up to a little more than three packets."""
    made: list[Operation] = []
    receives: list[Receive] = []
    longest, used = min(3 * mtu + 5, LONGEST_BYTES), 0
    for number in range(count):
        length = rng.choice([0, 1, 8, mtu - 1, mtu, min(mtu + 1, longest), rng.randrange(longest)])
        source = rng.randrange(SOURCE_BYTES - length)
        used = used if used + length + 8 <= RESULT_BYTES else 0  # none lies over one that may be under way
        result = SOURCE_BYTES + used
        target = CELLS_BYTES + rng.randrange(TARGET_BYTES - length - 100)
        cell = 8 * rng.randrange(CELLS_BYTES // 8)
        imm = rng.choice([None, number])
        match rng.randrange(5):
            case 0 | 1:
                made.append(Write(source, target, length, imm))
                receives += [Receive(0, 0)] * (imm is not None)
            case 2:
                made.append(Send(source, length, imm))
                receives.append(Receive(target, length + rng.choice([0, 0, 100])))
            case 3:
                quiet = CELLS_BYTES + TARGET_BYTES + rng.randrange(QUIET_BYTES - length)
                made.append(Read(result, rng.choice([target, quiet]), length))
                used += length
            case _:
                add, swap = FetchAdd(result, cell, number), CompareSwap(result, cell, 0, rng.getrandbits(64))
                made.append(add if rng.random() < 0.5 else swap)
                used += 8
    return made, receives


class Side:
    """An engine and its memory: first what each connection asks from, then what each is asked about."""

    def __init__(self, number: int, count: int, rng: random.Random) -> None:
        size = count * (NEAR_BYTES + FAR_BYTES)
        self._public, self._backing = Backing.anonymous(registers.PUBLIC_BYTES), Backing.anonymous(size)
        rdma = new_state(self._public.address)
        rdma.backings[0] = self._backing.address
        entry = self._public.address + registers.REGION_TABLE + KEY * registers.REGION_BYTES
        store_u32(entry + 4, PD)
        store_u32(entry + 8, int(ALL_RIGHTS | Access.LOCAL_WRITE))
        store_u64(entry + 16, IOVA)
        store_u64(entry + 24, size)
        store_u32(entry, KEY)
        self.memory = self._backing.view
        self.memory[:size] = rng.randbytes(size)
        self.drops: Counter[str] = Counter()
        mac, ip = bytes([2, 0, 0, 0, 0, number]), f"10.0.0.{number}"
        self.engine = RoceEngine(rdma, mac, ip, rng, self.drops)
        self._out, self._places = np.zeros(1 << 20, np.uint8), np.zeros((2, 512), np.int64)
        self._late: list[bytes] = []

    def send(self, rng: np.random.Generator, rates: Rates) -> tuple[Array, Array, Array, bool]:
        """Return what becomes of the frames to send now: memory, offsets, lengths; and if there were any."""
        count = self.engine.frames_into(self._out, self._places[0], self._places[1])
        chosen = np.flatnonzero(rng.random(count) >= rates.loss)
        chosen = np.repeat(chosen, 1 + (rng.random(len(chosen)) < rates.duplication))
        moved = rng.random(len(chosen)) < rates.reordering
        chosen = chosen[
            np.argsort(np.arange(len(chosen)) + moved * rng.integers(2, 9, len(chosen)), kind="stable")
        ]
        late, self._late = self._late, []
        frames: list[bytes] = []
        for number, spoiled in zip(
            chosen.tolist(), (rng.random(len(chosen)) < rates.corruption).tolist(), strict=True
        ):
            offset, length = self._places[:, number].tolist()
            frame = bytearray(self._out[offset : offset + length].tobytes())
            if spoiled:
                frame[int(rng.integers(0, length))] ^= 1 << int(rng.integers(0, 8))
            (self._late if rng.random() < rates.reordering / 2 else frames).append(bytes(frame))
        frames += late
        lengths = np.fromiter(map(len, frames), np.int64, len(frames))
        memory = np.frombuffer(b"".join(frames) or b"\0", np.uint8)
        return memory, np.cumsum(lengths) - lengths, lengths, count > 0 or bool(self._late)


class Asking:
    """What one end of one connection asks the other for, and what came of it."""

    def __init__(
        self, near: Side, far: Side, pair: int, pairs: int, mtu: int, count: int, rng: random.Random
    ) -> None:
        self.near, self.far, self.number, self.mtu = near, far, FIRST_NUMBER + pair, mtu
        self.near_at, self.far_at = pair * NEAR_BYTES, pairs * NEAR_BYTES + pair * FAR_BYTES
        self.operations, self.receives = operations_of(rng, count, mtu)
        self.first = bytes(near.memory[self.near_at : self.near_at + SOURCE_BYTES])
        far_first = bytes(far.memory[self.far_at : self.far_at + FAR_BYTES])
        self.model = NaiveModel(self.first, far_first, self.operations, self.receives)
        self.posted = self.received = 0
        self.statuses: list[VerbsStatus] = []
        self.arrived: list[tuple[ArrivalKind, int, int | None]] = []
        self.brought: list[bytes] = []

    def post(self, now_ns: int, room: int) -> None:
        """Post receives, not always in time, and work."""
        while self.received < len(self.receives) and room:
            receive = self.receives[self.received]
            piece = Sge(IOVA + self.far_at + receive.place, receive.length, KEY)
            if not self.far.engine.post_receive(self.number, self.received + 1, [piece]):
                break
            self.received += 1
        while self.posted < len(self.operations):
            work = work_of(self.operations[self.posted], self.posted, IOVA + self.near_at, IOVA + self.far_at)
            if not self.near.engine.post_send(self.number, work, self.posted, now_ns):
                break
            self.posted += 1

    def completed(self, number: int, status: VerbsStatus) -> None:
        """Keep what an operation has brought, as later results may lie over it."""
        assert number == len(self.statuses), "completed out of order, or twice"
        self.statuses.append(status)
        operation = self.operations[number]
        length = operation.length if isinstance(operation, Read) else 8
        start = self.near_at + operation.source
        self.brought.append(bytes(self.near.memory[start : start + length]))

    def check(self) -> bool:
        """What has completed has been executed once, in order, and is byte-exact; True if that is all.

        An end may give up after its retries. Then it has flushed the rest, and what the other end has
        executed beyond what completed is the beginning of the rest.
        """
        assert len(self.statuses) == len(self.operations)
        done = sum(status is VerbsStatus.SUCCESS for status in self.statuses)
        rest = [VerbsStatus.RETRY_EXC_ERR, *[VerbsStatus.WR_FLUSH_ERR] * len(self.operations)]
        assert self.statuses == ([VerbsStatus.SUCCESS] * done + rest)[: len(self.operations)]
        executed = self._executed()
        assert executed >= done
        assert bytes(self.near.memory[self.near_at : self.near_at + SOURCE_BYTES]) == self.first
        memory = np.frombuffer(bytes(self.far.memory[self.far_at : self.far_at + FAR_BYTES]), np.uint8)
        before, after = (np.frombuffer(state, np.uint8) for state in (self.model.far[executed:] * 2)[:2])
        assert ((memory == before) | (memory == after)).all()
        assert (memory == before).all() or done < len(self.operations)
        for number, operation in enumerate(self.operations[:done]):
            brought = self.brought[number]
            if isinstance(operation, FetchAdd | CompareSwap):
                assert {brought} == self.model.brought(number, executed, self.mtu)[0]
            elif isinstance(operation, Read):  # a later WRITE may be half done when it is read
                place = slice(operation.target, operation.target + operation.length)
                states = [
                    np.frombuffer(state[place], np.uint8) for state in self.model.far[number : executed + 2]
                ]
                seen = np.frombuffer(brought, np.uint8)
                assert np.any([state == seen for state in states], axis=0).all(), f"operation {number}"
        return done == len(self.operations)

    def _executed(self) -> int:
        """Return how many operations the other end has executed: a beginning of all, each reported once."""
        expected = [self._arrival(operation) for operation in self.operations]
        arrived = [arrival for arrival in self.arrived if arrival[0] is not ArrivalKind.READ]
        assert arrived == [one for one in expected if one[0] is not ArrivalKind.READ][: len(arrived)]
        read = [arrival for arrival in self.arrived if arrival[0] is ArrivalKind.READ]
        assert read == [one for one in expected if one[0] is ArrivalKind.READ][: len(read)]
        left = len(arrived)
        for number, (kind, _, _) in enumerate(expected):
            if kind is not ArrivalKind.READ:
                if left == 0:
                    return number
                left -= 1
        return len(expected)

    @staticmethod
    def _arrival(operation: Operation) -> tuple[ArrivalKind, int, int | None]:
        match operation:
            case Write(_, _, length, imm):
                return (ArrivalKind.WRITE if imm is None else ArrivalKind.WRITE_WITH_IMM), length, imm
            case Send(_, length, imm):
                return (ArrivalKind.SEND if imm is None else ArrivalKind.SEND_WITH_IMM), length, imm
            case Read(_, _, length):
                return ArrivalKind.READ, length, None
        return ArrivalKind.ATOMIC, 8, None


@dataclass(frozen=True)
class Outcome:
    """What a run came to."""

    operations: int
    packets: int
    turns: int
    drops: dict[str, int]
    memory: bytes
    gave_up: int
    """Ends of connections that gave up after their retries."""


def run(seed: int, rates: Rates, pairs: int, operations: int) -> Outcome:
    """Let both ends of `pairs` connections do so many operations each, and check all of them."""
    rng, numpy_rng = random.Random(seed), np.random.default_rng(seed)
    sides = Side(1, pairs, rng), Side(2, pairs, rng)
    for number in range(pairs):
        ends = []
        for side in sides:
            side.engine.create_qp(
                FIRST_NUMBER + number, PD, path_mtu=MTUS[number % 5], send_queue_depth=DEPTH,
                receive_queue_depth=DEPTH, timeout_ns=20 * TURN_NS, min_rnr_timer_ns=TURN_NS,
            )  # fmt: skip
            side.engine.modify(FIRST_NUMBER + number, QpState.INIT)
            ends.append(side.engine.local(FIRST_NUMBER + number))
        for side, remote in zip(sides, ends[::-1], strict=True):
            side.engine.modify(FIRST_NUMBER + number, QpState.RTR, remote=remote)
            side.engine.modify(FIRST_NUMBER + number, QpState.RTS)
    asking = [
        {FIRST_NUMBER + n: Asking(near, far, n, pairs, MTUS[n % 5], operations, rng) for n in range(pairs)}
        for near, far in (sides, sides[::-1])
    ]
    everyone = [one for table in asking for one in table.values()]
    now_ns = packets = turns = idle = 0
    while idle < 200 and any(len(one.statuses) < operations for one in everyone):
        turns, now_ns = turns + 1, now_ns + TURN_NS
        for one in everyone:
            one.post(now_ns, rng.random() < 0.7)
        moved = False
        for source, target in (sides, sides[::-1]):
            memory, offsets, lengths, any_sent = source.send(numpy_rng, rates)
            target.engine.on_memory(memory.ctypes.data, offsets, lengths, now_ns)
            packets, moved = packets + len(lengths), moved or any_sent
        idle = 0 if moved else idle + 1
        for number, side in enumerate(sides):
            side.engine.on_timer(now_ns)
            for completion in side.engine.take_completions():
                if completion.opcode is not Opcode.RECV:
                    asking[number][completion.qp_num].completed(completion.context, completion.status)
            for arrival in side.engine.take_arrivals():
                asking[1 - number][arrival.qp_num].arrived.append(
                    (arrival.kind, arrival.byte_len, arrival.imm_data)
                )
    gave_up = sum(not one.check() for one in everyone)
    drops = sides[0].drops + sides[1].drops
    return Outcome(len(everyone) * operations, packets, turns, dict(drops), bytes(sides[1].memory), gave_up)
