# SPDX-License-Identifier: Apache-2.0
"""What the compiler has to say, and where: file, line, column, the source line with a caret, a hint."""

from __future__ import annotations

import bisect
import difflib
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import NamedTuple

from nicemu.errors import ProtocolError, counted

WIDEST_LINE = 160
"""Characters of a source line that are shown, those around the place; generated ones may have megabytes."""
LONGEST_MESSAGE = 2000
"""Characters; names of a program may be of any length."""
MOST_COMPARED = 2000
"""Known words of which the nearest to a wrong one is sought."""
MAX_ERRORS = 50
"""Errors after which the compiler stops looking for more."""


class Severity(enum.Enum):
    """A program with an error is refused; warnings are advice."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True, eq=False)
class SourceFile:
    """One file that was read, with its lines for showing them.

    `marks` are what #line has said: from which line on another counts, which, and of which file.
    """

    name: str
    lines: Sequence[str]
    marks: list[tuple[int, int, str]] = field(default_factory=list)

    def place(self, line: int) -> tuple[str, int]:
        """Return the file and the line that a line stands for."""
        behind = bisect.bisect_right(self.marks, line, key=itemgetter(0))
        if not behind:
            return self.name, line
        first, given, name = self.marks[behind - 1]
        return name, given + line - first


class Location(NamedTuple):
    """A place in a file that was read: line and column count from 1, `length` is in characters. What is told
    of it is the place that #line says.
    """

    source: SourceFile
    line: int
    column: int
    length: int = 1

    def __str__(self) -> str:
        name, line = self.source.place(self.line)
        return f"{name}:{line}:{self.column}"

    def is_on_line_of(self, other: Location) -> bool:
        """Return whether both places are on one line of one file."""
        return self.source is other.source and self.line == other.line


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One message about one place; `hint` says what may have been meant, or what to do."""

    severity: Severity
    location: Location
    message: str
    hint: str = ""

    @property
    def file(self) -> str:
        """Name of the file, as it was opened or included, or as #line has it."""
        return self.location.source.place(self.location.line)[0]

    @property
    def line(self) -> int:
        """Line, from 1."""
        return self.location.source.place(self.location.line)[1]

    @property
    def column(self) -> int:
        """Column, from 1."""
        return self.location.column

    @property
    def source_line(self) -> str:
        """The line of the program that the message is about."""
        line, lines = self.location.line, self.location.source.lines
        return lines[line - 1] if 0 < line <= len(lines) else ""

    def render(self) -> str:
        """Return the message with its source line, a caret below, and the hint."""
        text = f"{self.location}: {self.severity.value}: {self.message}"
        source, at = _clipped(self.source_line.rstrip(), self.column - 1)
        if source:
            before = "".join("\t" if letter == "\t" else " " for letter in source[:at])
            room = max(1, min(self.location.length, len(source) - at))
            text += f"\n    {source}\n    {before}^{'~' * (room - 1)}"
        if self.hint:
            text += f"\n    hint: {self.hint}"
        return text


