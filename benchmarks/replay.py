# SPDX-License-Identifier: Apache-2.0
"""Replays of synthetic traces on 8 GPUs and 4 storage nodes: CPU time by each way, and memory as traces grow.

The first figures are CPU time of this process, medians over rounds, of 12,000 requests by one way each, the
making of the trace included. Then traces of 100,000 requests, and with --million of 500,000 and 1,000,000 too
(two or three minutes more), are replayed by a process each, which tells the most memory it had. That grows
until the store is full, and its index has been used for a while: some 300,000 requests.
Prints `name value unit` lines.
Run: python benchmarks/replay.py [--million] [--json]
"""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from nicemu.programs import load_module
from nicemu.study import STUDIES, settings_with

reports = load_module(Path(__file__).with_name("rig") / "report.py")

ROUNDS: Final = 5
REQUESTS: Final = 12_000
WAYS: Final = ("none", "cpu", "triggered")
GOAL_S: Final = 2.0


def replay(requests: int, way: str) -> float:
    """Replay a synthetic trace by one way; return the seconds of CPU time that it took."""
    study = STUDIES["replay"]
    settings = settings_with(study.standard, {"requests": requests, "ways": [way]})
    begun = time.process_time()
    study.run(settings, 1, lambda done, what: None)
    return time.process_time() - begun


def most_memory(requests: int) -> tuple[float, float]:
    """Replay so many requests in a process; return the most MiB that it had, and the CPU seconds."""
    done = subprocess.run(
        [sys.executable, __file__, str(requests)], check=True, capture_output=True, text=True
    )
    memory, taken = done.stdout.split()
    return float(memory), float(taken)


def main() -> None:
    """Measure and print."""
    if operands := reports.operands():
        taken = replay(int(operands[0]), "triggered")
        print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, taken)
        return
    report = reports.Report("replay")
    replay(100, "cpu")  # imports are paid once
    for way in WAYS:
        taken = sorted(replay(REQUESTS, way) for _ in range(ROUNDS))
        report.add_goal(f"{way}.{REQUESTS}", taken[ROUNDS // 2], "s", GOAL_S, at_most=True)
        report.add(f"{way}.{REQUESTS}_lowest", taken[0], "s")
        report.add(f"{way}.{REQUESTS}_highest", taken[-1], "s")
    sizes = [100_000, 500_000, 1_000_000] if "--million" in sys.argv[1:] else [100_000]
    memories = []
    for size in sizes:
        memory, taken_s = most_memory(size)
        memories.append(memory)
        report.add(f"triggered.{size}", taken_s, "s")
        report.add(f"triggered.{size}.most_memory", memory, "MiB")
    if len(memories) == 3:
        report.add_goal(
            "memory_growth_by_a_second_half", memories[2] / memories[1], "ratio", 1.05, at_most=True
        )
    report.write()


if __name__ == "__main__":
    main()
