# SPDX-License-Identifier: Apache-2.0
"""The way through the compiler: preprocess, parse, check, lower, passes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nicemu.errors import ControlError, UsageError
from nicemu.garbage import garbage_waits
from nicemu.pipeline import P4Info, Program, p4info_of, verify
from nicemu.programs import programs_root, read_source

from . import syntax
from .check import Checker
from .diagnostics import CompileError, Diagnostic, Location, Reporter, SourceFile, TooManyErrors
from .lexer import Token
from .lower import lower
from .parser import Parser
from .passes import optimise
from .preprocess import MAX_FILE_BYTES, Preprocessor
from .validity_advice import advise_of_validity

OWN_FAULT = "nicemu's compiler failed here, which is a fault of its own"
_FAULTS = (AssertionError, AttributeError, LookupError, StopIteration, TypeError, ValueError)
_MACRO = re.compile(r"[A-Za-z_]\w*(\([\w\s,.]*\))?", re.ASCII)
"""A macro's name, and its parameters if it has any."""


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program for the engine, what the control plane may know of it, and the compiler's warnings.

    `sources` are the files that it was made of, with their text; None for one that was sought in vain.
    """

    program: Program
    p4info: P4Info
    diagnostics: tuple[Diagnostic, ...]
    sources: Mapping[Path, str | None] = field(default_factory=dict)


def compile_program(
    path: Path, include_paths: Sequence[Path] = (), defines: Mapping[str, str] | None = None
) -> Compiled:
    """Compile the program in file `path`; the shipped includes are found behind `include_paths`, and macros
    that `defines` names stand for its texts.

    Raises: CompileError with every diagnostic; UsageError if the file cannot be read, or for what is no name
    of a macro.
    """
    path = Path(path)
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise UsageError(f"{path} is larger than {MAX_FILE_BYTES} bytes; a P4 program was expected")
        text = read_source(path)
    except (OSError, ValueError) as error:
        raise UsageError(f"cannot read {path}: {error}; give the path of a P4 program") from None
    compiled = _compile(text, path.name, path.parent, include_paths, defines)
    return replace(compiled, sources={path: text, **compiled.sources})


def compile_text(
    text: str,
    name: str = "program.p4",
    include_paths: Sequence[Path] = (),
    defines: Mapping[str, str] | None = None,
) -> Compiled:
    """Compile a program given as text, called `name` in messages. Raises: as `compile_program`."""
    return _compile(text, name, None, include_paths, defines)


def _compile(
    text: str,
    name: str,
    folder: Path | None,
    include_paths: Sequence[Path],
    defines: Mapping[str, str] | None,
) -> Compiled:
    given = _directives(defines or {})
    reporter = Reporter()
    places = [*(Path(place) for place in include_paths), programs_root() / "p4" / "include"]
    preprocessor = Preprocessor(reporter, places)
    with garbage_waits(has_cycles=True):
        try:
            tokens = preprocessor.preprocess(text, name, folder, given)
            program = None if reporter.failed else _translate(tokens, name, reporter)
        except TooManyErrors:
            program = None
        except RecursionError:
            program = None
            reporter.error(Location(SourceFile(name, ()), 1, 1), "this program is nested too deeply")
    if program is None or reporter.failed:
        raise CompileError(reporter.sorted())
    return Compiled(program, p4info_of(program), tuple(reporter.sorted()), preprocessor.sought)


def _directives(defines: Mapping[str, str]) -> str:
    """Return the directives that define macros. Raises: UsageError for what is no name, or no line."""
    for name, text in defines.items():
        if not _MACRO.fullmatch(name):
            raise UsageError(f"macro {name!r}: a name was expected, as WITH_INT")
        if len(text.splitlines()) > 1 or text.endswith("\\"):
            raise UsageError(f"macro {name}: a text of one line was expected")
    return "".join(f"#define {name} {text}\n" for name, text in defines.items())


def _translate(tokens: list[Token], name: str, reporter: Reporter) -> Program | None:
    declarations = Parser(tokens, reporter).program()
    if reporter.failed:  # what was stepped over would be missed
        return None
    checker, end = Checker(reporter), tokens[-1].location
    try:
        return _lowered(declarations, checker, end, name, reporter)
    except _FAULTS as error:
        what = f"{OWN_FAULT}: {type(error).__name__}: {error}"
        at = checker.block.declaration.at if checker.block else checker.declaring or end
        reporter.error(at, what, "please report it, with this program")
        raise CompileError(reporter.sorted()) from error


def _lowered(
    declarations: Sequence[syntax.Declaration], checker: Checker, end: Location, name: str, reporter: Reporter
) -> Program | None:
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
    advise_of_validity(lowered, declarations, reporter)
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
