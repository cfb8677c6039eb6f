# SPDX-License-Identifier: Apache-2.0
"""One RDMA write of 256 KiB or 1 MiB between NIC processes on `direct`, against memcpy of the same bytes.

A doorbell fires an armed write from this process's memory into memory of another NIC process; its time ends
when this process sees the completion counter. The other side is memmove(3) of the same source pages to the
same target pages by this process, which maps both. The two alternate in short bursts, the first of each
burst left out, so that each side finds caches as its own last copy left them. This process and the near NIC
spin, each pinned to a core. Prints `name value unit` lines; the goals are ratios of rates of at least
0.85 at 256 KiB and 0.8 at 1 MiB.
Run: python benchmarks/bulk_write.py [--json]
"""

from __future__ import annotations

import os
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from nicemu.hot import Int, hot
from nicemu.pcie import Backing, copy_memory, monotonic_ns
from nicemu.programs import load_module

pairs = load_module(Path(__file__).with_name("rig") / "pair.py")
reports = load_module(Path(__file__).with_name("rig") / "report.py")

GOALS: Final = {256 << 10: 0.85, 1 << 20: 0.8}
"""The ratio to reach, by the bytes of a write."""
BURST: Final = 17
ROUNDS: Final = 60
SPIN_US: Final = 100_000


@hot
def copy_again(
    target: Int, source: Int, length_bytes: Int, scratch: Int, samples: np.ndarray[Any, Any]
) -> None:
    """Copy once for each sample; a sample is the nanoseconds of a copy."""
    for sample in range(len(samples)):
        started = np.uint64(monotonic_ns(scratch))
        copy_memory(target, source, length_bytes)
        samples[sample] = np.uint64(monotonic_ns(scratch)) - started


def copies(target: int, source: int, length: int, scratch: Backing) -> np.ndarray[Any, Any]:
    """Return the nanoseconds of BURST copies by this process."""
    samples = np.zeros(BURST, np.uint64)
    length_bytes, clock = np.uint64(length), np.uint64(scratch.address)
    copy_again(np.uint64(target), np.uint64(source), length_bytes, clock, samples)
    return samples


def measure(report: Any, write_bytes: int, here: int, there: int) -> None:  # noqa: ANN401 - loaded by path
    """Measure writes of one size; `here` and `there` are the cores."""
    times: dict[str, list[float]] = {"write": [], "copy": []}
    scratch = Backing.anonymous(16)
    with pairs.Pair(write_bytes, SPIN_US) as pair:
        pairs.pin(os.getpid(), here)
        pairs.pin(pair.near_pid, there)
        memory = pair.nic.allocate((write_bytes,), np.uint8, "gpu")
        memory.array[:] = np.frombuffer(os.urandom(write_bytes), np.uint8)
        source, address = pair.nic.register(memory), memory.shared.address
        ringer = pairs.Ringer(pair.nic)
        far, place = pair.far_memory(source, memory.array)

        def write() -> np.ndarray[Any, Any]:
            samples: np.ndarray[Any, Any] = ringer.burst(source, pair.remote, address, BURST)
            return samples

        write(), copies(place, address, write_bytes, scratch)
        for number in range(ROUNDS):
            if number % 2:
                written, copied = write(), copies(place, address, write_bytes, scratch)
            else:
                copied, written = copies(place, address, write_bytes, scratch), write()
            times["write"].append(float(np.median(written[1:])))
            times["copy"].append(float(np.median(copied[1:])))
        offset = place - far.address
        same = bytes(far.view[offset : offset + write_bytes]) == memory.array.tobytes()
        far.close()
        ringer.close()
    if not same:
        raise SystemExit("the bytes at the far NIC are not those that were written")
    ratios = [theirs / mine for mine, theirs in zip(times["write"], times["copy"], strict=True)]
    name = f"{write_bytes >> 10}_KiB"
    report.add_rounds(f"{name}.write", [write_bytes / mine for mine in times["write"]], "GB/s")
    report.add_rounds(f"{name}.memcpy", [write_bytes / theirs for theirs in times["copy"]], "GB/s")
    report.add_goal(f"{name}.ratio", median(ratios), "ratio", GOALS[write_bytes])
    report.add(f"{name}.ratio_lowest", min(ratios), "ratio")
    report.add(f"{name}.ratio_highest", max(ratios), "ratio")


def main() -> None:
    """Measure and print."""
    report = reports.Report("bulk_write")
    here, there = pairs.cores()
    for write_bytes in GOALS:
        measure(report, write_bytes, here, there)
    report.add("spinning_processes", 2, "count")
    report.write()


if __name__ == "__main__":
    main()
