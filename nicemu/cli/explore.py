# SPDX-License-Identifier: Apache-2.0
"""`nicemu explore`: one test under many orders of what can happen."""

from __future__ import annotations

import os
import sys
from importlib import metadata
from importlib.util import find_spec

import click

from nicemu.errors import UsageError


@click.command()
@click.argument("test")
@click.option("--schedules", type=click.IntRange(1), default=200, show_default=True, help="How many at most.")
@click.option("--depth", type=click.IntRange(0), help="Choice points that are varied in order; all of them.")
@click.option("--seed", type=int, default=1, show_default=True, help="First seed of those that are drawn.")
@click.option("--replay", metavar="CHOICES", help="Run the one schedule that a failure named.")
def explore(test: str, schedules: int, depth: int | None, seed: int, replay: str | None) -> None:
    """Run TEST, a pytest node id such as tests/test_mine.py::test_fetch, under many schedules of the stepper.

    A failure comes with its shortest schedule: what happened in order, and the choices for --replay.
    """
    if find_spec("pytest") is None:
        raise UsageError("nicemu explore runs pytest, which is not installed: pip install pytest")
    arguments = [test, "--nicemu-explore", f"--nicemu-schedules={schedules}", f"--nicemu-seed={seed}"]
    if depth is not None:
        arguments.append(f"--nicemu-depth={depth}")
    if replay is not None:
        arguments.append(f"--nicemu-replay={replay}")
    if not metadata.entry_points(group="pytest11", name="nicemu"):
        arguments += ["-p", "nicemu.testing.plugin"]
    # Not in this process: pytest rewrites the assertions of a plugin's package when it is imported, and warns
    # of one that is already, which is an error in projects where warnings are.
    os.execv(sys.executable, [sys.executable, "-m", "pytest", *arguments])
