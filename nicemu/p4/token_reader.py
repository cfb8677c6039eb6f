# SPDX-License-Identifier: Apache-2.0
"""The parser's place in the tokens: what is next, what must be next, which names are types, how to
recover.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from typing import NoReturn, TypeVar

from .diagnostics import Location, Reporter, declared_later
from .lexer import SOFT_KEYWORDS, Token

MAX_NESTING = 110
"""How deep blocks, and how deep parentheses, may be nested."""

MAX_EXPRESSION_DEPTH = 90
"""How many operators may stand above one another in an expression."""

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_OUTSIDE = frozenset(
    {"control", "parser", "package", "header", "struct", "header_union", "enum", "typedef", "extern"}
)
"""Keywords that begin a declaration outside all blocks, and nothing inside braces."""
_PARTS = {"table": 0, "apply": 1, "state": 2}
"""Keywords that begin a part of a block; of those that may be names elsewhere how far behind a '{' stands."""

_AFTER_OPENING = ("(", "}", "@", "_")
"""Symbols with which what stands in braces may begin, or end."""
_BEHIND_A_LIST = (")", "]", ",", ";", ".")
"""What may stand behind the '}' of an expression, and not behind that of a statement."""

_MEANT = {"and": "write &&", "or": "write ||", "mod": "write %"}
"""Operators of other languages, where one of P4 was expected."""
_MEANT_BEFORE = {"not": "write !"}
"""Likewise, before what was not expected."""

Element = TypeVar("Element")


class SyntaxFault(Exception):  # noqa: N818  control flow: reported already, caught where the parser can go on
    """The tokens make no sense here."""


class _Levels(list[dict[str, bool]]):
    """A list with an item for each `with` that is entered; no object is made for one, there are thousands."""

    def __enter__(self) -> None:
        self.append({})

    def __exit__(self, *_: object) -> None:
        self.pop()


_MAKE_TYPES = ("control", "enum", "extern", "header", "header_union", "package", "parser", "struct")
"""Keywords with a type's name behind them."""


