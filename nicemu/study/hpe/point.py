# SPDX-License-Identifier: Apache-2.0
"""One message under one reading of the HPE talk: what a sweep of that study varies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from nicemu.errors import UsageError
from nicemu.model import Operation
from nicemu.study.contract import Progress, Settings, Table, choice, number, rounded, whole

from .readings import LARGEST_BYTES, HpeRow, Point, hpe_rows

ROWS = ("1", "2", "5", "9")


@dataclass(frozen=True, slots=True, kw_only=True)
class HpePointSettings(Settings):
    """A row of the study, a way, and a message; `values` are fields of the row's profile."""

    row: int = whole(2, 1, 9)
    operation: str = choice(Operation.STORE.value, *(item.value for item in Operation))
    length_bytes: int = whole(4096, 1, LARGEST_BYTES)
    target: float = number(19.0, more_than=True)

    def __post_init__(self) -> None:
        if str(self.row) not in ROWS:
            raise UsageError(f"row is {self.row}; {', '.join(ROWS)} are the rows of the study")


@dataclass(frozen=True, slots=True)
class HpePointResult:
    """What a message takes, led by CPUs and by triggered NICs."""

    row: HpeRow
    operation: Operation
    point: Point

    def headline(self) -> Mapping[str, float]:
        """Return both times, the speed-up, and the software cost that the target needs, where one does."""
        needed_s = self.point.software_for_target_s
        return {
            "cpu_us": 1e6 * self.point.cpu_s,
            "triggered_us": 1e6 * self.point.triggered_s,
            "speedup": self.point.speedup,
            **({} if needed_s is None else {"software_for_target_us": 1e6 * needed_s}),
        }

    def as_data(self) -> dict[str, object]:
        """Return the figures and the conditions."""
        return {**self.headline(), "conditions": list(self.row.conditions)}

    def tables(self) -> list[Table]:
        """Return the figures."""
        found = self.headline()
        rows = [tuple(rounded(value) for value in found.values())]
        title = (
            f"{self.operation} of {self.point.length_bytes:,} bytes, row {self.row.name}: {self.row.title}"
        )
        return [Table(title, tuple(found), rows, self.row.conditions)]

    def plot(self, folder: Path) -> list[Path]:
        """Refuse: one point makes no figure. Raises: UsageError."""
        raise UsageError("one message makes no figure; `nicemu study hpe --plot` draws all sizes")


class HpePoint:
    """The study of one message, which sweeps run."""

    name = "hpe"
    about = "Compare one message led by CPUs with one led by triggered NICs."
    standard: Settings = HpePointSettings()

    def run(self, settings: HpePointSettings, seed: int, progress: Progress) -> HpePointResult:
        """Return what the message takes. Raises: UsageError."""
        (row,) = (row for row in hpe_rows(settings.values) if row.name == str(settings.row))
        operation = Operation(settings.operation)
        return HpePointResult(row, operation, row.point(operation, settings.length_bytes, settings.target))
