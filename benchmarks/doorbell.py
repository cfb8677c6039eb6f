# SPDX-License-Identifier: Apache-2.0
"""Doorbell to fired 8-byte RDMA write on `direct` to completion counter visible, between two processes.

This process stores an absolute total into a doorbell cell, as a stream does, and polls the counter's
write-back entry with compiled code. In between the NIC process fires an armed write of 8 bytes into memory of
another NIC process and counts its completion. Two processes spin, each pinned to a core: this one, and the
datapath of the near NIC; the far NIC naps. The other side, in alternation and while the near NIC naps: the
same two loads and stores of 8 bytes between this process and one that only echoes. Prints `name value unit`
lines; the goal is a median of at most 3 us.
Run: python benchmarks/doorbell.py [--json]
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from nicemu.abi import registers
from nicemu.hot import Int, hot
from nicemu.pcie import Backing, load_u64, monotonic_ns, store_u64
from nicemu.programs import load_module

if TYPE_CHECKING:
    from benchmarks.pair import Pair

pairs = load_module(Path(__file__).with_name("pair.py"))
reports = load_module(Path(__file__).with_name("report.py"))

BURST: Final = 256
"""Doorbells in a row, so many writes are armed at a time."""
ROUNDS: Final = 40
SPIN_US: Final = 100_000
QUIET_S: Final = 0.15
PATIENCE: Final = 400_000_000
"""Loads before a poller gives up."""
GOAL_US: Final = 3.0

_ONE, _SUCCESS, _CLOCK = np.uint64(1), np.uint64(8), np.uint64(64)


@hot
def ring_and_watch(
    cell: Int, watched: Int, source: Int, total: Int, scratch: Int, samples: np.ndarray[Any, Any]
) -> Int:
    """Ring once for each sample and wait until `watched` holds the total too; return how many times it did."""
    for sample in range(len(samples)):
        total += _ONE
        store_u64(source, total)
        started = np.uint64(monotonic_ns(scratch))
        store_u64(cell, total)
        looks = 0
        while np.uint64(load_u64(watched)) != total:
            looks += 1
            if looks > PATIENCE:
                return sample
        samples[sample] = np.uint64(monotonic_ns(scratch)) - started
    return len(samples)


@hot
def echo(request: Int, answer: Int, last: Int, count: Int) -> Int:
    """Store to `answer` what appears at `request` after `last`, `count` times."""
    for done in range(count):
        looks = 0
        value = np.uint64(load_u64(request))
        while value == last:
            looks += 1
            if looks > PATIENCE:
                return done
            value = np.uint64(load_u64(request))
        store_u64(answer, value)
        last = value
    return count


class Doorbell:
    """Rings the near NIC's doorbell, over and over."""

    def __init__(self, pair: Pair) -> None:
        self._nic = pair.nic
        self._remote = pair.remote[0:8]
        memory = self._nic.allocate((64,), np.uint64, "host")
        self._memory = memory
        self._source = self._nic.register(memory)
        marker = os.urandom(32)
        memory.array.view(np.uint8)[:32] = np.frombuffer(marker, np.uint8)
        self._nic.write(self._source[0:32], pair.remote[0:32], signaled=False)
        self.trigger, self.done = self._nic.counters("rung", "written")
        time.sleep(0.05)
        self._far, place = pair.far_memory(marker)
        self._target = self._far.address + place
        cell = self._nic.connection.request("doorbell_open", counter=self.trigger.index)["cell"]
        bar = self._nic.connection.bar.address
        self._cell = bar + registers.DOORBELLS + registers.DOORBELL_BYTES * int(cell)
        self._written = bar + registers.WRITE_BACK + self.done.index * registers.WRITE_BACK_BYTES + 8
        self._total = 0

    def burst(self, *, at_target: bool = False) -> np.ndarray[Any, Any]:
        """Arm BURST writes and ring as often; return nanoseconds until counter or target shows it."""
        with self._nic.program("burst") as program:
            for number in range(1, BURST + 1):
                step = program.when(self.trigger >= self._total + number)
                step.write(self._source[0:8], self._remote, then=self.done)
        program.arm()
        samples = np.zeros(BURST, np.uint64)
        source = self._memory.shared.address
        watched = self._target if at_target else self._written
        total = np.uint64(self._total)
        cell, scratch = np.uint64(self._cell), np.uint64(source + 256)
        count = ring_and_watch(cell, np.uint64(watched), np.uint64(source), total, scratch, samples)
        if count != BURST:
            raise SystemExit(f"doorbell {self._total + count + 1} was not answered")
        self._total += BURST
        self.done.wait(self._total)
        return samples

    def close(self) -> None:
        """Unmap the far NIC's memory."""
        self._far.close()


