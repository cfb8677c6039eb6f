# SPDX-License-Identifier: Apache-2.0
"""Every interleaving of a small window: two engines, and a wire on which all that may happen is tried.

A world is two connected engines and the packets under way between them. What may be next: any packet under
way arrives (so every order is tried), arrives and stays (a repeated packet), or is lost; a deadline passes,
whatever is still under way; a receive is posted. Each state is visited once, found again by what can make a
difference; from it every step is tried, until there is none. Retries bound it all.
Source: InfiniBand Architecture Specification Volume 1, "Reliable Service"; the search is plain explicit-state
model checking.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from nicemu.abi import Access, Opcode, Sge, WorkRequest, registers
from nicemu.pcie import Backing, store_u32, store_u64
from nicemu.rdma import new_state
from nicemu.rdma.roce import Arrival, Completion, QpState, RoceEngine
from nicemu.rdma.roce_state import ANSWER, ANSWER_ATOMIC, ANSWER_READ, NONE, QUEUE_PAIR
from tests.reliability.naive_model import CompareSwap, FetchAdd, Operation, Read, Receive, Send, Write

IOVA, KEY, PD, QP = 0x10000, 0x100, 1, 5
MEMORY_BYTES = 2048
ALL_RIGHTS = Access.LOCAL_WRITE | Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
ARRIVE, REPEAT, LOSE, TIMER, RECEIVE = range(5)
_POOLS = ("engine", "queue_pairs", "sends", "receives", "answers", "replays", "held", "timers", "extras")
_PLACES = {  # where something lies; what lies there is looked at instead
    "active_next", "active_prev", "send_head", "send_tail", "cursor", "timer_place", "incoming_receive",
    "receive_head", "receive_tail", "answer_head", "answer_tail",
}  # fmt: skip
_ANSWER_FIELDS = ("psn", "kind", "syndrome", "msn", "coalesces")
_READ_FIELDS = ("first_psn", "end_psn", "address", "dma_length", "whole_length", "rkey", "reported")

Action = tuple[int, int]
Kept = tuple[list[np.ndarray[Any, Any]], bytes, tuple[Completion, ...], tuple[Arrival, ...]]
Packet = tuple[int, bytes, bool]
"""The end that it goes to, the frame, and whether it may be repeated."""


def _mask(dtype: np.dtype[Any], names: Sequence[str]) -> np.ndarray[Any, Any]:
    mask = np.zeros(dtype.itemsize, bool)
    for name in names:
        kind, place = dtype.fields[name][:2]  # type: ignore[index]
        mask[place : place + kind.itemsize] = True
    return mask


_PAIR_MASK = _mask(QUEUE_PAIR, [name for name in QUEUE_PAIR.names or () if name not in _PLACES])
_ANSWER_MASKS = {
    ANSWER_READ: _mask(ANSWER, (*_ANSWER_FIELDS, *_READ_FIELDS)),
    ANSWER_ATOMIC: _mask(ANSWER, (*_ANSWER_FIELDS, "original")),
}
_ACK_MASK = _mask(ANSWER, _ANSWER_FIELDS)


@dataclass(frozen=True)
class Scenario:
    """What is asked for, and how much the wire may hold. Operations go from end 0 to end 1."""

    operations: tuple[Operation, ...]
    receives: tuple[Receive, ...] = ()
    late_receives: bool = False
    """Receives are posted at any time; otherwise before all else."""
    window: int = 3
    """Packets under way each way, beside repeated ones."""
    path_mtu: int = 256
    retry_count: int = 1
    rnr_retry: int = 2
    first_psn: int = 0xFFFFFE
    repeats: int = 1
    """Packets that the wire repeats, in all; any number is lost, late or out of order."""
    early_timers: bool = True
    """A deadline may pass while packets are under way."""


class End:
    """One engine, its memory, and what it has reported."""

    def __init__(self, number: int) -> None:
        self._public = Backing.anonymous(registers.PUBLIC_BYTES)
        self._backing = Backing.anonymous(4096)
        self.memory = self._backing.view[:MEMORY_BYTES]
        rdma = new_state(self._public.address)
        rdma.backings[0] = self._backing.address
        entry = self._public.address + registers.REGION_TABLE + KEY * registers.REGION_BYTES
        store_u32(entry + 4, PD)
        store_u32(entry + 8, int(ALL_RIGHTS))
        store_u64(entry + 16, IOVA)
        store_u64(entry + 24, MEMORY_BYTES)
        store_u32(entry, KEY)
        self.drops: Counter[str] = Counter()
        mac, ip = bytes([2, 0, 0, 0, 0, number + 1]), f"10.0.0.{number + 1}"
        self.engine = RoceEngine(rdma, mac, ip, random.Random(number), self.drops)
        self.completions: tuple[Completion, ...] = ()
        self.arrivals: tuple[Arrival, ...] = ()

    def look_inside(self) -> None:
        """Find the engine's arrays as plain bytes; from here on it has the room that it needs."""
        state = self.engine._state
        pools = {name: np.asarray(getattr(state, name)) for name in _POOLS}
        self._pools = [pool.view(np.uint8) for pool in pools.values()]
        self._pair, self._answers = pools["queue_pairs"], pools["answers"]
        self._pair_bytes = self._pair[:1].view(np.uint8)
        self._answer_bytes = self._answers.view(np.uint8).reshape(len(self._answers), -1)
        self._now_ns = pools["engine"]["now_ns"]

    def collect(self) -> None:
        self.completions += tuple(self.engine.take_completions())
        self.arrivals += tuple(self.engine.take_arrivals())
        self._now_ns[0] = 0  # deadlines are counted from each step anew

    def keep(self) -> Kept:
        return [pool.copy() for pool in self._pools], bytes(self.memory), self.completions, self.arrivals

    def go_back_to(self, kept: Kept) -> None:
        pools, memory, self.completions, self.arrivals = kept
        for pool, content in zip(self._pools, pools, strict=True):
            pool[:] = content
        self.memory[:] = memory

    def fingerprint(self) -> bytes:
        """Return what can make a difference to what happens next, and to what is checked at the end."""
        found = [self._pair_bytes[_PAIR_MASK].tobytes(), bytes(self.memory)]
        slot = int(self._pair["answer_head"][0])
        while slot != NONE:
            kind = int(self._answers["kind"][slot])
            found.append(self._answer_bytes[slot][_ANSWER_MASKS.get(kind, _ACK_MASK)].tobytes())
            slot = int(self._answers["next"][slot])
        found.append(repr([(c.wr_id, c.status) for c in self.completions]).encode())
        found.append(repr([(a.kind, a.wr_id, a.byte_len) for a in self.arrivals]).encode())
        return b"|".join(found)


