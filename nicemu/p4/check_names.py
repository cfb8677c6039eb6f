# SPDX-License-Identifier: Apache-2.0
"""Resolves names: scopes, what the whole program declares, and the architecture that it is for."""

from __future__ import annotations

from dataclasses import dataclass, field

from nicemu.pipeline import ARCHITECTURES, Architecture

from .diagnostics import Location, Reporter, did_you_mean
from .symbols import ErrorList, Scope, Symbol
from .types import CompositeType


@dataclass(slots=True)
class Declared:
    """What the whole program declares, in order."""

    composites: list[CompositeType] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    match_kinds: list[str] = field(default_factory=list)


class NameChecker:
    """Scopes, and what the architecture is; types come in the subclass."""

    def __init__(self, reporter: Reporter) -> None:
        self.reporter = reporter
        self.declared = Declared()
        self.scope = Scope()
        self.scope.names["error"] = ErrorList()
        self.architecture: Architecture = next(iter(ARCHITECTURES.values()))

    # Scopes

    def inner_scope(self) -> _InnerScope:
        """Names declared inside are forgotten at the end."""
        return _InnerScope(self)

    def declare(self, name: str, symbol: Symbol, at: Location) -> None:
        """Give a name its meaning in the present scope; twice is an error."""
        if name in self.scope.names:
            self.reporter.error(at, f"{name} is declared twice in the same scope", "choose another name")
        self.scope.names[name] = symbol

    def find(self, name: str, at: Location, what: str = "name") -> Symbol | None:
        """Return what a name means; report it if it means nothing."""
        symbol = self.scope.find(name)
        if symbol is None:
            self.reporter.error(at, f"unknown {what} {name}", did_you_mean(name, self.scope.visible()))
        return symbol

    @staticmethod
    def shown(value: int) -> str:
        """Return a number for a message, cut if it is long."""
        text = hex(value) if abs(value) >= 1 << 64 else str(value)
        return text if len(text) <= 40 else text[:37] + "..."


class _InnerScope:
    """A scope for a `with`."""

    __slots__ = ("_checker",)

    def __init__(self, checker: NameChecker) -> None:
        self._checker = checker

    def __enter__(self) -> None:
        self._checker.scope = Scope(self._checker.scope)

    def __exit__(self, *_: object) -> None:
        outer = self._checker.scope.parent
        assert outer is not None
        self._checker.scope = outer
