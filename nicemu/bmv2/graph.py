# SPDX-License-Identifier: Apache-2.0
"""A graph of steps, each of which says which comes next, as statements one behind the other.

The steps stand in an order in which each stands behind those that lead to it; a variable holds the number of
the step that comes next, and every step looks whether it is meant. A step that no way leads past needs no
look. So the statements are no more than the steps, however many ways there are through the graph. Where steps
lead back, a loop runs the one that comes next instead.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from nicemu.pipeline import ir

COUNTED = ir.Bits(32)
Statements: TypeAlias = tuple[ir.Statement, ...]


@dataclass(frozen=True, slots=True)
class Step:
    """A step with the names of those that may come next, None for the end.

    `render` returns its statements, given what returns the statements that go on to one of those.
    """

    successors: tuple[str | None, ...]
    render: Callable[[Callable[[str | None], Statements]], Statements]


def statements_of(steps: Mapping[str, Step], first: str | None, upcoming: ir.Expression) -> Statements:
    """Return what runs `first` and all that comes of it; `upcoming` is a variable of type COUNTED."""
    order, is_acyclic = _ordered(steps, first)
    place = {name: number for number, name in enumerate(order, start=1)}
    if not is_acyclic:
        return _loop(steps, order, place, upcoming)
    guarded, farthest = set[str](), 1
    for name in order:
        if farthest > place[name]:
            guarded.add(name)
        for successor in steps[name].successors:
            farthest = max(farthest, len(order) + 1 if successor is None else place[successor])

    def go_on(name: str | None) -> Statements:
        return (_next(upcoming, place[name]),) if name in guarded and name is not None else ()

    body: list[ir.Statement] = [_next(upcoming, 0)] if guarded else []
    for name in order:
        own = steps[name].render(go_on)
        if name not in guarded:
            body += own
        elif own:
            is_meant = ir.Binary("==", upcoming, ir.Constant(place[name], COUNTED), ir.BOOL)
            body.append(ir.If(is_meant, own))
    return tuple(body)


def _loop(
    steps: Mapping[str, Step], order: list[str], place: dict[str, int], upcoming: ir.Expression
) -> Statements:
    def go_on(name: str | None) -> Statements:
        return (_next(upcoming, place[name] if name is not None else 0),)

    cases = tuple(ir.ValueCase((place[name],), steps[name].render(go_on)) for name in order)
    is_on = ir.Binary("!=", upcoming, ir.Constant(0, COUNTED), ir.BOOL)
    return (_next(upcoming, 1), ir.Loop(is_on, (ir.Switch(upcoming, cases),)))


def _next(upcoming: ir.Expression, number: int) -> ir.Statement:
    return ir.Assign(upcoming, ir.Constant(number, COUNTED))


def _ordered(steps: Mapping[str, Step], first: str | None) -> tuple[list[str], bool]:
    """Return the steps within reach, each behind those that lead to it, and whether that was possible."""
    if first is None:
        return [], True
    done: list[str] = []
    state = {first: "open"}
    path: list[tuple[str, Iterator[str | None]]] = [(first, iter(steps[first].successors))]
    is_acyclic = True
    while path:
        name, pending = path[-1]
        for successor in pending:
            if successor is None:
                continue
            if successor not in state:
                state[successor] = "open"
                path.append((successor, iter(steps[successor].successors)))
                break
            is_acyclic = is_acyclic and state[successor] == "done"
        else:
            state[name] = "done"
            done.append(name)
            path.pop()
    return done[::-1], is_acyclic
