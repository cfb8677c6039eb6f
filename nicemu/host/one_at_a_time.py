# SPDX-License-Identifier: Apache-2.0
"""Methods that one thread at a time may be in."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar


class _HasLock(Protocol):
    lock: threading.RLock


_Self = TypeVar("_Self", bound=_HasLock)
_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def one_at_a_time(
    method: Callable[Concatenate[_Self, _Given], _Result],
) -> Callable[Concatenate[_Self, _Given], _Result]:
    """Let the thread that calls `method` have `self.lock` meanwhile."""

    @wraps(method)
    def alone(self: _Self, /, *operands: _Given.args, **named: _Given.kwargs) -> _Result:
        with self.lock:
            return method(self, *operands, **named)

    return alone
