# SPDX-License-Identifier: Apache-2.0
"""The parser's place in the tokens: what is next, what must be next, which names are types, how to
recover.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NoReturn, TypeVar

from .diagnostics import Location, Reporter
from .lexer import SOFT_KEYWORDS, Token

MAX_NESTING = 64
"""How deep blocks, and how deep parentheses, may be nested."""

MAX_EXPRESSION_DEPTH = 48
"""How many operators may stand above one another in an expression."""

_CLOSING = {"(": ")", "[": "]", "{": "}"}
_OUTSIDE = frozenset(
    {"control", "parser", "package", "header", "struct", "header_union", "enum", "typedef", "extern"}
)
"""Keywords that begin a declaration outside all blocks, and nothing inside braces."""
_OF_BLOCKS = frozenset({"action", "table"})
"""Keywords that begin a part of a block, and nothing in braces inside it."""

Element = TypeVar("Element")


class SyntaxFault(Exception):  # noqa: N818  control flow: reported already, caught where the parser can go on
    """The tokens make no sense here."""


class _Levels(list[dict[str, bool]]):
    """A list with an item for each `with` that is entered; no object is made for one, there are thousands."""

    def __enter__(self) -> None:
        self.append({})

    def __exit__(self, *_: object) -> None:
        self.pop()


class TokenReader:
    """Tokens read from left to right, with a scope of names known to be types or not."""

    def __init__(self, tokens: Sequence[Token], reporter: Reporter) -> None:
        self.reporter = reporter
        self._tokens = tokens
        self._at = 0
        self._scopes, self._levels = _Levels(), _Levels()
        self._scopes.append({})
        self._fault: Location | None = None

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
        found = "the end of the file" if self.next.kind == "end" else f"'{self.next.text}'"
        at = at or self.next.location
        if at != self._fault:  # else a '}' is missing here, and was missed for what is inside
            self.reporter.error(at, f"{message}, found {found}", hint)
        self._fault = at
        raise SyntaxFault

    # Nesting and scopes

    def nested(self) -> AbstractContextManager[None]:
        """Count one level of nesting. Raises: SyntaxFault where the levels are too many."""
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

    def is_outermost_type(self, ahead: int = 0) -> bool:
        """Return whether `.T` is next, or `ahead` places behind, with a type T outside all blocks."""
        return self.peek(ahead).text == "." and self._scopes[0].get(self.peek(ahead + 1).text, False)

    # Braces and recovery

    def each(self, what: str, element: Callable[[], Element]) -> list[Element]:
        """Parse what stands between braces; what of it is at fault is stepped over. Raises: SyntaxFault."""
        self.expect("{", f"to open {what}")
        found: list[Element] = []
        while not self.sees_closing():
            try:
                found.append(element())
            except SyntaxFault:
                self.recover()
        self.close(what)
        return found

    def close(self, what: str) -> None:
        """Step over a '}', which must be next; steps over what stands before it. Raises: SyntaxFault."""
        if self.takes("}"):
            return
        try:
            self.fail(f"expected '}}' to close {what}")
        except SyntaxFault:
            while not self.sees_closing():
                self.recover()
            if not self.takes("}"):
                raise

    def sees_closing(self, *, block: bool = False) -> bool:
        """Return whether what is in braces ends: by '}', or by what shows that this is missing.

        That can be a part of a `block`, unless the braces are those of one.
        """
        token = self._tokens[self._at]
        if token.kind != "keyword":
            return token.text == "}" or token.kind == "end"
        if token.text in _OUTSIDE or (not block and token.text in _OF_BLOCKS):
            return True
        return not block and token.text == "state" and self.sees_name(1) and self.peek(2).text == "{"

    def recover(self) -> None:
        """Step over what is left of a statement or declaration: behind its ';', or before or behind a '}'."""
        depth = 0
        while self.next.kind != "end":
            token = self.next
            if depth == 0 and self.sees_closing():
                return
            if token.text == "{":
                depth += 1
            elif token.text == "}":
                depth -= 1
                if depth == 0:
                    self.take()
                    return
            elif token.text == ";" and depth == 0:
                self.take()
                return
            self.take()

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
                self.fail(f"'{opened.text}' is never closed", at=opened.location)
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