class World:
    """Two ends and the wire between them, in one state of many."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.ends = End(0), End(1)
        self.wire: tuple[Packet, ...] = ()
        self.repeats_left = scenario.repeats
        self.receives_left = scenario.receives
        rng = random.Random(3)
        for end in self.ends:
            end.memory[:] = rng.randbytes(MEMORY_BYTES)
            end.engine.create_qp(
                QP,
                PD,
                path_mtu=scenario.path_mtu,
                retry_count=scenario.retry_count,
                rnr_retry=scenario.rnr_retry,
                timeout_ns=1000,
                min_rnr_timer_ns=500,
                send_queue_depth=8,
                receive_queue_depth=8,
            )
            end.engine.modify(QP, QpState.INIT)
        self.initial = bytes(self.ends[0].memory), bytes(self.ends[1].memory)
        for end, other in zip(self.ends, self.ends[::-1], strict=True):
            remote = other.engine.local(QP)
            end.engine.modify(
                QP, QpState.RTR, remote=type(remote)(remote.mac, remote.ip, QP, scenario.first_psn)
            )
            end.engine.modify(QP, QpState.RTS, sq_psn=scenario.first_psn)
            end.look_inside()
        while self.receives_left and not scenario.late_receives:
            self.step((RECEIVE, 0))
        for number, operation in enumerate(scenario.operations):
            assert self.ends[0].engine.post_send(QP, work_of(operation, number), number, 0)
        self._settle()

    def actions(self) -> list[Action]:
        """Return what may be next."""
        found: list[Action] = []
        seen = set()
        for number, packet in enumerate(self.wire):
            if packet in seen:
                continue
            seen.add(packet)
            found += [(ARRIVE, number), (LOSE, number)]
            if packet[2] and self.repeats_left:
                found.append((REPEAT, number))
        if self.scenario.early_timers or not self.wire:
            ends = (0, 1)
            found += [(TIMER, e) for e in ends if self.ends[e].engine.next_deadline_ns() is not None]
        if self.receives_left:
            found.append((RECEIVE, 0))
        return found

    def step(self, action: Action) -> None:
        """Let one thing happen, and both ends do what follows."""
        kind, number = action
        if kind == TIMER:
            engine = self.ends[number].engine
            deadline_ns = engine.next_deadline_ns()
            assert deadline_ns is not None
            engine.on_timer(deadline_ns)
            self.ends[number].collect()
        elif kind == RECEIVE:
            receive, self.receives_left = self.receives_left[0], self.receives_left[1:]
            wr_id = len(self.scenario.receives) - len(self.receives_left)
            piece = Sge(IOVA + receive.place, receive.length, KEY)
            assert self.ends[1].engine.post_receive(QP, wr_id, [piece])
        else:
            target, frame, _ = self.wire[number]
            rest = self.wire[:number] + self.wire[number + 1 :]
            if kind == REPEAT:
                rest += ((target, frame, False),)
                self.repeats_left -= 1
            self.wire = rest
            if kind != LOSE:
                self.ends[target].engine.on_frame(frame, 0)
        self._settle()

    def _settle(self) -> None:
        """Both ends send what there is room for on the wire."""
        for number, end in enumerate(self.ends):
            other = 1 - number
            room = self.scenario.window - sum(t == other and fresh for t, _, fresh in self.wire)
            if room > 0:
                frames = end.engine.take_frames(room)
                self.wire += tuple((other, frame, True) for frame in frames)
            end.collect()

    def keep(self) -> tuple[Any, ...]:
        return (self.ends[0].keep(), self.ends[1].keep(), self.wire, self.repeats_left, self.receives_left)

    def go_back_to(self, kept: tuple[Any, ...]) -> None:
        for end, of_end in zip(self.ends, kept[:2], strict=True):
            end.go_back_to(of_end)
        self.wire, self.repeats_left, self.receives_left = kept[2:]

    def fingerprint(self) -> bytes:
        """Return a digest of the state; the order of packets under way makes no difference."""
        digest = hashlib.blake2b(digest_size=16)
        for target, frame, fresh in sorted(self.wire):
            digest.update(b"%d%d%d" % (target, fresh, len(frame)) + frame)
        for end in self.ends:
            digest.update(end.fingerprint())
        digest.update(b"%d%d" % (self.repeats_left, len(self.receives_left)))
        return digest.digest()


def work_of(operation: Operation, number: int, near: int = IOVA, far: int = IOVA) -> WorkRequest:
    """Return the work that asks for an operation of the model, whose memories begin at `near` and `far`."""

    def piece(length: int) -> tuple[Sge, ...]:
        return (Sge(near + operation.source, length, KEY),)

    match operation:
        case Write(_, target, length, imm):
            opcode = Opcode.RDMA_WRITE if imm is None else Opcode.RDMA_WRITE_WITH_IMM
            return WorkRequest(opcode, piece(length), far + target, KEY, imm or 0, wr_id=number)
        case Send(_, length, imm):
            opcode = Opcode.SEND if imm is None else Opcode.SEND_WITH_IMM
            return WorkRequest(opcode, piece(length), imm_data=imm or 0, wr_id=number)
        case Read(_, target, length):
            return WorkRequest(Opcode.RDMA_READ, piece(length), far + target, KEY, wr_id=number)
        case FetchAdd(_, target, add):
            return WorkRequest(Opcode.FETCH_ADD, piece(8), far + target, KEY, compare_add=add, wr_id=number)
        case CompareSwap(_, target, compare, swap):
            return WorkRequest(
                Opcode.COMPARE_SWAP,
                piece(8),
                far + target,
                KEY,
                compare_add=compare,
                swap=swap,
                wr_id=number,
            )


@dataclass
class Explored:
    """What a search has seen."""

    states: int = 0
    steps: int = 0
    interleavings: int = 0
    """Different sequences of steps from the first state to a last one."""
    ends: Counter[str] = field(default_factory=Counter)


def explore(world: World, check: Callable[[World], None], judge: Callable[[World], str]) -> Explored:
    """Visit every state that `world` can come to; `check` each one, `judge` (and name) those without a next.

    Raises: AssertionError with the steps that led there, where either fails or a state comes again after
    itself, which would be a livelock.
    """
    found = Explored()
    ways: dict[bytes, int] = {}
    path: list[Action] = []
    on_path: set[bytes] = set()

    def visit() -> int:
        state = world.fingerprint()
        assert state not in on_path, "a livelock"
        known = ways.get(state)
        if known is not None:
            return known
        found.states += 1
        check(world)
        actions = world.actions()
        if not actions:
            found.ends[judge(world)] += 1
            ways[state] = 1
            return 1
        kept, count = world.keep(), 0
        on_path.add(state)
        for action in actions:
            path.append(action)
            found.steps += 1
            world.step(action)
            count += visit()
            world.go_back_to(kept)
            path.pop()
        on_path.discard(state)
        ways[state] = count
        return count

    try:
        found.interleavings = visit()
    except AssertionError as error:
        raise AssertionError(f"{error}\nafter {path}") from error
    return found
