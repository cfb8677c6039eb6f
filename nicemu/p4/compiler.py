# SPDX-License-Identifier: Apache-2.0
"""The way through the compiler: preprocess, parse, check, lower, passes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nicemu.errors import ControlError, UsageError
from nicemu.garbage import garbage_waits
from nicemu.pipeline import P4Info, Program, p4info_of, verify
from nicemu.programs import programs_root

from .check import Checker
from .diagnostics import CompileError, Diagnostic, Location, Reporter, SourceFile, TooManyErrors
from .lower import lower
from .parser import Parser
from .passes import optimise
from .preprocess import MAX_FILE_BYTES, Preprocessor


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program for the engine, what the control plane may know of it, and the compiler's warnings.

    `sources` are the files that it was made of, with their text; None for one that was sought in vain.
    """

    program: Program
    p4info: P4Info
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[Path, str | None] = field(default_factory=dict)


def compile_program(path: Path, include_paths: Sequence[Path] = ()) -> Compiled:
    """Compile the program in file `path`; the shipped includes are found behind `include_paths`.

    Raises: CompileError with every diagnostic; UsageError if the file cannot be read.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} is larger than {MAX_FILE_BYTES} bytes; a P4 program was expected")
        text = path.read_text()
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}; give the path of a P4 program") from None
    compiled = _compile(text, path.name, path.parent, include_paths)
    return replace(compiled, sources={path: text, **compiled.sources})


def compile_text(text: str, name: str = "program.p4", include_paths: Sequence[Path] = ()) -> Compiled:
    """Compile a program given as text, called `name` in messages. Raises: CompileError."""
    return _compile(text, name, None, include_paths)


def _compile(text: str, name: str, folder: Path | None, include_paths: Sequence[Path]) -> Compiled:
    reporter = Reporter()
    places = [*(Path(place) for place in include_paths), programs_root() / "p4" / "include"]
    preprocessor = Preprocessor(reporter, places)
    with garbage_waits(has_cycles=True):
        try:
            program = _translate(text, name, folder, preprocessor, reporter)
        except TooManyErrors:
            program = None
    if program is None or reporter.failed:
        raise CompileError(reporter.sorted())
    return Compiled(program, p4info_of(program), tuple(reporter.sorted()), preprocessor.sought)


def _translate(
    text: str, name: str, folder: Path | None, preprocessor: Preprocessor, reporter: Reporter
) -> Program | None:
    tokens = preprocessor.preprocess(text, name, folder)
    declarations = Parser(tokens, reporter).program()
    end = tokens[-1].location
    checker = Checker(reporter)
    checked = checker.program(declarations, end)
    ragged = checker.declared.ragged
    if checked is None or reporter.failed:
        for told in ragged.values():
            reporter.error(*told)
        if not reporter.failed:
            reporter.error(end, "the program has no main")
        return None
    lowered = lower(checked, Path(name).stem)
    for header in lowered.headers:
        if header.name in ragged:
            reporter.error(*ragged[header.name])
    if reporter.failed:
        return None
    program = optimise(lowered)
    checker.scope.names.clear()  # symbols know the scope that they stand in: without the ring, all go at once
    try:
        verify(program)
    except ControlError as error:
        reporter.unsupported(
            Location(SourceFile(name, ()), 1, 1), f"what this program asks of the engine: {error}"
        )
        return None
    return program
