# SPDX-License-Identifier: Apache-2.0
"""The engine over arrays and the reference of plain objects, given the same: frames, completions, arrivals,
drops, states, deadlines and memory are equal, whatever happens on the wire between two of each.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nicemu.abi import Access, Opcode, Sge, WorkRequest
from nicemu.errors import NicemuError
from nicemu.rdma.dcqcn import Dcqcn
from nicemu.rdma.roce import Datagram, QpState, QpType, RoceEngine
from nicemu.wire import icrc, internet_checksum
from tests.unit.rdma.reference.roce import RoceEngine as Reference

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.rdma.conftest import GuardedMemory

    NewMemory = Callable[[], GuardedMemory]
A_QPS, B_QPS = (7, 8), (9, 0x123456)
A_UD, B_UD = 30, 31
Q_KEY = 0x1234
DCQCN = Dcqcn(
    line_rate_bits_per_s=10e9, byte_counter_bytes=3000, g=1 / 16, alpha_timer_ns=3000, increase_timer_ns=2000
)
SOURCE, TARGET, CELLS = 0x1000, 0x80000, 0x200000
REGION_BYTES = 3000
KINDS = (
    Opcode.RDMA_WRITE,
    Opcode.RDMA_WRITE_WITH_IMM,
    Opcode.RDMA_READ,
    Opcode.SEND,
    Opcode.SEND_WITH_IMM,
    Opcode.COMPARE_SWAP,
    Opcode.FETCH_ADD,
)
LENGTHS = (0, 1, 7, 8, 255, 256, 257, 600, 1025, 2500)


class Side:
    """One NIC twice: an engine and a reference, each with its own memory of the same content."""

    def __init__(self, new_memory: NewMemory, number: int, seed: int) -> None:
        self.memories = new_memory(), new_memory()
        mac, ip = b"\x02\0\0\0\0" + bytes([number]), f"10.0.0.{number}"
        self.drops: tuple[Counter[str], Counter[str]] = (Counter(), Counter())
        memories, rngs = self.memories, (random.Random(seed), random.Random(seed))
        self.engine = RoceEngine(memories[0].state, mac, ip, rngs[0], self.drops[0], dcqcn=DCQCN)
        self.reference = Reference(memories[1], mac, ip, rngs[1], self.drops[1], DCQCN)
        content = random.Random(number).randbytes(REGION_BYTES)
        self.keys = [self.register(address, content) for address in (SOURCE, TARGET, CELLS)]
        self.other_domain = self.register(TARGET << 1, content, 2)
        self.read_only = self.register(TARGET << 2, content, 1, Access.REMOTE_READ)

    def register(self, *args: Any) -> int:  # noqa: ANN401
        first, second = (memory.register(*args) for memory in self.memories)
        assert first == second
        return first

    def take_back(self) -> None:
        """Take the key back that peers alone use, and register its memory anew."""
        for memory in self.memories:
            memory.deregister(self.keys[2])
        self.keys[2] = self.register(CELLS, bytes(REGION_BYTES))

    def both(self, name: str, *args: Any, **fields: Any) -> Any:  # noqa: ANN401
        """Do the same with both; they return, or refuse, the same."""
        results: list[Any] = []
        for made in (self.engine, self.reference):
            try:
                results.append(getattr(made, name)(*args, **fields))
            except NicemuError as refused:
                results.append((type(refused), str(refused)))
        assert results[0] == results[1], name
        return results[0]

    def compare(self, queue_pairs: tuple[int, ...]) -> None:
        """What can be seen from outside is equal."""
        self.both("take_completions")
        self.both("take_arrivals")
        self.both("next_deadline_ns")
        assert self.drops[0] == self.drops[1]
        for qp_num in queue_pairs:
            self.both("state", qp_num)
            self.both("local", qp_num)
        for key in (*self.keys, self.other_domain, self.read_only):
            assert self.memories[0].content(key) == self.memories[1].content(key)
        assert self.memories[0].guards_hold()


class World:
    """Two NICs with two connections; everything is done to engine and reference alike."""

    def __init__(self, new_memory: NewMemory, rng: random.Random) -> None:
        self.rng = rng
        self.now_ns = 0
        self.sides = Side(new_memory, 1, 11), Side(new_memory, 2, 12)
        self.numbers = A_QPS, B_QPS
        self.seen: list[bytes] = []
        self.attributes = attributes = {
            "path_mtu": rng.choice([256, 256, 512, 4096]),
            "retry_count": rng.choice([1, 3, 7]),
            "rnr_retry": rng.choice([1, 7]),
            "send_queue_depth": rng.choice([2, 40]),
            "receive_queue_depth": rng.choice([3, 40]),
            "timeout_ns": rng.choice([0, 50_000, 50_000, 50_000]),
            "implicit_receives": rng.random() < 0.2,
            "selective_retransmission": rng.random() < 0.5,
            "congestion_control": rng.random() < 0.5,
        }
        for a_qp, b_qp in zip(A_QPS, B_QPS, strict=True):
            for side, number in zip(self.sides, (a_qp, b_qp), strict=True):
                side.both("create_qp", number, 1, **attributes)
            self.connect(a_qp, b_qp)
        self.handles = []
        for which, number in enumerate((A_UD, B_UD)):
            side = self.sides[which]
            options = {**attributes, "qp_type": QpType.UD, "q_key": Q_KEY}
            options |= {"selective_retransmission": False, "congestion_control": False}
            side.both("create_qp", number, 1, **options)
            self.ready(side, number)
            for _ in range(2):
                handle = side.both(
                    "create_address_handle", b"\2\0\0\0\0" + bytes([2 - which]), f"10.0.0.{2 - which}"
                )
            self.handles.append(handle)

    def ready(self, side: Side, number: int) -> None:
        """Have a queue pair of datagrams send and receive."""
        for state in (QpState.INIT, QpState.RTR, QpState.RTS):
            side.both("modify", number, state)

    def connect(self, *numbers: int) -> None:
        """Join two queue pairs in RESET."""
        ends = [
            replace(side.both("local", number), psn=self.rng.choice([0, 5, 0xFFFFFA, 0x654321]))
            for side, number in zip(self.sides, numbers, strict=True)
        ]
        for side, own, other in zip(self.sides, ends, ends[::-1], strict=True):
            side.both("modify", own.qp_num, QpState.INIT)
            side.both("modify", own.qp_num, QpState.RTR, remote=other)
            side.both("modify", own.qp_num, QpState.RTS, sq_psn=own.psn)

    def connect_anew(self) -> None:
        """Reset, or make anew, a connection of which an end is in an error state."""
        for side, number in zip(self.sides, (A_UD, B_UD), strict=True):
            if side.engine.state(number) is QpState.SQE:
                side.both("modify", number, QpState.RTS)
            elif side.engine.state(number) is QpState.ERR:
                side.both("modify", number, QpState.RESET)
                self.ready(side, number)
        for numbers in zip(A_QPS, B_QPS, strict=True):
            states = [side.engine.state(n) for side, n in zip(self.sides, numbers, strict=True)]
            if QpState.ERR in states or QpState.SQE in states:
                destroys = self.rng.random() < 0.3
                for side, number in zip(self.sides, numbers, strict=True):
                    if destroys:
                        side.both("destroy_qp", number)
                        side.both("create_qp", number, 1, **self.attributes)
                    else:
                        side.both("modify", number, QpState.RESET)
                self.connect(*numbers)

    def pieces(self, side: Side, length: int) -> tuple[Sge, ...]:
        rng = self.rng
        key, start = rng.choice([(side.keys[0], SOURCE), (side.keys[1], TARGET)])
        if rng.random() < 0.01:
            key = rng.choice([0, key + 9, side.other_domain])
        first = rng.randrange(length + 1) if rng.random() < 0.3 else length
        place = start + rng.randrange(REGION_BYTES - 2500)
        pieces = [Sge(place, first, key)]
        if first < length or rng.random() < 0.1:
            pieces.append(Sge(place + 100, length - first, key))
        return tuple(pieces)

    def post(self, which: int) -> None:
        rng, side, other = self.rng, self.sides[which], self.sides[1 - which]
        opcode = rng.choice(KINDS) if rng.random() < 0.995 else Opcode.COUNTER_ADD
        atomic = opcode in (Opcode.COMPARE_SWAP, Opcode.FETCH_ADD)
        length = 8 if atomic and rng.random() < 0.99 else rng.choice(LENGTHS)
        rkey, address = rng.choice([(other.keys[1], TARGET), (other.keys[2], CELLS)])
        if rng.random() < 0.02:
            rkey = rng.choice([0, rkey + 1, other.other_domain, other.read_only])
        address += 8 * rng.randrange(60) + (rng.random() < 0.01) * rng.choice([3, -100, REGION_BYTES])
        work = WorkRequest(
            opcode,
            self.pieces(side, length),
            address,
            rkey,
            rng.getrandbits(32),
            compare_add=rng.choice([0, 1, (1 << 64) - 1]),
            swap=rng.getrandbits(64),
            wr_id=rng.getrandbits(64),
        )
        side.both("post_send", rng.choice(self.numbers[which]), work, rng.getrandbits(32), self.now_ns)

    def post_datagram(self, which: int) -> None:
        rng, side = self.rng, self.sides[which]
        opcode = rng.choice([Opcode.SEND, Opcode.SEND_WITH_IMM] * 9 + [Opcode.RDMA_WRITE])
        length = rng.choice([0, 1, 7, 200, 256] if rng.random() < 0.95 else LENGTHS)
        work = WorkRequest(
            opcode, self.pieces(side, length), imm_data=rng.getrandbits(32), wr_id=rng.getrandbits(64)
        )
        q_key = Q_KEY if rng.random() < 0.95 else rng.getrandbits(32)
        qp_num = (B_UD, A_UD)[which] if rng.random() < 0.97 else rng.choice([*A_QPS, *B_QPS, 5])
        to = Datagram(self.handles[which], qp_num, q_key)
        side.both("post_send", (A_UD, B_UD)[which], work, rng.getrandbits(32), self.now_ns, to=to)
        if rng.random() < 0.01:
            side.both("destroy_address_handle", self.handles[which])
            mac = b"\2\0\0\0\0" + bytes([2 - which])
            ip = f"10.0.0.{2 - which}"
            self.handles[which] = side.both(
                "create_address_handle", mac, ip, traffic_class=rng.choice([0, 8])
            )

    def receive(self, which: int) -> None:
        side = self.sides[which]
        sges = self.pieces(side, self.rng.choice((0, 8, *[2500] * 20)))
        number = self.rng.choice([*self.numbers[which], (A_UD, B_UD)[which]])
        side.both("post_receive", number, self.rng.getrandbits(64), sges)

    def carry(self, which: int, faults: float) -> None:
        """Take frames from one side and give most of them to the other, some changed or again."""
        rng, target = self.rng, self.sides[1 - which]
        limit = rng.choice([None, None, 1, 3, 20])
        arriving = []
        marks = rng.random() < 0.2
        for frame in self.sides[which].both("take_frames", limit):
            self.seen.append(frame)
            if rng.random() < faults:
                arriving += self.faulty(frame)
            else:
                arriving.append(marked(frame) if marks and rng.random() < 0.3 else frame)
        if rng.random() < faults and arriving:
            rng.shuffle(arriving)
        for frame in arriving:
            target.both("on_frame", frame, self.now_ns)

    def faulty(self, frame: bytes) -> list[bytes]:
        """Lose, repeat, corrupt, cut, splice or forge a frame."""
        rng, other = self.rng, self.rng.choice(self.seen)
        place = rng.randrange(len(frame))
        match rng.randrange(9):
            case 8:
                return [other] * rng.choice([3, 70, 300])
            case 0 | 1:
                return []
            case 2:
                return [frame, frame]
            case 3:
                return [frame[:place] + bytes([frame[place] ^ 1 << rng.randrange(8)]) + frame[place + 1 :]]
            case 4:
                return [frame[:place]]
            case 5:
                return [frame[:place] + other[place:], frame]
            case 6:
                return [other, frame]
        changed = bytearray(frame)
        for _ in range(rng.randrange(1, 4)):
            field = rng.choice([42, 43, 46, 47, 48, 49, 50, 51, 52, 53, rng.randrange(14, len(frame))])
            changed[field] = rng.choice([0, 1, 0xFF, changed[field] ^ 1, rng.randrange(32)])
        return [seal(changed)]

    def step(self, faults: float) -> None:
        rng, which = self.rng, self.rng.randrange(2)
        chance = rng.random()
        if chance < 0.28:
            self.post(which)
        elif chance < 0.35:
            self.post_datagram(which)
        elif chance < 0.55:
            self.receive(which)
        elif chance < 0.9:
            self.carry(which, faults)
        elif chance < 0.97:
            self.now_ns += rng.choice([1, 1000, 60_000, 1_000_000])
            for side in self.sides:
                side.both("on_timer", self.now_ns)
        elif chance < 0.975:
            state = rng.choice([QpState.SQD, QpState.RTS, QpState.SQE, QpState.ERR])
            number = rng.choice([*self.numbers[which], (A_UD, B_UD)[which]])
            self.sides[which].both("modify", number, state)
        if rng.random() < 0.05:
            self.connect_anew()
        if rng.random() < 0.01:
            self.sides[which].take_back()
        for side, numbers, datagrams in zip(self.sides, self.numbers, (A_UD, B_UD), strict=True):
            side.compare((*numbers, datagrams))


def marked(frame: bytes) -> bytes:
    """Return a frame as a router leaves it that is congested."""
    changed = bytearray(frame)
    changed[15] |= 3
    return seal(changed)


def seal(frame: bytearray) -> bytes:
    """Make checksum and ICRC fit, so that a change reaches what lies behind them."""
    if len(frame) < 58:
        return bytes(frame)
    frame[24:26] = b"\0\0"
    frame[24:26] = internet_checksum(bytes(frame[14:34])).to_bytes(2, "big")
    frame[-4:] = icrc(bytes(frame[14:34]), bytes(frame[34:42]), [bytes(frame[42:-4])])
    return bytes(frame)


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.02, 0.1, 0.4]))
@settings(max_examples=120, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_engine_does_what_the_reference_does(new_memory: NewMemory, seed: int, faults: float) -> None:
    world = World(new_memory, random.Random(seed))
    for _ in range(120):
        world.step(faults)


@pytest.mark.parametrize("seed", range(3))
def test_the_engine_does_what_the_reference_does_for_long(new_memory: NewMemory, seed: int) -> None:
    world = World(new_memory, random.Random(f"long/{seed}"))
    for _ in range(2000):
        world.step(0.03)
        if world.rng.random() < 0.01:
            world.seen = world.seen[-50:]
