# SPDX-License-Identifier: Apache-2.0
"""#include, #define, #if: files to one stream of tokens that keep their true places.

Source: P4-16 Language Specification 1.2.5, "Preprocessing"; ISO C, "Preprocessing directives", as far as P4
takes it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from nicemu.programs import read_source

from .condition import Condition
from .diagnostics import Location, Reporter, did_you_mean
from .lexer import Piece, SourceText, Token, included_text
from .macros import MAX_TOKENS, Macros, TooManyTokens

MAX_INCLUDE_DEPTH = 16
OTHER_ARCHITECTURES = frozenset(
    f"{name}.p4"
    for name in (
        "psa", "bmv2/psa", "dpdk/psa", "pna", "dpdk/pna", "tna", "t2na", "tofino", "tofino2arch",
        "ebpf_model", "ubpf_model", "xdp_model", "xsa", "simple_sume_switch", "sume_switch",
    )
)  # fmt: skip
"""What programs for other targets include; none of it is shipped."""
MAX_FILE_BYTES = 8 << 20
_HAS_INCLUDE = "__has_include"
_TARGET = "__TARGET_BMV2__"
"""What p4c defines as 1 for its BMv2 back end; programs for several targets ask for it."""
_WORD = re.compile(r"//[^\n]*|/\*.*?(?:\*/|\Z)|\b[A-Za-z_]\w*", re.DOTALL)
"""A word, or a comment, which has none."""
_LINE_NUMBER = re.compile(r"[0-9]{1,10}")
_DIRECTIVE = re.compile(r"^[^\S\n]*#[^\n]*(?:(?<=\\)\n[^\n]*)*", re.MULTILINE)
"""A line with a directive, and those that a backslash joins to it."""


@dataclass(slots=True)
class _Conditional:
    """An #if that is open."""

    word: str
    location: Location
    active: bool
    """Whether it holds, and all around it do."""
    taken: bool
    parent_active: bool
    seen_else: bool = False


