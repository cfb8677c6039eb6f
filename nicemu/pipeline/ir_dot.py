# SPDX-License-Identifier: Apache-2.0
"""A program as a graph for Graphviz: the parser's states, and the flow of each control, a cluster each.

Source: Graphviz, "DOT Language".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from . import ir
from .ir_text import case_text, expression_text, statement_text

MAX_LINES = 12
"""Statements that one box shows."""

_Ends: TypeAlias = list[tuple[str, str]]
"""Where the flow comes from: nodes, each with the label of the edge that leaves it."""

_SIMPLE = (
    ir.Assign,
    ir.CallAction,
    ir.CallFunction,
    ir.CallMethod,
    ir.SetValid,
    ir.MoveStack,
    ir.Extract,
    ir.ExtractVarbit,
    ir.Advance,
    ir.Verify,
    ir.Emit,
)


def dot_of(program: ir.Program) -> str:
    """Return the text of one directed graph, with a cluster for the parser and for each control that does
    something.
    """
    lines = [
        f"digraph {_quoted(program.name)} {{",
        "  node [shape=box, fontname=monospace, fontsize=10]",
        "  edge [fontname=monospace, fontsize=9]",
    ]
    lines += _cluster("parser", f"parser {program.parser.name}", _parser(program.parser))
    for control in program.controls:
        if control.body:
            flow = _Flow(program, control.role)
            lines += _cluster(control.role, f"{control.role} {control.name}", flow.whole(control.body))
    return "\n".join([*lines, "}", ""])


def _cluster(name: str, label: str, inside: Iterable[str]) -> list[str]:
    head = [f"  subgraph {_quoted(f'cluster_{name}')} {{", f"    label={_quoted(label)}"]
    return [*head, *(f"    {line}" for line in inside), "  }"]


def _parser(parser: ir.Parser) -> list[str]:
    lines, used = [], set()
    for state in parser.states:
        shown = [statement_text(item) for item in state.body if not isinstance(item, ir.Reset)]
        lines.append(_node(f"parser.{state.name}", [state.name, *_cut(shown)]))
        keys: Sequence[ir.Expression] = ()
        cases = [("", state.transition.state)] if isinstance(state.transition, ir.Goto) else []
        if isinstance(state.transition, ir.Select):
            keys = state.transition.keys
            cases = [(case_text(case, keys), case.state) for case in state.transition.cases]
            lines[-1] = _node(
                f"parser.{state.name}",
                [state.name, *_cut(shown), f"select({', '.join(map(expression_text, keys))})"],
            )
            if not cases or cases[-1][0] != "default":
                cases.append(("no match", ir.REJECT))
        for label, to in cases:
            used.add(to)
            lines.append(_edge(f"parser.{state.name}", f"parser.{to}", label))
    ends = [end for end in (ir.ACCEPT, ir.REJECT) if end in used or parser.start == end]
    return [*(_node(f"parser.{end}", [end], "oval") for end in ends), *lines]


@dataclass(slots=True)
class _Flow:
    """The flow through one control; nodes are numbered in the order of the program."""

    program: ir.Program
    role: str
    lines: list[str] = field(default_factory=list)
    count: int = 0
    exits: _Ends = field(default_factory=list)
    returns: list[_Ends] = field(default_factory=list)
    loops: list[tuple[str, _Ends]] = field(default_factory=list)

    def whole(self, body: Sequence[ir.Statement]) -> list[str]:
        """Return the lines for a control, from its begin to its end."""
        begin, end = f"{self.role}.begin", f"{self.role}.end"
        self.lines += [_node(begin, ["begin"], "oval"), _node(end, ["end"], "oval")]
        self._join([*self._called(body, [(begin, "")]), *self.exits], end)
        return self.lines

    def _called(self, body: Sequence[ir.Statement], ends: _Ends) -> _Ends:
        """Add a body that a return leaves."""
        self.returns.append([])
        ends = self._body(body, ends)
        return [*ends, *self.returns.pop()]

    def _body(self, body: Sequence[ir.Statement], ends: _Ends) -> _Ends:
        texts: list[str] = []
        for statement in body:
            if isinstance(statement, _SIMPLE):
                texts.append(statement_text(statement))
                continue
            if isinstance(statement, ir.Reset):
                continue
            ends, texts = self._box(texts, ends), []
            ends = self._statement(statement, ends)
        return self._box(texts, ends)

    def _box(self, texts: list[str], ends: _Ends) -> _Ends:
        return [(self._add(_cut(texts), ends), "")] if texts and ends else ends

    def _statement(self, node: ir.Statement, ends: _Ends) -> _Ends:
        if not ends:  # nothing comes here
            return []
        match node:
            case ir.If(condition, then, otherwise):
                at = self._add([expression_text(condition)], ends, "diamond")
                return [*self._body(then, [(at, "true")]), *self._body(otherwise, [(at, "false")])]
            case ir.ApplyTable(table):
                return [(self._table(table, ends), "")]
            case ir.SwitchAction(table, cases):
                at = self._table(table, ends)
                named = [(", ".join(case.actions) or "default", case.body) for case in cases]
                return self._cases(at, named)
            case ir.Switch(subject, values):
                at = self._add([f"switch({expression_text(subject)})"], ends, "diamond")
                shown = [
                    (", ".join(f"{value:#x}" for value in case.values) or "default", case.body)
                    for case in values
                ]
                return self._cases(at, shown)
            case ir.Loop(condition, body, update):
                return self._loop(expression_text(condition), (*body, *update), ends)
            case ir.ForRange(variable, low, high, body):
                return self._loop(
                    f"for {variable} in {expression_text(low)} .. {expression_text(high)}", body, ends
                )
            case ir.CallRoutine(name, _):
                called = next(function for function in self.program.functions if function.name == name)
                if called.is_control:
                    return self._called(called.body, [(self._add([f"control {name}"], ends), "")])
                return [(self._add([statement_text(node)], ends), "")]
            case ir.Exit():
                self.exits += [(at, label or "exit") for at, label in ends]
            case ir.Return():
                self.returns[-1] += ends
            case ir.Break():
                self.loops[-1][1].extend(ends)
            case ir.Continue():
                self._join(ends, self.loops[-1][0])
        return []

    def _cases(self, at: str, cases: Sequence[tuple[str, Sequence[ir.Statement]]]) -> _Ends:
        ends = [end for label, body in cases for end in self._body(body, [(at, label)])]
        return ends if any(label == "default" for label, _ in cases) else [*ends, (at, "default")]

    def _loop(self, head: str, body: Sequence[ir.Statement], ends: _Ends) -> _Ends:
        at = self._add([head], ends, "diamond")
        self.loops.append((at, []))
        self._join(self._body(body, [(at, "again")]), at)
        return [(at, "done"), *self.loops.pop()[1]]

    def _table(self, name: str, ends: _Ends) -> str:
        table = next(table for table in self.program.tables if table.name == name)
        keys = [f"{key.name}: {key.match_kind.value}" for key in table.keys]
        return self._add([f"table {name}", *keys, *(f"- {ref.action}" for ref in table.actions)], ends)

    def _add(self, texts: Sequence[str], ends: _Ends, shape: str = "") -> str:
        name = f"{self.role}.{self.count}"
        self.count += 1
        self.lines.append(_node(name, texts, shape))
        self._join(ends, name)
        return name

    def _join(self, ends: _Ends, to: str) -> None:
        self.lines += [_edge(at, to, label) for at, label in ends]


def _cut(texts: Sequence[str]) -> list[str]:
    if len(texts) <= MAX_LINES:
        return list(texts)
    return [*texts[: MAX_LINES - 1], f"and {len(texts) - MAX_LINES + 1} more"]


def _node(name: str, texts: Sequence[str], shape: str = "") -> str:
    label = "\\l".join(map(_escaped, texts)) + "\\l" if len(texts) > 1 else _escaped(texts[0])
    return f'{_quoted(name)} [label="{label}"{f", shape={shape}" if shape else ""}]'


def _edge(at: str, to: str, label: str) -> str:
    return f"{_quoted(at)} -> {_quoted(to)}{f' [label={_quoted(label)}]' if label else ''}"


def _quoted(text: str) -> str:
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
