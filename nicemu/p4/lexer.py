# SPDX-License-Identifier: Apache-2.0
"""Characters to tokens, with their places. Source: P4-16 Language Specification 1.2.5, "Lexical constructs".

`>` is always a token of its own, so that `bit<8>>` closes two lists; the parser joins adjacent ones where a
shift is meant. A character that no token begins with becomes an "unknown" token: only the parser knows
whether it matters (annotations may hold anything).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import NamedTuple

from .diagnostics import Location, SourceFile

# fmt: off
KEYWORDS = frozenset({
    "abstract", "action", "apply", "bit", "bool", "break", "const", "continue", "control", "default",
    "else", "enum", "error", "exit", "extern", "false", "for", "header", "header_union", "if", "in",
    "inout", "int", "list", "match_kind", "out", "package", "parser", "return", "select", "state", "string",
    "struct", "switch", "table", "this", "transition", "true", "tuple", "type", "typedef", "value_set",
    "varbit", "void",
})
# fmt: on
SOFT_KEYWORDS = frozenset({"apply", "state", "type", "list"})
"""Keywords that may stand as names where a name is due; key, actions, entries, size are plain identifiers."""

_PREFIX = "(?:[0-9]+[ws])?"
_NUMBERS = "|".join(
    _PREFIX + digits
    for digits in ("0[xX][0-9a-fA-F_]+", "0[bB][01_]+", "0[oO][0-7_]+", "(?:0[dD])?[0-9][0-9_]*")
)
# fmt: off
_LONG_SYMBOLS = (
    "|+|=", "|-|=", "|+|", "|-|", "&&&", "<<=", "...", "&&", "||", "<<", "<=", ">=", "==", "!=", "++", "..",
    "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "##",
)
# fmt: on
_TOKEN = re.compile(
    r"([^\S\n]*(?:\\(?=\n))?)"
    r"([A-Za-z_][A-Za-z0-9_]*"
    r"|[;(){}:,\[\]?~@\n]"  # with which no longer symbol begins: most end here
    rf"|{'|'.join(map(re.escape, _LONG_SYMBOLS))}|[-+*/%&|^!.<>=#]"
    rf"|{_NUMBERS}"
    r'|"(?:[^"\\\n]|\\.)*"'
    r"|\S)",
    re.ASCII,
)
_SYMBOLS = frozenset({*_LONG_SYMBOLS, *"-+*/%&|^~!?:;,.(){}[]<>=@#"})
_LONG_TEXT = 1 << 20
"""Characters of which not all tokens are found at once: there may be too many."""


class Token(NamedTuple):
    """One token; `kind` is name, keyword, number, string, symbol, unknown or end.

    All that a macro call became stands where the call does; `close` says of a token there that in the macro
    nothing stood between it and the one before.
    A named tuple, because a program has tens of thousands and these are made fastest.
    """

    kind: str
    text: str
    location: Location
    close: bool = False

    def touches(self, other: Token) -> bool:
        """Return whether `other` follows with nothing between."""
        here, there = self.location, other.location
        if other.close and here == there:
            return True
        return (here.source, here.line, here.column + here.length) == (there.source, there.line, there.column)


class Painted(Token):
    """The name of a macro that came up while that macro was expanded: it is expanded no more."""


class Piece(NamedTuple):
    """Code without strings of several lines, or what stands in one; a quote ends it, or the text does."""

    text: str
    tokens: list[Token]
    quote: Location | None


def _kind(word: str) -> str:
    """Return what kind of token a word is."""
    if word in KEYWORDS:
        return "keyword"
    if word in _SYMBOLS:
        return "symbol"
    if word[0] in "0123456789":
        return "number"
    if word[0] == "_" or (word[0].isascii() and word[0].isalpha()):
        return "name"
    return "string" if word[0] == '"' and len(word) > 1 else "unknown"


class _Kinds(dict[str, str]):
    """What kind of token words are, each found out once."""

    def __missing__(self, word: str) -> str:
        kind = self[word] = _kind(word)
        return kind


def tokens_of(
    text: str, source: SourceFile, line: int, start: int = 0, end: int | None = None, limit: int = 1 << 32
) -> list[Token]:
    """Return the tokens of `text`, comments blanked already, from `start`, where `line` begins, to `end`.

    With a `limit`, where there are more, about so many.
    Most time goes by here, so tuples are made without the constructors of their classes.
    """
    tokens: list[Token] = []
    append, make, kinds, column = tokens.append, tuple.__new__, _Kinds(), 1
    end = len(text.rstrip()) if end is None else end
    found: Iterable[Sequence[str]] = (
        _TOKEN.findall(text, start, end)
        if end - start < _LONG_TEXT
        else map(re.Match.groups, islice(_TOKEN.finditer(text, start, end), limit))
    )
    for blank, word in found:
        column += len(blank)
        if word == "\n":
            line, column = line + 1, 1
            continue
        length = len(word)
        append(make(Token, (kinds[word], word, make(Location, (source, line, column, length)), False)))
        column += length
    return tokens


class SourceText:
    """A file with its comments blanked, and the tokens of each part of it that was asked for, found once."""

    def __init__(self, name: str, text: str) -> None:
        text = text.removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n")
        self.source = SourceFile(name, lines_of(text))
        text = _BLANK_JOINT.sub(r"\1\\\n", text)
        crowded = _crowded_line(text)
        self.crowded = Location(self.source, crowded, 1) if crowded else None
        """Where so much begins that strings and comments are not told apart in time: no tokens then."""
        text = "" if crowded else text
        self._with_comments = _joined(_with_whole_tokens(text) if "\\\n" in text else text)
        self.text = without_comments(self._with_comments)
        self.has_long_strings = '"' in self.text and '"' in _STRING.sub("", self.text)
        self.unclosed = self._unclosed_comment(text)
        self._tokens: dict[int, list[Token]] = {}

    def _unclosed_comment(self, text: str) -> Location | None:
        """Return where a comment begins that goes on to the end of the file; None if there is none."""
        begins = text.rfind("/*")
        if begins < 0 or text.find("*/", begins + 2) >= 0:  # so every comment ends
            return None
        last = next((found for found in _OPEN_COMMENT.finditer(text) if found[1] is not None), None)
        if last is None:
            return None
        start = last.start(1)
        return Location(self.source, text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start), 2)

    def tokens(self, line: int, start: int, end: int, limit: int) -> list[Token]:
        """Return the tokens of whole lines. See `tokens_of`."""
        if start not in self._tokens:
            self._tokens[start] = tokens_of(self.text, self.source, line, start, end, limit)
        return self._tokens[start]

    def pieces(self, line: int, start: int, end: int, limit: int, in_string: bool) -> Iterator[Piece]:
        """Yield whole lines as pieces, in turn code and the insides of strings of several lines."""
        text, at = self._with_comments, start
        while at < end:
            found = (_IN_STRING if in_string else _CODE).match(text, at, end)
            stop = found.end() if found is not None else end
            written = text[at:stop]
            tokens: list[Token] = []
            if not in_string:
                indented = " " * (at - text.rfind("\n", 0, at) - 1) + without_comments(written)
                tokens = tokens_of(indented, self.source, line, limit=limit)
            line += written.count("\n")
            quote = Location(self.source, line, stop - text.rfind("\n", 0, stop)) if stop < end else None
            yield Piece(written, tokens, quote)
            in_string, at = not in_string, stop + 1

    def directive(self, line: int, start: int, end: int, limit: int) -> list[Token]:
        """Return the tokens of a directive; the lines that backslashes join are one."""
        if start not in self._tokens:
            joined = self.text[start:end].replace("\\\n", "  ")
            self._tokens[start] = tokens_of(joined, self.source, line, limit=limit)
        return self._tokens[start]


def included_text(name: str, text: str) -> SourceText:
    """Return an included file. Programs include the same few again and again; but one with #line stands for
    other places each time.
    """
    kept = _kept_text(name, text)
    return SourceText(name, text) if _PLACED.search(kept.text) else kept


@lru_cache(maxsize=8)
def _kept_text(name: str, text: str) -> SourceText:
    return SourceText(name, text)


def lines_of(text: str) -> list[str]:
    """Return the lines of a text, as tokens count them."""
    lines = text.split("\n")
    return lines[:-1] if not lines[-1] else lines


def _crowded_line(text: str) -> int:
    """Return the line up to which too many strings and comments begin, 0 if there are not so many.

    Each one that does not end is looked for anew behind the next, up to the end of its line.
    """
    beginnings = text.count('"') + text.count("/*")
    if beginnings * max(map(len, text.split("\n"))) < _MOST_LOOKED_AT and "\\\n" not in text:
        return 0
    line, looked_at = 1, 0
    for joined in _JOINED_LINES.finditer(text):
        part = joined[0]
        quotes, comments = part.count('"'), part.count("/*")
        if quotes % 2 or comments or "\\" in part:  # else each string ends, and is looked at once
            looked_at += len(part) * (quotes + comments)
        if looked_at > _MOST_LOOKED_AT:
            return line
        line += part.count("\n")
    return 0


def without_comments(text: str) -> str:
    """Return `text` with comments blanked, so that every other character keeps its place."""
    pattern = _COMMENT_OR_DIRECTIVE if _has_open_directive(text) else _COMMENT
    return pattern.sub(_without_comment, text)


def _without_comment(match: re.Match[str]) -> str:
    """Return what stands for a string, a comment, or a directive with the comments in it."""
    found = match[0]
    if found[0] == '"':
        return found
    if found[0] == "/":
        return _BLANK.sub(" ", found)
    return _COMMENT.sub(_without_comment_of_directive, found)


def _without_comment_of_directive(match: re.Match[str]) -> str:
    return match[0] if match[0][0] == '"' else _BLANK_BUT_JOINTS.sub(" ", match[0])


def _joined(text: str) -> str:
    """Return `text` with a backslash before each end of a line in a directive's comments.

    A directive goes on behind a comment of several lines.
    """
    if not _has_open_directive(text):
        return text
    return _COMMENT_OR_DIRECTIVE.sub(
        lambda found: found[0] if found[0][0] in '"/' else _COMMENT.sub(_with_joints, found[0]), text
    )


def _has_open_directive(text: str) -> bool:
    return "/*" in text and _OPEN_IN_DIRECTIVE.search(text) is not None


def _with_joints(match: re.Match[str]) -> str:
    return match[0] if match[0][0] == '"' else _UNJOINED.sub("\\\\\n", match[0])


def _with_whole_tokens(text: str) -> str:
    """Return `text` with tokens that a backslash and the end of a line divide in one piece before these."""
    return _DIVIDED.sub(_whole, text)


def _whole(match: re.Match[str]) -> str:
    found = match[0]
    if found[:2] in ("//", "/*"):
        return found
    return found.replace("\\\n", "") + "\\\n" * found.count("\\\n")


_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"', re.DOTALL)
_STRING_OR_COMMENT = r'"(?:[^"\\\n]|\\.)*"|//[^\n]*(?:(?<=\\)\n[^\n]*)*|/\*.*?(?:\*/|\Z)'
_PLACED = re.compile(r"^[^\S\n]*#[\s\\]*(?:line\b|[0-9])", re.MULTILINE)
_COMMENT = re.compile(_STRING_OR_COMMENT, re.DOTALL)
_CODE = re.compile(rf'(?:{_STRING_OR_COMMENT}|[^"])*+', re.DOTALL)
_IN_STRING = re.compile(r'(?:[^"\\]|\\.)*+', re.DOTALL)
_COMMENT_OR_DIRECTIVE = re.compile(
    rf"{_STRING_OR_COMMENT}|^[^\S\n]*#(?:{_STRING_OR_COMMENT}|\\\n|[^\n])*", re.DOTALL | re.MULTILINE
)
_OPEN_IN_DIRECTIVE = re.compile(
    r"(?<!\\\n)^[^\S\n]*#(?:[^\n]*\\\n)*[^\n]*/\*(?:(?!\*/)[^\n])*\n", re.MULTILINE
)
"""A directive, maybe of several lines, of which one ends in a comment, or looks so."""
_DIVIDED = re.compile(
    rf"{_STRING_OR_COMMENT}|\w+(?:\\\n\w+)+|[-+*/%&|^~!<>=.#]+(?:\\\n[-+*/%&|^~!<>=.#]+)+", re.DOTALL
)
_OPEN_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*(?:(?<=\\)\n[^\n]*)*|/\*.*?\*/|(/\*)', re.DOTALL)
"""As `_COMMENT`, but that a comment which is not closed is the group."""
_JOINED_LINES = re.compile(r"(?:[^\\\n]|\\.)*\n?", re.DOTALL)
_MOST_LOOKED_AT = 100_000_000
"""Characters, a second's work."""
_BLANK_JOINT = re.compile(r"\\([^\S\n]+)\n")
"""A backslash that joins two lines though blanks stand behind it, as for GNU's preprocessor."""
_BLANK = re.compile(r"[^\n]")
_BLANK_BUT_JOINTS = re.compile(r"[^\n\\]|\\(?!\n)")
_UNJOINED = re.compile(r"(?<!\\)\n")
_BYTE_ORDER_MARK = "\N{ZERO WIDTH NO-BREAK SPACE}"
"""What some editors begin a file with; preprocessors pass over it."""