class Preprocessor:
    """Reads one program and what it includes; `include_paths` are searched in order."""

    def __init__(self, reporter: Reporter, include_paths: Sequence[Path] = ()) -> None:
        self._reporter = reporter
        self._include_paths = list(include_paths)
        self._macros = Macros(reporter)
        self._output: list[Token] = []
        self._pending: list[Token] = []
        self._string: Token | None = None
        """The string that the lines taken last are in, as far as it is known."""
        self._within: list[Path] = []
        """The included files that are being read, each included by the one before."""
        self._once: set[Path] = set()
        """Included files that are not to be read again."""
        self._is_too_deep = False
        self.sought: dict[Path, str | None] = {}
        """Files that includes were sought in: their text, None where there was none to be read."""

    def preprocess(self, text: str, name: str, folder: Path | None, given: str = "") -> list[Token]:
        """Return the tokens of the program in `text`, the last one of kind "end"; `given` are directives that
        come before it.
        """
        file = SourceText(name, text)
        source = file.source
        start = Location(source, 1, 1)
        self._macros.put(_TARGET, (Token("number", "1", start),))
        self._macros.put(_HAS_INCLUDE, (Token("name", _HAS_INCLUDE, start),))
        try:
            self._file(SourceText("<command line>", given), folder)
            self._file(file, folder)
        except TooManyTokens as error:
            self._reporter.error(
                error.at or start,
                f"the program expands to more than {MAX_TOKENS} tokens, or macros are nested too deeply",
                "look for macros that use themselves",
            )
        if self._string is not None:
            self._reporter.error(self._string.location, "this string is never closed", 'add "')
        last = len(source.lines)
        end = Location(source, max(1, last), len(source.lines[-1]) + 1 if last else 1)
        return [*self._output, Token("end", "", end)]

    def _file(self, file: SourceText, folder: Path | None) -> None:
        if file.crowded is not None:
            what = "too many strings and comments begin in lines as long as this one"
            self._reporter.error(file.crowded, what, "break it into several")
            return
        conditions: list[_Conditional] = []
        text = file.text
        at, line = 0, 1
        for directive in _DIRECTIVE.finditer(text):
            start, end = directive.span()
            self._lines(file, line, at, start, conditions)
            self._flush()
            line += text.count("\n", at, start)
            tokens = file.directive(line, start, end, MAX_TOKENS)
            if len(tokens) == MAX_TOKENS:
                raise TooManyTokens
            line += text.count("\n", start, end)
            self._directive(tokens, conditions, folder, line)
            at = end
        self._lines(file, line, at, len(text.rstrip()), conditions)
        self._flush()
        if file.unclosed is not None:
            self._reporter.error(file.unclosed, "this comment is never closed", "add */")
        for condition in conditions:
            self._reporter.error(condition.location, f"this #{condition.word} has no #endif", "add #endif")

    def _lines(
        self, file: SourceText, line: int, start: int, end: int, conditions: list[_Conditional]
    ) -> None:
        """Take in the lines between two directives, if the conditions around them hold."""
        if start < end and (not conditions or conditions[-1].active):
            limit = MAX_TOKENS + 1 + file.text.count("\n", start, end)
            if file.has_long_strings or self._string is not None:
                self._pieces(file.pieces(line, start, end, limit, self._string is not None))
            else:
                self._pending += file.tokens(line, start, end, limit)
            room = MAX_TOKENS - len(self._output)
            if len(self._pending) > room:
                raise TooManyTokens(self._pending[room].location)

    def _pieces(self, pieces: Iterator[Piece]) -> None:
        """Take in lines between or in strings of several lines, in which directives and macros hold, too."""
        for piece in pieces:
            if self._string is None:
                self._pending += piece.tokens
                self._string = piece.quote and Token("string", '"', piece.quote)
                continue
            opened = self._string
            first, newline, rest = piece.text.partition("\n") if opened.text == '"' else ("", "", piece.text)
            text = opened.text + first + newline + _WORD.sub(self._word, rest)
            self._string = opened._replace(text=text)
            if piece.quote is not None:
                self._pending.append(opened._replace(text=text + '"'))
                self._string = None

    def _word(self, found: re.Match[str]) -> str:
        """Return what stands for a word in a string of several lines."""
        body = self._macros.body_of(found[0])
        return found[0] if body is None else " ".join(token.text for token in body)

    # Directives

    def _directive(
        self, tokens: list[Token], conditions: list[_Conditional], folder: Path | None, last: int
    ) -> None:
        """Do what a directive says, whose `last` line may be behind the first."""
        if len(tokens) < 2:
            return
        word, rest = tokens[1], tokens[2:]
        active = not conditions or conditions[-1].active
        if word.text in ("if", "ifdef", "ifndef"):
            holds = active and self._holds(word, rest, folder)
            conditions.append(_Conditional(word.text, word.location, holds, holds, active))
        elif word.text in ("elif", "else", "endif"):
            self._alternative(word, rest, conditions, folder)
        elif not active:
            return
        elif word.text == "include":
            self._include(word, rest, folder)
        elif word.text == "define":
            self._macros.define(word, rest)
        elif word.text == "undef":
            self._macros.forget(word, rest)
        elif word.text == "error":
            self._reporter.error(word.location, f"#error {' '.join(token.text for token in rest)}")
        elif word.text == "warning":
            self._reporter.warning(word.location, f"#warning {' '.join(token.text for token in rest)}")
        elif word.text == "line" or word.kind == "number":
            self._mark(word, rest if word.text == "line" else tokens[1:], last + 1)
        elif word.text == "pragma" and [token.text for token in rest] == ["once"]:
            self._once.update(self._within[-1:])
        elif word.text != "pragma":
            self._leave_out(word)

    def _leave_out(self, word: Token) -> None:
        """Leave a line out that is no directive, as programs for p4c have it for a comment."""
        known = ("include", "define", "undef", "if", "ifdef", "ifndef", "elif", "else", "endif", "error")
        if hint := did_you_mean(word.text, known):
            self._reporter.error(word.location, f"unknown directive #{word.text}", hint)
        else:
            what = "this line is no directive, and is left out"
            self._reporter.warning(word.location, what, "a comment begins with // in P4")

    def _mark(self, word: Token, given: list[Token], first: int) -> None:
        """Have the lines from `first` on told as others, maybe of another file; flags may follow."""
        number, name, *_ = [*self._macros.expanded(given), None, None]
        if number is None or not _LINE_NUMBER.fullmatch(number.text) or (name and name.kind != "string"):
            hint = 'write #line 12 "file.p4"'
            self._reporter.error(word.location, "#line takes the number of a line, and maybe a file", hint)
            return
        source = word.location.source
        file = name.text[1:-1] if name else source.place(word.location.line)[0]
        source.marks.append((first, int(number.text), file))

    def _alternative(
        self, word: Token, rest: list[Token], conditions: list[_Conditional], folder: Path | None
    ) -> None:
        if not conditions:
            self._reporter.error(word.location, f"#{word.text} without #if", "remove it, or add the #if")
            return
        condition = conditions[-1]
        if word.text == "endif":
            conditions.pop()
            return
        if condition.seen_else:
            self._reporter.error(word.location, f"#{word.text} after #else", "end the #if first")
        condition.seen_else = condition.seen_else or word.text == "else"
        eligible = condition.parent_active and not condition.taken
        condition.active = eligible and (word.text == "else" or self._holds(word, rest, folder))
        condition.taken = condition.taken or condition.active

    def _holds(self, word: Token, rest: list[Token], folder: Path | None) -> bool:
        if not rest:
            self._reporter.error(word.location, f"#{word.text} needs a condition")
            return False
        if word.text in ("ifdef", "ifndef") and rest[0].kind not in ("name", "keyword"):
            self._reporter.error(rest[0].location, f"#{word.text} needs a name, found '{rest[0].text}'")
            return False
        if word.text == "ifdef":
            return rest[0].text in self._macros
        if word.text == "ifndef":
            return rest[0].text not in self._macros
        answered = self._macros.answered(self._with_files(rest, folder))
        return bool(Condition(answered, word, self._reporter).value())

    def _with_files(self, tokens: list[Token], folder: Path | None) -> list[Token]:
        """Return a condition with 1 or 0 for each __has_include(<file>)."""
        result: list[Token] = []
        texts = [token.text for token in tokens]
        last = len(texts) - 1 - texts[::-1].index(")") if ")" in texts else 0
        at = 0
        while at < len(tokens):
            token = tokens[at]
            at += 1
            if token.text == _HAS_INCLUDE and at < last and texts[at] == "(":
                end = texts.index(")", at)
                name, is_quoted = self._file_named(tokens[at + 1 : end])
                if not name:
                    self._reporter.error(token.location, f'{_HAS_INCLUDE} needs (<file>) or ("file")')
                is_there = bool(name) and self._sought(self._folders(folder, is_quoted), name) is not None
                token = Token("number", str(int(is_there)), token.location)
                at = end + 1
            elif token.text == _HAS_INCLUDE and "defined" not in texts[max(at - 3, 0) : at - 1]:
                self._reporter.error(token.location, f'{_HAS_INCLUDE} needs (<file>) or ("file")')
            result.append(token)
        return result

    def _include(self, word: Token, rest: list[Token], folder: Path | None) -> None:
        if self._is_too_deep:
            return
        where = rest[0].location if rest else word.location
        name, is_quoted = self._file_named(rest)
        if not name:
            self._reporter.error(where, '#include needs <file> or "file"')
            return
        if len(self._within) >= MAX_INCLUDE_DEPTH:
            deep = f"includes are nested deeper than {MAX_INCLUDE_DEPTH}"
            self._reporter.error(where, deep, "does a file include itself?")
            self._is_too_deep = True  # a file that includes itself twice would be reported 65,536 times
            return
        folders = self._folders(folder, is_quoted)
        candidate = self._sought(folders, name)
        text = self.sought[candidate] if candidate else None
        if candidate is None or text is None:
            places = ", ".join(map(str, folders)) or "nowhere"
            hint = f"looked in {places}; give a further include path"
            if name in OTHER_ARCHITECTURES:
                hint = f"nicemu has no {Path(name).stem} yet; write for nicemu.p4 (docs/p4.md)"
            self._reporter.error(where, f"cannot read {name}", hint)
            return
        same = candidate.resolve()
        if same not in self._once:
            self._within.append(same)
            self._file(included_text(name, text), candidate.parent)
            self._within.pop()

    def _file_named(self, tokens: list[Token]) -> tuple[str, bool]:
        """Return the file that is named "so", or <so>, maybe by a macro, and whether in quotes; or ""."""
        if tokens and tokens[0].kind == "name":
            tokens = self._macros.expanded(tokens)
        is_quoted = bool(tokens) and tokens[0].kind == "string"
        return (tokens[0].text[1:-1] if is_quoted else _between_angles(tokens)), is_quoted

    def _folders(self, folder: Path | None, is_quoted: bool) -> list[Path]:
        """Return where a file is sought that one in `folder` includes."""
        return ([folder] if is_quoted and folder else []) + self._include_paths

    def _sought(self, folders: Sequence[Path], name: str) -> Path | None:
        """Return the first file of a name in folders, and keep its text; None if there is none."""
        for candidate in (place / name for place in folders):
            self.sought[candidate] = None
            try:
                if candidate.is_file() and candidate.stat().st_size <= MAX_FILE_BYTES:
                    self.sought[candidate] = read_source(candidate)
                    return candidate
            except (OSError, ValueError):
                continue
        return None

    def _flush(self) -> None:
        if self._pending:
            pending, self._pending = self._pending, []
            self._output += self._macros.expanded(pending, MAX_TOKENS - len(self._output))


def _between_angles(tokens: list[Token]) -> str:
    if not tokens or tokens[0].text != "<" or tokens[-1].text != ">":
        return ""
    return "".join(token.text for token in tokens[1:-1])
