# SPDX-License-Identifier: Apache-2.0
"""The ordered passes over the IR. None changes what a program does to any packet or table.

A pass maps a Program to a Program; what tables and P4Info show to the control plane stays as written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeVar

from nicemu.pipeline import Program, ir, nodes_of

Pass = Callable[[Program], Program]


def optimise(program: Program) -> Program:
    """Run all passes in order."""
    for one_pass in PASSES:
        program = one_pass(program)
    return program


def settle_branches(program: Program) -> Program:
    """Replace every `if` over a constant by the branch that it takes."""
    return replace(
        program,
        parser=replace(
            program.parser,
            states=tuple(replace(state, body=_settled(state.body)) for state in program.parser.states),
        ),
        controls=tuple(replace(control, body=_settled(control.body)) for control in program.controls),
        actions=tuple(replace(action, body=_settled(action.body)) for action in program.actions),
        functions=tuple(replace(item, body=_settled(item.body)) for item in program.functions),
    )


def drop_unreachable_states(program: Program) -> Program:
    """Leave out parser states that no transition reaches."""
    states = {state.name: state for state in program.parser.states}
    reached: set[str] = set()
    pending = [program.parser.start]
    while pending:
        name = pending.pop()
        if name in reached or name not in states:
            continue
        reached.add(name)
        transition = states[name].transition
        if isinstance(transition, ir.Goto):
            pending.append(transition.state)
        else:
            pending.extend(case.state for case in transition.cases)
    kept = tuple(state for state in program.parser.states if state.name in reached)
    return replace(program, parser=replace(program.parser, states=kept))


def drop_unused_types(program: Program) -> Program:
    """Leave out headers and structs that no variable and no extern holds, and that are no controller's."""
    layouts: tuple[ir.Layout, ...] = (*program.headers, *program.unions, *program.structs)
    by_name = {item.name: item for item in layouts}
    used: set[str] = set()
    pending = [*(variable.type for variable in program.variables), *_mentioned(program)]
    pending += [ir.Named(header.name) for header in program.headers if header.controller]
    while pending:
        kind = pending.pop()
        name = kind.element if isinstance(kind, ir.Stack) else kind.name if isinstance(kind, ir.Named) else ""
        if name and name not in used:
            used.add(name)
            pending.extend(part.type for part in by_name[name].fields)
    return replace(
        program,
        headers=_kept(program.headers, used),
        unions=_kept(program.unions, used),
        structs=_kept(program.structs, used),
    )


PASSES: tuple[Pass, ...] = (settle_branches, drop_unreachable_states, drop_unused_types)

_COMPOSITE = (ir.Named, ir.Stack)
_Named = TypeVar("_Named", ir.HeaderType, ir.UnionType, ir.StructType)


def _kept(items: tuple[_Named, ...], names: set[str]) -> tuple[_Named, ...]:
    return tuple(item for item in items if item.name in names)


def _settled(statements: Sequence[ir.Statement]) -> tuple[ir.Statement, ...]:
    result: list[ir.Statement] = []
    for statement in statements:
        match statement:
            case ir.If(ir.Constant(value, _), then, otherwise):
                result.extend(_settled(then if value else otherwise))
            case ir.If(condition, then, otherwise):
                result.append(ir.If(condition, _settled(then), _settled(otherwise)))
            case ir.SwitchAction(table, cases):
                settled = tuple(replace(case, body=_settled(case.body)) for case in cases)
                result.append(ir.SwitchAction(table, settled))
            case ir.Switch(subject, values):
                cases_of_values = tuple(replace(case, body=_settled(case.body)) for case in values)
                result.append(ir.Switch(subject, cases_of_values))
            case ir.Loop(condition, body, update):
                result.append(ir.Loop(condition, _settled(body), _settled(update)))
            case ir.ForRange(variable, low, high, body):
                result.append(ir.ForRange(variable, low, high, _settled(body)))
            case _:
                result.append(statement)
    return tuple(result)


def _mentioned(program: Program) -> Iterator[ir.Type]:
    """Return the types of extern objects, and of values made in expressions, anywhere in the program."""
    blocks = (program.parser, program.controls, program.actions, program.functions, program.tables)
    declared = (program.externs, program.extern_signatures, program.field_lists, program.value_sets)
    yield from nodes_of((*blocks, *declared), *_COMPOSITE)
