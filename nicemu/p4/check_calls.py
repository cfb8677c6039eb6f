# SPDX-License-Identifier: Apache-2.0
"""Finds out what a call means, infers its type arguments and checks its arguments.

Source: P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out", "Function calls".
"""

from __future__ import annotations

from collections.abc import Sequence

from nicemu.errors import counted
from nicemu.pipeline import ExternFunction, Kind, ir

from . import syntax
from .check_blocks import BlockCallChecker
from .check_expressions import HEADER_METHODS
from .check_names import CALLED, NO_MORE
from .constants import is_constant, items_of
from .diagnostics import article, did_you_mean
from .symbols import (
    THIS,
    ActionSymbol,
    BlockInstance,
    BlockSymbol,
    CallKind,
    CallTarget,
    Fixed,
    FunctionSymbol,
    Instance,
    ParameterSymbol,
    Routine,
    RoutineSymbol,
    TableSymbol,
    TypeSymbol,
    Variable,
)
from .type_sizes import (
    has_fixed_width,
    has_lacking,
    has_varbit,
    is_storable,
    parameter_fault,
    scalar_of,
    size_range_bits,
)
from .types import (
    INTEGER,
    MATCH_KIND,
    NOTHING,
    TEXT,
    UNKNOWN,
    ApplyResult,
    BlockType,
    CompositeType,
    EnumType,
    ExternType,
    P4ListType,
    StackType,
    Type,
    TypeVariable,
    UnknownType,
    is_header_or_union,
)
from .v1model_advice import advise

_CALLEES = (syntax.NameRef, syntax.MemberRef)
_GENERIC = (CallKind.ROUTINE, CallKind.EXTERN_FUNCTION, CallKind.EXTERN_METHOD, CallKind.PACKET)
"""Kinds of calls that may have type arguments."""
_STACK_METHODS = ("push_front", "pop_front")
_SIZES = ("minSizeInBits", "minSizeInBytes", "maxSizeInBits", "maxSizeInBytes")
PACKET_PLACES = {"packet_in": "parser", "packet_out": "deparser"}


