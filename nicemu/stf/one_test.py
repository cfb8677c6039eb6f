# SPDX-License-Identifier: Apache-2.0
"""A test is a program and a script; those of a folder have the same name, `x.p4` and `x.stf`.

A program may be BMv2 JSON, too, what p4c-bm2-ss made of one.
"""

from __future__ import annotations

import enum
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nicemu.errors import ControlError, NicemuError, ProtocolError, UsageError
from nicemu.p4 import CompileError, Diagnostic, Location, Severity, SourceFile, compile_program
from nicemu.pipeline import Engine, Program
from nicemu.programs import read_source

from .line_reader import ScriptError
from .report import Report
from .run import run_script
from .script import parse_script

MAX_SCRIPT_BYTES = 16 << 20


class Status(enum.Enum):
    """How a test ended; REFUSED: the compiler does not take the program; BROKEN: nicemu itself is wrong."""

    PASSED = "passed"
    FAILED = "failed"
    REFUSED = "refused"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One test. `report` is None where the program or the script could not be read; `messages` say why."""

    program: Path
    script: Path
    status: Status
    report: Report | None = None
    messages: tuple[Diagnostic, ...] = ()


def run_test(
    program: Path,
    script: Path,
    include_paths: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
    trace: bool = False,
    compiled: bool = False,
    externs: Iterable[Callable[..., Any]] = (),
    tables: Path | None = None,
    put: Callable[[Engine, Path], object] = lambda engine, path: None,
) -> Outcome:
    """Compile a program, read a script and run it, as machine code if `compiled`.

    `externs` are functions and classes with `@extern`; `put` puts what a file of `tables` holds into the
    engine before. Whatever goes wrong is an outcome, so that it does not hide the tests behind this one.
    """

    def ended(status: Status, *messages: Diagnostic) -> Outcome:
        return Outcome(program, script, status, messages=messages)

    try:
        commands = parse_script(_text(script), script.name)
    except ScriptError as error:
        return ended(Status.FAILED, *error.diagnostics)
    except UsageError as error:
        return ended(Status.FAILED, _at_the_start(script, str(error)))

    def prepare(engine: Engine) -> None:
        if tables is not None:
            try:
                put(engine, tables)
            except UsageError as error:
                raise ScriptError([_at_the_start(tables, str(error))]) from error

    try:
        loaded = _read(program, include_paths, defines)
        report = run_script(loaded, commands, trace, compiled, externs, prepare)
    except ScriptError as error:  # the file of tables
        return ended(Status.FAILED, *error.diagnostics)
    except CompileError as error:
        return ended(Status.REFUSED, *(item for item in error.diagnostics if item.severity is Severity.ERROR))
    except ControlError as error:  # the engine does not take the program, or `externs` are unlike its own
        return ended(Status.FAILED, _at_the_start(program, str(error)))
    except ProtocolError as error:  # BMv2 JSON
        return ended(Status.REFUSED, _at_the_start(program, str(error)))
    except NicemuError as error:  # the program cannot be read, or something has no room
        return ended(Status.FAILED, _at_the_start(program, str(error)))
    except Exception as error:  # a fault of compiler or engine must not hide the tests behind it
        return ended(Status.BROKEN, _broken(program, error))
    return Outcome(program, script, Status.PASSED if report.passed else Status.FAILED, report)


def find_tests(folder: Path) -> list[tuple[Path, Path]]:
    """Return every program below a folder that has a script beside it, with the script, in order: x.p4, or
    x.json where there is no x.p4.

    Raises: UsageError if there is none.
    """
    programs = {path.with_suffix(""): path for end in ("*.json", "*.p4") for path in folder.rglob(end)}
    found = [(path, path.with_suffix(".stf")) for path in sorted(programs.values())]
    tests = [(program, script) for program, script in found if script.is_file()]
    if not tests:
        raise UsageError(
            f"no test in {folder}: a test is a program, x.p4 or x.json, with a script x.stf beside it"
        )
    return tests


def _read(path: Path, include_paths: Sequence[Path], defines: Mapping[str, str] | None) -> Program:
    from nicemu.bmv2 import is_bmv2, load_bmv2

    if is_bmv2(path):
        return load_bmv2(path).program
    return compile_program(path, include_paths, defines).program


def _broken(program: Path, error: Exception) -> Diagnostic:
    last = traceback.extract_tb(error.__traceback__)[-1]
    message = f"nicemu is broken here: {type(error).__name__}: {error}"
    return _at_the_start(program, message, f"{Path(last.filename).name}:{last.lineno}, in {last.name}")


def _at_the_start(file: Path, message: str, hint: str = "") -> Diagnostic:
    told = message.removeprefix(f"{file}: ").removeprefix(f"{file.name}: ")  # its place says it
    return Diagnostic(Severity.ERROR, Location(SourceFile(file.name, ()), 1, 1), told, hint)


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_SCRIPT_BYTES:
            raise UsageError(f"{path} is larger than {MAX_SCRIPT_BYTES} bytes; a script was expected")
        return read_source(path).removeprefix("\N{ZERO WIDTH NO-BREAK SPACE}")
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}; give the path of an STF script") from None
