# SPDX-License-Identifier: Apache-2.0
"""Parses tables, their entries, and keysets.

Source: P4-16 Language Specification 1.2.5, "Tables".
"""

from __future__ import annotations

from . import syntax
from .diagnostics import did_you_mean
from .parse_statements import StatementParser
from .token_reader import SyntaxFault

PROPERTIES = ("key", "actions", "default_action", "size", "entries")
"""Properties of tables that are more than a value."""


class TableParser(StatementParser):
    """Tables and keysets."""

    def keysets(self) -> list[syntax.Expression]:
        """Parse one keyset, or several in parentheses."""
        if not self.sees("(") or self._cast_follows():
            return [self.keyset()]
        start = self._at
        self.take()
        keysets = [self.keyset()]
        while self.takes(","):
            keysets.append(self.keyset())
        self.expect(")", "after the keysets")
        if len(keysets) == 1 and not self.sees(":", ";"):
            self._at = start
            return [self.keyset()]
        return keysets

    def table(self, annotations: list[syntax.Annotation]) -> syntax.TableDeclaration:
        """Parse a table. Raises: SyntaxFault."""
        self.take()
        name = self.name("the table")
        self.declare(name.text, False)
        table = syntax.TableDeclaration(at=name.location, name=name.text, annotations=annotations)
        self.each(f"table {name.text}", lambda: self._property(table))
        return table

    def _property(self, table: syntax.TableDeclaration) -> None:
        annotations = self.annotations()
        constant_at = self.next.location if self.sees("const") else None
        constant = self.takes("const")
        if self.sees("action"):
            what = "unknown table property action"
            self.reporter.error(self.next.location, what, "did you mean actions?")
            table.actions = []  # they are there, whatever they are called
            raise SyntaxFault
        token = self.name(f"a property of table {table.name}")
        if token.text in table.property_names:
            self.reporter.error(token.location, f"table {table.name} has two properties {token.text}")
        table.property_names.add(token.text)
        if constant_at is not None and token.text in ("key", "actions"):
            self.reporter.error(constant_at, f"const cannot stand before {token.text}", "remove const")
        if token.text not in PROPERTIES:
            hint = did_you_mean(token.text, PROPERTIES)
            opens_list = self.sees("=") and self.peek().text == "{" and self.peek(2).text != "#"
            if hint.startswith("did") and opens_list:
                self.reporter.error(token.location, f"unknown table property {token.text}", hint)
                raise SyntaxFault
            self.expect("=", f"after {token.text}")
            value = self.expression()
            self.expect(";", f"after {token.text}")
            table.properties.append(
                syntax.PropertyElement(
                    at=token.location,
                    name=token.text,
                    annotations=annotations,
                    value=value,
                    constant=constant,
                )
            )
            return
        self.expect("=", f"after {token.text}")
        match token.text:
            case "key":
                table.keys = self.each("the keys", self._key, self._sees_no_element)
            case "actions":
                table.actions = self.each("the actions", self._listed_action, self._sees_no_element)
            case "default_action":
                if table.actions is None and not self.reporter.failed:
                    what = "default_action stands before actions"
                    self.reporter.error(token.location, what, "write it behind them")
                table.default_action = self._action_element()
                table.const_default = constant
                self.expect(";", "after default_action")
            case "size":
                table.size = self.expression()
                self.expect(";", "after size")
            case "entries":
                table.entries = self.each("the entries", self._entry, self._sees_no_element)
                table.entry_annotations = annotations
                table.const_entries = constant

    def _sees_no_element(self) -> bool:
        """Return whether a list of a table ends: by '}', or since another property of the table follows."""
        return self.sees_closing() or (self.next.text in PROPERTIES and self.peek().text == "=")

    def _key(self) -> syntax.KeyElement:
        expression = self.expression()
        self.expect(":", "between a key and its match kind")
        kind = self.name("a match kind")
        annotations = self.annotations()
        self.expect(";", "after a key")
        return syntax.KeyElement(
            at=expression.at,
            expression=expression,
            match_kind=kind.text,
            match_kind_at=kind.location,
            annotations=annotations,
        )

    def _listed_action(self) -> syntax.ActionElement:
        annotations = self.annotations()
        element = self._action_element()
        element.annotations = annotations
        self.expect(";", "after an action")
        return element

    def _action_element(self) -> syntax.ActionElement:
        absolute = self.takes(".")
        name = self.name("an action")
        arguments, names = self.arguments() if self.sees("(") else (None, None)
        return syntax.ActionElement(
            at=name.location, name=name.text, arguments=arguments, names=names, absolute=absolute
        )

    def _entry(self) -> syntax.EntryElement:
        at = self.next.location
        if self.sees("@"):
            self.fail("expected an entry", "annotations of an entry stand behind its action")
        constant = self.takes("const")
        priority = None
        if self.next.text == "priority" and self.peek().text == "=":
            self.take()
            self.take()
            priority = self._number(self.take()) if self.next.kind == "number" else self.expression()
            self.expect(":", "after the priority")
        keysets = self.keysets()
        if self.sees(","):
            self.fail("expected ':' between the keysets and the action", "write several keysets as (1, 2)")
        self.expect(":", "between the keysets and the action")
        action = self._action_element()
        annotations = self.annotations()
        self.expect(";", "after an entry")
        return syntax.EntryElement(
            at=at,
            keysets=keysets,
            action=action,
            priority=priority,
            constant=constant,
            annotations=annotations,
        )
