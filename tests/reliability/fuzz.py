# SPDX-License-Identifier: Apache-2.0
"""Fuzzes one RoCEv2 engine with hostile packets, and holds it against a naive responder.

The engine has queue pairs of two sorts. The peers of the *modelled* ones send requests; what each packet must
do to memory, which messages it must complete, and the state and the NAK that it must lead to are told by
`naive_responder`. The *asking* ones post work, and are answered by a peer that lies; every piece of work ends
once, in order, and an error only for a cause that came. Memory lies between guards, with regions of another
domain and of fewer rights beside it; after each batch all of it must be what the naive responder made of it.
Run: python -m tests.reliability.fuzz [--packets 10000000] [--seed 1]
"""

from __future__ import annotations

import argparse
import random
import time
from collections import Counter
from typing import Any

import numpy as np

from nicemu.abi import Access, Opcode, Sge, registers
from nicemu.errors import VerbsStatus
from nicemu.pcie import Backing, store_u32, store_u64
from nicemu.rdma import POSTED, QpState, RemoteQp, RoceEngine, new_state
from nicemu.rdma.roce_state import ERR, RTS
from nicemu.wire import FRAME_REFUSALS
from tests.reliability.hostile_packets import REMOTE, WIDTH, HostilePackets
from tests.reliability.naive_responder import (
    ARRIVAL,
    COUNTS,
    FIRST_NUMBER,
    HEARD_DATA,
    HEARD_NAKS,
    HEARD_RNR,
    PEER,
    REGION,
    follow,
)

Array = np.ndarray[Any, Any]
MODELLED, ASKING = 40, 24
MTUS = (256, 512, 1024)
GUARD_BYTES = PAGE = 4096
RECEIVE_BYTES, RECEIVES, SINK_BYTES, OUTSTANDING = 2600, 12, 4096, 16
OWN_IP, PEER_IP = 0x0A000002, 0x0A000001
MODELLED_DOMAIN, ASKING_DOMAIN = 1, 2
ALL = Access.REMOTE_WRITE | Access.REMOTE_READ | Access.REMOTE_ATOMIC
REGIONS = (  # domain, rights, bytes
    (MODELLED_DOMAIN, ALL, 1 << 14),
    (MODELLED_DOMAIN, Access.REMOTE_READ, 4096),
    (MODELLED_DOMAIN, Access.REMOTE_WRITE, 4096),
    (MODELLED_DOMAIN, Access.LOCAL_WRITE, MODELLED * RECEIVE_BYTES),
    (MODELLED_DOMAIN, None, 4096),  # its key was taken back
    (ASKING_DOMAIN, ALL, 1 << 14),
    (ASKING_DOMAIN, Access.LOCAL_WRITE, ASKING * SINK_BYTES),
)
RECEIVE_REGION, GONE, LOOSE = 3, 4, (5, 6)
"""LOOSE: what asking queue pairs may change, which nobody follows."""
CAUSES = {
    VerbsStatus.REM_INV_REQ_ERR: HEARD_NAKS << 1,
    VerbsStatus.REM_ACCESS_ERR: HEARD_NAKS << 2,
    VerbsStatus.REM_OP_ERR: HEARD_NAKS << 3,
    VerbsStatus.RNR_RETRY_EXC_ERR: HEARD_RNR,
    VerbsStatus.BAD_RESP_ERR: HEARD_DATA,
}
KINDS = (Opcode.RDMA_WRITE, Opcode.SEND_WITH_IMM, Opcode.RDMA_READ, Opcode.FETCH_ADD, Opcode.COMPARE_SWAP)
ARRIVED_READ, ANSWER_ACKNOWLEDGE, RECV = 4, 17, int(Opcode.RECV)
BATCH_NS, TIMEOUT_NS = 10_000, 60_000


