# SPDX-License-Identifier: Apache-2.0
"""Changes of a pipeline's state, and questions about it.

An entity's file turns messages into these; nothing of P4Runtime is left in them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from nicemu.errors import ControlError, NicemuError, P4RuntimeCode
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


def guarded(perform: Callable[..., object], *operands: object) -> ControlError | None:
    """Do one part of a batch; return its error, whatever it is."""
    try:
        perform(*operands)
    except Exception as error:
        return refusal(error)
    return None


def refusal(error: Exception) -> ControlError:
    """Return what a client is told of an exception; what is nobody's error goes to the log."""
    if isinstance(error, ControlError):
        return error.with_traceback(None)  # a batch may keep thousands, and would their frames
    if isinstance(error, NicemuError):
        return ControlError(P4RuntimeCode.INVALID_ARGUMENT, str(error))
    logging.getLogger(__name__).error("fault while serving one part of a batch", exc_info=error)
    return ControlError(P4RuntimeCode.INTERNAL, "the server failed; its log has the reason")


def illegal(sentence: str) -> ControlError:
    """Return the error for a message that means nothing."""
    return ControlError(P4RuntimeCode.INVALID_ARGUMENT, sentence)


def unimplemented(sentence: str) -> ControlError:
    """Return the error for what the specification has and this server has not."""
    return ControlError(P4RuntimeCode.UNIMPLEMENTED, sentence)