class CallChecker(BlockCallChecker):
    """Calls of actions, tables, blocks, headers, packets and externs.

    The `open_routines` are those being checked. `role` says which of the architecture's blocks the code is
    of, "" where that is not known; `beside` what stands in a control beside its apply block, "" in a body.
    """

    open_routines: tuple[RoutineSymbol, ...] = ()
    role = ""
    beside = ""

    def call(self, node: syntax.Call) -> Type:
        """Return the type of what a call returns, its `symbol` filled with a CallTarget."""
        callee = node.callee
        if isinstance(callee, _CALLEES):
            if isinstance(callee, syntax.NameRef):
                found = self._call_name(node, callee)
            else:
                found = self._call_member(node, callee)
            if node.type_arguments and node.symbol and node.symbol.kind not in _GENERIC:
                self.reporter.error(node.at, f"{callee.name} takes no type arguments", "remove <...>")
            return found
        if node.constructed is not None:
            self.reporter.error(
                node.at,
                f"{node.constructed.name} is constructed here",
                "objects are declared: Type(...) name;",
            )
        else:
            self.reporter.error(node.at, "this cannot be called")
        return UNKNOWN

    def _call_name(self, node: syntax.Call, callee: syntax.NameRef) -> Type:
        symbol = self.find(callee, CALLED)
        if isinstance(symbol, ActionSymbol):
            if self.context not in ("control", "action", "deparser"):
                self.reporter.error(node.at, f"an action cannot be called in a {self.context}")
            node.symbol = CallTarget(CallKind.ACTION, symbol.name, symbol)
            self.count_call(node.at, symbol.calls)
            given = self.arrange(node, symbol.parameters, f"action {callee.name}")
            self.arguments(node.arguments, given, f"action {callee.name}", node)
            return NOTHING
        if isinstance(symbol, FunctionSymbol):
            return self._call_function(node, symbol)
        if symbol is not None:
            self.reporter.error(callee.at, f"{callee.name} cannot be called")
        for argument in node.arguments:
            self.expression(argument)
        return UNKNOWN

    def _call_function(self, node: syntax.Call, symbol: FunctionSymbol) -> Type:
        declaration = self.overload(symbol.declarations, node)
        if isinstance(declaration, syntax.FunctionDeclaration):
            routine = next(item for item in symbol.routines if item.declaration is declaration)
            return self._call_routine(node, routine)
        returned, types, parameters = self._invoke(node, declaration, symbol.scope, {})
        if symbol.name == "verify":
            node.symbol = CallTarget(CallKind.PACKET, "verify")
            self._only_in(node, "verify", "parser")
            return returned
        if symbol.name == "static_assert":
            self._static_assert(node)
            return returned
        known = self.architecture.functions.get(symbol.name)
        directions = _directions(parameters)
        node.symbol = CallTarget(
            CallKind.EXTERN_FUNCTION, symbol.name, None, types, directions, is_own=known is None
        )
        if known is None:
            self._own_call(node, symbol.name, parameters, returned)
        else:
            self._extern_call(node, symbol.name, parameters, known)
            if self.architecture.name == "v1model":
                advise(node, symbol.name, self.role, self.reporter)
        if symbol.name != "mark_to_drop":
            self._refuse_lacking(node, symbol.name)
        return returned

    def _refuse_lacking(self, node: syntax.Call, name: str) -> None:
        """Refuse values of which an extern would see fields that are not declared."""
        for argument in node.arguments:
            kind = argument.type
            if isinstance(kind, CompositeType) and has_lacking(kind, self.architecture.metadata):
                what = f"{kind}, of which fields are not declared here, as an argument of {name}"
                self.reporter.unsupported(argument.at, what, "give the fields that are meant")

    def _own_call(
        self, node: syntax.Call, name: str, parameters: Sequence[ParameterSymbol], returned: Type
    ) -> None:
        """Check what a function or method is given, and returns, that the program itself declares."""
        if name in NO_MORE and self.architecture.name == "v1model":  # as an older v1model.p4 has it
            self.reporter.unsupported(node.at, f"{name} with data", NO_MORE[name])
        is_lacking = has_lacking(returned, self.architecture.metadata)
        if (
            returned in (TEXT, INTEGER, MATCH_KIND)
            or isinstance(returned, ExternType | P4ListType)
            or is_lacking
        ):
            self.reporter.unsupported(node.at, f"{returned} as the result of {name}")
        elif isinstance(returned, BlockType):
            self.reporter.error(node.at, f"{name} cannot return {returned}")
        for argument, parameter in zip(node.arguments, parameters, strict=False):
            fault, hint = parameter_fault(parameter.type, parameter.direction, "extern")
            if hint or isinstance(parameter.type, BlockType):
                self.reporter.error(node.at, f"parameter {parameter.name} of {name}: {fault}", hint)
            elif parameter.type is MATCH_KIND or isinstance(argument.type, ExternType | P4ListType):
                what = f"{argument.type} as an argument of {name}"
                self.reporter.unsupported(argument.at, what)
            elif not parameter.direction and argument.type is not UNKNOWN and not is_constant(argument):
                self.reporter.error(argument.at, f"argument {parameter.name} must be known at compile time")

    def _static_assert(self, node: syntax.Call) -> None:
        """Refuse a program in which a condition that is known at compile time does not hold."""
        node.symbol, node.value = CallTarget(CallKind.STATIC_ASSERT, "static_assert"), 1
        if any(argument.type is UNKNOWN for argument in node.arguments) or not node.arguments:
            return
        if not all(map(is_constant, node.arguments)):
            self.reporter.error(node.at, "what static_assert checks must be known at compile time")
        elif not node.arguments[0].value:
            message = f": {node.arguments[1].value}" if len(node.arguments) > 1 else ""
            self.reporter.error(node.at, f"static_assert does not hold{message}")

    def _extern_call(
        self, node: syntax.Call, name: str, parameters: Sequence[ParameterSymbol], known: ExternFunction
    ) -> None:
        """Check where an extern is called, and that what its declaration wants as constants is constant."""
        if self.context not in known.places:
            self.reporter.unsupported(node.at, f"{name} in {article(self.context)}")
        if known.role and self.role not in ("", known.role):
            what = f"{name} is called in {self.role}; it stands only in {known.role}"
            blocks = ["parser", *(role.name for role in self.architecture.roles)]
            hint = f"that is block {blocks.index(known.role) + 1} of {self.architecture.package}(...)"
            self.reporter.error(node.at, what, hint)
        taken = known.signature(len(node.arguments)) or ()
        for argument, wanted in zip(node.arguments, taken, strict=False):
            known_type = argument.type is not INTEGER and not isinstance(
                argument.type, TypeVariable | UnknownType
            )
            is_open = isinstance(argument.type, EnumType) and argument.type.underlying is None
            is_number = isinstance(scalar_of(argument.type), ir.Bits) and not is_open
            if wanted.type is Kind.NUMBER and known_type and not is_number:
                self.reporter.error(argument.at, f"a number was expected here; this is {argument.type}")
                break
        for argument, parameter in zip(node.arguments, parameters, strict=False):
            if argument.type is MATCH_KIND or isinstance(argument.type, P4ListType):
                self.reporter.error(argument.at, f"{name} takes no {argument.type}")
            elif not parameter.direction and argument.type is not UNKNOWN and not is_constant(argument):
                self.reporter.error(argument.at, f"argument {parameter.name} must be known at compile time")

    def _call_routine(self, node: syntax.Call, symbol: RoutineSymbol) -> Type:
        mark = self.reporter.mark()
        returned, types, parameters = self._invoke(node, symbol.declaration, symbol.scope, {})
        names = symbol.declaration.type_parameters
        if not self.reporter.has_failed_since(mark) and len(names) == len(types):
            given_types = dict(zip(names, types, strict=True))
            declared, _ = self._signature(symbol.declaration, symbol.scope, {})
            is_taken = self.takes(node.at, symbol.name, declared, "function", given_types)
            if is_taken and names and not (is_storable(returned) or returned in (NOTHING, UNKNOWN)):
                shown = ", ".join(map(str, types))
                self.reporter.error(node.at, f"{symbol.name}<{shown}> cannot return {returned}")
        is_wrong = self.reporter.has_failed_since(mark)
        if symbol in self.open_routines:
            self.reporter.error(node.at, f"{symbol.name} calls itself; P4 has no recursion")
        elif not is_wrong and not any(isinstance(kind, TypeVariable | UnknownType) for kind in types):
            self.check_known(node, parameters)
            given = [
                argument.symbol if isinstance(argument, syntax.NameRef) and kept else argument.value
                for argument, item in zip(node.arguments, parameters, strict=False)
                if (kept := is_object(item.type)) or item.type in (INTEGER, TEXT)
            ]
            if None not in given:
                routine = self.routine(symbol, types, tuple(given))
                node.symbol = CallTarget(CallKind.ROUTINE, symbol.name, routine, types)
                self.count_call(node.at, routine.calls)
        return returned

    def routine(self, symbol: RoutineSymbol, types: tuple[Type, ...], given: Fixed) -> Routine:
        """Return a function for some type arguments, and for what its parameters are given that are no values
        at run time; the subclass that knows statements does it.
        """
        raise NotImplementedError

    def _call_member(self, node: syntax.Call, callee: syntax.MemberRef) -> Type:
        symbol = self.scope.meant(callee.base) if isinstance(callee.base, syntax.NameRef) else None
        if isinstance(callee.base, syntax.ThisRef):
            symbol = self.scope.find(THIS)
        if isinstance(symbol, TableSymbol):
            return self._apply(node, callee, symbol)
        if isinstance(symbol, Instance):
            return self._call_method(node, callee, symbol, symbol.type)
        if isinstance(symbol, Variable) and isinstance(symbol.type, ExternType):
            return self._call_method(node, callee, None, symbol.type)
        if isinstance(symbol, BlockInstance):
            return self._apply_block(node, callee, symbol.block, symbol.parameters)
        if isinstance(symbol, BlockSymbol):
            return self._apply_type(node, callee, symbol, [])
        if isinstance(symbol, TypeSymbol) and isinstance(symbol.type, BlockType):
            return self._apply_type(node, callee, symbol.type.symbol, list(symbol.type.arguments))
        if isinstance(callee.base, syntax.TypeName):
            kind = self.resolve(callee.base.ref)
            if isinstance(kind, BlockType):
                return self._apply_type(node, callee, kind.symbol, list(kind.arguments))
        return self._call_header(node, callee)

    def _apply(self, node: syntax.Call, callee: syntax.MemberRef, table: TableSymbol) -> Type:
        if callee.name != "apply":
            hint = did_you_mean(callee.name, ["apply"])
            self.reporter.error(callee.name_at, f"a table has no method {callee.name}", hint)
            return UNKNOWN
        if node.arguments:
            self.reporter.error(node.at, "apply() of a table takes no arguments")
        if self.context not in ("control", "deparser"):
            self.reporter.error(
                node.at,
                f"a table cannot be applied in {article(self.context)}",
                "apply it in the apply block",
            )
        elif self.beside:
            what = f"a table cannot be applied in {self.beside}"
            self.reporter.error(node.at, what, "apply it in the apply block")
        node.symbol = CallTarget(CallKind.TABLE, table.name, table)
        self.count_call(node.at, table.calls)
        return ApplyResult(table)

    def _call_header(self, node: syntax.Call, callee: syntax.MemberRef) -> Type:
        named = self._named_type(callee.base) if callee.name in _SIZES else None
        self.measures, outer = callee.name in _SIZES, self.measures
        base = self.expression(callee.base) if named is None else named
        self.measures = outer
        for argument in node.arguments:
            self.expression(argument)
        if base is UNKNOWN:
            return UNKNOWN
        element = base.element if isinstance(base, P4ListType) and named is None else base
        sizes = size_range_bits(element)
        if callee.name in _SIZES and sizes is not None:
            if isinstance(base, P4ListType):
                count = len(items_of(callee.base))
                sizes = count * sizes[0], count * sizes[1]
            if node.arguments:
                self.reporter.error(node.at, f"{callee.name}() takes no arguments")
            bits = sizes[callee.name.startswith("max")]
            node.symbol = CallTarget(CallKind.SIZE, callee.name)
            node.value = bits if callee.name.endswith("Bits") else (bits + 7) // 8
            return INTEGER
        if isinstance(base, StackType):
            return self._call_stack(node, callee, base)
        is_union = isinstance(base, CompositeType) and base.kind == "header_union"
        is_header = isinstance(base, CompositeType) and base.header
        if callee.name not in HEADER_METHODS or not (is_header or (is_union and callee.name == "isValid")):
            known = (*HEADER_METHODS, *_SIZES) if is_header else ("isValid",) if is_union else ()
            self.reporter.error(
                callee.name_at, f"{base} has no method {callee.name}", did_you_mean(callee.name, known)
            )
            return UNKNOWN
        if node.arguments:
            self.reporter.error(node.at, f"{callee.name}() takes no arguments")
        kind = HEADER_METHODS[callee.name]
        node.symbol = CallTarget(kind, callee.name)
        if kind is CallKind.IS_VALID:
            return ir.BOOL
        self.lvalue(callee.base, f"{callee.name} changes")
        return NOTHING

    def _named_type(self, node: syntax.Expression) -> Type | None:
        """Return the type that an expression names, None where it is a value."""
        if isinstance(node, syntax.TypeName):
            return self.resolve(node.ref)
        symbol = self.scope.meant(node) if isinstance(node, syntax.NameRef) else None
        return symbol.type if isinstance(symbol, TypeSymbol) else None

    def _call_stack(self, node: syntax.Call, callee: syntax.MemberRef, base: StackType) -> Type:
        if callee.name not in _STACK_METHODS:
            hint = did_you_mean(callee.name, _STACK_METHODS)
            self.reporter.error(callee.name_at, f"{base} has no method {callee.name}", hint)
            return UNKNOWN
        if self.context == "parser":
            self.reporter.error(node.at, f"{callee.name} cannot be called in a parser")
        if len(node.arguments) != 1:
            self.reporter.miscounted(node.at, callee.name, "argument", 1, len(node.arguments))
            return UNKNOWN
        if node.names is not None and node.names != ["count"]:
            what = f"{callee.name} has no parameter {node.names[0]}"
            self.reporter.error(node.arguments[0].at, what, "it is called count")
        count = self.constant_integer(node.arguments[0], f"the argument of {callee.name}")
        if count is not None and count <= 0:
            self.reporter.error(node.arguments[0].at, f"{callee.name}({count}): a number from 1 was expected")
        self.lvalue(callee.base, f"{callee.name} changes")
        node.symbol = CallTarget(CallKind.MOVE_STACK, callee.name)
        return NOTHING

    def _call_method(
        self, node: syntax.Call, callee: syntax.MemberRef, instance: Instance | None, extern: ExternType
    ) -> Type:
        symbol = extern.symbol
        methods = [item for item in symbol.declaration.methods if item.name == callee.name]
        if not methods or callee.name == symbol.name:
            names = [item.name for item in symbol.declaration.methods if item.name != symbol.name]
            hint = did_you_mean(callee.name, names)
            self.reporter.error(callee.name_at, f"{extern} has no method {callee.name}", hint)
            return UNKNOWN
        method = self.overload(methods, node)
        body = instance.methods.get(callee.name) if instance is not None else None
        if body is not None:
            return self._call_routine(node, body)
        bound: dict[str, Type] = dict.fromkeys(symbol.declaration.type_parameters, UNKNOWN)
        bound |= dict(zip(symbol.declaration.type_parameters, extern.arguments, strict=False))
        returned, types, parameters = self._invoke(node, method, symbol.scope, bound)
        place = PACKET_PLACES.get(symbol.name)
        if place is not None:
            node.symbol = CallTarget(CallKind.PACKET, callee.name, types=types)
            self._only_in(node, callee.name, place)
            if any(self.reporter.has_error_at(argument.at) for argument in node.arguments):
                return UNKNOWN
            if not self._check_packet_call(node, callee.name, types):
                return UNKNOWN
        elif instance is not None:
            known = self.architecture.objects.get(symbol.name)
            directions = _directions(parameters)
            node.symbol = CallTarget(
                CallKind.EXTERN_METHOD, callee.name, instance, types, directions, is_own=known is None
            )
            if method.abstract and instance.full_name:
                node.symbol = None  # already reported as not there
            elif method.abstract:
                self.reporter.unsupported(node.at, f"abstract method {callee.name} of a parameter")
            elif known is None:
                self._own_call(node, callee.name, parameters, returned)
            elif callee.name not in known.methods:
                self.reporter.unsupported(node.at, f"method {callee.name} of extern {symbol.name}")
            else:
                (instance.bound or instance).calls.append(node)
                self._extern_call(node, callee.name, parameters, known.methods[callee.name])
        else:
            self.reporter.unsupported(node.at, f"{extern} as a parameter")
        if place is None:
            self._refuse_lacking(node, callee.name)
        return returned

    def _check_packet_call(self, node: syntax.Call, name: str, types: tuple[Type, ...]) -> bool:
        """Check what is read from a packet or written to it; return whether that can be."""
        kind = types[0] if types else UNKNOWN
        fault = hint = ""
        if isinstance(kind, UnknownType | TypeVariable) or _has_fault(kind):
            return True
        if name == "extract":
            if not isinstance(kind, CompositeType) or not kind.header:
                fault = f"extract of {kind}; a header was expected"
            elif has_varbit(kind) != (len(node.arguments) == 2):
                given = counted(len(node.arguments), "argument")
                fault = f"{kind} has {'a' if has_varbit(kind) else 'no'} varbit; extract has {given}"
                hint = "write extract(header, bits of the varbit)" if has_varbit(kind) else ""
        elif name == "lookahead" and not has_fixed_width(kind):
            fault = f"lookahead of {kind}; numbers, headers, structs, tuples or arrays were expected"
            if has_varbit(kind):
                fault = f"lookahead of {kind}, which has no fixed width, for it has a varbit"
        elif name == "emit":
            written = node.arguments[0]
            if isinstance(written, syntax.ListValue) and not written.items:
                fault = (
                    "emit of an empty list; a header, or a struct, tuple or array of headers, was expected"
                )
            elif not _emittable(kind):
                fault = f"emit of {kind}; a header, or a struct, tuple or array of headers, was expected"
        if fault:
            self.reporter.error(node.at, fault, hint)
        return not fault

    # Places

    def _only_in(self, node: syntax.Call, name: str, context: str) -> None:
        given = name != "verify" and self.context in ("function", "action")  # the packet, by what calls it
        if self.context != context and not given:
            self.reporter.error(
                node.at, f"{name} can be called only in {article(context)}; this is {article(self.context)}"
            )


def is_object(kind: Type) -> bool:
    """Return whether a type is that of extern objects which a program makes: not that of a packet."""
    return isinstance(kind, ExternType) and kind.symbol.name not in PACKET_PLACES


def _directions(parameters: Sequence[ParameterSymbol]) -> tuple[str, ...]:
    return tuple(item.direction or "in" for item in parameters)


def _emittable(kind: Type) -> bool:
    if not isinstance(kind, CompositeType) or kind.kind not in ("struct", "tuple", "array"):
        return kind is UNKNOWN or isinstance(kind, StackType) or is_header_or_union(kind)
    return all(_emittable(part) for part in kind.fields.values())


def _has_fault(kind: Type) -> bool:
    """Return whether a field's type was reported."""
    return isinstance(kind, CompositeType) and UNKNOWN in kind.fields.values()
