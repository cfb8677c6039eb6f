# SPDX-License-Identifier: Apache-2.0
"""Actions. p4c copies an action for every table that has it, all under one name.

The control plane knows one action of a name. So copies that are not alike become one action, which runs the
copy that its table says by a parameter that the control plane does not see. A copy without data, which the
program calls itself with what it knows in the place of data, is an action of its own.
Source: p4lang/behavioral-model, "BMv2 JSON input format", "actions".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from nicemu.pipeline import ir

from . import numbers
from .document import Json
from .expressions import Expressions
from .graph import COUNTED, Statements, Step, statements_of
from .primitives import Primitives
from .scope import Scope

NO_ACTION = "NoAction"
_OF_CORE = {NO_ACTION: (ir.Annotation("noWarn", '"unused"'),)}
"""What core.p4 says of an action, which the file does not."""
_COPY = "$copy"
_JUMPS = ("_jump", "_jump_if_zero")


@dataclass(frozen=True, slots=True)
class Use:
    """One copy of an action, by the action's name and which it is."""

    name: str
    copy: int


_Shape: TypeAlias = "tuple[tuple[str, int], ...]"
"""The names and widths in bits of an action's data."""


@dataclass(slots=True)
class _Named:
    """All copies of an action; `data` are the parameters that the control plane fills."""

    data: tuple[ir.Parameter, ...]
    copies: list[Statements] = field(default_factory=list)
    copy: ir.Parameter | None = None


