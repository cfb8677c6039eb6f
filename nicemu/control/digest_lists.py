# SPDX-License-Identifier: Apache-2.0
"""Digests on their way to the controller: gathered into lists, and not told again before they are
acknowledged.

No I/O and no clock: every call is given the time and returns the lists to send.
Source: P4Runtime Specification 1.4, "DigestEntry".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice

from nicemu.pipeline import DigestConfig, DigestPosted, DigestReport

MAX_LIST = 1_000
"""Digests in one list, where the controller names no smaller limit."""
MAX_UNACKNOWLEDGED = 100_000
"""Digests of one name that wait for their acknowledgement; with more, the oldest lists are forgotten."""


@dataclass(frozen=True, slots=True)
class DigestList:
    """Digests of one name, all different."""

    name: str
    id: int
    digests: tuple[DigestPosted, ...]


@dataclass(slots=True, eq=False)
class _Waiting:
    """What is known of one name: digests that wait to be sent, since when, and those sent, by list."""

    config: DigestConfig = field(default_factory=DigestConfig)
    gathered: dict[DigestPosted, None] = field(default_factory=dict)
    since_ns: int = 0
    sent: dict[int, tuple[int, frozenset[DigestPosted]]] = field(default_factory=dict)
    unacknowledged: dict[DigestPosted, int] = field(default_factory=dict)

    @property
    def limit(self) -> int:
        """How many digests a list has at most."""
        return min(self.config.max_list_size or MAX_LIST, MAX_LIST)

    @property
    def deadline_ns(self) -> int:
        """When the digests that wait are to be sent, whatever comes: at once if they fill a list."""
        return self.since_ns + (0 if len(self.gathered) >= self.limit else self.config.max_timeout_ns)


class DigestLists:
    """The lists of every name. Callers serialise the calls."""

    def __init__(self) -> None:
        self._names: dict[str, _Waiting] = {}
        self._last_id = 0

    def post(self, report: DigestReport, now_ns: int) -> list[DigestList]:
        """Take a digest; return the list that it completes."""
        digest = report.digest
        waiting = self._names.setdefault(digest.name, _Waiting())
        waiting.config = report.config
        self._expire(waiting, now_ns)
        if digest in waiting.gathered or digest in waiting.unacknowledged:
            return []
        if not waiting.gathered:
            waiting.since_ns = now_ns
        waiting.gathered[digest] = None
        return self._due(digest.name, waiting, now_ns)

    def due(self, now_ns: int) -> list[DigestList]:
        """Return the lists whose time has come, and forget what was sent long enough ago."""
        lists = []
        for name, waiting in self._names.items():
            self._expire(waiting, now_ns)
            lists += self._due(name, waiting, now_ns)
        return lists

    def waiting(self) -> list[DigestList]:
        """Return the digests of each name that are yet to be sent, as lists without a number."""
        return [DigestList(name, 0, tuple(waiting.gathered)) for name, waiting in self._names.items()]

    def next_deadline_ns(self) -> int | None:
        """Return when `due` has something to send; None if nothing waits."""
        return min(
            (waiting.deadline_ns for waiting in self._names.values() if waiting.gathered), default=None
        )

    def acknowledge(self, name: str, list_id: int) -> bool:
        """Note that the controller has a list; its digests are told again. Unknown lists return False."""
        waiting = self._names.get(name)
        if waiting is None or list_id not in waiting.sent:
            return False
        self._forget(waiting, list_id)
        return True

    def configure(self, name: str, config: DigestConfig) -> None:
        """Send what waits of a name in another way; `due` says what is to be sent now."""
        if name in self._names:
            self._names[name].config = config

    def stop(self, name: str) -> None:
        """Send no more of a name until it is posted anew."""
        self._names.pop(name, None)

    def clear(self) -> None:
        """Forget everything but the number of the last list."""
        self._names.clear()

    def _due(self, name: str, waiting: _Waiting, now_ns: int) -> list[DigestList]:
        lists = []
        while waiting.gathered and now_ns >= waiting.deadline_ns:
            lists.append(self._send(name, waiting, now_ns))
        return lists

    def _send(self, name: str, waiting: _Waiting, now_ns: int) -> DigestList:
        self._last_id += 1
        digests = tuple(islice(waiting.gathered, waiting.limit))
        for digest in digests:
            del waiting.gathered[digest]
        if waiting.config.ack_timeout_ns:
            waiting.sent[self._last_id] = (now_ns, frozenset(digests))
            waiting.unacknowledged.update(dict.fromkeys(digests, self._last_id))
            while len(waiting.unacknowledged) > MAX_UNACKNOWLEDGED:
                self._forget(waiting, next(iter(waiting.sent)))
        return DigestList(name, self._last_id, digests)

    def _expire(self, waiting: _Waiting, now_ns: int) -> None:
        while waiting.sent:
            list_id, (sent_ns, _) = next(iter(waiting.sent.items()))
            if now_ns - sent_ns < waiting.config.ack_timeout_ns:
                return
            self._forget(waiting, list_id)

    def _forget(self, waiting: _Waiting, list_id: int) -> None:
        _, digests = waiting.sent.pop(list_id)
        for digest in digests:
            del waiting.unacknowledged[digest]
