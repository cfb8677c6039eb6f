# SPDX-License-Identifier: Apache-2.0
"""`nicemu up` of three NICs, once compiled code is cached: from the command to all of them serving.

The other side, in alternation: as many Python processes at once that import NumPy and numba and end, which is
what every NIC process does first. Prints `name value unit` lines; the goal is at most 3 s.
Run: python benchmarks/up.py [--json]
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Final

from nicemu.programs import find_program, load_module
from nicemu.run import compile_datapath

reports = load_module(Path(__file__).with_name("rig") / "report.py")

TOPOLOGY: Final = find_program("examples/two_storage_nodes.toml")
NIC_COUNT: Final = 3
ROUNDS: Final = 7
GOAL_S: Final = 3.0


def run(*words: str) -> None:
    """Run a nicemu command. Raises: SystemExit with what it said if it fails."""
    command = [sys.executable, "-m", "nicemu", *words]
    finished = subprocess.run(command, check=False, capture_output=True, text=True)
    if finished.returncode:
        raise SystemExit(f"nicemu {' '.join(words)}: {finished.stderr or finished.stdout}")


def up() -> float:
    """Bring the topology up and down again; return the seconds of the first."""
    started = time.perf_counter()
    run("up", str(TOPOLOGY))
    seconds = time.perf_counter() - started
    run("down", str(TOPOLOGY))
    return seconds


def bare() -> float:
    """Return the seconds of NIC_COUNT processes that only import."""
    started = time.perf_counter()
    command = [sys.executable, "-c", "import numpy, numba"]
    for process in [subprocess.Popen(command) for _ in range(NIC_COUNT)]:
        if process.wait():
            raise SystemExit("numba cannot be imported")
    return time.perf_counter() - started


def main() -> None:
    """Measure and print."""
    report = reports.Report("up")
    seconds: dict[str, list[float]] = {"up": [], "bare": []}
    compile_datapath(lambda text: print(text, file=sys.stderr))
    with tempfile.TemporaryDirectory() as scratch:
        # Instances and namespace files of their own, away from what else runs here.
        os.environ["XDG_RUNTIME_DIR"] = os.environ["XDG_DATA_HOME"] = scratch
        up(), bare()
        for _ in range(ROUNDS):
            seconds["up"].append(up())
            seconds["bare"].append(bare())
    ratios = [mine / theirs for mine, theirs in zip(seconds["up"], seconds["bare"], strict=True)]
    report.add_goal("three_nics", median(seconds["up"]), "s", GOAL_S, at_most=True)
    report.add("three_nics_lowest", min(seconds["up"]), "s")
    report.add("three_nics_highest", max(seconds["up"]), "s")
    report.add_rounds("three_bare_processes", seconds["bare"], "s")
    report.add("three_nics_against_bare", median(ratios), "ratio")
    report.write()


if __name__ == "__main__":
    main()
