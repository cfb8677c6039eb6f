# SPDX-License-Identifier: Apache-2.0
"""The integer expression behind #if and #elif. Source: ISO C, "Conditional inclusion"."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from .diagnostics import Reporter
from .lexer import Token

MAX_CONDITION_DEPTH = 32

_LEVELS: tuple[dict[str, Callable[[int, int], int]], ...] = (
    {"||": lambda left, right: int(bool(left or right))},
    {"&&": lambda left, right: int(bool(left and right))},
    {"|": lambda left, right: left | right},
    {"^": lambda left, right: left ^ right},
    {"&": lambda left, right: left & right},
    {"==": lambda left, right: int(left == right), "!=": lambda left, right: int(left != right)},
    {
        "<": lambda left, right: int(left < right),
        ">": lambda left, right: int(left > right),
        "<=": lambda left, right: int(left <= right),
        ">=": lambda left, right: int(left >= right),
    },
    {"<<": lambda left, right: left << (right & 63), ">>": lambda left, right: left >> (right & 63)},
    {"+": lambda left, right: left + right, "-": lambda left, right: left - right},
    {
        "*": lambda left, right: left * right,
        "/": lambda left, right: _quotient(left, right),
        "%": lambda left, right: left - right * _quotient(left, right),
    },
)
_SUFFIX = frozenset({"u", "l", "ul", "lu", "ll", "ull", "llu"})
"""What may stand behind a number of C."""


def _quotient(left: int, right: int) -> int:
    """Divide, and drop what is behind the point."""
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


def _wrapped(value: int) -> int:
    """Return a number as 64 bits with a sign hold it."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


class Condition:
    """The integer expression of one #if; a name that is no macro counts as 0."""

    def __init__(self, tokens: list[Token], word: Token, reporter: Reporter) -> None:
        self._tokens = tokens
        self._at = 0
        self._word = word
        self._reporter = reporter
        self._depth = 0
        self._skipped = 0
        """How many operators around what is read have a value without it."""
        self._complained = False

    def value(self) -> int:
        """Return the value; 0 for what is no expression, which is reported."""
        result = self._chosen()
        if self._at < len(self._tokens):
            self._complain(self._tokens[self._at])
        return result

    def _chosen(self) -> int:
        """Return the value of an expression, `?:` included."""
        condition = self._level(0)
        if self._text() != "?":
            return condition
        self._at += 1
        yes = self._operand(self._chosen, bool(condition))
        if self._text() != ":":
            self._complain(None)
            return 0
        self._at += 1
        no = self._operand(self._chosen, not condition)
        return yes if condition else no

    def _operand(self, read: Callable[[], int], counts: bool) -> int:
        """Read an operand; one that does not count may divide by 0."""
        self._skipped += not counts
        value = read()
        self._skipped -= not counts
        return value

    def _level(self, level: int) -> int:
        if level == len(_LEVELS):
            return self._unary()
        left = self._level(level + 1)
        while (operator := self._operator()) in _LEVELS[level]:
            token = self._tokens[self._at]
            self._at += 2 if operator == ">>" else 1
            counts = operator not in ("&&", "||") or bool(left) == (operator == "&&")
            right = self._operand(partial(self._level, level + 1), counts)
            if operator in ("/", "%") and not right:
                if not self._skipped:
                    self._complain(token)
                    return 0
                right = 1
            left = _wrapped(_LEVELS[level][operator](left, right))
        return left

    def _operator(self) -> str:
        """Return the operator that is next; `>` is always a token of its own."""
        text = self._text()
        if text == ">" and self._at + 1 < len(self._tokens):
            after = self._tokens[self._at + 1]
            return ">>" if after.text == ">" and self._tokens[self._at].touches(after) else text
        return text

    def _unary(self) -> int:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        self._at += 1
        self._depth += 1
        try:
            if token is None or self._depth > MAX_CONDITION_DEPTH:
                self._complain(token)
                return 0
            if token.text == "!":
                return int(not self._unary())
            if token.text in ("-", "+", "~"):
                value = self._unary()
                return _wrapped(-value if token.text == "-" else ~value if token.text == "~" else value)
            if token.text == "(":
                inner = self._chosen()
                if self._text() != ")":
                    self._complain(token)
                self._at += 1
                return inner
            if token.kind == "number":
                following = self._tokens[self._at] if self._at < len(self._tokens) else None
                if following and following.text.lower() in _SUFFIX and token.touches(following):
                    self._at += 1
                digits = token.text.replace("_", "")
                try:
                    return int(digits, 8 if digits[0] == "0" and digits.isdecimal() else 0)
                except ValueError:
                    pass
            elif token.kind in ("name", "keyword"):
                return 0
            self._complain(token)
            return 0
        finally:
            self._depth -= 1

    def _text(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _complain(self, token: Token | None) -> None:
        """Report once, and look at no more tokens."""
        self._at = len(self._tokens)
        if self._complained:
            return
        self._complained = True
        where = token.location if token else self._word.location
        self._reporter.error(where, f"#{self._word.text} needs an integer expression")
