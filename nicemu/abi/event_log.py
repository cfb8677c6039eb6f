# SPDX-License-Identifier: Apache-2.0
"""What a process or a NIC has put down of itself, in its own order: one JSON-able event after the other.

Two logs have no order between them but what their events say of each other. `nicemu.testing.check_races` puts
them together; its `races/logs.py` says which events there are.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypeAlias

from nicemu.clock import WallClock

from .span import Span

Event: TypeAlias = dict[str, Any]
_PACKAGE = str(Path(__file__).resolve().parent.parent) + os.sep
_UNSEEN = tuple(_PACKAGE + room + os.sep for room in ("abi", "host", "run", "nic"))


def place() -> str:
    """Return "file:line" of the call that led into nicemu."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to look at one's callers
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if not name.startswith(_UNSEEN) and not name.endswith(f"{os.sep}contextlib.py"):
            break
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


class EventLog:
    """A log of one process or NIC; `write` takes an event as it is.

    The first event says whose log it is: `kind` is "host" or "nic".
    """

    def __init__(self, kind: str, name: str, write: Callable[[Event], object]) -> None:
        self.write = write
        self._clock = WallClock()
        self._streams: dict[int, tuple[object, int]] = {}
        self.add("log", kind=kind, name=name)

    def add(self, what: str, **details: Any) -> None:  # noqa: ANN401 - JSON
        """Put an event down, with the time of this machine."""
        self.write({"what": what, "ns": self._clock.now_ns(), **details})

    def add_here(self, what: str, **details: Any) -> None:  # noqa: ANN401 - JSON
        """Put an event down, with the place of the call that led into nicemu."""
        self.add(what, **details, place=place())

    def stream(self, stream: object) -> int:
        """Return the number of a stream; the same one has the same number."""
        known = self._streams.setdefault(id(stream), (stream, len(self._streams)))
        return known[1]

    def submit(self, stream: object, name: str, reads: Iterable[Span], writes: Iterable[Span]) -> None:
        """Put work down that goes into a stream, with the memory that it is said to touch."""
        touched = [[*_triple(span), "r"] for span in reads] + [[*_triple(span), "w"] for span in writes]
        self.add_here("submit", stream=self.stream(stream), name=name, accesses=touched)

    def synchronize(self, stream: object) -> None:
        """Put down that everything in a stream has been waited for."""
        self.add_here("synchronize", stream=self.stream(stream))


def _triple(span: Span) -> list[int]:
    return [span.address, span.length_bytes, span.key]


def file_writer(path: Path) -> Callable[[Event], object]:
    """Return what appends events to a file, a line each, whole lines at once."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    return lambda event: os.write(fd, json.dumps(event).encode() + b"\n")
