# SPDX-License-Identifier: Apache-2.0
"""Errors that a client is told: of what it sent, and of what failed while it was served."""

from __future__ import annotations

import logging
from collections.abc import Callable

from nicemu.errors import ControlError, NicemuError, P4RuntimeCode


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
    logging.getLogger(__name__).error("fault while serving a client", exc_info=error)
    return ControlError(P4RuntimeCode.INTERNAL, "the server failed; its log has the reason")


def illegal(sentence: str) -> ControlError:
    """Return the error for a message that means nothing."""
    return ControlError(P4RuntimeCode.INVALID_ARGUMENT, sentence)


def unimplemented(sentence: str) -> ControlError:
    """Return the error for what the specification has and this server has not."""
    return ControlError(P4RuntimeCode.UNIMPLEMENTED, sentence)
