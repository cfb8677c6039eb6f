# SPDX-License-Identifier: Apache-2.0
"""Logs written by hand: a host and a NIC whose events come at the times at which they are written."""

from __future__ import annotations

from itertools import count
from typing import Any

from nicemu.abi import Event
from nicemu.testing import RaceReport, check_races

BASE = 0x1000


class HandMade:
    """A host at NIC "here" with counters 1 ("go") and 2 ("done") and memory of 64 bytes at BASE, key 7."""

    def __init__(self) -> None:
        self._now = count(1)
        self.host: list[Event] = [{"what": "log", "ns": 0, "kind": "host", "name": "host"}]
        self.nic: list[Event] = [{"what": "log", "ns": 0, "kind": "nic", "name": "here"}]
        self.on_nic("open", owner=1, opened=1)
        self.on_host("open", nic="here", owner=1, opened=1)
        for number, name in ((1, "go"), (2, "done")):
            self.on_nic("counter", counter=number, name=name)
        operands = {"address": BASE, "length_bytes": 64}
        self.on_host("reply", nic="here", operation="register", operands=operands, reply={"key": 7})
        self.on_nic("pair", qp=1, peer="there", remote_qp=1, owner=1)
        self._commands = 0

    def on_host(self, what: str, **details: Any) -> None:  # noqa: ANN401
        """Let the host put something down."""
        place = f"program.py:{len(self.host)}"
        self.host.append({"what": what, "ns": next(self._now), "place": place, **details})

    def on_nic(self, what: str, **details: Any) -> None:  # noqa: ANN401
        """Let the NIC put something down."""
        self.nic.append({"what": what, "ns": next(self._now), **details})

    def access(self, mode: str, first: int = 0, length: int = 64) -> None:
        """The host reads or writes."""
        self.on_host("access", nic="here", mode=mode, address=BASE + first, length_bytes=length)

    def command(self, code: str, *words: int) -> int:
        """The host gives a command; return its number."""
        self._commands += 1
        self.on_host("command", nic="here", opened=1, number=self._commands, code=code, words=list(words))
        return self._commands

    def arm(self, *sequences: int, first: int = 0, length: int = 64) -> None:
        """The host arms operations on counter 1."""
        number = self.command("ARM", 0, len(sequences))
        pieces = [[[BASE + first, length, 7]]] * len(sequences)
        triggers = [1] * len(sequences)
        told = {"nic": "here", "opened": 1, "number": number, "sequences": list(sequences)}
        self.on_host("armed", **told, pieces=pieces, triggers=triggers)

    def count(self, counter: int, success: int, source: str, *operands: int, errors: int = 0) -> None:
        """A counter has changed."""
        padded = [*operands, 0, 0, 0][:3]
        told = {"counter": counter, "success": success, "errors": errors}
        self.on_nic("count", **told, source=source, operands=padded)

    def add(self, success: int) -> None:
        """The host counts at counter 1, which has `success` then."""
        number = self.command("COUNTER_ADD", 1, 1, 0)
        self.count(1, success, "command", 1, number, 1)

    def fire(self, sequence: int, threshold: int = 1, opcode: str = "RDMA_WRITE", **other: Any) -> None:  # noqa: ANN401
        """An operation fires."""
        record = {
            "sequence": sequence, "owner": 1, "opcode": opcode, "qp": 1, "pieces": [[BASE, 64, 7]],
            "trigger": 1, "threshold": threshold, "completion": 2, "window": 0, "rkey": 3, "imm_data": 0,
            "remote": 0x9000 + 64 * sequence, "posted": False,
        }  # fmt: skip
        self.on_nic("fire", **{**record, **other})

    def end(self, sequence: int, success: int, status: int = 0) -> None:
        """An operation ends, and counter 2 has `success` then."""
        self.on_nic("end", sequence=sequence, status=status)
        self.count(2, success, "end", sequence)

    def seen(self, counter: int, success: int, errors: int = 0) -> None:
        """The host has seen a counter."""
        self.on_host("seen", nic="here", counter=counter, success=success, errors=errors)

    def ring(self, total: int, stream: int = 0, cell: int = 1) -> None:
        """A doorbell is put into a stream."""
        self.on_host("ring", stream=stream, nic="here", opened=1, cell=cell, counter=1, total=total)

    def submit(self, mode: str, stream: int = 0, first: int = 0, length: int = 64) -> None:
        """A kernel is put into a stream."""
        self.on_host("submit", stream=stream, name="kernel", accesses=[[BASE + first, length, 7, mode]])

    def report(self) -> RaceReport:
        """What is found."""
        return check_races([self.host, self.nic])

    def kinds(self) -> list[str]:
        """The kinds of what is found."""
        report = self.report()
        assert report.contradictions == 0
        return [race.kind.name.lower() for race in report.races]
