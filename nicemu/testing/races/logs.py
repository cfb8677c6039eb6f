# SPDX-License-Identifier: Apache-2.0
"""The logs that hosts and NICs leave, and what stands in them.

A log is a list of JSON-able events in the order of its process or NIC. Every event has `what` and `ns`, the
machine's monotonic time; those of a host have the `place` of the call, "file:line". The first is
`log` (kind "host" or "nic", name).

Of a host: `open` (nic, owner, opened), `close`, `share`, `request` and `reply` (nic, operation, operands,
reply), `access` (nic, mode, address, length_bytes), `submit` (stream, name, accesses), `synchronize`,
`ring` (stream, nic, opened, cell, counter, total), `wait_on` (stream, nic, counter, success), `command` (nic,
opened, number, code, words), `armed` (of a command: sequences, pieces, triggers), `program` (name, steps,
sequences or window), `window`, `receive` (qp, piece), `seen` (nic, counter, success, errors), `completion`
(nic, cq, tail), `packet`.

Of a NIC: `open`, `close`, `counter` (counter, name), `follow` (place, address, counter), `pair` (qp, peer,
remote_qp, owner), `count` (counter, success, errors, source, operands), `fire` (the record), `end` (sequence,
status), `entry` (cq, tail, source, sequence), `arrival` (qp, opcode, imm_data, bytes, consumed), `lost`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from nicemu.abi import Event
from nicemu.errors import UsageError

MAX_EVENTS = 20_000
"""What is put together at most; later events are left out."""


class HasLogs(Protocol):
    """What has run with `check_races`, such as a simulation."""

    @property
    def logs(self) -> list[list[Event]]:
        """A log a process and a NIC."""


@dataclass(slots=True)
class Logs:
    """The logs of a world. `lost`: events that NICs had no room for. `cut`: events left out here."""

    hosts: list[list[Event]] = field(default_factory=list)
    nics: dict[str, list[Event]] = field(default_factory=dict)
    lost: int = 0
    cut: int = 0

    @classmethod
    def of(cls, logs: Sequence[Sequence[Event]], limit: int = MAX_EVENTS) -> Logs:
        """Sort logs by whose they are; only the first `limit` events of all together are kept."""
        made = cls()
        times = sorted(event["ns"] for log in logs for event in log)
        made.cut = max(0, len(times) - limit)
        last_ns = times[limit - 1] if made.cut else float("inf")
        for log in logs:
            if not log or log[0]["what"] != "log":
                raise UsageError("a log begins with whose it is; was this left by --check-races?")
            kept = [event for event in log[1:] if event["ns"] <= last_ns]
            made.lost += sum(event["count"] for event in kept if event["what"] == "lost")
            if log[0]["kind"] == "nic":
                made.nics.setdefault(log[0]["name"], []).extend(kept)
            else:
                made.hosts.append(kept)
        return made


def read_logs(folder: Path, until_ns: int | None = None) -> list[list[Event]]:
    """Return the logs in the folder of a topology that is up with `--check-races`.

    A line that is being written is left out, and what happened after `until_ns`: where programs still run,
    one log may be further than another one. Raises: UsageError if there are none.
    """
    logs = []
    for path in sorted(folder.glob("*.events")):
        lines = path.read_bytes().split(b"\n")[:-1]
        if lines:
            events = (json.loads(line) for line in lines)
            logs.append([event for event in events if until_ns is None or event["ns"] <= until_ns])
    if not logs:
        raise UsageError(f"{folder.name} checks no races; start it with `nicemu up TOPOLOGY --check-races`")
    return logs
