# SPDX-License-Identifier: Apache-2.0
"""The RoCEv2 engine: two of them in this process on one core, frames handed over in memory.

Work is posted, frames are made and taken, and ends and arrivals counted by the engines' own compiled code; a
compiled loop hands frames from one to the other as a port would, in batches. Every ICRC is made and checked,
every byte is copied into a frame and out of it. Large writes alternate with zlib.crc32 over the same bytes.
Prints `name value unit` lines. Goals: writes of 1 MiB at path MTU 4096 at zlib's rate; 1 M writes of 64 bytes
a second over one queue pair and over 64; what a write costs flat within 1.5x from 1 to 10,000 queue pairs. At
1 % loss the goodput of go-back-N is stated: by the clock, and in turns of the wire, each of which carries a
batch of frames and then lets TURN_NS of virtual time pass; and, over a simulated link of a rate and a delay,
in virtual time, that of go-back-N and of selective retransmission, with the longest stall of either.
Run: python benchmarks/roce.py [--json]
"""

from __future__ import annotations

import random
import time
import zlib
from collections import Counter
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from nicemu.abi import Access, Opcode, registers
from nicemu.errors import VerbsStatus
from nicemu.hot import Int, hot
from nicemu.pcie import Backing
from nicemu.programs import load_module
from nicemu.rdma import (
    POSTED,
    MemoryRegionTable,
    QpState,
    RoceEngine,
    RoceState,
    give_out,
    new_state,
    run_timers,
    take_in,
)

reports = load_module(Path(__file__).with_name("rig") / "report.py")
links = load_module(Path(__file__).with_name("rig") / "simulated_link.py")

MEMORY_BYTES: Final = 64 << 20
IOVA: Final = 0x1_0000_0000
WRITE_BYTES: Final = 1 << 20
ROUNDS: Final = 15
BATCH: Final = 128
ROOM_BYTES: Final = 768 << 10
LONGEST: Final = 4352
TIMEOUT_NS: Final = 1_000_000
TURN_NS: Final = 10_000
"""Virtual time that a turn of the wire takes, where frames are lost."""
PAIR_COUNTS: Final = (1, 100, 10_000)
LINK_BYTES_PER_NS: Final = 12.5
LINK_DELAY_NS: Final = 5000
"""The simulated link: 100 Gb/s, and 5 us there."""
LINK_WRITES: Final = 32


@hot
def take_reports(near: RoceState, far: RoceState, counts: np.ndarray) -> None:
    """Add to `counts` what has ended well at one end, ended otherwise, and arrived at the other."""
    for number in range(near.engine[0].ended_count):
        counts[0 if near.ended[number].status == 0 else 1] += 1
    counts[2] += far.engine[0].arrived_count
    near.engine[0].ended_count = far.engine[0].arrived_count = 0


@hot
def exchange(
    near: RoceState,
    far: RoceState,
    memory: Int,
    offsets: np.ndarray,
    lengths: np.ndarray,
    counts: np.ndarray,
    now_ns: Int,
) -> Int:
    """Hand frames over in both directions until there are none; return how many there were."""
    total = 0
    while True:
        take_reports(near, far, counts)
        count = give_out(near, memory, ROOM_BYTES, LONGEST, offsets, lengths, BATCH)
        take_in(far, memory, offsets[:count], lengths[:count], 0, now_ns)
        back = give_out(far, memory, ROOM_BYTES, LONGEST, offsets, lengths, BATCH)
        take_in(near, memory, offsets[:back], lengths[:back], 0, now_ns)
        total += count + back
        if count == 0 and back == 0:
            return total


