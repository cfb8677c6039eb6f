# SPDX-License-Identifier: Apache-2.0
"""The RoCEv2 engine over ports: two processes with an engine each, one core a side, writes of 1 MiB.

Path MTU 4096, every ICRC made and checked, as in `roce.py`, whose in-process figure (both engines on one
core) alternates with this one. A compiled loop moves frames between engine and port. Goals: over shared
memory 0.8 of in process; over UDP on loopback 0.6 of a plain UDP blast in the same run, which sends the same
bytes of memory as datagrams of the same length, as large messages (UDP_SEGMENT, UDP_GRO), without an engine,
and loses what does not fit. What a blast of one buffer comes to, that stays in the caches, stands beside it.
Prints `name value unit` lines.
Run: python benchmarks/roce_ports.py [--json]
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from nicemu.fabric import (
    Incoming,
    Outgoing,
    RoceUdpPort,
    SharedMemoryPort,
    UdpPeer,
    put_frames,
    receive_frames,
    send_frames,
    take_frames,
)
from nicemu.hot import Int, hot
from nicemu.pcie import monotonic_ns
from nicemu.programs import load_module
from nicemu.rdma import QpState, RemoteQp, RoceState, give_out, run_timers, take_in
from nicemu.wire import FrameBatch

roce = load_module(Path(__file__).with_name("roce.py"))
pairs = load_module(Path(__file__).with_name("rig") / "pair.py")
reports = load_module(Path(__file__).with_name("rig") / "report.py")

ROUNDS: Final = 15
WRITES: Final = 64
PAIRS: Final = 8
RECEIVED_FRAMES: Final = 256
BATCH: Final = 15
"""Frames that are made at a time: as many as one UDP message holds."""
RING_BYTES: Final = 1 << 20
TIMEOUT_NS: Final = 250_000_000
PATIENCE: Final = 200_000_000
UDP_PATIENCE: Final = 5_000_000
BLAST_S: Final = 0.03
DATAGRAM_BYTES: Final = 4112
"""BTH, 4096 bytes and the ICRC."""
HOST: Final = "127.0.0.1"
UDP_SEGMENT, UDP_GRO = 103, 104
SEGMENTS: Final = 15
ROOM_BYTES, LONGEST = roce.ROOM_BYTES, roce.LONGEST


@hot
def over_ring(
    state: RoceState,
    send_ring: tuple[Int, Int, Int],
    receive_ring: tuple[Int, Int, Int],
    own_tail: np.ndarray,
    own_head: np.ndarray,
    memory: Int,
    offsets: np.ndarray,
    lengths: np.ndarray,
    counts: np.ndarray,
    goal: Int,
    most: Int,
) -> Int:
    """Move frames between an engine and a ring until `goal` writes have ended, or arrived, here.

    counts: int64[3], ended well, ended otherwise, arrived. Returns 0 if nothing moves for long.
    """
    idle = 0
    while idle < PATIENCE:
        idle += 1
        for number in range(state.engine[0].ended_count):
            counts[0 if state.ended[number].status == 0 else 1] += 1
        counts[2] += state.engine[0].arrived_count
        state.engine[0].ended_count = state.engine[0].arrived_count = 0
        made = give_out(state, memory, ROOM_BYTES, LONGEST, offsets, lengths, most)
        sent, waited = 0, 0
        while sent < made and waited < PATIENCE:
            waited += 1
            sent = put_frames(
                send_ring[0], send_ring[1], send_ring[2], own_tail, memory, offsets[:made], lengths, sent
            )
        came = take_frames(
            receive_ring[0],
            receive_ring[1],
            receive_ring[2],
            own_head,
            LONGEST,
            memory,
            ROOM_BYTES,
            offsets,
            lengths,
            len(offsets),
        )
        if came > 0:
            take_in(state, memory, offsets[:came], lengths[:came], 0, 0)
        if made > 0 or came > 0:
            idle = 0
        elif counts[0] + counts[1] + counts[2] >= goal:
            return 1
    return 0


@hot
def over_udp(
    state: RoceState,
    fd: Int,
    out: Outgoing,
    into: Incoming,
    memory: Int,
    offsets: np.ndarray,
    lengths: np.ndarray,
    counts: np.ndarray,
    goal: Int,
    most: Int,
    scratch: Int,
) -> Int:
    """As `over_ring`, between an engine and a UDP socket; what is lost is sent again."""
    idle = 0
    while idle < UDP_PATIENCE:
        idle += 1
        for number in range(state.engine[0].ended_count):
            counts[0 if state.ended[number].status == 0 else 1] += 1
        counts[2] += state.engine[0].arrived_count
        state.engine[0].ended_count = state.engine[0].arrived_count = 0
        made = give_out(state, memory, ROOM_BYTES, LONGEST, offsets, lengths, most)
        sent, waited = 0, 0
        while sent < made and waited < UDP_PATIENCE:
            waited += 1
            sent = send_frames(fd, out, memory, offsets[:made], lengths[:made], sent)
        came = receive_frames(fd, into, LONGEST, memory, ROOM_BYTES, offsets, lengths, len(offsets))
        now_ns = np.int64(monotonic_ns(scratch))
        if came > 0:
            take_in(state, memory, offsets[:came], lengths[:came], 0, now_ns)
        if made > 0 or came > 0:
            idle = 0
        else:
            run_timers(state, now_ns)
            if counts[0] + counts[1] + counts[2] >= goal:
                return 1
    return 0


class End:
    """An engine with `PAIRS` queue pairs, and a port of each kind to the other end."""

    def __init__(self, number: int, ring: SharedMemoryPort) -> None:
        self.node = roce.Node(number)
        self.ring = ring
        self.udp = RoceUdpPort(bytes([2, 0, 0, 0, 0, number]), f"10.0.0.{number}", HOST, 0)
        self.plain = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.plain.setsockopt(socket.IPPROTO_UDP, UDP_GRO, 1)
        self.plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
        self.plain.setblocking(False)
        self.plain.bind((HOST, 0))
        self.batch = FrameBatch(ROOM_BYTES, RECEIVED_FRAMES)
        engine = self.node.engine
        for pair in range(1, PAIRS + 1):
            engine.create_qp(pair, 1, path_mtu=4096, timeout_ns=TIMEOUT_NS)
            engine.modify(pair, QpState.INIT)
        self.run_ring(0)  # compiled before anybody waits
        self.run_udp(0)

    def described(self) -> dict[str, Any]:
        """Return what the other end has to know."""
        ends = [self.node.engine.local(pair) for pair in range(1, PAIRS + 1)]
        return {
            "mac": ends[0].mac.hex(),
            "ip": ends[0].ip,
            "psns": [end.psn for end in ends],
            "key": self.node.key,
            "udp_port": self.udp.udp_port,
            "plain_port": self.plain.getsockname()[1],
        }

    def connect(self, other: dict[str, Any]) -> None:
        """Connect queue pairs and ports to the other end."""
        mac, ip = bytes.fromhex(other["mac"]), other["ip"]
        for pair, psn in enumerate(other["psns"], 1):
            self.node.engine.modify(pair, QpState.RTR, remote=RemoteQp(mac, ip, pair, psn))
            self.node.engine.modify(pair, QpState.RTS)
        self.udp.add_peer(UdpPeer(mac, ip, HOST, other["udp_port"]))
        self.plain.connect((HOST, other["plain_port"]))

    def run_ring(self, goal: int) -> list[int]:
        """Move frames over shared memory; return what ended well, otherwise, and arrived."""
        counts = np.zeros(3, np.int64)
        ring, batch = self.ring, self.batch
        ways = ring.send_ring, ring.receive_ring, ring.tail, ring.head
        over_ring(
            self.node.engine._state, *ways, batch.address, batch.offsets, batch.lengths, counts, goal, BATCH
        )
        return counts.tolist()

    def run_udp(self, goal: int) -> list[int]:
        """As `run_ring`, over UDP."""
        counts, scratch = np.zeros(3, np.int64), np.zeros(2, np.int64)
        port, batch = self.udp, self.batch
        places = batch.address, batch.offsets, batch.lengths, counts, goal, BATCH, scratch.ctypes.data
        over_udp(self.node.engine._state, port.fileno(), port.outgoing, port.incoming, *places)
        return counts.tolist()

    def blast(self, mark: int, walked_bytes: int) -> None:
        """Send datagrams for BLAST_S, as large messages, then short ones that hold `mark`.

        They come from `walked_bytes` of memory, one behind the other, again and again.
        """
        size = DATAGRAM_BYTES * SEGMENTS
        places = range(0, max(1, walked_bytes - size), size)
        pieces = [[self.node.memory.view[place : place + size]] for place in places]
        control = [(socket.IPPROTO_UDP, UDP_SEGMENT, DATAGRAM_BYTES.to_bytes(2, sys.byteorder))]
        end = time.perf_counter() + BLAST_S
        while time.perf_counter() < end:
            for piece in pieces:
                with suppress(BlockingIOError):
                    self.plain.sendmsg(piece, control)
        for _ in range(20):
            time.sleep(0.001)
            self.plain.send(mark.to_bytes(8, "big"))

    def catch_blast(self, mark: int) -> list[int]:
        """Receive until a short datagram with `mark`; return bytes, and nanoseconds from first to last."""
        room = memoryview(bytearray(1 << 16))
        received, began, last = 0, 0, 0
        while True:
            try:
                came = self.plain.recv_into(room)
            except BlockingIOError:
                continue
            if came >= DATAGRAM_BYTES:
                last = time.perf_counter_ns()
                began = began or last
                received += came
            elif int.from_bytes(room[:8], "big") == mark:
                return [received, last - began]


class Other:
    """The process at the other end."""

    def __init__(self, core: int) -> None:
        self.ring = SharedMemoryPort.create(RING_BYTES)
        fd = self.ring.memory_fd
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--far", str(fd), str(core)],
            pass_fds=(fd,),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def hear(self) -> Any:  # noqa: ANN401 - JSON
        """Return what it says next."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the process at the other end has ended")
        return json.loads(line)

    def tell(self, what: object) -> None:
        """Have it do something."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(what) + "\n")
        self._process.stdin.flush()

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()


def run_far(fd: int, core: int) -> None:
    """Be the process at the other end: it receives what is written."""
    os.sched_setaffinity(0, {core})
    end = End(2, SharedMemoryPort.attach(os.dup(fd)))

    def say(what: object) -> None:
        print(json.dumps(what), flush=True)

    say(end.described())
    end.connect(json.loads(sys.stdin.readline()))
    say("connected")
    for line in sys.stdin:
        what, goal = json.loads(line)
        if what == "blast":
            say("ready")
            say(end.catch_blast(goal))
        else:
            say("ready")
            say(end.run_ring(goal) if what == "ring" else end.run_udp(goal))


class Ends:
    """This process's end, and the other one's. A context manager."""

    def __enter__(self) -> Ends:
        here, there = self._cores = pairs.cores()
        os.sched_setaffinity(0, {here})
        self.other = Other(there)
        described = self.other.hear()
        self.near = End(1, self.other.ring)
        self.other.tell(self.near.described())
        self.near.connect(described)
        self.far_key = described["key"]
        self._blasts = 0
        self.other.hear()
        return self

    def __exit__(self, *exception: object) -> None:
        self.other.close()
        os.sched_setaffinity(0, self._cores)

    def writes(self, wire: Any, pair_count: int) -> Any:  # noqa: ANN401 - loaded by path
        """Return the writes that `wire` would have, for this end."""
        works = writes_of(wire)
        works["number"] = 1 + np.arange(WRITES) % pair_count
        works["lkey0"], works["rkey"] = self.near.node.key, self.far_key
        return works

    def run(self, what: str, works: Any) -> int:  # noqa: ANN401 - a recarray
        """Write over a port until all has ended; return the nanoseconds."""
        self.other.tell([what, len(works)])
        self.other.hear()
        began = time.perf_counter_ns()
        posted = self.near.node.engine.post_many(works, time.monotonic_ns())
        run = self.near.run_ring if what == "ring" else self.near.run_udp
        counts = run(len(works))
        taken = time.perf_counter_ns() - began
        arrived = self.other.hear()
        if [posted, counts[1], arrived[2]] != [len(works), 0, len(works)] or counts[0] != len(works):
            raise SystemExit(f"{what}: {posted} writes posted, {counts} here, {arrived} there")
        return taken

    def blast(self, walked_bytes: int) -> float:
        """Return bytes a nanosecond of a plain UDP blast out of so much memory, received."""
        self._blasts += 1
        self.other.tell(["blast", self._blasts])
        self.other.hear()
        self.near.blast(self._blasts, walked_bytes)
        received, taken_ns = self.other.hear()
        return float(received / taken_ns)


def writes_of(wire: Any) -> Any:  # noqa: ANN401 - loaded by path
    """Return writes over the first bytes of the memory, again and again, as `roce.py` does."""
    works = np.resize(wire.writes(roce.WRITE_BYTES, 8), WRITES).view(np.recarray)
    works["number"] = 1 + np.arange(WRITES) % wire.count
    return works


def measure(report: Any, pair_count: int) -> None:  # noqa: ANN401 - loaded by path
    """Measure over both ports, beside both engines in this process."""
    wire = roce.Wire(pair_count)
    rates: dict[str, list[float]] = {"in_process": [], "shared_memory": [], "udp": [], "blast": [], "hot": []}
    length_bytes = WRITES * roce.WRITE_BYTES
    with Ends() as ends:
        inside, works = writes_of(wire), ends.writes(wire, pair_count)
        wire.run(inside)
        for what in ("ring", "udp"):
            ends.run(what, works)
        for _ in range(ROUNDS):
            rates["in_process"].append(length_bytes / wire.run(inside)[0])
            rates["shared_memory"].append(length_bytes / ends.run("ring", works))
            rates["udp"].append(length_bytes / ends.run("udp", works))
            rates["blast"].append(ends.blast(8 * roce.WRITE_BYTES))
            rates["hot"].append(ends.blast(0))
        drops = dict(ends.near.udp.drops), dict(ends.near.node.drops)
    names = {
        "udp": "over_udp",
        "shared_memory": "over_shared_memory",
        "blast": "plain_udp_blast",
        "hot": "plain_udp_blast_of_one_buffer",
    }
    for name, found in rates.items():
        report.add_rounds(f"{pair_count}_queue_pairs.{names.get(name, name)}", found, "GB/s")
    for name, beside, goal in (("shared_memory", "in_process", 0.8), ("udp", "blast", 0.6)):
        ratio = median(mine / theirs for mine, theirs in zip(rates[name], rates[beside], strict=True))
        report.add_goal(f"{pair_count}_queue_pairs.{names[name]}.to_{beside}", ratio, "ratio", goal)
    ratios = [mine / theirs for mine, theirs in zip(rates["udp"], rates["hot"], strict=True)]
    report.add(f"{pair_count}_queue_pairs.over_udp.to_blast_of_one_buffer", median(ratios), "ratio")
    if any(drops):
        print(drops, file=sys.stderr)


def main() -> None:
    """Measure and print."""
    report = reports.Report("roce_ports")
    for pair_count in (1, PAIRS):
        measure(report, pair_count)
    report.add("busy_cores", 2, "count")
    report.write()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--far"]:
        run_far(int(sys.argv[2]), int(sys.argv[3]))
    else:
        main()
