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
from typing import Any, Final

import numpy as np

from nicemu.hot import Int, hot
from nicemu.pcie import Backing, load_u64, store_u64
from nicemu.programs import load_module

pairs = load_module(Path(__file__).with_name("rig") / "pair.py")
reports = load_module(Path(__file__).with_name("rig") / "report.py")

BURST: Final = 256
"""Doorbells in a row, so many writes are armed at a time."""
ROUNDS: Final = 40
SPIN_US: Final = 100_000
QUIET_S: Final = 0.15
"""After this long the near NIC naps, and its core is free for the process that echoes."""
PATIENCE: Final = 400_000_000
GOAL_US: Final = 3.0


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
        self.pid = self._process.pid
        self._total = 0
        self.burst(0)

    def burst(self, count: int) -> np.ndarray[Any, Any]:
        """Return nanoseconds from store to echo, `count` times."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(b"%d %d\n" % (self._total, count))
        self._process.stdin.flush()
        if self._process.stdout.readline() != b"ready\n":
            raise SystemExit("the echo process has ended")
        samples = np.zeros(count, np.uint64)
        places = [np.uint64(self._memory.address + offset) for offset in (0, 1024, 2048, 3072)]
        request, answer, source, scratch = places
        seen = pairs.ring_and_watch(request, answer, source, np.uint64(self._total), scratch, samples)
        if seen != count:
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
    """Be the process that echoes."""
    memory = Backing.from_fd(fd, 4096)
    request, answer = np.uint64(memory.address), np.uint64(memory.address + 1024)
    echo(request, answer, np.uint64(0), 0)
    for line in sys.stdin.buffer:
        sys.stdout.buffer.write(b"ready\n")
        sys.stdout.buffer.flush()
        last, count = line.split()
        echo(request, answer, np.uint64(last), int(count))


def measure() -> dict[str, list[np.ndarray[Any, Any]]]:
    """Return nanoseconds of each doorbell, by round: until the counter, the bytes at the target, the echo."""
    rounds: dict[str, list[np.ndarray[Any, Any]]] = {"counter": [], "target": [], "echo": []}
    here, there = pairs.cores()
    echoing = Echo()
    try:
        pairs.pin(os.getpid(), here)
        pairs.pin(echoing.pid, there)
        with pairs.Pair(4096, SPIN_US) as pair:
            pairs.pin(pair.near_pid, there)
            memory = pair.nic.allocate((4096,), np.uint8, "host")
            source, address = pair.nic.register(memory), memory.shared.address
            ringer = pairs.Ringer(pair.nic)
            far, place = pair.far_memory(source, memory.array)
            operands = (source[0:8], pair.remote[0:8], address, BURST)
            ringer.burst(*operands)
            for _ in range(ROUNDS):
                rounds["counter"].append(ringer.burst(*operands))
                rounds["target"].append(ringer.burst(*operands, watched=place))
                time.sleep(QUIET_S)
                rounds["echo"].append(echoing.burst(BURST))
            far.close()
            ringer.close()
    finally:
        echoing.close()
    return rounds


def main() -> None:
    """Measure and print."""
    report = reports.Report("doorbell")
    rounds = measure()
    medians = {name: [float(np.median(samples)) / 1e3 for samples in taken] for name, taken in rounds.items()}
    pooled = np.concatenate(rounds["counter"]) / 1e3
    report.add_goal("to_counter_median", float(np.median(pooled)), "us", GOAL_US, at_most=True)
    for name, share in (("lowest", 0.0), ("p90", 0.9), ("p99", 0.99)):
        report.add(f"to_counter_{name}", float(np.quantile(pooled, share)), "us")
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