class Fuzzer:
    """The engine, its peers, and what is known of both."""

    def __init__(self, seed: int, messages: int = 16) -> None:
        self.rng = np.random.default_rng(seed)
        self.messages = messages
        self.now_ns = self.packets = self.batches = self.reconnected = 0
        self.final: Counter[str] = Counter()
        self.drops: Counter[str] = Counter()
        self._lay_out()
        self.engine = RoceEngine(
            self._rdma, bytes([2, 0, 0, 0, 0, 2]), "10.0.0.2", random.Random(seed), self.drops
        )
        self.pairs = np.zeros(MODELLED + ASKING, PEER).view(np.recarray)
        self.counts = np.zeros(1, COUNTS).view(np.recarray)
        self.reports = np.zeros(1 << 16, ARRIVAL).view(np.recarray)
        self.make = HostilePackets(seed, OWN_IP, PEER_IP, self.regions)
        total = len(self.pairs)
        self.posted, self.ended = np.zeros(total, np.int64), np.zeros(total, np.int64)
        self.receives_posted, self.receives_ended = np.zeros(total, np.int64), np.zeros(total, np.int64)
        self.failed = np.zeros(total, bool)
        self._out, self._places = np.zeros(4 << 20, np.uint8), np.zeros((2, 4096), np.int64)
        for index in range(total):
            modelled = index < MODELLED
            self.engine.create_qp(
                index + FIRST_NUMBER,
                MODELLED_DOMAIN if modelled else ASKING_DOMAIN,
                path_mtu=MTUS[index % 3] if modelled else 256,
                retry_count=3,
                rnr_retry=2,
                timeout_ns=TIMEOUT_NS,
                send_queue_depth=2 * OUTSTANDING,
                receive_queue_depth=RECEIVES,
            )
            self._connect(index)

    def _lay_out(self) -> None:
        """Register the regions, each between guards, all in one piece of memory full of random bytes."""
        size = GUARD_BYTES + sum(-(-length // PAGE) * PAGE + GUARD_BYTES for _, _, length in REGIONS)
        self._public, self._backing = Backing.anonymous(registers.PUBLIC_BYTES), Backing.anonymous(size)
        self._rdma = new_state(self._public.address)
        self._rdma.backings[0] = self._backing.address
        self.memory = np.frombuffer(self._backing.view, np.uint8, size)
        self.memory[:] = self.rng.integers(0, 256, size, np.uint8)
        self.memory[GUARD_BYTES : GUARD_BYTES + 8192] = (
            0  # so that some COMPARE_SWAPs find what they look for
        )
        self.shadow = self.memory.copy()
        self.followed = np.ones(size, bool)
        """Bytes of which it is known what they must be."""
        self.regions = np.zeros(len(REGIONS), REGION).view(np.recarray)
        place = GUARD_BYTES
        for number, (domain, rights, length) in enumerate(REGIONS):
            key, iova = 0x5000 | (number + 1), 0x100000 * (number + 1)
            region = self.regions[number]
            region.key, region.pd, region.iova = key, domain, iova
            region.rights, region.length, region.place = int(rights or 0), length, place
            if number in LOOSE:
                self.followed[place : place + length] = False
            entry = self._public.address + registers.REGION_TABLE + (key & 0xFFF) * registers.REGION_BYTES
            for offset, value in ((4, domain), (8, int(rights or 0))):
                store_u32(entry + offset, value)
            for offset, value in ((16, iova), (24, length), (32, place)):
                store_u64(entry + offset, value)
            store_u32(entry, 0 if rights is None else key)
            place += -(-length // PAGE) * PAGE + GUARD_BYTES

    def _connect(self, index: int) -> None:
        """Bring a queue pair from RESET to RTS, for a peer whose PSNs begin anywhere."""
        number, engine = index + FIRST_NUMBER, self.engine
        psn = int(self.rng.choice([0, 5, 0xFFFFF0, 0xFFFFFF, int(self.rng.integers(0, 1 << 24))]))
        remote = RemoteQp(bytes([2, 0, 0, 0, 0, 1]), "10.0.0.1", number + REMOTE, psn)
        engine.modify(number, QpState.INIT)
        engine.modify(number, QpState.RTR, remote=remote)
        engine.modify(number, QpState.RTS, sq_psn=psn)
        pair = self.pairs[index]
        self.pairs[index] = np.zeros((), PEER)
        pair.modelled, pair.alive, pair.expected = index < MODELLED, 1, psn
        pair.pd = MODELLED_DOMAIN if index < MODELLED else ASKING_DOMAIN
        pair.mtu = MTUS[index % 3] if index < MODELLED else 256
        pair.receive_room = RECEIVE_BYTES
        pair.receive_place = self.regions[RECEIVE_REGION].place + index * RECEIVE_BYTES
        self.failed[index] = False
        for counted in (self.posted, self.ended, self.receives_posted, self.receives_ended):
            counted[index] = 0

    # One batch

    def batch(self) -> int:
        """Send a batch and hold what comes of it against what must come of it; return how many packets."""
        self.now_ns += BATCH_NS
        alive = self._states() == RTS
        self._post_receives(alive)
        asked = self._post_work(alive)
        self.pairs["reads"] = self.pairs["heard"] = 0
        ready = np.flatnonzero(alive[:MODELLED])
        paused = self.rng.random(len(ready)) < 0.1  # peers that stop, maybe in mid-message
        rows = self.make.messages(self.pairs, ready[~paused] if not paused.all() else ready, self.messages)
        if len(asked):
            answers = self.make.answers(asked[:, 0], asked[:, 1], asked[:, 2], asked[:, 3], 256)
            if self.rng.random() < 0.1:  # a storm of answers
                storm = np.repeat(self.rng.integers(0, len(answers["index"]), 40), 25)
                answers = {name: np.append(column, column[storm]) for name, column in answers.items()}
            rows = {name: np.concatenate([column, answers[name]]) for name, column in rows.items()}
        frames, lengths = self.make.frames(self.make.with_wrong_ones(rows, 0.1))
        self._take(frames, lengths)
        self.packets += len(lengths)
        self.batches += 1
        return len(lengths)

    def _take(self, frames: Array, lengths: Array) -> None:
        self.pairs["alive"] = self._states() == RTS
        before = Counter({name: self.drops[name] for name in FRAME_REFUSALS})
        malformed = int(self.counts["malformed"][0])
        was_alive = self.pairs["alive"] != 0
        reported = follow(
            self.pairs, frames, lengths, frames.ctypes.data, OWN_IP, PEER_IP, self.regions, self.shadow,
            self.counts, self.reports,
        )  # fmt: skip
        offsets = np.arange(len(lengths)) * WIDTH
        self.engine.on_memory(frames.ctypes.data, offsets, lengths, self.now_ns)
        naks = self._give_out()
        refused = sum(self.drops[name] - before[name] for name in FRAME_REFUSALS)
        assert refused == int(self.counts["malformed"][0]) - malformed, "a frame is taken for valid, or not"
        self._check_arrivals(self.reports[:reported])
        self.engine.on_timer(self.now_ns)
        self._give_out()
        self._check_ended()
        self._check_states(was_alive, naks)
        assert (self.memory[self.followed] == self.shadow[self.followed]).all(), (
            "memory is not what it must be"
        )

    def _states(self) -> Array:
        return np.array(self.engine._state.queue_pairs["state"][: len(self.pairs)])

    def _post_receives(self, alive: Array) -> None:
        region = self.regions[RECEIVE_REGION]
        for index in np.flatnonzero(alive[:MODELLED]).tolist():
            piece = (Sge(int(region.iova) + index * RECEIVE_BYTES, RECEIVE_BYTES, int(region.key)),)
            free = RECEIVES - int(self.pairs[index].receives)
            if free and self.rng.random() < 0.9:
                for _ in range(free):
                    assert self.engine.post_receive(index + FIRST_NUMBER, 1, piece)
                self.pairs[index].receives += free
                self.receives_posted[index] += free

    def _post_work(self, alive: Array) -> Array:
        """Post work to the asking ones, and return what is asked: index, PSN, opcode, length."""
        room = OUTSTANDING - (self.posted - self.ended)[MODELLED:]
        index = np.repeat(np.arange(MODELLED, MODELLED + ASKING), np.where(alive[MODELLED:], room, 0))
        if len(index):
            sink, target = self.regions[LOOSE[1]], self.regions[LOOSE[0]]
            works = np.zeros(len(index), POSTED).view(np.recarray)
            works["number"], works["opcode"] = index + FIRST_NUMBER, self.rng.choice(KINDS, len(index))
            atomic = works["opcode"] >= min(int(Opcode.FETCH_ADD), int(Opcode.COMPARE_SWAP))
            works["length0"] = np.where(atomic, 8, self.rng.choice([0, 1, 8, 256, 500], len(index)))
            works["sge_count"], works["lkey0"] = 1, sink.key
            works["address0"] = (
                sink.iova + (index - MODELLED) * SINK_BYTES + 8 * self.rng.integers(0, 400, len(index))
            )
            works["remote_address"], works["rkey"] = target.iova, target.key
            works["wr_id"] = self.posted[index] + np.arange(len(index)) - np.searchsorted(index, index)
            assert self.engine.post_many(works, self.now_ns) == len(index)
            np.add.at(self.posted, index, 1)
        return self._give_out(requests=True)

    def _give_out(self, requests: bool = False) -> Array:
        """Take all frames; return the NAKs (index, code), or the requests (index, PSN, opcode, length)."""
        found = []
        while count := self.engine.frames_into(self._out, self._places[0], self._places[1]):
            heads = self._out[self._places[0, :count, None] + np.arange(70)].astype(np.int64)
            opcode = heads[:, 42]
            index = (heads[:, 47] << 16 | heads[:, 48] << 8 | heads[:, 49]) - FIRST_NUMBER - REMOTE
            assert ((index >= 0) & (index < len(self.pairs))).all()
            if requests:
                psn = heads[:, 51] << 16 | heads[:, 52] << 8 | heads[:, 53]
                dma = heads[:, 66] << 24 | heads[:, 67] << 16 | heads[:, 68] << 8 | heads[:, 69]
                chosen = (index >= MODELLED) & ((opcode < 13) | (opcode > 18))
                found.append(np.stack([index, psn, opcode, dma], 1)[chosen])
            else:
                syndrome = heads[:, 54]
                chosen = (opcode == ANSWER_ACKNOWLEDGE) & (syndrome >> 5 == 3) & (syndrome != 0x60)
                found.append(np.stack([index, syndrome & 0x1F], 1)[chosen])
        return np.concatenate(found) if found else np.zeros((0, 4 if requests else 2), np.int64)

    # What must be

    def _check_arrivals(self, expected: Array) -> None:
        arrived = self.engine.take_arrived()
        np.add.at(self.receives_ended, arrived["number"][arrived["wr_id"] != 0] - FIRST_NUMBER, 1)
        ours = arrived[(arrived["kind"] != ARRIVED_READ) & (arrived["number"] < FIRST_NUMBER + MODELLED)]
        imm = np.where(ours["has_imm"] != 0, ours["imm_data"].astype(np.int64), -1)
        for name, seen in (
            ("number", ours["number"]),
            ("kind", ours["kind"]),
            ("length", ours["byte_len"]),
            ("imm", imm),
        ):
            assert np.array_equal(seen, expected[name]), f"messages that are complete: {name}"

    def _check_ended(self) -> None:
        """Work ends once and in order: well, then for a cause that came, then flushed."""
        ended = self.engine.take_ended()
        received = ended[ended["opcode"] == RECV]
        np.add.at(self.receives_ended, received["number"] - FIRST_NUMBER, 1)
        sent = ended[ended["opcode"] != RECV]
        for number, wr_id, status in zip(
            *(sent[n].tolist() for n in ("number", "wr_id", "status")), strict=True
        ):
            index = number - FIRST_NUMBER
            assert wr_id == self.ended[index], "work ends out of order, or twice"
            self.ended[index] += 1
            if self.failed[index]:
                assert status == VerbsStatus.WR_FLUSH_ERR
            elif status:
                self.failed[index] = True
                cause = CAUSES.get(VerbsStatus(status))
                assert cause is None or self.pairs[index].heard & cause, (
                    f"{VerbsStatus(status)!r} without a cause"
                )
                self.final[f"asking: {VerbsStatus(status).name}"] += 1

    def _check_states(self, was_alive: Array, naks: Array) -> None:
        states = self._states()
        pairs = self.engine._state.queue_pairs[: len(self.pairs)]
        assert set(np.unique(states).tolist()) <= {RTS, ERR}
        modelled = slice(0, MODELLED)
        alive = self.pairs["alive"] != 0
        assert np.array_equal(states[modelled] == RTS, alive[modelled]), (
            "a state that the specification does not name"
        )
        expected = pairs["expected_psn"][modelled] & 0xFFFFFF
        assert (expected == self.pairs["expected"][modelled])[alive[modelled]].all()
        assert not (self.failed & (states == RTS)).any()
        died = np.flatnonzero(was_alive[modelled] & ~alive[modelled])
        said = {index: code for index, code in naks.tolist() if index < MODELLED}
        assert said == {index: int(self.pairs[index].nak) for index in died.tolist()}, "fatal NAKs"
        for index in np.flatnonzero(states == ERR).tolist():
            assert self.posted[index] == self.ended[index], "work without an end"
            assert self.receives_posted[index] == self.receives_ended[index], "a receive without an end"
            if index < MODELLED:
                self.final[f"modelled: ERR after NAK {int(self.pairs[index].nak)}"] += 1
            elif not self.failed[index]:
                self.final["asking: ERR, as a request was refused"] += 1
            self.engine.modify(index + FIRST_NUMBER, QpState.RESET)
            self._connect(index)
            self.reconnected += 1

    def end(self) -> None:
        """All peers stop: requesters give up after their retries, responders wait, and flush when told to."""
        while (deadline_ns := self.engine.next_deadline_ns()) is not None:
            self.now_ns = max(self.now_ns, deadline_ns)
            self.engine.on_timer(self.now_ns)
            self._give_out()
            self._check_ended()
        states = self._states()
        assert np.array_equal(self.posted[MODELLED:], self.ended[MODELLED:])
        assert ((states == ERR) == self.failed).all()
        self.final["modelled: RTS at the end"] += int((states[:MODELLED] == RTS).sum())
        self.final["modelled: of those in mid-message"] += int((self.pairs["kind"][:MODELLED] != 0).sum())
        for index in np.flatnonzero(states == RTS).tolist():
            self.engine.modify(index + FIRST_NUMBER, QpState.ERR)
        self._check_ended()
        assert np.array_equal(self.receives_posted, self.receives_ended)
        assert (self.memory[self.followed] == self.shadow[self.followed]).all()


def fuzz(seed: int, packets: int, messages: int = 16) -> Fuzzer:
    """Fuzz an engine with at least so many packets."""
    fuzzer = Fuzzer(seed, messages)
    while fuzzer.packets < packets:
        fuzzer.batch()
    fuzzer.end()
    return fuzzer


def main() -> None:
    """Fuzz, and print what came of it as `name value` lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--packets", type=int, default=10_000_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    fuzzer = Fuzzer(options.seed)
    start_s, shown = time.monotonic(), 0
    while fuzzer.packets < options.packets:
        fuzzer.batch()
        if fuzzer.packets >= shown + options.packets // 20:
            shown = fuzzer.packets
            print(f"{shown} packets, {time.monotonic() - start_s:.0f} s", flush=True)
    fuzzer.end()
    print(f"packets {fuzzer.packets}, {time.monotonic() - start_s:.0f} s")
    print(f"connected again {fuzzer.reconnected} times")
    for title, table in (
        ("made", fuzzer.make.made),
        ("naive responder", {name: int(fuzzer.counts[name][0]) for name in COUNTS.names or ()}),
        ("dropped", fuzzer.drops),
        ("final", fuzzer.final),
    ):
        for name, count in sorted(table.items()):
            print(f"{title}: {name} {count}")
    least = int(fuzzer.make.touched.min())
    print(f"least often changed header byte {int(fuzzer.make.touched.argmin())}: {least} times")


if __name__ == "__main__":
    main()
