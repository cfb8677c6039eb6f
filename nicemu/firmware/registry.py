# SPDX-License-Identifier: Apache-2.0
"""The handlers of a script, and the decorators that register them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, TypeVar

from nicemu.errors import UsageError

from .events import Connection
from .nic_api import Nic

Handler = Callable[..., Coroutine[Any, Any, None]]
DecoratedHandler = TypeVar("DecoratedHandler", bound=Handler)
DecoratedFunction = TypeVar("DecoratedFunction", bound=Callable[..., Any])


@dataclass(slots=True)
class Registry:
    """The handlers of one script, and its functions and classes with `@extern`."""

    events: dict[str, Handler] = field(default_factory=dict)
    triggers: dict[str, Handler] = field(default_factory=dict)
    arrival: Handler | None = None
    start: Handler | None = None
    connect: Callable[[Nic, Connection], dict[str, int]] | None = None
    disconnect: Callable[[Nic, int], None] | None = None
    externs: list[Callable[..., Any]] = field(default_factory=list)

    def names(self) -> list[str]:
        """Name what the script handles."""
        hooks = {"arrival": self.arrival, "start": self.start, "connect": self.connect}
        return (
            sorted(self.events)
            + sorted(self.triggers)
            + [name for name, hook in hooks.items() if hook is not None]
            + [thing.__name__ for thing in self.externs]
        )


_loading: ContextVar[Registry] = ContextVar("registry a script is being loaded into")


def loading_into(registry: Registry) -> None:
    """Let the decorators fill `registry`; called in a context of its own by the loader."""
    _loading.set(registry)


def _registry() -> Registry:
    registry = _loading.get(None)
    if registry is None:
        raise UsageError("firmware is loaded with `nicemu flash PATH`, not imported or run as a script")
    return registry


def _checked(decorator: str, function: Callable[..., Any], *, is_coroutine: bool) -> None:
    if inspect.iscoroutinefunction(function) is not is_coroutine:
        wanted = "a coroutine: write `async def`" if is_coroutine else "a plain function: write `def`"
        raise UsageError(f"@{decorator} takes {wanted} {getattr(function, '__name__', function)}")


def on_event(name: str) -> Callable[[DecoratedHandler], DecoratedHandler]:
    """Register a coroutine `(nic, event)` for events that the match-action program posts under `name`."""

    def register(handler: DecoratedHandler) -> DecoratedHandler:
        registry = _registry()
        _checked("on_event", handler, is_coroutine=True)
        registry.events[name] = handler
        return handler

    return register


def on_trigger(name: str) -> Callable[[DecoratedHandler], DecoratedHandler]:
    """Register a coroutine `(nic, event)` for deferred events that host processes arm under `name`.

    `event["value"]` is what the process armed, `event["counter"]` the counter that fired it.
    """

    def register(handler: DecoratedHandler) -> DecoratedHandler:
        registry = _registry()
        _checked("on_trigger", handler, is_coroutine=True)
        registry.triggers[name] = handler
        return handler

    return register


def on_arrival(handler: DecoratedHandler) -> DecoratedHandler:
    """Register a coroutine `(nic, arrival)` for operations of connected peers."""
    registry = _registry()
    _checked("on_arrival", handler, is_coroutine=True)
    registry.arrival = handler
    return handler


def on_start(handler: DecoratedHandler) -> DecoratedHandler:
    """Register a coroutine `(nic)` that runs before anything else does."""
    registry = _registry()
    _checked("on_start", handler, is_coroutine=True)
    registry.start = handler
    return handler


def on_connect(function: DecoratedFunction) -> DecoratedFunction:
    """Register a function `(nic, connection) -> private data` that grants a peer what it may use."""
    registry = _registry()
    _checked("on_connect", function, is_coroutine=False)
    registry.connect = function
    return function


def on_disconnect(function: DecoratedFunction) -> DecoratedFunction:
    """Register a function `(nic, qp_num)` that takes back what `on_connect` granted."""
    registry = _registry()
    _checked("on_disconnect", function, is_coroutine=False)
    registry.disconnect = function
    return function
