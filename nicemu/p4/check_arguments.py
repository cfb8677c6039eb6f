# SPDX-License-Identifier: Apache-2.0
"""Arguments against parameters: their order, types and defaults, and the type arguments that they imply.

Source: P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from nicemu.pipeline import ir

from . import syntax
from .annotations import deprecation
from .check_expressions import ExpressionChecker
from .constants import is_known_at_calls
from .diagnostics import Location, Reporter, did_you_mean
from .symbols import (
    FunctionSymbol,
    ParameterSymbol,
    Scope,
)
from .syntax_copy import fresh, same_text
from .type_sizes import parameter_fault
from .type_variables import substituted, unify, variables_in
from .types import (
    INTEGER,
    TEXT,
    UNKNOWN,
    ActionRun,
    ApplyResult,
    CompositeType,
    DefaultType,
    EnumType,
    ExternType,
    InvalidType,
    ListType,
    NoType,
    Type,
    TypeVariable,
)

_WITHOUT_TYPE = (ActionRun, ApplyResult, DefaultType, InvalidType, ListType, NoType)
"""What an expression has instead of a type that a type parameter could stand for."""

_STORED = ("out", "inout")
_Declaration = TypeVar("_Declaration", bound=syntax.MethodDeclaration | syntax.FunctionDeclaration)


class Invocation(NamedTuple):
    """What a call comes to: what it returns, its type arguments, and the parameters that are given one."""

    returned: Type
    types: tuple[Type, ...]
    parameters: list[ParameterSymbol]


class ArgumentChecker(ExpressionChecker):
    """Arguments of calls, constructors and actions."""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter)
        self._open_signatures: set[syntax.Declaration] = set()
        self._signatures: dict[syntax.Declaration, tuple[list[ParameterSymbol], Type]] = {}

    def functions_of(self, node: syntax.MethodDeclaration | syntax.FunctionDeclaration) -> FunctionSymbol:
        """Return the functions of a name, of which a declaration is to be one; report it if one is alike."""
        known, shape = self.scope.names.get(node.name), names_of(node)
        if isinstance(known, FunctionSymbol) and shape not in known.shapes:
            self.scope.grown.add(node.name)
            known.shapes.add(shape)
            return known
        made = FunctionSymbol(node.name, self.scope, shapes={shape})
        self.declare(node.name, made, node.at)
        return made

    def _signature(
        self,
        method: syntax.MethodDeclaration | syntax.FunctionDeclaration,
        scope: Scope,
        type_names: Iterable[str],
    ) -> tuple[list[ParameterSymbol], Type]:
        """Return what a method or function takes and returns, its type parameters and `type_names` open."""
        if method not in self._signatures:
            self._signatures[method] = [], UNKNOWN  # what its own types find, if they call it
            self._open_signatures.add(method)
            outer, self.scope = self.scope, Scope(scope)
            self.declare_type_variables([*type_names, *method.type_parameters])
            self.signature_of = "an extern" if isinstance(method, syntax.MethodDeclaration) else ""
            returns = self.returned(method.returns)
            parameters = self.parameters_of(method.parameters)
            for parameter in parameters:
                if isinstance(parameter.type, ExternType) and parameter.direction:
                    parameter.type = UNKNOWN  # reported at its declaration
            self._signatures[method] = parameters, returns
            self.signature_of = ""
            self._open_signatures.remove(method)
            self.scope = outer
        return self._signatures[method]

    def _invoke(
        self,
        node: syntax.Call,
        method: syntax.MethodDeclaration | syntax.FunctionDeclaration,
        scope: Scope,
        bound: dict[str, Type],
    ) -> Invocation:
        """Check a call of a method or function, `bound` the type arguments of its object."""
        if method.annotations and (said := deprecation(method.annotations)):
            self.reporter.warning(node.at, f"this {method.name} is deprecated: {said}")
        given_types = [None if ref.name == "_" else self.resolve(ref) for ref in node.type_arguments]
        declared, result = self._signature(method, scope, bound)
        names = _apart(method.type_parameters, bound)
        bound = bound | {name: TypeVariable(names[name]) for name in names if names[name] != name}
        if method in self._open_signatures:
            self.reporter.error(node.at, f"what {method.name} returns is not known here")
        parameters = [item.of_type(substituted(item.type, bound)) for item in declared]
        returns = substituted(result, bound)
        parameters = self.arrange(node, parameters, method.name)
        bindings: dict[str, Type] = {}
        wanted = list(names.values())
        if given_types:
            pairs = zip(wanted, given_types, strict=False)
            bindings = {name: kind for name, kind in pairs if kind is not None}
            if len(given_types) != len(wanted):
                self.reporter.miscounted(node.at, method.name, "type argument", len(wanted), len(given_types))
                wanted = []
        self.infer(node, method.name, wanted, parameters, bindings, returns)
        self.arguments(node.arguments, parameters, method.name, node)
        returned = substituted(returns, bindings) if len(node.arguments) == len(parameters) else UNKNOWN
        own = set(names.values()).difference(bindings)
        if isinstance(returns, TypeVariable) and returns.name in own:
            if len(node.arguments) == len(parameters):
                hint = f"write {method.name}<type>(...)"
                self.reporter.error(node.at, f"cannot tell what type {method.name} returns", hint)
            returned = UNKNOWN
        types = tuple(bindings.get(name, UNKNOWN) for name in names.values())
        return Invocation(returned, types, parameters)

    def infer(
        self,
        node: syntax.Call | syntax.Instantiation,
        what: str,
        names: Sequence[str],
        parameters: Sequence[ParameterSymbol],
        bindings: dict[str, Type],
        returns: Type = UNKNOWN,
    ) -> None:
        """Find out what the type parameters `names` of `what` are, and put that into its parameters' types.

        `bindings` are those known already, and then all.
        """
        if names:
            self._unify(node, parameters, bindings)
            widthless = [
                parameter.type
                for argument, parameter in zip(node.arguments, parameters, strict=False)
                if argument.type is INTEGER
            ]
            if len(node.arguments) == len(parameters):
                told = (returns, *widthless)  # or is reported there
                self._bind_rest(
                    node, what, [name for name in names if TypeVariable(name) not in told], bindings
                )
            for parameter in parameters:
                parameter.type = substituted(parameter.type, bindings)
            if widthless:
                self._refuse_widthless(node, parameters, bindings)
        for parameter in parameters:
            if isinstance(parameter.type, TypeVariable):
                parameter.type = UNKNOWN

    def _unify(
        self,
        node: syntax.Call | syntax.Instantiation,
        parameters: Sequence[ParameterSymbol],
        bindings: dict[str, Type],
    ) -> None:
        """Bind type parameters to the types of arguments, wherever these stand; to what is itself made for a
        type only where no other argument tells.
        """
        pairs = zip(node.arguments, parameters, strict=False)
        typed = [
            (argument, self.expression(argument), parameter)
            for argument, parameter in pairs
            if not isinstance(argument, syntax.AnySet)
        ]
        for argument, found, parameter in sorted(typed, key=lambda item: _is_made_for_a_type(item[1])):
            if isinstance(parameter.type, TypeVariable):
                if found is INTEGER or parameter.type.name in bindings:
                    continue
                if isinstance(found, ListType):
                    is_read = parameter.direction not in ("out", "inout")
                    found = self.type_of_list(argument, found) if is_read else UNKNOWN
            unify(parameter.type, found, bindings)

    def _refuse_widthless(
        self,
        node: syntax.Call | syntax.Instantiation,
        parameters: Sequence[ParameterSymbol],
        bindings: dict[str, Type],
    ) -> None:
        """Report numbers without a width whose types nothing else tells."""
        for argument, parameter in zip(node.arguments, parameters, strict=False):
            if isinstance(parameter.type, TypeVariable) and argument.type is INTEGER:
                if parameter.direction in ("out", "inout") or parameter.type.name in bindings:
                    bindings[parameter.type.name] = UNKNOWN  # a number cannot be stored into
                    continue
                hint = f"give it one: 32w{argument.value}" if argument.value is not None else ""
                self.reporter.error(
                    argument.at, f"argument {parameter.name} is a number without a width", hint
                )
                bindings[parameter.type.name] = UNKNOWN

    def _bind_rest(
        self,
        node: syntax.Call | syntax.Instantiation,
        what: str,
        names: Iterable[str],
        bindings: dict[str, Type],
    ) -> None:
        """Report type parameters that neither the call nor its arguments tell."""
        for name in names:
            found = bindings.get(name)
            if found is None or isinstance(found, _WITHOUT_TYPE):
                hint = f"write {what}<type>(...)"
                self.reporter.error(node.at, f"cannot tell what type {name} of {what} is", hint)
                bindings[name] = UNKNOWN

    def overload(
        self, declarations: Sequence[_Declaration], node: syntax.Call | syntax.Instantiation
    ) -> _Declaration:
        """Return the declaration that a call means: by the names of its arguments, or by their number."""
        fitting: list[_Declaration] = [item for item in declarations if _fits(item, node)]
        if len(fitting) > 1:
            name = fitting[0].name
            hint = ""
            if node.names is None and fitting[0].parameters:
                hint = f"write the names of the arguments: {name}({fitting[0].parameters[0].name} = ...)"
            self.reporter.error(node.at, f"there are {len(fitting)} {name} that this call could mean", hint)
        given = len(node.arguments)
        nearest = min(declarations, key=lambda item: abs(len(item.parameters) - given))
        return fitting[0] if fitting else nearest

    def arrange(
        self,
        node: syntax.Call | syntax.ActionElement | syntax.Instantiation,
        parameters: Sequence[ParameterSymbol],
        what: str,
    ) -> list[ParameterSymbol]:
        """Put arguments into the order of the parameters, and default values where none are given.

        Returns the parameters that have an argument or need one: not @optional ones that are left out, nor
        those whose lack is reported.
        """
        given = node.arguments or []
        if 0 < len(given) <= len(parameters) and node.names is None and _are_named_alone(parameters):
            hint = f"write the names of the arguments: {what}({parameters[0].name} = ...)"
            self.reporter.error(node.at, f"{what} has parameters with defaults, and @optional ones", hint)
        if node.names is None and len(given) >= len(parameters):
            return list(parameters)
        names = [item.name for item in parameters] if node.names is None else node.names
        known = [item.name for item in parameters]
        for position, name in enumerate(node.names or ()):
            if name not in known:
                hint = did_you_mean(name, known)
                self.reporter.error(given[position].at, f"{what} has no parameter {name}", hint)
            elif name in names[:position]:
                self.reporter.error(given[position].at, f"argument {name} is given twice")
        by_name = dict(zip(names, given, strict=False))
        needed = [item for item in parameters if item.name in by_name or not item.is_optional]
        missing = [item for item in needed if item.name not in by_name and item.default is None]
        if missing and node.names is None:
            return needed
        if set(names).issubset(known) and len(set(names)) == len(names):
            for item in missing:
                self.reporter.error(node.at, f"argument {item.name} of {what} is missing")
        needed = [item for item in needed if item not in missing]
        defaults = {item.name: fresh(item.default) for item in needed if item.default is not None}
        arranged = [by_name.get(item.name) or defaults[item.name] for item in needed]
        if isinstance(node, syntax.Call) and node.names is not None:
            places = {id(argument): place for place, argument in enumerate(arranged)}
            written = [places.pop(id(argument)) for argument in given if id(argument) in places]
            node.order = [*written, *places.values()]
        node.written = given, node.names
        node.arguments, node.names = arranged, None
        return needed

    def arguments(
        self,
        given: Sequence[syntax.Expression],
        parameters: Sequence[ParameterSymbol],
        what: str,
        node: syntax.Call | syntax.ActionElement,
    ) -> None:
        """Check arguments against parameters: number, types, and that what is out can be stored into."""
        if len(given) != len(parameters):
            names = ", ".join(item.name for item in parameters)
            hint = f"its parameters: {names}" if names else ""
            self.reporter.miscounted(node.at, what, "argument", len(parameters), len(given), hint)
            parameters = ()  # which of them is given what nobody knows
        for argument, parameter in zip(given, parameters, strict=False):
            if isinstance(argument, syntax.AnySet):
                argument.type = parameter.type
                if parameter.direction != "out":
                    self.reporter.error(
                        argument.at, f"'_' stands for out parameters; {parameter.name} is none"
                    )
            elif self._agrees(argument, parameter) and parameter.direction in ("out", "inout"):
                self.lvalue(argument, f"{what} writes to")
        for argument in given[len(parameters) :]:
            self.expression(argument)
        order = getattr(node, "order", None) or range(min(len(given), len(parameters)))
        stored = [given[place] for place in order if parameters and parameters[place].direction in _STORED]
        for at, argument in enumerate(stored):
            if any(_is_part(argument, other) for other in stored[at + 1 :]):
                what = "this is stored, and then a later argument, of which it is a part: what it got is lost"
                self.reporter.warning(argument.at, what, "arguments are copied out from left to right")

    def takes(
        self,
        at: Location,
        what: str,
        parameters: Sequence[ParameterSymbol],
        owner: str,
        bindings: Mapping[str, Type],
    ) -> bool:
        """Return whether parameters of something generic can be of given types; report it if not."""
        for item in parameters:
            kind = substituted(item.type, bindings)
            fault, hint = parameter_fault(kind, item.direction, owner) if kind != item.type else ("", "")
            if fault:
                types = ", ".join(map(str, bindings.values()))
                self.reporter.error(at, f"{what}<{types}>, parameter {item.name}: {fault}", hint)
                return False
        return True

    def _agrees(self, argument: syntax.Expression, parameter: ParameterSymbol) -> bool:
        """Check that an argument has the type of its parameter, or becomes it on its way in."""
        what, found, wanted = f"argument {parameter.name}", self.expression(argument), parameter.type
        fault = hint = ""
        if isinstance(found, ExternType) and parameter.direction and wanted is not UNKNOWN:
            fault = f"{what} is {found}, an object and no value"
        elif wanted is TEXT and parameter.direction:
            fault = f"{what} is string; a value that there is at run time was expected"
        elif (
            parameter.direction in ("out", "inout")
            and isinstance(found, ir.Bits | EnumType | CompositeType)
            and wanted is not UNKNOWN
            and found != wanted
        ):
            fault = f"{what} is {found}; {wanted} was expected"
            name = getattr(wanted, "name", wanted)
            hint = f"nothing is cast on its way out: give it a variable of {name}"
        elif wanted is INTEGER and isinstance(found, ir.Bits) and argument.value is None:
            fault = f"{what} must be known at compile time"
            hint = f"give {parameter.name} a width and a direction: in bit<8> {parameter.name}"
        if fault:
            self.reporter.error(argument.at, fault, hint)
            return False
        return self.expect(argument, wanted, what)

    def check_known(self, node: syntax.Call, parameters: Sequence[ParameterSymbol]) -> None:
        """Check that what parameters without direction are given is known at compile time."""
        for argument, parameter in zip(node.arguments, parameters, strict=False):
            if parameter.direction or argument.type is UNKNOWN:
                continue
            if isinstance(argument.type, ExternType) or isinstance(parameter.type, ExternType):
                continue
            if is_known_at_calls(argument) or self.reporter.has_error_at(argument.at):
                continue
            hint = f"give {parameter.name} a direction: in"
            self.reporter.error(argument.at, f"argument {parameter.name} must be known at compile time", hint)


def _is_made_for_a_type(kind: Type) -> bool:
    """Return whether a value says no type: {#}, `...`, a number without a width, a list with such."""
    if isinstance(kind, ListType):
        return any(map(_is_made_for_a_type, kind.items))
    return kind is INTEGER or isinstance(kind, _WITHOUT_TYPE)


def _are_named_alone(parameters: Sequence[ParameterSymbol]) -> bool:
    """Return whether calls have to name the arguments for these parameters.

    Source: P4-16 Language Specification 1.2.5, "Optional parameters".
    """
    return any(item.is_optional for item in parameters) and any(item.default for item in parameters)


def _apart(type_parameters: Iterable[str], bound: Mapping[str, Type]) -> dict[str, str]:
    """Return type parameters of a method by their names, told apart from those in its object's arguments."""
    taken = set().union(*map(variables_in, bound.values()))
    return {name: f"{name} of the method" if name in taken else name for name in type_parameters}


def _fits(
    declaration: syntax.MethodDeclaration | syntax.FunctionDeclaration,
    node: syntax.Call | syntax.Instantiation,
) -> bool:
    """Return whether a declaration has parameters for all arguments of a call, and the call what it needs."""
    needed = {item.name for item in declaration.parameters if item.default is None and not item.is_optional}
    if node.names is None:
        return len(needed) <= len(node.arguments) <= len(declaration.parameters)
    return needed <= set(node.names) <= names_of(declaration)


def names_of(declaration: syntax.MethodDeclaration | syntax.FunctionDeclaration) -> frozenset[str]:
    """Return the names of the parameters, by which functions and methods of one name are told apart."""
    return frozenset(parameter.name for parameter in declaration.parameters)


def _is_part(place: syntax.Expression, whole: syntax.Expression) -> bool:
    """Return whether an l-value is a part of another."""
    while isinstance(place, syntax.MemberRef | syntax.SliceRef | syntax.IndexRef):
        place = place.base
        if same_text(place, whole):
            return True
    return False