class Actions:
    """The actions that tables use; each is translated when it is first used."""

    def __init__(self, document: Json, scope: Scope) -> None:
        self._scope = scope
        self._items: dict[int, Json] = {}
        self._named: dict[str, _Named] = {}
        self._uses: dict[tuple[str, Statements], Use] = {}
        for item in document.list("actions"):
            number = item["id"].number()
            if number in self._items:
                raise item["id"].fault(f"is {number}, which stands there twice")
            self._items[number] = item
        self._apart: dict[str, str] = {}
        self._shapes: dict[str, list[_Shape]] = {}
        for item in self._items.values():
            shapes = self._shapes.setdefault(item["name"].text(), [])
            if (shape := _shape_of(item)) not in shapes:
                shapes.append(shape)

    def item(self, number: Json) -> Json:
        """Return the action with a number."""
        if number.number() not in self._items:
            raise number.fault(f"is {number.value}, which is the id of no action")
        return self._items[number.number()]

    def called(self, name: Json) -> Json:
        """Return the first action of a name, for a table that gives no numbers."""
        for item in self._items.values():
            if item["name"].value == name.text():
                return item
        raise name.fault(f"is {name.text()}, which is no action")

    def items(self) -> list[Json]:
        """Return every action of the file."""
        return list(self._items.values())

    def use(self, item: Json, before: Statements = ()) -> Use:
        """Return a copy of an action that does `before` first."""
        if (item.path, before) not in self._uses:
            name, shape = self._label(item), _shape_of(item)
            data = self._declared(name, shape)
            body = (*before, *self.body(item, data))
            self._uses[item.path, before] = self._copy(name, body)
        return self._uses[item.path, before]

    def no_action(self) -> Use:
        """Return an action that does nothing."""
        self._named.setdefault(NO_ACTION, _Named(()))
        return self._copy(NO_ACTION, ())

    def reference(self, use: Use) -> tuple[ir.Expression, ...]:
        """Return the arguments that say which copy it is, once everything is used."""
        return () if self._named[use.name].copy is None else (ir.Constant(use.copy, COUNTED),)

    def data_widths(self, use: Use) -> tuple[int, ...]:
        """Return the widths in bits of an action's data."""
        return tuple(part.type.width for part in self._named[use.name].data if isinstance(part.type, ir.Bits))

    def translated(self) -> tuple[ir.Action, ...]:
        """Return the actions, once everything is used."""
        actions = []
        for name, named in self._named.items():
            notes = _OF_CORE.get(name, ())
            if named.copy is None:
                actions.append(ir.Action(name, named.data, named.copies[0], annotations=notes))
                continue
            cases = tuple(ir.ValueCase((number,), body) for number, body in enumerate(named.copies))
            chosen = ir.Switch(ir.Name(named.copy.variable, COUNTED), cases)
            actions.append(ir.Action(name, (named.copy, *named.data), (chosen,), annotations=notes))
        return tuple(actions)

    def body(self, item: Json, data: tuple[ir.Parameter, ...] = ()) -> Statements:
        """Return what an action does."""
        given = [numbers.held(ir.Name(part.variable, part.type)) for part in data]
        expressions = Expressions(self._scope.places, self._scope.errors, parameters=given)
        primitives = Primitives(self._scope, expressions)
        listed = item["primitives"].items()
        if not any(primitive["op"].value in _JUMPS for primitive in listed):
            return tuple(part for primitive in listed for part in primitives.statements(primitive))
        return self._with_jumps(item, listed, primitives, expressions)

    def _copy(self, name: str, body: Statements) -> Use:
        named = self._named[name]
        if body not in named.copies:
            named.copies.append(body)
            if len(named.copies) == 2:
                place = self._scope.variable(f"{name}.{_COPY}", COUNTED)
                named.copy = ir.Parameter(_COPY, place.name, COUNTED, ir.Direction.IN)
        return Use(name, named.copies.index(body))

    def name_in_file(self, use: Use) -> str:
        """Return the name that the file has for an action."""
        return self._apart.get(use.name, use.name)

    def _label(self, item: Json) -> str:
        """Return the name of an action; it is another than in the file where one of that name has data."""
        name, shape = item["name"].text(), _shape_of(item)
        known = max(self._shapes[name], key=len)
        if shape == known:
            return name
        if shape:
            raise item.fault(f"has not the parameters that another action called {name} has")
        label = f"{name}.called"
        while label in self._shapes:
            label += "_"
        self._apart[label] = name
        return label

    def _declared(self, name: str, shape: _Shape) -> tuple[ir.Parameter, ...]:
        if name not in self._named:
            self._named[name] = _Named(
                tuple(
                    ir.Parameter(
                        label, self._scope.variable(f"{name}.{label}", ir.Bits(width)).name, ir.Bits(width)
                    )
                    for label, width in shape
                ),
            )
        return self._named[name].data

    def _with_jumps(
        self, item: Json, listed: list[Json], primitives: Primitives, expressions: Expressions
    ) -> Statements:
        """Return the primitives as steps, from one that is jumped to or follows a jump to the next such."""
        targets = {
            index: self._target(primitive, expressions, len(listed))
            for index, primitive in enumerate(listed)
            if primitive["op"].value in _JUMPS
        }
        starts = sorted({0, *targets.values(), *(index + 1 for index in targets)} - {len(listed)})
        steps = {}
        for start, end in zip(starts, [*starts[1:], len(listed)], strict=True):
            last = listed[end - 1] if end - 1 in targets else None
            own = listed[start : end - 1] if last is not None else listed[start:end]
            body = tuple(part for primitive in own for part in primitives.statements(primitive))
            behind = str(end) if end < len(listed) else None
            if last is None:
                steps[str(start)] = Step((behind,), _straight(body, behind))
                continue
            target = str(targets[end - 1]) if targets[end - 1] < len(listed) else None
            if last["op"].value == "_jump":
                steps[str(start)] = Step((target,), _straight(body, target))
            else:
                condition = expressions.truth(last["parameters"].items(2)[0])
                steps[str(start)] = Step((behind, target), _branching(body, condition, behind, target))
        upcoming = self._scope.variable(f"{item['name'].text()}.$next", COUNTED)
        return statements_of(steps, "0", upcoming)

    def _target(self, primitive: Json, expressions: Expressions, count: int) -> int:
        parameters = primitive["parameters"].items(1 if primitive["op"].value == "_jump" else 2)
        target = expressions.number(parameters[-1]).constant
        if target is None or not 0 <= target <= count:
            raise parameters[-1].fault(f"was expected to be the number of a primitive, {count} at most")
        return target


def _straight(
    body: Statements, behind: str | None
) -> Callable[[Callable[[str | None], Statements]], Statements]:
    return lambda go_on: (*body, *go_on(behind))


def _branching(
    body: Statements, condition: ir.Expression, yes: str | None, no: str | None
) -> Callable[[Callable[[str | None], Statements]], Statements]:
    return lambda go_on: (*body, *branch(condition, go_on(yes), go_on(no)))


def branch(condition: ir.Expression, yes: Statements, no: Statements) -> Statements:
    """Return an `if`, or nothing where both ways are empty."""
    return (ir.If(condition, yes, no),) if yes or no else ()


def _shape_of(item: Json) -> _Shape:
    """Return what data an action has. Raises: Bmv2Error if two parameters have one name."""
    given = tuple(
        (part["name"].text(), part["bitwidth"].number(1, ir.MAX_WIDTH_BITS))
        for part in item.list("runtime_data")
    )
    if len(dict(given)) != len(given) or _COPY in dict(given):
        raise item["runtime_data"].fault("has two parameters of one name")
    return given