@hot
def exchange_with_loss(
    near: RoceState,
    far: RoceState,
    memory: Int,
    offsets: np.ndarray,
    lengths: np.ndarray,
    counts: np.ndarray,
    lost: np.ndarray,
) -> Int:
    """As `exchange`, of which `lost` says what the wire loses; return the turns that the wire had.

    Where nothing moves, time goes on, a turn at a time.
    """
    turns, place, idle = 0, 0, 0
    while idle < 200:
        turns += 1
        take_reports(near, far, counts)
        now_ns = turns * TURN_NS
        moved = 0
        for way in range(2):
            if way == 0:
                count = give_out(near, memory, ROOM_BYTES, LONGEST, offsets, lengths, BATCH)
            else:
                count = give_out(far, memory, ROOM_BYTES, LONGEST, offsets, lengths, BATCH)
            moved += count
            for number in range(count):
                place = (place + 1) % len(lost)
                if lost[place] != 0:
                    lengths[number] = 0
            if way == 0:
                take_in(far, memory, offsets[:count], lengths[:count], 0, now_ns)
            else:
                take_in(near, memory, offsets[:count], lengths[:count], 0, now_ns)
        run_timers(near, now_ns)
        run_timers(far, now_ns)
        idle = 0 if moved != 0 else idle + 1
    return turns - idle


class Node:
    """A NIC's RDMA state and engine, with one region of memory."""

    def __init__(self, number: int) -> None:
        self.public, self.memory = Backing.anonymous(registers.PUBLIC_BYTES), Backing.anonymous(MEMORY_BYTES)
        state = new_state(self.public.address)
        state.backings[0] = self.memory.address
        table = MemoryRegionTable(self.public.address + registers.REGION_TABLE, random.Random(number))
        rights = Access.LOCAL_WRITE | Access.REMOTE_WRITE
        self.key = table.register(1, IOVA, MEMORY_BYTES, rights, 0, 0).key
        mac, self.drops = bytes([2, 0, 0, 0, 0, number]), Counter[str]()
        self.engine = RoceEngine(state, mac, f"10.0.0.{number}", random.Random(number), self.drops)


class Wire:
    """Two nodes with `count` connections; `options` are further attributes of their queue pairs."""

    def __init__(self, count: int, **options: bool) -> None:
        self.near, self.far = Node(1), Node(2)
        self.count = count
        self.near.memory.view[:] = np.random.default_rng(1).bytes(MEMORY_BYTES)
        self.room = np.zeros(ROOM_BYTES, np.uint8)
        self.places = np.zeros(BATCH, np.int64), np.zeros(BATCH, np.int64)
        engines = self.near.engine, self.far.engine
        for number in range(1, count + 1):
            for engine in engines:
                engine.create_qp(number, 1, path_mtu=4096, timeout_ns=TIMEOUT_NS, **options)
                engine.modify(number, QpState.INIT)
            ends = [engine.local(number) for engine in engines]
            for engine, other in zip(engines, reversed(ends), strict=True):
                engine.modify(number, QpState.RTR, remote=other)
                engine.modify(number, QpState.RTS)

    def writes(self, length_bytes: int, count: int) -> np.recarray[Any, Any]:
        """Return writes one behind the other through the memory, a queue pair after the other."""
        works = np.zeros(count, POSTED).view(np.recarray)
        places = IOVA + np.arange(count) * length_bytes % (MEMORY_BYTES - length_bytes)
        works["number"], works["opcode"] = 1 + np.arange(count) % self.count, Opcode.RDMA_WRITE
        works["sge_count"] = 1
        works["address0"], works["length0"], works["lkey0"] = places, length_bytes, self.near.key
        works["remote_address"], works["rkey"] = places, self.far.key
        return works

    def run(self, works: np.recarray[Any, Any], lost: np.ndarray[Any, Any] | None = None) -> tuple[int, int]:
        """Post work, and hand frames over until all is done; return nanoseconds and what `exchange` did."""
        near, far, counts = self.near.engine, self.far.engine, np.zeros(3, np.int64)
        arguments = near._state, far._state, self.room.ctypes.data, *self.places, counts
        began = time.perf_counter_ns()
        posted = near.post_many(works, 0)
        moved = exchange(*arguments, 0) if lost is None else exchange_with_loss(*arguments, lost)
        taken = time.perf_counter_ns() - began
        ended, failed, arrived = counts.tolist()
        if not posted == len(works) == ended == arrived:
            raise SystemExit(f"{posted} writes posted, {ended} ended, {failed} failed, {arrived} arrived")
        return taken, int(moved)

    def check(self, length_bytes: int) -> None:
        """Stop unless the first bytes have arrived."""
        if self.far.memory.view[:length_bytes] != self.near.memory.view[:length_bytes]:
            raise SystemExit("the bytes that arrived are not those that were written")


