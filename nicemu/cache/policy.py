# SPDX-License-Identifier: Apache-2.0
"""What an eviction policy is: it is told what happens to entries, and says which may go.

A policy holds no entry and does no I/O: keys are whatever the cache calls its entries by, as block hashes;
time is passed in, in nanoseconds of any clock; nothing is drawn by chance. One policy looks after one tier. A
call is O(1) or O(log n) in the entries, and `victims` so for each that it names.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Generator, Hashable
from contextlib import closing
from dataclasses import dataclass
from typing import ClassVar

from nicemu.arguments import check_whole
from nicemu.errors import UsageError

MOST_BYTES = 1 << 60


@dataclass(frozen=True, slots=True)
class Hint:
    """What somebody who may know says of an entry. It may be wrong; policies that heed it must bear that.

    `finished`: nobody will use it again. `expected_ns`: when it will be used next. `pinned`: it shall stay.
    """

    finished: bool = False
    expected_ns: int | None = None
    pinned: bool = False


@dataclass(slots=True)
class Record:
    """What a policy knows of an entry; it goes along when the entry moves to another tier."""

    length_bytes: int
    used_ns: int
    uses: int = 1
    hint: Hint | None = None
    held: bool = False

    def use(self, now_ns: int) -> None:
        """Count a use."""
        self.uses += 1
        self.used_ns = now_ns


class Policy(ABC):
    """Which entries of a tier may go, and in which order.

    An entry is evictable unless it is held, which it is while somebody reads or writes it. Calls that name
    a key that is not there, or insert one that is, raise UsageError and change nothing.
    """

    name: ClassVar[str]
    heeds_pins: ClassVar[bool] = False
    heeds_hints: ClassVar[bool] = False
    """Whether the order is by what was said, too."""

    def __init__(self) -> None:
        self._records: dict[Hashable, Record] = {}
        self._evictable_bytes = 0

    def __contains__(self, key: Hashable) -> bool:
        return key in self._records

    def __len__(self) -> int:
        return len(self._records)

    @property
    def evictable_bytes(self) -> int:
        """The bytes of all entries that may go."""
        return self._evictable_bytes

    def admits(self, key: Hashable, length_bytes: int, now_ns: int, hint: Hint | None = None) -> bool:
        """Return whether an entry is worth a place at all."""
        return True

    def inserted(self, key: Hashable, length_bytes: int, now_ns: int, hint: Hint | None = None) -> None:
        """Hear that a new entry is there. Raises: UsageError if it was there, or has no length."""
        check_whole("length_bytes", length_bytes, 1, MOST_BYTES)
        self.adopted(key, Record(length_bytes, now_ns, 1, hint), now_ns)

    def adopted(self, key: Hashable, record: Record, now_ns: int) -> None:
        """Hear that an entry has come from another tier, with what was known of it there."""
        if key in self._records:
            raise UsageError(f"{key!r} is in the cache already; touch it, or remove it first")
        self._records[key] = record
        self._put(key, record)

    def touched(self, key: Hashable, now_ns: int) -> None:
        """Hear that an entry was used."""
        record = self._record(key)
        self._take(key, record)
        record.use(now_ns)
        self._put(key, record)

    def hinted(self, key: Hashable, hint: Hint | None) -> None:
        """Hear what somebody says of an entry; it replaces what was said before, and is no use of it."""
        record = self._record(key)
        pinned = hint is not None and hint.pinned
        if self.heeds_hints or (self.heeds_pins and pinned != self._pinned(record)):
            self._take(key, record)
            record.hint = hint
            self._put(key, record)
        else:
            record.hint = hint

    def held(self, key: Hashable) -> None:
        """Hear that an entry is in use, and may not go until it is released."""
        record = self._record(key)
        if record.held:
            raise UsageError(f"{key!r} is held already; count holders outside")
        self._take(key, record)
        record.held = True

    def released(self, key: Hashable, now_ns: int, hint: Hint | None = None) -> None:
        """Hear that an entry is in use no more. A hint replaces what was said before; None leaves it."""
        record = self._record(key)
        if not record.held:
            raise UsageError(f"{key!r} is released, and was not held")
        record.held, record.used_ns = False, now_ns
        record.hint = hint if hint is not None else record.hint
        self._put(key, record)

    def removed(self, key: Hashable, now_ns: int, *, reused: bool = False) -> Record:
        """Hear that an entry is gone, and return what was known of it, to be adopted elsewhere.

        `reused`: it left because it was used, for a faster tier, and not to make room.
        """
        record = self._record(key)
        self._take(key, record)
        del self._records[key]
        return record

    def victims(self, wanted_bytes: int, now_ns: int) -> list[Hashable]:
        """Return which entries should go, in order, so that so many bytes come free, and no more of them.

        Empty if all evictable entries are not enough. They are still there until `removed` says otherwise.
        """
        if not 0 < wanted_bytes <= self._evictable_bytes:
            return []
        found, found_bytes = [], 0
        with closing(self._in_order(now_ns)) as order:
            for key in order:
                found.append(key)
                found_bytes += self._records[key].length_bytes
                if found_bytes >= wanted_bytes:
                    break
        return found

    def is_pinned(self, key: Hashable) -> bool:
        """Return whether an entry stays because of a hint."""
        return self._pinned(self._record(key))

    def record(self, key: Hashable) -> Record:
        """Return what is known of an entry, to be read. Raises: UsageError if it is not there."""
        return self._record(key)

    def _record(self, key: Hashable) -> Record:
        try:
            return self._records[key]
        except KeyError:
            raise UsageError(f"{key!r} is not in the cache") from None

    def _pinned(self, record: Record) -> bool:
        return self.heeds_pins and record.hint is not None and record.hint.pinned

    def _stays(self, record: Record) -> bool:
        return record.held or self._pinned(record)

    def _put(self, key: Hashable, record: Record) -> None:
        if not self._stays(record):
            self._evictable_bytes += record.length_bytes
            self._enter(key, record)

    def _take(self, key: Hashable, record: Record) -> None:
        if not self._stays(record):
            self._evictable_bytes -= record.length_bytes
            self._leave(key, record)

    @abstractmethod
    def _enter(self, key: Hashable, record: Record) -> None:
        """Put an entry into the order."""

    @abstractmethod
    def _leave(self, key: Hashable, record: Record) -> None:
        """Take an entry out of the order, by the record that it was put in with."""

    @abstractmethod
    def _in_order(self, now_ns: int) -> Generator[Hashable, None, None]:
        """Yield evictable entries, the first to go first; closed before anything changes."""