class Echo:
    """A process that only echoes: what the machine itself needs for the two loads and stores."""

    def __init__(self) -> None:
        self._memory = Backing.memfd("echo", 4096)
        assert self._memory.fd is not None
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--echo", str(self._memory.fd)],
            pass_fds=(self._memory.fd,),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._total = 0
        self.burst(0)

    @property
    def pid(self) -> int:
        """The process that echoes."""
        return self._process.pid

    def _tell(self, line: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(line)
        self._process.stdin.flush()

    def burst(self, count: int = BURST) -> np.ndarray[Any, Any]:
        """Return nanoseconds from store to echo, `count` times."""
        assert self._process.stdout is not None
        self._tell(b"%d %d\n" % (self._total, count))
        if self._process.stdout.readline() != b"ready\n":
            raise SystemExit("the echo process has ended")
        samples = np.zeros(count, np.uint64)
        base, total = self._memory.address, np.uint64(self._total)
        request, answer = np.uint64(base), np.uint64(base + 1024)
        source, scratch = np.uint64(base + 2048), np.uint64(base + 3072)
        if ring_and_watch(request, answer, source, total, scratch, samples) != count:
            raise SystemExit("the echo process does not answer")
        self._total += count
        return samples

    def close(self) -> None:
        """End the process."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(10)
        self._process.stdout.close()
        self._memory.close()


def run_echo(fd: int) -> None:
    """Be the echo process."""
    memory = Backing.from_fd(fd, 4096)
    request, answer = np.uint64(memory.address), np.uint64(memory.address + 1024)
    echo(request, answer, np.uint64(0), 0)
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(b"ready\n")
        sys.stdout.buffer.flush()
        last, count = line.split()
        echo(request, answer, np.uint64(last), int(count))


def main() -> None:
    """Measure and print."""
    report = reports.Report("doorbell")
    rounds: dict[str, list[np.ndarray[Any, Any]]] = {"counter": [], "target": [], "echo": []}
    here, there = pairs.cores()
    echoing = Echo()
    pairs.pin(os.getpid(), here)
    pairs.pin(echoing.pid, there)
    with pairs.Pair(4096, SPIN_US) as pair:
        pairs.pin(pair.near_pid, there)
        doorbell = Doorbell(pair)
        try:
            doorbell.burst()
            for _ in range(ROUNDS):
                rounds["counter"].append(doorbell.burst())
                rounds["target"].append(doorbell.burst(at_target=True))
                time.sleep(QUIET_S)
                rounds["echo"].append(echoing.burst())
        finally:
            doorbell.close()
            echoing.close()
    medians = {name: [float(np.median(samples)) / 1e3 for samples in taken] for name, taken in rounds.items()}
    pooled = np.concatenate(rounds["counter"]) / 1e3
    report.add_goal("to_counter_median", float(np.median(pooled)), "us", GOAL_US, at_most=True)
    for name, share in reports.PERCENTILES.items():
        if name != "median":
            report.add(f"to_counter_{name}", float(np.quantile(pooled, share)), "us")
    report.add("to_counter_lowest", float(pooled.min()), "us")
    report.add_rounds("to_counter_of_a_round", medians["counter"], "us")
    report.add_rounds("to_bytes_at_target_of_a_round", medians["target"], "us")
    report.add_rounds("echo_of_a_round", medians["echo"], "us")
    ratios = [mine / theirs for mine, theirs in zip(medians["counter"], medians["echo"], strict=True)]
    report.add("to_counter_against_echo", median(ratios), "ratio")
    report.add("spinning_processes", 2, "count")
    report.write()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--echo"]:
        run_echo(int(sys.argv[2]))
    else:
        main()
