# SPDX-License-Identifier: Apache-2.0
"""Checks the states of parsers: their bodies, where they go, and what select compares.

Source: P4-16 Language Specification 1.2.5, "Parser states", "Transition statements", "Select expressions".
"""

from __future__ import annotations

from collections.abc import Collection
from math import prod

from nicemu.pipeline import ir

from . import syntax
from .check_keysets import parts_of
from .check_statements import StatementChecker
from .diagnostics import did_you_mean
from .symbols import BlockSymbol
from .type_sizes import scalar_of
from .types import UNKNOWN, CompositeType, ListType, Type

MAX_ALTERNATIVES = 4096
"""How many cases of a select one may be."""


class StateChecker(StatementChecker):
    """The states of the parser that is being checked."""

    def states(self, block: syntax.BlockDeclaration) -> None:
        """Check the states of a parser: bodies, transitions, and that all can be reached."""
        nodes = block.states or []
        if isinstance(self.block, BlockSymbol):
            self.block.states += len(nodes)
        names: dict[str, syntax.StateDeclaration] = {}
        for node in nodes:
            if node.name in (ir.ACCEPT, ir.REJECT):
                what = f"every parser has a state {node.name}"
                self.reporter.error(node.at, what, "go to it, and call this one otherwise")
            elif node.name in names:
                self.reporter.error(node.at, f"parser {block.name} has two states {node.name}")
            names[node.name] = node
        if "start" not in names:
            self.reporter.error(
                block.at, f"parser {block.name} has no state start", did_you_mean("start", names)
            )
        for local in block.locals:
            if local.name in names:
                self.reporter.error(names[local.name].at, f"{local.name} is declared twice in the same scope")
        targets = dict.fromkeys((*names, ir.ACCEPT, ir.REJECT))
        around, self.branches = self.branches, 0
        for node in nodes:
            outer, self.context = self.context, "parser"
            with self.inner_scope():
                self._statements(node.body)
                self._transition(node, targets)
            self.context = outer
        self.branches = around
        self._check_reached(block, names)

    def _check_reached(
        self, block: syntax.BlockDeclaration, names: dict[str, syntax.StateDeclaration]
    ) -> None:
        """Warn of states that no transition reaches; report a parser in use that can never end."""
        reached = {"start"}
        pending = ["start"]
        while pending:
            for target in _targets(names.get(pending.pop())):
                if target not in reached:
                    reached.add(target)
                    pending.append(target)
        for name, node in names.items():
            if name not in reached:
                self.reporter.warning(node.at, f"state {name} is never reached")
        in_use = isinstance(self.block, BlockSymbol) and self.block.used
        if in_use and "start" in names and reached <= names.keys():
            what = f"parser {block.name} never reaches {ir.ACCEPT} or {ir.REJECT}"
            self.reporter.error(block.at, what, "add a transition that does")

    def _transition(self, node: syntax.StateDeclaration, targets: Collection[str]) -> None:
        if node.keys is None:
            if not node.goto:
                node.goto = ir.REJECT
                self.reporter.warning(
                    node.at,
                    f"state {node.name} has no transition: packets are rejected",
                    "add transition accept;",
                )
            elif node.goto not in targets:
                hint = did_you_mean(node.goto, targets)
                self.reporter.error(node.goto_at or node.at, f"unknown state {node.goto}", hint)
            return
        kinds = [self._select_key(key) for key in node.keys]
        final: syntax.SelectLabel | None = None
        for case in node.cases:
            if case.state not in targets:
                self.reporter.error(
                    case.state_at, f"unknown state {case.state}", did_you_mean(case.state, targets)
                )
            self.keysets(case, kinds)
            several = prod(len(item.value) for item in case.keysets if isinstance(item.value, tuple))
            if several > MAX_ALTERNATIVES:
                what = f"a case that is {several} cases, two for each range of signed numbers around 0"
                self.reporter.unsupported(case.at, what, f"{MAX_ALTERNATIVES} would be")
                case.keysets = []
            if final is not None:
                self.reporter.warning(case.at, "this case is never reached: the one before takes everything")
                final = None
            elif all(isinstance(item, syntax.AnySet) for item in case.keysets):
                final = case

    def _select_key(self, node: syntax.Expression) -> Type:
        """Return the type of a key of a select, UNKNOWN if it was reported; tuples hold several numbers."""
        found = self.expression(node)
        if isinstance(found, ListType):
            self.convert(node, self.type_of_list(node, found), "a key of select")
        if isinstance(node.type, CompositeType) and node.type.kind == "tuple":
            wrong = [kind for kind in parts_of(node.type) if scalar_of(kind) is None]
            if wrong:
                what = f"a key of select holds {wrong[0]}; only numbers were expected"
                self.reporter.error(node.at, what)
                return UNKNOWN
            return node.type
        return self._key_type(node, "a key of select")


def _targets(node: syntax.StateDeclaration | None) -> list[str]:
    """Return the states that come behind one; without a case for the rest a select may reject."""
    if node is None or not node.cases:
        return [node.goto or ir.REJECT] if node is not None else []
    takes_all = any(all(isinstance(item, syntax.AnySet) for item in case.keysets) for case in node.cases)
    return [*(case.state for case in node.cases), *([] if takes_all else [ir.REJECT])]
