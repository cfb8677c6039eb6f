# SPDX-License-Identifier: Apache-2.0
"""Changes of a pipeline's state, and questions about it.

An entity's file turns messages into these; nothing of P4Runtime is left in them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from nicemu.errors import ControlError
from nicemu.pipeline import Engine

from .messages import Message

Outcomes: TypeAlias = list[ControlError | None]
"""What became of each part of a batch; None is success."""
Undo: TypeAlias = Callable[[], None]


class Change(Protocol):
    """One update of a batch, understood."""

    def apply(self, engine: Engine) -> None:
        """Make the change. Raises: ControlError, and nothing has changed."""

    def remember(self, engine: Engine) -> Undo:
        """Return what takes the change back; asked before it is made."""


@dataclass(frozen=True, slots=True)
class Query:
    """One entity of a ReadRequest: what to take from the engine, and the entities to make of that.

    `weigh` says how much that is, in entries and places that were looked at.
    """

    take: Callable[[Engine], Any]
    render: Callable[[Any], Iterator[Message]]
    weigh: Callable[[Any], int] = len
