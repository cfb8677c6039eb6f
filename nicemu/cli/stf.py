# SPDX-License-Identifier: Apache-2.0
"""`nicemu stf`: packet tests of P4 programs, run in this process."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from .programs import (
    EXTERNS_OPTION,
    TABLES_OPTION,
    missing_text,
    own_externs,
    own_output_apart,
    source_options,
)
from .progress import is_terminal
from .show import JSON_OPTION, print_json

if TYPE_CHECKING:
    from nicemu.p4 import Diagnostic
    from nicemu.pipeline import Engine
    from nicemu.stf import Outcome, Report

CHUNK = 8
"""Tests that a process takes at a time: one takes some milliseconds, as handing it over does."""

_NS_PER_MS = 1_000_000


class _Job(NamedTuple):
    """One test for a process: files, and how to run them."""

    program: Path
    script: Path
    includes: tuple[Path, ...]
    defines: dict[str, str]
    traces: bool
    compiles: bool
    externs: tuple[Path, ...]
    tables: Path | None


@click.command()
@click.argument("program", metavar="PROGRAM|DIR", type=click.Path(exists=True, path_type=Path))
@click.argument("script", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--engine",
    type=click.Choice(["interpreter", "kernel"]),
    default="interpreter",
    show_default=True,
    help="What runs the program.",
)
@click.option("--trace", is_flag=True, help="Print what the engine does with each packet.")
@click.option(
    "--jobs", type=click.IntRange(min=1), default=1, show_default=True, help="Tests at a time, in processes."
)
@TABLES_OPTION
@EXTERNS_OPTION
@source_options
@JSON_OPTION
def stf(
    program: Path,
    script: Path | None,
    engine: str,
    trace: bool,
    jobs: int,
    tables: Path | None,
    externs: tuple[Path, ...],
    includes: tuple[Path, ...],
    defines: dict[str, str],
    as_json: bool,
) -> None:
    """Run the STF script SCRIPT on PROGRAM, or every test of the folder DIR.

    PROGRAM is P4-16, or the JSON that p4c-bm2-ss made of it. A test of a folder is a program x.p4 with a
    script x.stf beside it, or x.json where there is no x.p4; without SCRIPT a program's own is run. Exit
    status 1 if a test fails, or its program is not compiled. With --engine kernel programs run as machine
    code where they can; where not, the line of a test says why.
    """
    if program.is_dir():
        if script is not None:
            raise click.UsageError(f"{program} is a folder; a script goes with a program")
        if tables is not None:
            raise click.UsageError(f"{program} is a folder; --tables goes with a program")
        from nicemu.stf import find_tests

        root, tests = program, find_tests(program)
    else:
        beside = program.with_suffix(".stf")
        if script is None and not beside.exists():
            raise click.UsageError(f"there is no {beside}; name the script")
        root, tests = program.parent, [(program, script or beside)]
    terms = (includes, defines, trace, engine == "kernel", externs, tables)
    work = [_Job(test, its_script, *terms) for test, its_script in tests]
    with closing(_results(work, jobs)) as results:
        if as_json:
            outcomes = _behind_a_bar(results, len(work))
            print_json([_as_json(outcome, took_ns, root) for outcome, took_ns in outcomes])
        else:
            outcomes = _listed(results, root, len(work))
    if not all(_has_passed(outcome) for outcome, _ in outcomes):
        raise click.exceptions.Exit(1)


def _has_passed(outcome: Outcome) -> bool:
    from nicemu.stf import Status

    return outcome.status is Status.PASSED


def _results(work: Sequence[_Job], jobs: int) -> Generator[tuple[Outcome, int], None, None]:
    """Yield every test's outcome in order, with its time in nanoseconds; processes end with the iterator."""
    if jobs == 1 or len(work) == 1:
        yield from map(_run, work)
        return
    from nicemu.workers import worker_processes

    with worker_processes(min(jobs, len(work))) as pool:
        yield from pool.map(_run, work, chunksize=CHUNK)


def _run(job: _Job) -> tuple[Outcome, int]:
    from nicemu.clock import WallClock
    from nicemu.stf import run_test

    clock = WallClock()
    began_ns = clock.now_ns()
    with own_output_apart():
        outcome = run_test(
            job.program,
            job.script,
            job.includes,
            job.defines,
            job.traces,
            job.compiles,
            own_externs(job.externs),
            job.tables,
            _put_tables,
        )
    return outcome, clock.now_ns() - began_ns


