# SPDX-License-Identifier: Apache-2.0
"""Externs that a P4 program declares itself, and the Python functions and classes that do what they do.

    @extern("bit<16> average(in bit<16> a, in bit<16> b)")
    def average(a: int, b: int) -> int:
        return (a + b) // 2

A function takes the values of `in` and `inout` parameters, and returns what the extern does, then those of
`out` and `inout` parameters: a tuple where that is more than one (values: `python_values`). A class is an
extern object: what is written above it is its constructor, and what is above its methods, they.
Source: P4-16 Language Specification 1.2.5, "Extern types".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from inspect import iscoroutinefunction, signature
from pathlib import Path
from traceback import extract_tb
from types import FunctionType
from typing import Any, TypeAlias, TypeVar

from nicemu.errors import ControlError, P4RuntimeCode, UsageError
from nicemu.programs import load_module

from . import ir
from .architecture import Architecture
from .externs import Argument, Body, ExternCall, ExternFailed, ExternFunction, ExternType
from .python_values import PythonValues
from .values import Value

MISSING = "extern.missing"
"""Why a packet is dropped that calls an extern which nothing in Python does."""

_MARK = "__p4_extern__"
_FAULTS = (Exception, SystemExit)
_WRITTEN = (ir.Direction.OUT, ir.Direction.INOUT)
_DECLARATION = re.compile(r"\s*(.*?)\s*\b([A-Za-z_]\w*)\s*(?:<([\w\s,]*)>)?\s*\((.*)\)\s*;?\s*", re.DOTALL)
_TYPE = re.compile(r"(?!(?:in|out|inout)\b)[A-Za-z_][\w.]*(?:<[\w\s,.<>\[\]]+>)?(?:\[\d+\])*")
_PARAMETER = re.compile(rf"\s*(?:(inout|in|out)\s+)?({_TYPE.pattern})\s+([A-Za-z_]\w*)\s*")
_Marked = TypeVar("_Marked", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class _Signature:
    """A declaration as it is written: types as text without blanks, `variables` those that stand for any."""

    text: str
    result: str
    name: str
    parameters: tuple[tuple[ir.Direction, str], ...]
    variables: frozenset[str]

    def fits(self, declared: ir.ExternSignature, variables: frozenset[str], values: PythonValues) -> bool:
        """Return whether this declares what a program calls; `variables` are those of the object's type."""
        found = [(item.direction, values.spelled(item.type)) for item in declared.parameters]
        if [direction for direction, _ in found] != [direction for direction, _ in self.parameters]:
            return False
        mine = [self.result, *(kind for _, kind in self.parameters)]
        theirs = [
            *(map(values.spelled, declared.results) if declared.results else ["void"]),
            *(kind for _, kind in found),
        ]
        if declared.is_constructor:
            mine[0] = theirs[0] = ""
        return _pattern(";".join(mine), variables | self.variables).fullmatch(";".join(theirs)) is not None


def _pattern(types: str, variables: frozenset[str]) -> re.Pattern[str]:
    """Return what types look like in which each variable stands for one type, the same everywhere."""
    met: set[str] = set()

    def piece(word: str) -> str:
        if word not in variables:
            return re.escape(word)
        is_first = word not in met
        met.add(word)
        return f"(?P<{word}>[^;]+)" if is_first else f"(?P={word})"

    return re.compile("".join(map(piece, re.split(r"\b", types))))


def extern(declaration: str) -> Callable[[_Marked], _Marked]:
    """Return a decorator: what stands below does what a P4 extern does that is declared like this.

    `declaration` is as in P4, types by the names that they have at last: `bit<8>`, not that of a typedef or
    enum of theirs. Raises: UsageError where it is none.
    """
    if not isinstance(declaration, str):
        raise UsageError("""@extern needs a declaration: @extern("bit<8> half(in bit<8> v)")""")
    signature = _parsed(declaration)

    def marked(thing: _Marked) -> _Marked:
        setattr(thing, _MARK, signature)
        return thing

    return marked


