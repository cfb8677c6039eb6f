# SPDX-License-Identifier: Apache-2.0
"""Resolves references to types.

Source: P4-16 Language Specification 1.2.5, "P4 data types".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from nicemu.pipeline import ir

from . import syntax
from .check_names import NameChecker
from .diagnostics import Location, Reporter, TooManyErrors
from .symbols import BlockSymbol, FamilySymbol, PackageSymbol, ParameterSymbol, TypeSymbol
from .type_sizes import is_storable
from .types import (
    INTEGER,
    MATCH_KIND,
    NOTHING,
    TEXT,
    UNKNOWN,
    BlockType,
    CompositeType,
    ExternSymbol,
    ExternType,
    Family,
    P4ListType,
    StackType,
    Type,
    TypeVariable,
    VarbitType,
    depth_of,
    is_header_or_union,
    size_of,
)

MAX_NAME_CHARACTERS = 200
"""Longest list of type arguments that a type's name shows in messages."""
MAX_SPECIALISATIONS = 4096
"""How many structs and headers may be made of generic ones; each of a chain may make two of the next."""

_OF_A_LATER_V1MODEL = ("counter", "meter", "register")
"""Arrays whose later declarations have one more type, that of their index."""
UNINFERRED = TypeVariable("_")
"""Stands for a type argument of an extern object that its constructor has to tell."""


