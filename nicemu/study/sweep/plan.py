# SPDX-License-Identifier: Apache-2.0
"""A study at many points: every combination of some values of some settings, on all cores or on a cluster.

What a point gave is written down as soon as it is there, so that a sweep that was killed goes on from what it
had finished. Points do not depend on one another: the same plan gives the same results on any engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from hashlib import file_digest
from itertools import chain, product
from pathlib import Path
from typing import Any, Final, TypeAlias

from nicemu.errors import UsageError
from nicemu.study.contract import (
    Progress,
    Settings,
    Study,
    Table,
    checked_setting,
    rounded,
    settings_data,
    settings_with,
)

from .engines import Engine
from .file import SweepFile
from .plots import plot_sweep

Point: TypeAlias = Mapping[str, Any]
"""Values of the settings that a sweep varies, by name; `seed` is the seed."""
SEED: Final = "seed"
MOST_POINTS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a point gave: figures by name, or why the study refused it."""

    point: Point
    figures: Mapping[str, float] = field(default_factory=dict)
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Plan:
    """A study, what it is told everywhere, and the values that are tried, by name."""

    study: Study
    settings: Settings
    axes: Mapping[str, Sequence[Any]]
    seed: int

    def __post_init__(self) -> None:
        if not self.axes:
            raise UsageError("a sweep varies something: --vary NAME=VALUE,VALUE")
        count = 1
        for name, values in self.axes.items():
            if len({(isinstance(value, bool), value) for value in values}) < len(values):
                raise UsageError(f"{name} has a value twice: {', '.join(map(str, values))}")
            count *= len(values)
            for value in values:
                self._check(name, value)
        if count > MOST_POINTS:
            raise UsageError(f"{count:,} points; {MOST_POINTS:,} are the most that a sweep has")

    def _check(self, name: str, value: object) -> None:
        """Refuse a name or a value that no point could have; values may contradict each other at a point."""
        if name == SEED:
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise UsageError(f"seed is {value!r}; a whole number, 0 or more, was expected")
            return
        checked_setting(self.settings, name, value)

    def points(self) -> list[dict[str, Any]]:
        """Return all combinations; the last name varies fastest."""
        return [dict(zip(self.axes, values, strict=True)) for values in product(*self.axes.values())]

    def about(self) -> dict[str, object]:
        """Return what has to be the same for results to be of one sweep: all but the points.

        Of files that settings name it is what they hold, as a digest.
        """
        settings = settings_data(self.settings)
        named = [
            value for value in (*settings.values(), *chain(*self.axes.values())) if isinstance(value, str)
        ]
        files = {name: _digest_of(Path(name)) for name in named if Path(name).is_file()}
        return {"study": self.study.name, "settings": settings, "seed": self.seed, "files": files}


@dataclass(frozen=True, slots=True)
class SweepResult:
    """What all points gave, in the order of the plan. `found_before`: how many were there from before."""

    plan: Plan
    outcomes: Sequence[Outcome]
    found_before: int

    def names(self) -> list[str]:
        """Return the names of the figures, in the order in which the first points have them."""
        return list(dict.fromkeys(name for outcome in self.outcomes for name in outcome.figures))

    def as_data(self) -> dict[str, object]:
        """Return everything, ready for JSON."""
        return {
            **self.plan.about(),
            "axes": {name: list(values) for name, values in self.plan.axes.items()},
            "points": [
                {"point": dict(outcome.point), "refused": outcome.refused}
                if outcome.refused
                else {"point": dict(outcome.point), "figures": dict(outcome.figures)}
                for outcome in self.outcomes
            ],
        }

    def table(self, metrics: Sequence[str] = ()) -> Table:
        """Return a row a point. Raises: UsageError for a figure that there is none of."""
        names = self._chosen(metrics)
        rows = [
            (
                *(outcome.point[axis] for axis in self.plan.axes),
                *(rounded(outcome.figures.get(name)) for name in names),
            )
            for outcome in self.outcomes
        ]
        refused = [
            f"{_told(outcome.point)}: {outcome.refused}" for outcome in self.outcomes if outcome.refused
        ]
        title = f"{self.plan.study.name}, {len(self.outcomes):,} points"
        return Table(title, (*self.plan.axes, *names), rows, tuple(refused))

    def plot(self, folder: Path, metrics: Sequence[str] = ()) -> list[Path]:
        """Draw each figure against the first setting that is varied. Raises: UsageError."""
        return plot_sweep(self, self._chosen(metrics), folder)

    def _chosen(self, metrics: Sequence[str]) -> list[str]:
        names = self.names()
        for metric in metrics:
            if metric not in names:
                raise UsageError(f"there is no figure {metric}; there are {', '.join(names) or 'none'}")
        return list(metrics) or names


def run_point(name: str, settings: Settings, seed: int, point: Point) -> Outcome:
    """Run a study at one point, wherever this is called."""
    from nicemu.study import STUDIES

    study = STUDIES[name]
    values = dict(point)
    seed = int(values.pop(SEED, seed))
    try:
        found = study.run(settings_with(settings, values), seed, lambda done, what: None)
    except UsageError as error:
        return Outcome(point, refused=str(error))
    return Outcome(point, {key: float(value) for key, value in found.headline().items()})


def run_sweep(plan: Plan, engine: Engine, out: Path | None, progress: Progress) -> SweepResult:
    """Run a plan on an engine; what stands in the file `out` already is not run again, and the rest is added.

    Raises: UsageError if the file is of another sweep, in use or cannot be written, or the engine is not
    here; NicemuError if the engine fails.
    """
    points = plan.points()
    found: dict[str, Outcome] = {}
    with closing(SweepFile(out, plan.about())) as file:
        wanted = {_key(point) for point in points}
        for point, figures, refused in file.outcomes:
            if _key(point) in wanted:
                found[_key(point)] = Outcome(point, figures, refused)
        before = len(found)
        left = [point for point in points if _key(point) not in found]
        progress(len(found) / len(points), f"{before:,} points were there")
        for outcome in _run(plan, engine, left):
            found[_key(outcome.point)] = outcome
            file.add(outcome.point, outcome.figures, outcome.refused)
            progress(len(found) / len(points), f"{len(found):,} of {len(points):,} points")
    return SweepResult(plan, [found[_key(point)] for point in points], before)


def _run(plan: Plan, engine: Engine, points: Sequence[Point]) -> Iterable[Outcome]:
    if points:
        tasks = [(plan.study.name, plan.settings, plan.seed, point) for point in points]
        yield from engine.run(run_point, tasks)


def _digest_of(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file_digest(file, "blake2b").hexdigest()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error


def _key(point: Point) -> str:
    return json.dumps(point, sort_keys=True)


def _told(point: Point) -> str:
    return ", ".join(f"{name} = {value}" for name, value in point.items())
