# SPDX-License-Identifier: Apache-2.0
"""What every block did and when, as a trace that Perfetto opens (Trace Event Format, JSON).

Each NIC process writes a part; `merge_traces` puts the parts of a topology together.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

from nicemu.errors import NicemuError, UsageError

MAX_EVENTS = 1_000_000


class TraceWriter:
    """Collects events of one NIC: a row for each block, times in microseconds.

    It takes at most a million; how many came after them stands in the last one, "statistics". `number`: of
    the NIC, where several are one process's.
    """

    def __init__(self, name: str, number: int | None = None) -> None:
        self._pid = os.getpid() if number is None else number
        self._rows: dict[str, int] = {}
        self._spans = 0
        self._open: dict[str, deque[int]] = {}
        self._tags: set[int] = set()
        self._missed = 0
        self._events: list[dict[str, Any]] = [
            {"name": "process_name", "ph": "M", "pid": self._pid, "tid": 0, "args": {"name": name}}
        ]

    def _row(self, block: str) -> int:
        if block not in self._rows:
            self._rows[block] = len(self._rows) + 1
            self._events.append(
                {
                    "name": "thread_name",
                    "ph": "M",
                    "pid": self._pid,
                    "tid": self._rows[block],
                    "args": {"name": block},
                }
            )
        return self._rows[block]

    def observer(self, now: Callable[[], int]) -> Callable[[str, str, dict[str, Any]], None]:
        """Return what a device calls for each thing it does."""

        def observe(block: str, what: str, details: dict[str, Any]) -> None:
            if len(self._events) < MAX_EVENTS:
                self._events.append(self._event(block, what, details, now() / 1000))
            else:
                self._missed += 1

        return observe

    def _event(self, block: str, what: str, details: dict[str, Any], now_us: float) -> dict[str, Any]:
        """Return an instant, or one end of a span: a firmware task, a block I/O."""
        event = {"name": what, "ts": now_us, "pid": self._pid, "tid": self._row(block), "args": details}
        if block == "firmware" and what in ("start", "end"):
            task = str(details["task"])
            if what == "start":
                self._spans += 1
                self._open.setdefault(task, deque()).append(self._spans)
                return event | {"name": task, "cat": block, "ph": "b", "id": self._spans}
            if self._open.get(task):  # tasks of one name are told apart by their order alone
                return event | {"name": task, "cat": block, "ph": "e", "id": self._open[task].popleft()}
        if block == "nvme" and "tag" in details:
            tag = int(details["tag"])
            span = event | {"name": "block I/O", "cat": block, "id": tag}
            if what != "done":
                self._tags.add(tag)
                return span | {"ph": "b"}
            if tag in self._tags:  # not one of before the trace
                self._tags.remove(tag)
                return span | {"ph": "e"}
        return event | {"ph": "i", "s": "t"}

    def finish(self, statistics: dict[str, int], now_ns: int) -> list[dict[str, Any]]:
        """Return all events, the last one with the NIC's final counts."""
        missed = {"trace.missed": self._missed} if self._missed else {}
        last = {"name": "statistics", "ph": "i", "s": "p", "ts": now_ns / 1000, "pid": self._pid, "tid": 0}
        return [*self._events, last | {"args": statistics | missed}]


def check_recordings(pcap: Path | None, trace: Path | None) -> None:
    """Refuse places where no captures or no trace can be written. Raises: UsageError."""
    try:
        if trace is not None:
            tempfile.TemporaryFile(dir=trace.parent).close()
            if trace.exists():
                trace.open("ab").close()
    except OSError as error:
        raise UsageError(f"--trace {trace}: no trace can be written there ({error.strerror})") from error
    try:
        if pcap is not None:
            pcap.mkdir(parents=True, exist_ok=True)
            tempfile.TemporaryFile(dir=pcap).close()
    except OSError as error:
        raise UsageError(f"--pcap {pcap}: no captures can be written there ({error.strerror})") from error


def write_part(path: Path, name: str, events: list[dict[str, Any]]) -> None:
    """Write what one NIC saw beside `path`, for `merge_traces`."""
    path.with_name(f"{path.name}.{name}.part").write_text(json.dumps(events), encoding="utf-8")


def write_trace(path: Path, events: list[dict[str, Any]]) -> None:
    """Write a whole trace. Raises: OSError."""
    path.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ns"}), encoding="utf-8")


def merge_traces(path: Path) -> int:
    """Put the parts that NIC processes left beside `path` into it; return how many events it has.

    Raises: NicemuError for what cannot be read or written, after doing what can be done.
    """
    events: list[dict[str, Any]] = []
    faults: list[str] = []
    for part in sorted(path.parent.glob(f"{path.name}.*.part")):
        try:
            events.extend(json.loads(part.read_text(encoding="utf-8")))
            part.unlink()
        except (OSError, ValueError) as error:
            faults.append(f"{part.name}: {_reason(error)}")
    try:
        write_trace(path, events)
    except OSError as error:
        faults.append(_reason(error))
    if faults:
        raise NicemuError(f"the trace {path} is not whole: {'; '.join(faults)}")
    return len(events)


def _reason(error: OSError | ValueError) -> str:
    return str(error.strerror if isinstance(error, OSError) else error)
