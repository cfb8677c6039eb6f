# SPDX-License-Identifier: Apache-2.0
"""What a benchmark found: `name value unit` lines, or one JSON object with `--json`."""

from __future__ import annotations

import json
import os
import sys
from statistics import median


class Report:
    """Figures of one run, in the order in which they were found; names are put behind the benchmark's own."""

    def __init__(self, benchmark: str) -> None:
        if {"-h", "--help"} & set(sys.argv[1:]):
            print(sys.modules["__main__"].__doc__)
            raise SystemExit
        self._benchmark = benchmark
        self._figures: list[tuple[str, float, str]] = []
        self._load = os.getloadavg()[0]

    def add(self, name: str, value: float, unit: str) -> None:
        """Add a figure."""
        self._figures.append((f"{self._benchmark}.{name}", value, unit))

    def add_goal(self, name: str, value: float, unit: str, goal: float, *, at_most: bool = False) -> None:
        """Add a figure that has a goal, the goal, and whether it is reached."""
        self.add(name, value, unit)
        self.add(f"{name}_goal", goal, unit)
        self.add(f"{name}_reached", float(value <= goal if at_most else value >= goal), "bool")

    def add_rounds(self, name: str, values: list[float], unit: str) -> None:
        """Add the median of several rounds with the lowest and the highest."""
        self.add(name, median(values), unit)
        self.add(f"{name}_lowest", min(values), unit)
        self.add(f"{name}_highest", max(values), unit)

    def write(self) -> None:
        """Print everything; the load average is the machine's over the minute before the run."""
        self.add("cores", os.cpu_count() or 0, "count")
        self.add("load_before", self._load, "processes")
        if "--json" in sys.argv[1:]:
            print(json.dumps({name: {"value": value, "unit": unit} for name, value, unit in self._figures}))
            return
        for name, value, unit in self._figures:
            print(f"{name} {value:.0f} {unit}" if value == int(value) else f"{name} {value:.3f} {unit}")


def operands() -> list[str]:
    """Return the command line's operands: what is no option."""
    return [word for word in sys.argv[1:] if not word.startswith("--")]