def _parsed(text: str) -> _Signature:
    found = _DECLARATION.fullmatch(text.removeprefix("extern "))
    parameters = []
    for item in _items(found[4]) if found and found[4].strip() else []:
        part = _PARAMETER.fullmatch(item)
        if part is None:
            found = None
            break
        parameters.append((ir.Direction(part[1] or "in"), "".join(part[2].split())))
    if found is None or (found[1] and not _TYPE.fullmatch(found[1])):
        raise UsageError(f"{text!r} declares no extern; such as: bit<16> average(in bit<16> a, in bit<16> b)")
    variables = frozenset((found[3] or "").replace(",", " ").split())
    return _Signature(text.strip(), "".join(found[1].split()), found[2], tuple(parameters), variables)


def _items(text: str) -> list[str]:
    """Return what commas divide that stand between no angle brackets."""
    items, depth = [""], 0
    for letter in text:
        depth += (letter == "<") - (letter == ">")
        if letter == "," and depth == 0:
            items.append("")
        else:
            items[-1] += letter
    return items


def externs_in(names: Mapping[str, Any]) -> list[Callable[..., Any]]:
    """Return the functions and classes with `@extern` among those of a module or class."""
    things = [thing for thing in names.values() if isinstance(thing, type | FunctionType)]
    return [thing for thing in things if isinstance(getattr(thing, _MARK, None), _Signature)]


def read_externs(paths: Iterable[Path]) -> list[Callable[..., Any]]:
    """Run Python files and return their functions and classes with `@extern`.

    Raises: UsageError for a file that cannot be run or has none.
    """
    found = []
    for path in paths:
        try:
            marked = externs_in(vars(load_module(path.resolve())))
        except _FAULTS as error:
            raise UsageError(f"{path}{_line_of(error, path)}: {type(error).__name__}: {error}") from error
        if not marked:
            raise UsageError(f"{path} has no function or class with @extern")
        found += marked
    return found


def _line_of(error: BaseException, path: Path) -> str:
    """Return where in a file an error was raised, as ":12"; nothing for what was raised elsewhere alone."""
    if isinstance(error, SyntaxError):
        return f":{error.lineno}" if error.filename == str(path.resolve()) else ""
    frames = extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path.resolve())]
    return f":{lines[-1]}" if lines else ""


@dataclass(frozen=True, slots=True)
class OwnExterns:
    """The functions and classes with `@extern` of one engine; `guard` brackets each call of one.

    What it raises that is an Exception drops the packet, as what they raise does.
    """

    marked: Sequence[Callable[..., Any]] = ()
    guard: Callable[[], AbstractContextManager[object]] = field(default=nullcontext)


def with_own_externs(
    architecture: Architecture, program: ir.Program, own: OwnExterns | None = None
) -> Architecture:
    """Return an architecture that has what a program declares itself, too, done by `own`.

    Raises: ControlError(INVALID_ARGUMENT) where the program and Python declare one of a name unlike each
    other.
    """
    if not program.extern_signatures:
        return architecture
    own, values = own or OwnExterns(), PythonValues(program)
    functions, objects = dict(architecture.functions), dict(architecture.objects)
    methods: dict[str, dict[str, ExternFunction]] = {}
    made_by = _makers(program, own, values)
    for declared in program.extern_signatures:
        owner = declared.owner
        if owner in architecture.objects or (not owner and declared.name in architecture.functions):
            raise _fault(declared, values, f"{architecture.name} has it already")
        if declared.is_constructor:
            continue
        made = _function(declared, set(made_by.get(owner, {}).values()), own, values)
        (methods.setdefault(owner, {}) if owner else functions)[declared.name] = made
    for owner in dict.fromkeys(item.owner for item in program.extern_signatures if item.owner):
        objects[owner] = _object(made_by.get(owner, {}), methods.get(owner, {}), own, values)
    return replace(architecture, functions=functions, objects=objects)


_Makers: TypeAlias = "dict[ir.ExternSignature, Callable[..., Any] | None]"
"""What in Python makes objects, by the constructors of their type."""


def _makers(program: ir.Program, own: OwnExterns, values: PythonValues) -> dict[str, _Makers]:
    """Return what makes the objects that a program has, by their types. Raises: ControlError."""
    found: dict[str, _Makers] = {}
    for item in program.extern_signatures:
        if item.is_constructor:
            found.setdefault(item.owner, {})[item] = _found(item, own.marked, values)
    return found


