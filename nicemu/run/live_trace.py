# SPDX-License-Identifier: Apache-2.0
"""Traces NICs that are up: from now until something has happened."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nicemu.errors import NicemuError, UsageError

from .messages import receive, send
from .running import ANSWER_TIMEOUT_S, RunningNic
from .trace import write_trace

WRITING_TIMEOUT_S = 60.0


def trace_nics(nics: Sequence[RunningNic], path: Path, until: Callable[[], None]) -> dict[str, int]:
    """Trace `nics` until `until` returns, and write `path`; return how many events there are of each NIC.

    A NIC that ends meanwhile has none; the others are written all the same. What came after the first
    million of a NIC is missing, and counted in its "statistics".

    Raises: UsageError if nothing can be written there, NicemuError if a NIC cannot be traced. Nothing is
    traced then.
    """
    try:
        path.open("ab").close()
    except OSError as error:
        raise UsageError(f"{path}: no trace can be written there ({error.strerror})") from error
    with ExitStack() as stack:
        links = {nic.name: stack.enter_context(_begin(nic)) for nic in nics}
        until()
        events = {name: _end(link) for name, link in links.items()}
    write_trace(path, [event for of_one in events.values() for event in of_one])
    return {name: len(of_one) for name, of_one in events.items()}


def _begin(nic: RunningNic) -> socket.socket:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        link.settimeout(ANSWER_TIMEOUT_S)
        link.connect(str(nic.socket))
        send(link, {"op": "trace"})
        answer = receive(link)
        if answer is None or "error" in answer[0]:
            raise NicemuError(f"{nic.name} has ended" if answer is None else str(answer[0]["error"]))
    except OSError as error:
        link.close()
        raise NicemuError(f"{nic.name} does not answer: {error}") from error
    except NicemuError:
        link.close()
        raise
    return link


def _end(link: socket.socket) -> list[dict[str, Any]]:
    """Return the events of a NIC; none if it has ended."""
    try:
        link.settimeout(WRITING_TIMEOUT_S)
        send(link, {"op": "end trace"})
        answer = receive(link)
    except OSError:
        return []
    if answer is None or not answer[1]:
        return []
    with open(answer[1][0], encoding="utf-8") as file:
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        events: list[dict[str, Any]] = json.load(file)
    return events
