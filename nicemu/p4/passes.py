# SPDX-License-Identifier: Apache-2.0
"""The ordered passes over the IR. None changes what a program does to any packet or table.

A pass maps a Program to a Program; what tables and P4Info show to the control plane stays as written.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from nicemu.pipeline import Program, ir

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


PASSES: tuple[Pass, ...] = (settle_branches, drop_unreachable_states)


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