class TokenReader:
    """Tokens read from left to right, with a scope of names known to be types or not."""

    def __init__(self, tokens: list[Token], reporter: Reporter) -> None:
        self.reporter = reporter
        self._tokens = tokens
        self._at = 0
        self._swallowed = False
        self._scopes, self._levels = _Levels(), _Levels()
        self._scopes.append({})

    # What is next

    @property
    def next(self) -> Token:
        """The next token; the last one, of kind "end", again and again."""
        return self._tokens[self._at]

    def peek(self, ahead: int = 1) -> Token:
        """Return the token `ahead` places behind the next one."""
        at = self._at + ahead
        return self._tokens[at if at < len(self._tokens) else -1]

    def take(self) -> Token:
        """Step over the next token and return it."""
        token = self._tokens[self._at]
        if token.kind != "end":
            self._at += 1
        return token

    def sees(self, *texts: str) -> bool:
        """Return whether the next token is one of the symbols or keywords `texts`."""
        token = self._tokens[self._at]
        return token.text in texts and token.kind != "string"

    def takes(self, text: str) -> bool:
        """Step over `text` if it is next; return whether it was."""
        token = self._tokens[self._at]
        if token.text != text or token.kind == "string":
            return False
        self._at += 1
        return True

    def expect(self, text: str, context: str) -> Token:
        """Step over `text`, which must be next. Raises: SyntaxFault."""
        token = self._tokens[self._at]
        if token.text != text or token.kind == "string":
            self.fail(f"expected '{text}' {context}", at=self._behind_previous() if text == ";" else None)
        self._at += 1
        return token

    def _behind_previous(self) -> Location | None:
        """Return the place just behind the token before the next, where a ';' was forgotten."""
        if self._at == 0:
            return None
        last = self._tokens[self._at - 1].location
        return Location(last.source, last.line, last.column + last.length)

    def name(self, what: str) -> Token:
        """Step over an identifier, which must be next. Raises: SyntaxFault."""
        token = self._tokens[self._at]
        if (token.kind == "name" and token.text != "_") or token.text in SOFT_KEYWORDS:
            self._at += 1
            return token
        hint = f"{token.text} is a keyword" if token.kind == "keyword" else ""
        hint = "'_' is no name" if token.text == "_" else hint
        self.fail(f"expected the name of {what}", hint)

    def sees_name(self, ahead: int = 0) -> bool:
        """Return whether an identifier is next, or `ahead` places behind."""
        token = self.peek(ahead)
        return token.kind == "name" or token.text in SOFT_KEYWORDS

    def fail(self, message: str, hint: str = "", at: Location | None = None) -> NoReturn:
        """Report a syntax error at the next token. Raises: SyntaxFault."""
        found = "the end of the file" if self.next.kind == "end" else _shown(self.next.text)
        before = self._tokens[self._at - 1] if self._at else self.next
        if before.kind == "number" and self.next.kind == "name" and before.touches(self.next):
            at, message, found = before.location, "expected a number", f"'{before.text}{self.next.text}'"
        is_swallowed = self.next.kind == "end" and self._swallowed
        at = at or self.next.location
        hint = hint or _MEANT.get(self.next.text, "") or _MEANT_BEFORE.get(before.text, "")
        # A missing '}' may have been missed for what is inside; all may be in a bracket that is not closed.
        if not (is_swallowed or self.reporter.has_error_at(at)):
            self.reporter.error(at, f"{message}, found {found}", hint)
        raise SyntaxFault

    # Nesting and scopes

    def nested(self) -> _Levels:
        """Return what counts one level of nesting. Raises: SyntaxFault where the levels are too many."""
        if len(self._levels) >= MAX_NESTING:
            self.reporter.unsupported(self.next.location, f"nesting deeper than {MAX_NESTING} levels")
            raise SyntaxFault
        return self._levels

    def scope(self) -> AbstractContextManager[None]:
        """Names declared inside are forgotten at the end."""
        return self._scopes

    def declare(self, name: str, is_type: bool) -> None:
        """Remember whether a name is a type in this scope; it hides outer ones."""
        self._scopes[-1][name] = is_type

    def is_type(self, name: str) -> bool:
        """Return whether a name is known to be a type."""
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return False

    def is_known(self, name: str) -> bool:
        """Return whether a name is known to be anything."""
        return any(name in scope for scope in self._scopes)

    def no_type(self, token: Token, hint: str = "") -> NoReturn:
        """Report a name that stands where a type must. Raises: SyntaxFault."""
        what = f"{token.text} is no type" if self.is_known(token.text) else f"unknown type {token.text}"
        behind = zip(self._tokens[self._at :], self._tokens[self._at + 1 :], strict=False)
        later = (name for word, name in behind if word.text in _MAKE_TYPES and name.text == token.text)
        if what.startswith("unknown") and (name := next(later, None)) is not None:
            hint = declared_later(name.location)
        self.reporter.error(token.location, what, hint)
        raise SyntaxFault

    def is_outermost_type(self, ahead: int = 0) -> bool:
        """Return whether `.T` is next, or `ahead` places behind, with a type T outside all blocks."""
        return self.peek(ahead).text == "." and self._scopes[0].get(self.peek(ahead + 1).text, False)

    # Braces and recovery

    def open(self, what: str) -> Location:
        """Step over a '{'; where it is missing, go on as if it were there, if that can be.

        Raises: SyntaxFault.
        """
        at = self.next.location
        if not self.takes("{"):
            with suppress(SyntaxFault):
                self.fail(f"expected '{{' to open {what}")
            if self.sees("(") and self.peek(self._behind_bracket()).text == "{":  # as if it took something
                self._at += self._behind_bracket()
                self.take()
            elif self.peek().text == "{" and not self.sees_part():  # something too many
                self.take()
                self.take()
            elif self.next.kind == "symbol" and self.next.text not in _AFTER_OPENING:
                raise SyntaxFault
        return at

    def _behind_bracket(self, depth: int = 0) -> int:
        """Return how many tokens there are up to the ')' that leaves none of `depth` brackets open.

        0 if a brace, or the end, comes before.
        """
        ahead = 0
        while (token := self.peek(ahead)).kind != "end" and token.text not in ("{", "}"):
            depth += (token.text == "(") - (token.text == ")")
            ahead += 1
            if depth == 0:
                return ahead
        return 0

    def each(
        self, what: str, element: Callable[[], Element], ends: Callable[[], bool] | None = None
    ) -> list[Element]:
        """Parse what stands between braces; what of it is at fault is stepped over. Raises: SyntaxFault.

        `ends` sees more than `sees_closing` that shows a missing '}'.
        """
        self.open(what)
        ends = ends or self.sees_closing
        found: list[Element] = []
        while not ends():
            start = self._at
            try:
                found.append(element())
            except SyntaxFault:
                self.recover(start)
        self.close(what, ends)
        return found

    def close(self, what: str, ends: Callable[[], bool] | None = None) -> None:
        """Step over a '}', and what stands before it; where it is missing, go on as if it were there."""
        if self.takes("}"):
            return
        with suppress(SyntaxFault):
            self.fail(f"expected '}}' to close {what}")
        ends = ends or self.sees_closing
        while not ends():
            self.recover(self._at)
        self.takes("}")

    def sees_closing(self, *, block: bool = False, before: str = "") -> bool:
        """Return whether what is in braces ends: by '}', or by what shows that this is missing.

        That is the keyword `before`, and can be a part of a `block`, unless the braces are those of one.
        """
        token = self._tokens[self._at]
        if token.kind != "keyword":
            return token.text == "}" or token.kind == "end"
        if token.text == before:
            return True
        begins_action = token.text == "action" and self.peek().text != "="
        return token.text in _OUTSIDE or (not block and (begins_action or self.sees_part()))

    def sees_part(self) -> bool:
        """Return whether a part of a parser or control is next, which stands nowhere else."""
        token = self._tokens[self._at]
        if token.kind != "keyword" or token.text not in _PARTS:
            return False
        behind = _PARTS[token.text]
        return not behind or (self.peek(behind).text == "{" and (behind == 1 or self.sees_name(1)))

    def recover(self, start: int, *, outside: bool = False) -> None:
        """Step over what is left of the statement or declaration that begins at `start`.

        That ends behind its ';', behind a '}' of its own, or before one that is not; and before what cannot
        stand in it, which is less where it stands `outside` all blocks.
        """
        assert self.reporter.failed  # or what is stepped over would be missing in silence
        between = [token.text for token in self._tokens[start : self._at]]
        depth = max(between.count("{") - between.count("}"), 0)
        open_brackets = between.count("(") - between.count(")")
        if depth == 0 and open_brackets > 0:  # there may be ';' between those of a for
            self._at += self._behind_bracket(open_brackets)
        while self.next.kind != "end":
            text = self.next.text
            if (text != "}" or depth == 0) and self.sees_closing(block=outside):
                return
            self.take()
            depth += (text == "{") - (text == "}")
            if depth == 0 and (text == ";" or (text == "}" and self.next.text not in _BEHIND_A_LIST)):
                return

    def skip_balanced(self) -> list[str]:
        """Step over a bracket and all up to its partner; return the texts between.

        Inside parentheses, other brackets are tokens as all others, and need no partners.
        """
        texts: list[str] = []
        opened = self.take()
        brackets = {"(": ")"} if opened.text == "(" else _CLOSING
        stack = [_CLOSING[opened.text]]
        while stack:
            if self.next.kind == "end":
                self.reporter.error(opened.location, f"'{opened.text}' is never closed")
                self._swallowed = True
                raise SyntaxFault
            token = self.take()
            if token.text in brackets:
                stack.append(brackets[token.text])
            elif token.text == stack[-1]:
                stack.pop()
            elif token.text in brackets.values():
                self.fail(f"expected '{stack[-1]}' before this '{token.text}'", at=token.location)
            if stack:
                texts.append(token.text)
        return texts


def _shown(text: str) -> str:
    """Return a token as messages show it: a character that nobody sees by its number."""
    is_seen = len(text) > 1 or text.isprintable()
    return f"'{text}'" if is_seen and not text.isspace() else f"the character U+{ord(text):04X}"
