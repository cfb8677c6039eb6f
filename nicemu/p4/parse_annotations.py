# SPDX-License-Identifier: Apache-2.0
"""Parses annotations; what stands in their bodies may be anything.

Source: P4-16 Language Specification 1.2.5, "Annotations".
"""

from __future__ import annotations

from typing import Final

from . import syntax
from .annotations import check_annotation, is_plain
from .diagnostics import Location
from .parse_expressions import ExpressionParser
from .token_reader import SyntaxFault

_NAMELESS: Final = "expected the name of an annotation"


class AnnotationParser(ExpressionParser):
    """Annotations, on top of expressions."""

    def annotations(self) -> list[syntax.Annotation]:
        """Parse all annotations that are next; their bodies may hold anything."""
        found: list[syntax.Annotation] = []
        first: dict[str, syntax.Annotation] = {}
        while self._tokens[self._at].text == "@":
            at = self.take().location
            made = self._pragma(at) if self.next.text == "pragma" else self._annotation(at)
            check_annotation(made, first.get(made.name), self.reporter)
            first.setdefault(made.name, made)
            found.append(made)
        return found

    def _annotation(self, at: Location) -> syntax.Annotation:
        """Parse what stands behind an '@', with its body in brackets."""
        name, opened = self._named(), self._at
        made = syntax.Annotation(at=at, name=name, tokens=[], structured=self.sees("["))
        if made.structured or self.sees("("):
            made.tokens = self.skip_balanced()
            if made.structured or name == "field_list":
                values = self._annotation_values(opened, name)
                made.keys, made.values = [key for key, _ in values], [value for _, value in values]
        body = made.tokens
        if name == "name" and body and not (len(body) == 1 and body[0].startswith('"')):
            made.value = self._computed(opened, self._at)
        return made

    def _pragma(self, at: Location) -> syntax.Annotation:
        """Parse an annotation of which the body is the rest of the line, as p4c has it."""
        self.take()
        if not self._is_on(at):
            self.fail(_NAMELESS)
        name, body = self._named(), list[str]()
        while self._is_on(at):
            body.append(self.take().text)
        if name == "field_list":
            self.reporter.error(at, "a list of fields in a pragma", "write @field_list(1)")
        return syntax.Annotation(at=at, name=name, tokens=body)

    def _named(self) -> str:
        """Step over the name of an annotation, which may be a keyword, and return it."""
        if self.next.kind not in ("name", "keyword"):
            self.fail(_NAMELESS)
        return self.take().text

    def _is_on(self, at: Location) -> bool:
        """Whether the next token stands on the line of another, or one that a backslash has joined to it."""
        place = self.next.location
        if self.next.kind == "end" or place.source is not at.source:
            return False
        between = place.source.lines[at.line - 1 : place.line - 1]
        return all(line.rstrip().endswith("\\") for line in between)

    def _annotation_values(self, opened: int, name: str) -> list[tuple[str, syntax.Expression]]:
        """Parse and return the expressions in the bracket at `opened`, once more, each with its key, "" for
        none; faults are reported.
        """
        behind, self._at = self._at, opened
        closing = "]" if self.take().text == "[" else ")"
        values: list[tuple[str, syntax.Expression]] = []
        try:
            while not self.sees(closing):
                key = ""
                if closing == "]" and self.sees_name() and self.peek().text == "=":
                    key = self.take().text
                    self.take()
                value = self.expression()
                values.append((key, value))
                if isinstance(value, syntax.ListValue) or (closing == "]" and not is_plain(value)):
                    what = f"a value of @{name} is a string, a number or a bool"
                    self.reporter.error(value.at, what)
                if not self.takes(","):
                    break
            self.expect(closing, f"to close @{name}")
        except SyntaxFault:
            values = []
        self._at = behind
        return values

    def _computed(self, start: int, end: int) -> syntax.Expression | None:
        """Return the expression in brackets that the tokens from `start` to `end` are, None if none."""
        mark = self.reporter.mark()
        self._at = start + 1
        try:
            value = self.expression()
            return value if self._at == end - 1 else None
        except SyntaxFault:
            self.reporter.rewind(mark)
            return None
        finally:
            self._at = end