def _put_tables(engine: Engine, path: Path) -> None:
    from nicemu.switch import put_tables

    put_tables(engine, path)


def _behind_a_bar(results: Iterable[tuple[Outcome, int]], count: int) -> list[tuple[Outcome, int]]:
    if not is_terminal(sys.stderr):
        return list(results)
    with click.progressbar(results, length=count, label="tests", file=sys.stderr) as bar:
        return list(bar)


# For people


def _listed(results: Iterable[tuple[Outcome, int]], root: Path, count: int) -> list[tuple[Outcome, int]]:
    """Print a line for each test as it ends, what went wrong below it, and the sums."""
    outcomes = []
    for place, (outcome, took_ns) in enumerate(results, start=1):
        outcomes.append((outcome, took_ns))
        of_all = f"[{place:{len(str(count))}}/{count}] " if count > 1 else ""
        packets = "" if outcome.report is None else f", {_packets(outcome.report)}"
        name = outcome.script.relative_to(root) if outcome.script.is_relative_to(root) else outcome.script
        click.echo(f"{of_all}{outcome.status.value} {name}{packets}, {took_ns / _NS_PER_MS:.1f} ms")
        _print_details(outcome, all_messages=count == 1)
    if count > 1:
        click.echo(_sums(outcomes))
    return outcomes


def _packets(report: Report) -> str:
    from nicemu.errors import counted

    told = f"{counted(report.packets_in, 'packet')} in, {report.packets_out} out"
    because = report.interpreted_because
    return f"{told}, interpreted: {because}" if because else told


def _print_details(outcome: Outcome, all_messages: bool) -> None:
    shown = outcome.messages if all_messages else outcome.messages[:1]
    blocks = [item.render() for item in shown]
    if hidden := len(outcome.messages) - len(shown):
        blocks.append(f"and {hidden} more, which are told where the test is run alone")
    if outcome.report is not None:
        blocks += [f"line {note.location.line}: {_below(note.text)}" for note in outcome.report.notes]
        blocks += [missing_text(name) for name in outcome.report.missing_externs]
        blocks += [failure.render() for failure in outcome.report.failures]
    for block in blocks:
        click.echo("\n".join(f"  {line}" for line in block.splitlines()))


def _below(text: str) -> str:
    """Return a text of one line as it is, one of several on lines of their own."""
    lines = text.splitlines()
    return text if len(lines) == 1 else "\n".join(["", *(f"  {line}" for line in lines)])


def _sums(outcomes: Sequence[tuple[Outcome, int]]) -> str:
    from nicemu.stf import Status

    counts = {status: sum(outcome.status is status for outcome, _ in outcomes) for status in Status}
    told = f"{counts[Status.PASSED]} passed, {counts[Status.FAILED]} failed"
    told += f", {counts[Status.REFUSED]} refused by the compiler"
    told += f", {counts[Status.BROKEN]} broken" if counts[Status.BROKEN] else ""
    each = sum(took_ns for _, took_ns in outcomes) / len(outcomes) / _NS_PER_MS
    return f"{len(outcomes)} tests: {told}; {each:.1f} ms a test"


# For programs


def _as_json(outcome: Outcome, took_ns: int, root: Path) -> dict[str, object]:
    report = outcome.report
    return {
        "program": str(outcome.program),
        "script": str(outcome.script),
        "status": outcome.status.value,
        "milliseconds": round(took_ns / _NS_PER_MS, 3),
        "packets_in": report.packets_in if report else 0,
        "packets_out": report.packets_out if report else 0,
        "interpreted_because": report.interpreted_because if report else "",
        "missing_externs": list(report.missing_externs) if report else [],
        "messages": [_message(item) for item in outcome.messages],
        "failures": [
            {**_message(failure.diagnostic), "detail": failure.detail}
            for failure in (report.failures if report else ())
        ],
        "notes": [
            {"line": note.location.line, "text": note.text} for note in (report.notes if report else ())
        ],
    }


def _message(diagnostic: Diagnostic) -> dict[str, object]:
    return {
        "file": diagnostic.file,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "message": diagnostic.message,
        "hint": diagnostic.hint,
    }