def crc_ns(data: memoryview) -> int:
    """Return the nanoseconds that zlib takes for the CRC of some bytes."""
    began = time.perf_counter_ns()
    zlib.crc32(data)
    return time.perf_counter_ns() - began


def large_writes(report: Any) -> None:  # noqa: ANN401 - loaded by path
    """Measure writes of 1 MiB over one connection, beside zlib."""
    wire = Wire(1)
    works = wire.writes(WRITE_BYTES, 8)
    length_bytes = len(works) * WRITE_BYTES
    wire.run(works)
    wire.check(length_bytes)
    times: dict[str, list[int]] = {"write": [], "crc": []}
    for _ in range(ROUNDS):
        times["crc"].append(crc_ns(wire.near.memory.view[:length_bytes]))
        times["write"].append(wire.run(works)[0])
    report.add_rounds("writes.1_MiB", [length_bytes / ns for ns in times["write"]], "GB/s")
    report.add_rounds("zlib_crc32", [length_bytes / ns for ns in times["crc"]], "GB/s")
    ratio = median(crc / write for crc, write in zip(times["crc"], times["write"], strict=True))
    report.add_goal("writes.1_MiB.to_zlib", ratio, "ratio", 1.0)


def small_writes(report: Any, pairs: int) -> None:  # noqa: ANN401 - loaded by path
    """Measure writes of 64 bytes."""
    wire = Wire(pairs)
    works = wire.writes(64, 128 * pairs)
    wire.run(works)
    wire.check(64 * len(works))
    rates = [len(works) * 1e3 / wire.run(works)[0] for _ in range(ROUNDS * 3)]
    report.add_goal(f"writes.64_bytes.{pairs}_queue_pairs", median(rates), "M/s", 1.0)