class TypeReferenceChecker(NameChecker):
    """What a type is where it is named.

    `signature_of` says of what only the signature is declared: "a package", "an extern" or "a block's type",
    "" elsewhere. There '_' is any type, as a type argument, and a package has packages as parameters.
    """

    signature_of = ""

    def __init__(self, reporter: Reporter) -> None:
        super().__init__(reporter)
        self.tuples = Family("tuple", 0, _tuple_of)
        self.arrays = Family("array", 0, _array_of)
        self._records: dict[tuple[str, ...], Family] = {}
        self._specialisations = 0

    def constant_integer(self, node: syntax.Expression, what: str) -> int | None:
        """Return the value of a compile-time integer, or report; the subclass that knows expressions does
        it.
        """
        raise NotImplementedError

    def check_defaults(
        self, nodes: Sequence[syntax.ParameterDeclaration], parameters: Sequence[ParameterSymbol]
    ) -> None:
        """Check the default values of parameters, where they are declared; the same subclass does it."""
        raise NotImplementedError

    def local_integer(self, node: syntax.Expression, what: str) -> int | None:
        """The same of one that no parameter of a constructor is part of."""
        raise NotImplementedError

    def resolve(self, ref: syntax.TypeRef) -> Type:
        """Return the type that a reference means; UNKNOWN if it was reported."""
        kind = self._element(ref)
        for size in ref.sizes:
            kind = self._array(kind, size, ref)
        return kind

    def _array(self, kind: Type, size: syntax.Expression, ref: syntax.TypeRef) -> Type:
        """Return the type of a header stack, or of another array. Source: P4-16, "Array types" of the draft
        behind 1.2.5.
        """
        count = self.local_integer(size, "the size of an array")
        if count is None or kind is UNKNOWN:
            return UNKNOWN
        if not is_storable(kind):
            self.reporter.error(ref.at, f"an array cannot hold {kind}")
            return UNKNOWN
        if count > ir.MAX_STACK_SIZE:
            what = f"an array of {self.shown(count)}, more than {ir.MAX_STACK_SIZE} elements"
            self.reporter.unsupported(size.at, what)
            return UNKNOWN
        if count <= 0:
            what = f"an array of {self.shown(count)}; 1 to {ir.MAX_STACK_SIZE} elements were expected"
            self.reporter.error(size.at, what)
            return UNKNOWN
        if is_header_or_union(kind):
            return StackType(kind, count)
        return self._small_enough(self.arrays.of((kind,) * count), ref.at)

    def instantiated(self, ref: syntax.TypeRef) -> Type:
        """Return the type of an object that is made.

        Type arguments of an extern that are left out, or '_', are UNINFERRED: its constructor tells them.
        """
        symbol = self.scope.meant(ref)
        if not isinstance(symbol, ExternSymbol) or ref.sizes:
            return self.resolve(ref)
        self.find(ref, "type")  # says that it is deprecated
        names = symbol.declaration.type_parameters
        if ref.arguments:
            self._count(ref, len(names))
        given = tuple(UNINFERRED if item.name == "_" else self.resolve(item) for item in ref.arguments)
        return ExternType(symbol, given or (UNINFERRED,) * len(names))

    def returned(self, ref: syntax.TypeRef | None) -> Type:
        """Return the type of what a function or method returns; a constructor has none."""
        if ref is None or (ref.name == "void" and not ref.sizes):
            return NOTHING
        return self.resolve(ref)

    def _element(self, ref: syntax.TypeRef) -> Type:
        match ref.name:
            case "bit" | "int":
                return self._bits(ref)
            case "bool":
                return ir.BOOL
            case "error":
                return ir.ERROR
            case "string":
                return TEXT
            case "void":
                self.reporter.error(ref.at, "void is the type of no value", "functions alone return it")
                return UNKNOWN
            case "varbit":
                return self._varbit(ref)
            case "tuple":
                items = tuple(self._argument_type(argument) for argument in ref.arguments)
                for argument, item in zip(ref.arguments, items, strict=True):
                    if item is not UNKNOWN and not is_storable(item):
                        self.reporter.error(argument.at, f"a tuple cannot hold {item}")
                        return UNKNOWN
                return UNKNOWN if UNKNOWN in items else self._small_enough(self.tuples.of(items), ref.at)
            case "list":
                return self._list(ref)
            case "match_kind":
                return MATCH_KIND
            case "_":
                what = "'_' stands only for a type argument, where the rest tells which it is"
                self.reporter.error(ref.at, what, "write the type")
                return UNKNOWN
        symbol = self.find(ref, "type")
        if symbol is None:
            return UNKNOWN
        arguments = tuple(self._argument_type(argument) for argument in ref.arguments)
        if isinstance(symbol, TypeSymbol) and not arguments:
            return symbol.type
        if isinstance(symbol, FamilySymbol):
            self._count(ref, symbol.family.parameters)
            if len(arguments) != symbol.family.parameters or UNKNOWN in arguments:
                return UNKNOWN
            return self._small_enough(self._specialised(ref, symbol.family, arguments), ref.at)
        if isinstance(symbol, ExternSymbol):
            self._count(ref, len(symbol.declaration.type_parameters))
            return self._small_enough(ExternType(symbol, arguments), ref.at)
        if isinstance(symbol, BlockSymbol):
            if arguments or symbol.declaration.is_type:  # an instance may leave them out
                self._count(ref, len(symbol.declaration.type_parameters))
            return self._small_enough(BlockType(symbol, arguments), ref.at)
        if isinstance(symbol, PackageSymbol) and self.signature_of == "a package":
            self._count(ref, len(symbol.declaration.type_parameters))
            return UNKNOWN
        if isinstance(symbol, TypeSymbol):
            if symbol.type is not UNKNOWN:
                self.reporter.error(ref.at, f"{ref.name} takes no type arguments", "remove <...>")
            return symbol.type
        if isinstance(symbol, PackageSymbol):
            self.reporter.error(ref.at, f"{ref.name} is a package: its objects stand outside all blocks")
        else:
            self.reporter.error(ref.at, f"{ref.name} is no type")
        return UNKNOWN

    def _specialised(self, ref: syntax.TypeRef, family: Family, arguments: tuple[Type, ...]) -> CompositeType:
        """Return a generic type with type arguments; what is wrong with it is reported where it is used."""
        mark = self.reporter.mark()
        if arguments not in family.made:
            self._specialisations += 1
            if self._specialisations > MAX_SPECIALISATIONS:
                what = f"more than {MAX_SPECIALISATIONS} types that are made of generic ones"
                self.reporter.error(ref.at, what)
                raise TooManyErrors
        kind = family.of(arguments)
        if len(self.reporter.diagnostics) > mark:
            told = self.reporter.diagnostics[mark]
            self.reporter.rewind(mark)
            self.reporter.error(ref.at, f"in {kind.name} {told.message}", told.hint)
        return kind

    def _argument_type(self, ref: syntax.TypeRef) -> Type:
        return UNKNOWN if ref.name == "_" and self.signature_of else self.resolve(ref)

    def _count(self, ref: syntax.TypeRef, wanted: int) -> None:
        if len(ref.arguments) != wanted:
            hint = ""
            if len(ref.arguments) == wanted + 1 and ref.name in _OF_A_LATER_V1MODEL:
                hint = "v1model.p4 of 2020 has them: #define V1MODEL_VERSION 20200408 before it is included"
            self.reporter.miscounted(ref.at, ref.name, "type argument", wanted, len(ref.arguments), hint)

    def _bits(self, ref: syntax.TypeRef) -> Type:
        if ref.width is None:
            return ir.Bits(1) if ref.name == "bit" else INTEGER
        width = self.local_integer(ref.width, "a width")
        if width is None:
            return UNKNOWN
        least = int(ref.name == "int")
        if width > ir.MAX_WIDTH_BITS:
            what = f"{ref.name}<{self.shown(width)}>, of more than {ir.MAX_WIDTH_BITS} bits"
            self.reporter.unsupported(ref.width.at, what)
            return UNKNOWN
        if width < least:
            what = f"a width of {least} to {ir.MAX_WIDTH_BITS} was expected"
            self.reporter.error(ref.width.at, f"{ref.name}<{self.shown(width)}>: {what}")
            return UNKNOWN
        return _bits_of(width, ref.name == "int")

    def _small_enough(self, kind: Type, at: Location) -> Type:
        """Return a type; UNKNOWN where it is larger than the engine takes, before it is walked through."""
        if size_of(kind) > ir.MAX_VALUES:
            what = f"{kind} holds {self.shown(size_of(kind))} values; {ir.MAX_VALUES} are allowed"
        elif depth_of(kind) > ir.MAX_TYPE_DEPTH:
            what = f"{kind} is {depth_of(kind)} types deep; {ir.MAX_TYPE_DEPTH} are allowed"
        else:
            return kind
        self.reporter.error(at, what)
        return UNKNOWN

    def _list(self, ref: syntax.TypeRef) -> Type:
        self._count(ref, 1)
        element = self._argument_type(ref.arguments[0]) if len(ref.arguments) == 1 else UNKNOWN
        if element is UNKNOWN:
            return UNKNOWN
        if (
            not is_storable(element)
            and not isinstance(element, P4ListType)
            and element not in (INTEGER, TEXT, MATCH_KIND)
        ):
            self.reporter.error(ref.at, f"a list cannot hold {element}")
            return UNKNOWN
        return self._small_enough(P4ListType(element), ref.at)

    def _varbit(self, ref: syntax.TypeRef) -> Type:
        if ref.width is None:
            self.reporter.error(ref.at, "varbit needs a width", "write varbit<64>")
            return UNKNOWN
        width = self.local_integer(ref.width, "a width")
        if width is None:
            return UNKNOWN
        if width > ir.MAX_VARBIT_BITS:
            what = f"varbit<{self.shown(width)}>, of more than {ir.MAX_VARBIT_BITS} bits"
            self.reporter.unsupported(ref.at, what)
            return UNKNOWN
        if width < 0:
            what = f"varbit<{self.shown(width)}>: a width of 0 to {ir.MAX_VARBIT_BITS} was expected"
            self.reporter.error(ref.at, what)
            return UNKNOWN
        return VarbitType(width)


@cache
def _bits_of(width: int, signed: bool) -> ir.Bits:
    """Return the one object for a type, so that comparing types seldom compares their parts."""
    return ir.Bits(width, signed)


def specialised_name(family: str, arguments: Sequence[Type]) -> str:
    """Return the name of a generic type with its type arguments, cut if they are long."""
    given = ", ".join(getattr(kind, "name", str(kind)) for kind in arguments)
    return f"{family}<{given if len(given) <= MAX_NAME_CHARACTERS else '...'}>"


def _tuple_of(items: tuple[Type, ...]) -> CompositeType:
    fields = {f"f{place}": item for place, item in enumerate(items)}
    return CompositeType(specialised_name("tuple", items), "tuple", fields)


def _array_of(items: tuple[Type, ...]) -> CompositeType:
    name = getattr(items[0], "name", str(items[0]))
    fields = {str(place): item for place, item in enumerate(items)}
    return CompositeType(f"{name}[{len(items)}]", "array", fields)
