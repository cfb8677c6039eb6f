# SPDX-License-Identifier: Apache-2.0
"""Characters to tokens, with their places. Source: P4-16 Language Specification 1.2.5, "Lexical constructs".

`>` is always a token of its own, so that `bit<8>>` closes two lists; the parser joins adjacent ones where a
shift is meant. A character that no token begins with becomes an "unknown" token: only the parser knows
whether it matters (annotations may hold anything).
"""

from __future__ import annotations

import re
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
    "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=",
)
# fmt: on
_TOKEN = re.compile(
    rf"\s*(?:({_NUMBERS})"
    r"|([A-Za-z_][A-Za-z0-9_]*)"
    r'|("(?:[^"\\]|\\.)*")'
    rf"|({'|'.join(map(re.escape, _LONG_SYMBOLS))}|[-+*/%&|^~!?:;,.(){{}}\[\]<>=@#])"
    r"|(\S))"
)
_KINDS = ("", "number", "name", "string", "symbol", "unknown")
"""What the groups of the expression are."""


class Token(NamedTuple):
    """One token; `kind` is name, keyword, number, string, symbol, unknown or end.

    A named tuple, because a program has tens of thousands and these are made fastest.
    """

    kind: str
    text: str
    location: Location

    def touches(self, other: Token) -> bool:
        """Return whether `other` follows with nothing between."""
        here, there = self.location, other.location
        return (here.source, here.line, here.column + here.length) == (there.source, there.line, there.column)


def tokens_of(text: str, source: SourceFile, line: int) -> list[Token]:
    """Return the tokens of one line, comments already blanked."""
    tokens = []
    for match in _TOKEN.finditer(text.rstrip()):
        group = match.lastindex or 0
        word = match[group]
        kind = "keyword" if word in KEYWORDS else _KINDS[group]
        tokens.append(Token(kind, word, Location(source, line, match.start(group) + 1, len(word))))
    return tokens


def without_comments(text: str) -> str:
    """Return `text` with comments blanked, so that every other character keeps its place."""
    return _COMMENT.sub(lambda match: match[0] if match[0][0] == '"' else _BLANK.sub(" ", match[0]), text)


_COMMENT = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.DOTALL)
_BLANK = re.compile(r"[^\n]")