def many_pairs(report: Any) -> None:  # noqa: ANN401 - loaded by path
    """Measure what a write costs beside more and more queue pairs: over one of them, and over all in turn."""
    wires = {count: Wire(count) for count in PAIR_COUNTS}
    for length_bytes in (64, 4096):
        one: dict[int, list[float]] = {count: [] for count in PAIR_COUNTS}
        every: dict[int, list[float]] = {count: [] for count in PAIR_COUNTS}
        works = {count: wire.writes(length_bytes, max(128, count)) for count, wire in wires.items()}
        alone = {count: wire.writes(length_bytes, 128) for count, wire in wires.items()}
        for count in PAIR_COUNTS:
            alone[count]["number"] = count
        for _ in range(ROUNDS):
            for count, wire in wires.items():
                one[count].append(wire.run(alone[count])[0] / 128)
                repeats = max(1, 1000 // count)
                taken = sum(wire.run(works[count])[0] for _ in range(repeats))
                every[count].append(taken / repeats / len(works[count]))
        for name, costs in (("one_of", one), ("each_of", every)):
            middle = {count: median(found) for count, found in costs.items()}
            for count in PAIR_COUNTS:
                report.add(f"write.{length_bytes}_bytes.{name}_{count}", middle[count], "ns")
            growth = middle[PAIR_COUNTS[-1]] / middle[1]
            report.add_goal(f"write.{length_bytes}_bytes.{name}.growth", growth, "ratio", 1.5, at_most=True)


def with_loss(report: Any) -> None:  # noqa: ANN401 - loaded by path
    """Measure writes of 1 MiB over a wire that loses one frame in a hundred, and one that loses none.

    Virtual time counts the stalls: a turn carries a window of frames, and a timer is TIMEOUT_NS.
    """
    wire = Wire(1)
    works = wire.writes(WRITE_BYTES, 8)
    rng = np.random.default_rng(5)
    lost = (rng.random(100_003) < 0.01).astype(np.uint8)
    whole = np.zeros(100_003, np.uint8)
    wire.run(works, whole)
    rates: dict[str, list[float]] = {"whole": [], "lossy": []}
    turns: dict[str, list[float]] = {"whole": [], "lossy": []}
    for _ in range(ROUNDS):
        for name, pattern in (("whole", whole), ("lossy", lost)):
            taken, moved = wire.run(works, pattern)
            rates[name].append(len(works) * WRITE_BYTES / taken)
            turns[name].append(moved)
        lost = np.roll(lost, 7919)
    wire.check(len(works) * WRITE_BYTES)
    report.add_rounds("loss_1_percent.goodput", rates["lossy"], "GB/s")
    report.add("loss_1_percent.to_none", median(rates["lossy"]) / median(rates["whole"]), "ratio")
    virtual = median(turns["lossy"]) / median(turns["whole"])
    report.add("loss_1_percent.turns_of_the_wire", virtual, "ratio")


def over_a_link(loss: float, selective: bool, seed: int) -> tuple[float, int]:
    """Return the goodput of writes of 1 MiB over the simulated link, and the longest stall.

    Goodput is a share of the link's rate. A stall is a time in which the requester neither sends nor hears of
    progress: it waits for its timer.
    """
    wire = Wire(1, selective_retransmission=True) if selective else Wire(1)
    near = wire.near.engine
    pair = near._state.queue_pairs[0]
    seen, since, longest = (0, 0), 0, 0

    def moved(now_ns: int) -> None:
        nonlocal seen, since, longest
        now = int(pair.unanswered_psn), link.sent
        if now != seen:
            longest = max(longest, now_ns - since)
            seen, since = now, now_ns

    rate = {"bytes_per_ns": LINK_BYTES_PER_NS, "delay_ns": LINK_DELAY_NS}
    link = links.SimulatedLink(near, wire.far.engine, **rate, loss=loss, seed=seed, moved=moved)
    for _ in range(LINK_WRITES):
        near.post_many(wire.writes(WRITE_BYTES, 1), link.now_ns)
    link.run()
    done = near.take_completions()
    if [one.status for one in done] != [VerbsStatus.SUCCESS] * LINK_WRITES:
        raise SystemExit(f"{len(done)} of {LINK_WRITES} writes ended, not all of them well")
    wire.check(WRITE_BYTES)
    return LINK_WRITES * WRITE_BYTES / since / LINK_BYTES_PER_NS, longest


def over_links_with_loss(report: Any) -> None:  # noqa: ANN401 - loaded by path
    """Measure go-back-N and selective retransmission over the simulated link, the same in each run."""
    for selective, name in ((False, "go_back_n"), (True, "selective")):
        report.add(f"link.{name}.no_loss.goodput", over_a_link(0.0, selective, 1)[0], "of the link's rate")
        goodputs, stalls = zip(*[over_a_link(0.01, selective, seed) for seed in range(5)], strict=True)
        report.add_rounds(f"link.{name}.loss_1_percent.goodput", list(goodputs), "of the link's rate")
        longest = max(stalls) / TIMEOUT_NS
        report.add_goal(
            f"link.{name}.loss_1_percent.longest_stall", longest, "retry timers", 1.0, at_most=True
        )


def main() -> None:
    """Measure and print."""
    report = reports.Report("roce")
    large_writes(report)
    for pairs in (1, 64):
        small_writes(report, pairs)
    many_pairs(report)
    with_loss(report)
    over_links_with_loss(report)
    report.add("busy_cores", 1, "count")
    report.write()


if __name__ == "__main__":
    main()
