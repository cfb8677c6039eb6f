# SPDX-License-Identifier: Apache-2.0
"""The P4 compiler: a generated program of 2,000 lines for v1model, and the shipped p4/kvmatch.p4.

From the text to verified IR and P4Info, includes read and parsed as well, in CPU time of this process. Beside
it stand what reading the same program back from its JSON costs (what a cache of IR would have to do),
importing the compiler in a process of its own, and the least that a front end in Python does: one pass of a
regular expression for tokens. Prints `name value unit` lines; the goal is 60 ms.
Run: python benchmarks/p4_front_end.py [--json]
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

from rig import report as reports
from rig.large_program import large_program

from nicemu.p4 import compile_program, compile_text
from nicemu.pipeline import program_of_json
from nicemu.programs import find_program

LINES = 2000
ROUNDS = 15
GOAL_MS = 60.0
_TOKEN = re.compile(r"\s*(?:(//[^\n]*)|([A-Za-z_]\w*)|([0-9]\w*)|(&&&|&&|\|\||<<|[<>=!]=|\+\+|\S))")
_IMPORT = "import time; t = time.process_time(); import nicemu.{}; print(time.process_time() - t)"


def milliseconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one call; that of freeing what it returns is not in it."""
    started = time.process_time()
    result = work()
    ended = time.process_time()
    del result
    return (ended - started) * 1000


def tokens_alone(text: str) -> None:
    """Find every token of a text, and do nothing with it."""
    for _ in _TOKEN.finditer(text):
        pass


def imported(room: str) -> float:
    """Return the milliseconds of importing a room."""
    done = subprocess.run(
        [sys.executable, "-c", _IMPORT.format(room)], capture_output=True, text=True, check=True
    )
    return float(done.stdout) * 1000


def main() -> None:
    """Measure and print."""
    report = reports.Report("p4_front_end")
    text, shipped = large_program(LINES), find_program("p4/kvmatch.p4")
    sides: dict[str, Callable[[], object]] = {
        "large": lambda: compile_text(text),
        "tokens_alone": lambda: tokens_alone(text),
        "kvmatch": lambda: compile_program(shipped),
    }
    as_json = compile_text(text).program.to_json()
    sides["from_json"] = lambda: program_of_json(as_json)
    rounds = [{name: milliseconds(work) for name, work in sides.items()} for _ in range(ROUNDS)]
    report.add("lines", text.count("\n"), "count")
    report.add_goal("large", median(one["large"] for one in rounds), "ms", GOAL_MS, at_most=True)
    for name in sides:
        report.add_rounds(f"{name}_rounds", [one[name] for one in rounds], "ms")
    for room in ("pipeline", "p4"):
        report.add_rounds(f"import.{room}", [imported(room) for _ in range(3)], "ms")
    report.write()


if __name__ == "__main__":
    main()
