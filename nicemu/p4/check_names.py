# SPDX-License-Identifier: Apache-2.0
"""Resolves names: scopes, what the whole program declares, and the architecture that it is for."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable
from dataclasses import dataclass, field

from nicemu.pipeline import ARCHITECTURES, Architecture, literal_value

from . import syntax
from .diagnostics import Location, Reporter, declared_later, did_you_mean
from .includes import include_of
from .symbols import ActionSymbol, ErrorList, FunctionSymbol, Scope, Symbol, TypeSymbol, Variable
from .types import CompositeType, EnumType, ExternSymbol, ExternType

NO_MORE = {
    f"{name}{ending}": f"v1model.p4 has {name}_preserving_field_list now, and fields with @field_list(index)"
    for name, ending in (("clone", "3"), ("resubmit", ""), ("recirculate", ""))
}
"""What v1model.p4 has no more, since 2022, and what stands in its place."""
_WIDTHS = (8, 16, 32, 64)
_ELSEWHERE = NO_MORE | {
    f"{letters}{bits}{end}": f"write {kind}<{bits}>"
    for letters, kind in (("uint", "bit"), ("u", "bit"), ("int", "int"), ("s", "int"))
    for end in ("", "_t")
    for bits in _WIDTHS
}
_ELSEWHERE |= {
    "unsigned": "write bit<32>",
    "char": "write bit<8>",
    "boolean": "write bool",
    "apply": "write name.apply();",
}
"""Types of C, too, and what stands in their place."""
CALLED = "action or function"
"""What a name is looked for as that is called."""


@dataclass(slots=True)
class Declared:
    """What the whole program declares, in order. `ragged` are headers that are no whole bytes, each with what
    is to be said of it if something has it; errors and match kinds have numbers from 0.
    """

    composites: list[CompositeType] = field(default_factory=list)
    ragged: dict[str, tuple[Location, str, str]] = field(default_factory=dict)
    errors: dict[str, int] = field(default_factory=dict)
    match_kinds: dict[str, int] = field(default_factory=dict)


class NameChecker:
    """Scopes, and what the architecture is; types come in the subclass.

    `deprecated` is what @deprecated says of what is declared outside all blocks, functions apart.
    `declared_at` is where names of the program and of the present block are declared, those that are not yet,
    too; `declaring` that of the present one.
    """

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.declared = Declared()
        self.scope = Scope()
        self.scope.names["error"] = ErrorList()
        self.architecture: Architecture = next(iter(ARCHITECTURES.values()))
        self.deprecated: dict[Symbol, str] = {}
        self.declared_at: ChainMap[str, Location] = ChainMap()
        self.declaring: Location | None = None

    # Scopes

    def inner_scope(self) -> _InnerScope:
        """Names declared inside are forgotten at the end."""
        return _InnerScope(self)

    def declare(self, name: str, symbol: Symbol, at: Location) -> None:
        """Give a name its meaning in the present scope; twice is an error, and a type stays what it was."""
        if name in self.scope.names and not self.reporter.has_error_at(at):
            self.reporter.error(at, f"{name} is declared twice in the same scope", "choose another name")
            if isinstance(self.scope.names[name], TypeSymbol):
                return
        self.scope.names[name] = symbol

    def find(
        self, node: syntax.NameRef | syntax.TypeRef | syntax.ActionElement, what: str = "name"
    ) -> Symbol | None:
        """Return what a name means; report it if it means nothing."""
        symbol = self.scope.meant(node)
        if symbol is None:
            scope, dot = (self.scope.outermost, ".") if node.absolute else (self.scope, "")
            hint = self._place_hint(node) or ("" if what == "value" else _ELSEWHERE.get(node.name, ""))
            hint = hint or include_of(node.name, self.scope.outermost.visible())
            hint = hint or self._owner_hint(node.name, scope)
            hint = hint or (self._value_hint(node.name, scope) if what == "value" else "")
            hint = hint or self._callable_hint(node.name, scope, what)
            is_any = node.name == "_" and not dot
            told = f"unknown {'name' if what == 'value' else what} {dot}{node.name}"
            told = "'_' is no value" if is_any else told
            self.reporter.error(node.at, told, "" if is_any else hint)
        elif self.deprecated and symbol in self.deprecated:
            self.reporter.warning(node.at, f"{node.name} is deprecated: {self.deprecated[symbol]}")
        return symbol

    def _place_hint(self, node: syntax.NameRef | syntax.TypeRef | syntax.ActionElement) -> str:
        """Return where a name is declared that does not count yet: behind this place, or around it."""
        at = (self.declared_at.maps[-1] if node.absolute else self.declared_at).get(node.name)
        if at is None:
            return ""
        if at == self.declaring or (at.source is node.at.source and at < node.at):
            return f"{node.name} is being declared here, and cannot name itself"
        return declared_later(at)

    def _owner_hint(self, name: str, scope: Scope) -> str:
        """Return how to write an error or the member of an enum that stands without its owner, else ""."""
        if name in self.declared.errors:
            return f"write error.{name}"
        for word in sorted(scope.visible()):
            symbol = scope.find(word)
            kind = symbol.type if isinstance(symbol, TypeSymbol) else None
            if isinstance(kind, EnumType) and name in kind.members:
                return f"write {word}.{name}"
        return ""

    def _value_hint(self, name: str, scope: Scope) -> str:
        """Return which value is meant where a type is nearest to a name: the one that has it, if one has."""
        meant = did_you_mean(name, scope.visible()).removeprefix("did you mean ").removesuffix("?")
        symbol = scope.find(meant)
        if not isinstance(symbol, TypeSymbol | ExternSymbol):
            return ""
        kind = symbol.type if isinstance(symbol, TypeSymbol) else ExternType(symbol)
        values = ((word, scope.find(word)) for word in sorted(scope.visible()))
        having = [word for word, found in values if isinstance(found, Variable) and found.type == kind]
        return f"did you mean {having[0]}, which is {meant}?" if len(having) == 1 else ""

    def _callable_hint(self, name: str, scope: Scope, what: str) -> str:
        """Return which name is meant; of what is called, one that can be, or the method of an object."""
        if what != CALLED:
            return did_you_mean(name, scope.visible())
        callable_names = []
        for word in sorted(scope.visible()):
            match scope.find(word):
                case ActionSymbol() | FunctionSymbol():
                    callable_names.append(word)
                case Variable(type=ExternType(symbol=kind)) if name in _methods(kind):
                    return f"{name} is a method of {kind.name}: {word}.{name}(...)"
        if name == "drop" and "mark_to_drop" in callable_names:
            return "write mark_to_drop(...), with the standard metadata"
        return did_you_mean(name, callable_names)

    def chosen_id(self, node: syntax.Declaration | syntax.KeyElement, prefix: int = 0) -> int:
        """Return the number in @id(...), 0 without one.

        `prefix` is what such ids begin with; the program may have written it in the upper 8 bits.
        """
        for annotation in node.annotations:
            if annotation.name != "id":
                continue
            number = literal_value("".join(annotation.tokens), 32)
            if not number:
                self.reporter.error(annotation.at, "@id needs a number above 0, 32 bits at most")
                return 0
            if prefix and (number >> 24 not in (0, prefix) or not number & 0xFFFFFF):
                hint = f"or with its prefix, {prefix << 24 | 1:#x} to {prefix << 24 | 0xFFFFFF:#x}"
                what = f"an @id of {number:#x}; 1 to 0xffffff was expected"
                self.reporter.error(annotation.at, what, hint)
                return 0
            return number & 0xFFFFFF if prefix else number
        return 0

    def distinct(self, noun: str, numbered: Iterable[tuple[Location, int]]) -> None:
        """Check that no two of some things have the same number, 0 apart."""
        seen: set[int] = set()
        for at, number in numbered:
            if number and number in seen:
                self.reporter.error(at, f"two {noun} have the number {number}", "choose another @id")
            seen.add(number)

    @staticmethod
    def shown(value: int) -> str:
        """Return a number for a message, cut if it is long."""
        text = hex(value) if abs(value) >= 1 << 64 else str(value)
        return text if len(text) <= 40 else text[:37] + "..."


class _InnerScope:
    """A scope for a `with`."""

    __slots__ = ("_checker", "_outer")

    def __init__(self, checker: NameChecker) -> None:
        self._checker = checker
        self._outer = checker.scope

    def __enter__(self) -> None:
        self._checker.scope = Scope(self._outer)

    def __exit__(self, *_: object) -> None:
        self._checker.scope = self._outer


def _methods(kind: ExternSymbol) -> set[str]:
    return {method.name for method in kind.declaration.methods}