def _clipped(line: str, at: int) -> tuple[str, int]:
    """Return what is shown of a line, and where in it the character `at` is."""
    if len(line) <= WIDEST_LINE:
        return line, at
    first = max(0, min(at - WIDEST_LINE // 3, len(line) - WIDEST_LINE))
    before = "..." if first else ""
    behind = "..." if first + WIDEST_LINE < len(line) else ""
    return f"{before}{line[first : first + WIDEST_LINE]}{behind}", at - first + len(before)


class CompileError(ProtocolError):
    """A program that cannot be compiled; `diagnostics` holds every message, in the order of the source."""

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        self.diagnostics = list(diagnostics)
        super().__init__(str(self))

    def __str__(self) -> str:
        count = sum(item.severity is Severity.ERROR for item in self.diagnostics)
        return "\n".join([*(item.render() for item in self.diagnostics), counted(count, "error")])


class TooManyErrors(Exception):  # noqa: N818  control flow, caught in compiler.py
    """More errors would help nobody: compilation ends."""


@dataclass(slots=True)
class Reporter:
    """Collects diagnostics; of one place the same thing is reported once."""

    diagnostics: list[Diagnostic] = field(default_factory=list)
    runs: bool = True
    """Whether what is checked may run; what does not is legal though it is not supported."""
    _seen: set[tuple[SourceFile, int, int, str]] = field(default_factory=set)
    _errors: list[Diagnostic] = field(default_factory=list)

    @property
    def failed(self) -> bool:
        """Whether any error was reported."""
        return bool(self._errors)

    def has_error_at(self, location: Location) -> bool:
        """Return whether an error was reported at a place."""
        return any(item.location == location for item in self._errors)

    def error(self, location: Location, message: str, hint: str = "") -> None:
        """Report what makes the program illegal."""
        self._add(Diagnostic(Severity.ERROR, location, message, hint))
        if len(self._errors) >= MAX_ERRORS:
            raise TooManyErrors

    def miscounted(
        self, location: Location, name: str, noun: str, wanted: int, given: int, hint: str = ""
    ) -> None:
        """Report that something is given another number of things than it takes."""
        are = "is" if given == 1 else "are"
        self.error(location, f"{name} takes {counted(wanted, noun)}; {given} {are} given", hint)

    def warning(self, location: Location, message: str, hint: str = "") -> None:
        """Report what is legal and probably not meant."""
        self._add(Diagnostic(Severity.WARNING, location, message, hint))

    def unsupported(self, location: Location, construct: str, hint: str = "") -> None:
        """Report legal P4 that this compiler does not take, unless it never runs."""
        if self.runs:
            self.error(location, f"not supported by nicemu yet: {construct}", hint)

    def mark(self) -> int:
        """Return a place to `rewind` to."""
        return len(self.diagnostics)

    def has_failed_since(self, mark: int) -> bool:
        """Return whether an error was reported since `mark` gave a place."""
        return any(item.severity is Severity.ERROR for item in self.diagnostics[mark:])

    def rewind(self, mark: int) -> None:
        """Forget what was reported since `mark`: something was only tried."""
        for item in self.diagnostics[mark:]:
            self._seen.discard(_key(item))
            if item.severity is Severity.ERROR:
                self._errors.remove(item)
        del self.diagnostics[mark:]

    def take_back(self, mark: int) -> list[Diagnostic]:
        """Forget what was reported since `mark`, and return it: it may be reported again."""
        found = self.diagnostics[mark:]
        self.rewind(mark)
        return found

    def replay(self, found: Iterable[Diagnostic]) -> None:
        """Report what was taken back."""
        for item in found:
            self._add(item)

    def sorted(self) -> list[Diagnostic]:
        """Return all messages, by file in order of appearance, then by place."""
        files: dict[str, int] = {}
        for item in self.diagnostics:
            files.setdefault(item.location.source.name, len(files))

        def place(item: Diagnostic) -> tuple[int, int, int]:
            return files[item.location.source.name], item.location.line, item.column

        return sorted(self.diagnostics, key=place)

    def _add(self, diagnostic: Diagnostic) -> None:
        if len(diagnostic.message) > LONGEST_MESSAGE:
            diagnostic = replace(diagnostic, message=f"{diagnostic.message[:LONGEST_MESSAGE]}...")
        key = _key(diagnostic)
        if key not in self._seen:
            self._seen.add(key)
            self.diagnostics.append(diagnostic)
            if diagnostic.severity is Severity.ERROR:
                self._errors.append(diagnostic)


def _key(diagnostic: Diagnostic) -> tuple[SourceFile, int, int, str]:
    location = diagnostic.location
    return location.source, location.line, location.column, diagnostic.message


def declared_later(at: Location) -> str:
    """Return a hint that what has no meaning yet is declared further down."""
    return f"it is declared further down, at {at}; write it before this"


def did_you_mean(wrong: str, known: Iterable[str], near: float = 0.6) -> str:
    """Return a hint that names the known word nearest to `wrong`, or the few that there are, or nothing.

    `near` is how much of the letters it must share, of 1.
    """
    words = sorted(set(known))
    for word in words:
        if word.lower() == wrong.lower():
            return f"did you mean {word}?"
    if len(words) > MOST_COMPARED:
        return ""
    nearest = difflib.get_close_matches(wrong, words, 1, near)
    if nearest:
        lowered = {word.lower(): word for word in words}  # `valid` is nearer to isValid than to setInvalid
        nearer = difflib.get_close_matches(wrong.lower(), list(lowered), 1, near)
        return f"did you mean {lowered[nearer[0]] if nearer else nearest[0]}?"
    return f"there is {', '.join(words)}" if 0 < len(words) <= 8 else ""


def article(noun: str) -> str:
    """Return a noun behind a or an."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"