def missing(program: ir.Program, own: OwnExterns) -> list[str]:
    """Return what a program declares itself, and calls, and nothing in Python does, by the names in the
    program.
    """
    known = {getattr(thing, _MARK).name for thing in own.marked}
    called = [item for item in program.extern_signatures if not item.is_constructor]
    makers = _makers(program, own, PythonValues(program))
    lacking = {
        f"{item.owner}.{item.declared}"
        for item in called
        for owner in makers.get(item.owner, {}).values()
        if isinstance(owner, type)
        if item.declared not in {getattr(thing, _MARK).name for thing in _members(owner)}
    }
    return sorted({item.owner or item.declared for item in called} - known | lacking)


_Doers: TypeAlias = "dict[type, Callable[..., Any] | None]"
"""What in Python does an extern, by the class of the object; a function's is None."""


def _object(
    constructors: Mapping[ir.ExternSignature, Callable[..., Any] | None],
    methods: dict[str, ExternFunction],
    own: OwnExterns,
    values: PythonValues,
) -> ExternType:
    kinds = tuple(tuple(_class_of(part.type) for part in item.parameters) for item in constructors)
    made_by = {item.name: thing for item, thing in constructors.items()}
    kinds_by = {item.name: [part.type for part in item.parameters] for item in constructors}

    def make(instance: ir.ExternInstance) -> Any:  # noqa: ANN401
        fitting = [name for name, wanted in kinds_by.items() if len(wanted) == len(instance.arguments)]
        name = instance.constructor or "".join(fitting[:1])  # an IR of before does not say by which
        if name not in fitting:
            message = f"extern object {instance.name} is made by {name}, which does not take what it is given"
            raise ControlError(P4RuntimeCode.INVALID_ARGUMENT, message)
        thing, wanted = made_by[name], kinds_by[name]
        try:
            given = [values.given(*item) for item in zip(wanted, instance.arguments, strict=True)]
            if thing is None:
                return None
            with own.guard():
                return thing(*given)
        except _FAULTS as error:
            message = f"extern object {instance.name} cannot be made: {type(error).__name__}: {_said(error)}"
            raise ControlError(P4RuntimeCode.INVALID_ARGUMENT, message) from error

    return ExternType(kinds, methods=methods, make=make)


def _function(
    declared: ir.ExternSignature,
    makers: Collection[Callable[..., Any] | None],
    own: OwnExterns,
    values: PythonValues,
) -> ExternFunction:
    takes = tuple(Argument(item.type, item.direction) for item in declared.parameters)
    if declared.owner:
        doers = _methods(declared, makers, own, values)
    else:
        doers = {type(None): _found(declared, own.marked, values)}
    return ExternFunction((takes,), _body(declared, doers, own, values), next(iter(declared.results), None))


def _methods(
    declared: ir.ExternSignature,
    makers: Collection[Callable[..., Any] | None],
    own: OwnExterns,
    values: PythonValues,
) -> _Doers:
    """Return what does a method, by the classes of its objects; `makers` are those that a program can name.

    Raises: ControlError where all that Python has are unlike it, or that of one of `makers` for objects of
    one type.
    """
    doers: _Doers = {}
    faults: list[ControlError] = []
    for owner in own.marked:
        signature = getattr(owner, _MARK)
        if signature.name == declared.owner and isinstance(owner, type):
            try:
                doers[owner] = _found(declared, _members(owner), values, signature.variables)
            except ControlError as error:
                if owner in makers and not signature.variables and _has_like(owner, declared):
                    raise
                faults.append(error)
    if faults and not any(doers.values()):
        raise faults[0]
    return doers


def _has_like(owner: type, declared: ir.ExternSignature) -> bool:
    """Return whether a class has a method that is no other overload: of the same name, that takes as much."""
    marks = [getattr(thing, _MARK) for thing in _members(owner)]
    found = [mark for mark in marks if mark.name == declared.declared]
    return any(len(mark.parameters) == len(declared.parameters) for mark in found)


def _members(owner: type) -> list[Callable[..., Any]]:
    """Return the methods with `@extern` of a class, those that it has from others as well."""
    members: dict[str, Any] = {}
    for part in reversed(owner.__mro__):
        members |= vars(part)
    return externs_in(members)


