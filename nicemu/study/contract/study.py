# SPDX-License-Identifier: Apache-2.0
"""What every study is, so that one command runs any of them and one sweep varies any of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from .settings import Settings

Progress: TypeAlias = Callable[[float, str], None]
"""Told while a study runs: which part of the work is done, 0 to 1, and what is worked at."""


@dataclass(frozen=True, slots=True)
class Table:
    """What people read: numbers stand as numbers and are printed to the right, None is a dash."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]]
    notes: tuple[str, ...] = ()


def rounded(value: float | None) -> float | int | None:
    """Return a figure as tables have it: with four digits, or whole where it is whole or has more."""
    if value is None:
        return None
    return round(value) if value == int(value) or abs(value) >= 1000 else float(f"{value:.4g}")


class Result(Protocol):
    """What a study has found."""

    def headline(self) -> Mapping[str, float]:
        """Return the few figures that a sweep compares, by name with unit."""
        ...

    def as_data(self) -> dict[str, object]:
        """Return everything, ready for JSON; the same settings and seed give the same bytes."""
        ...

    def tables(self) -> list[Table]:
        """Return what people read."""
        ...

    def plot(self, folder: Path) -> list[Path]:
        """Draw into a folder, as PNG and SVG; return the files. Raises: UsageError."""
        ...


class Study(Protocol):
    """A study: what it may be told, and how it runs. `about` is its help, the first line what it is."""

    name: str
    about: str
    standard: Settings

    def run(self, settings: Any, seed: int, progress: Progress) -> Result:  # noqa: ANN401 - of its own kind
        """Run it. Raises: UsageError if the settings contradict each other."""
        ...