def _found(
    declared: ir.ExternSignature,
    candidates: Sequence[Callable[..., Any]],
    values: PythonValues,
    variables: frozenset[str] = frozenset(),
) -> Callable[..., Any] | None:
    """Return what does an extern, None where nothing does. Raises: ControlError where all are unlike it."""
    named = [thing for thing in dict.fromkeys(candidates) if getattr(thing, _MARK).name == declared.declared]
    fitting = [thing for thing in named if getattr(thing, _MARK).fits(declared, variables, values)]
    if len(fitting) > 1:
        raise _fault(declared, values, f"in Python there are {len(fitting)} that do it; one was expected")
    if fitting:
        _check_takes(fitting[0], declared, values)
        return fitting[0]
    if named:
        raise _fault(declared, values, f"in Python it is {getattr(named[0], _MARK).text}")
    return None


def _check_takes(thing: Callable[..., Any], declared: ir.ExternSignature, values: PythonValues) -> None:
    """Check that a function or class takes what calls give it, and does not wait. Raises: ControlError."""
    given = sum(item.direction is not ir.Direction.OUT for item in declared.parameters)
    is_method = bool(declared.owner) and not declared.is_constructor
    if iscoroutinefunction(thing):
        raise _fault(
            declared, values, f"in Python, {thing.__qualname__} is async, and a packet waits for nothing"
        )
    with suppress(ValueError):  # of what tells nothing of its parameters
        try:
            signature(thing).bind(*[None] * (given + is_method))
        except TypeError as error:
            arguments = f"{given} argument{'s' * (given != 1)}{' and self' * is_method}"
            message = f"in Python, {thing.__qualname__} does not take {arguments}: {error}"
            raise _fault(declared, values, message) from error


def _fault(declared: ir.ExternSignature, values: PythonValues, sentence: str) -> ControlError:
    name = f"{declared.owner}.{declared.declared}" if declared.owner else declared.declared
    shown = declared.spelled(values.spelled)
    return ControlError(
        P4RuntimeCode.INVALID_ARGUMENT, f"extern {name}: the program declares {shown}; {sentence}"
    )


def _body(declared: ir.ExternSignature, doers: _Doers, own: OwnExterns, values: PythonValues) -> Body:
    """Return what calls do: have Python do it, and drop the packet where it raises or returns the wrong."""
    places = list(enumerate(declared.parameters))
    goes_in = [(place, item.type) for place, item in places if item.direction is not ir.Direction.OUT]
    comes_out = [(place, item.type) for place, item in places if item.direction in _WRITTEN]
    kinds = [*declared.results, *(kind for _, kind in comes_out)]

    def body(call: ExternCall) -> Value:
        thing = doers.get(type(call.state) if declared.owner else type(None))
        if thing is None:
            call.note = "nothing in Python does it"
            raise ExternFailed(MISSING)
        target = (call.state,) if declared.owner else ()
        given = [values.shown(kind, call.arguments[place]) for place, kind in goes_in]
        try:
            with own.guard():
                returned = thing(*target, *given)
            found = _several(returned, len(kinds))
            taken = [values.taken(kind, value) for kind, value in zip(kinds, found, strict=True)]
        except _FAULTS as error:
            call.note = f"{type(error).__name__}: {_said(error)}"
            raise ExternFailed(f"extern.{type(error).__name__}") from error
        for (place, _), value in zip(comes_out, taken[len(declared.results) :], strict=True):
            call.arguments[place] = value
        return taken[0] if declared.results else None

    return body


def _several(returned: Any, count: int) -> tuple[Any, ...]:  # noqa: ANN401
    """Return what a function has returned as so many values. Raises: TypeError."""
    if returned is None:
        returned = ()
    found = returned if isinstance(returned, tuple) and count != 1 else (returned,)
    if len(found) != count:
        raise TypeError(f"{len(found)} values were returned; {count} were expected")
    return found


def _class_of(kind: ir.Type) -> type:
    """Return what a constructor's argument is in the IR."""
    if isinstance(kind, ir.Named | ir.List):
        return tuple
    return str if isinstance(kind, ir.String) else int


def _said(error: BaseException) -> str:
    """Return what an exception says, nothing where it fails at that, too."""
    try:
        return str(error)
    except Exception:
        return ""
