# SPDX-License-Identifier: Apache-2.0
"""A cache in tiers, the fastest first: what is evicted moves down, what is used comes up, exact to the byte.

An entry is in one tier. Requests acquire the entries that their prompt begins with, and room in the first
tier for what they will add; they fill entries into that room, and release all. What is held never moves.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nicemu.arguments import check_whole
from nicemu.errors import UsageError

from .policy import MOST_BYTES, Hint, Policy, Record


@dataclass(eq=False, slots=True)
class Tier:
    """Memory; `used_bytes` are those of its entries, `reserved_bytes` are promised to requests."""

    name: str
    capacity_bytes: int
    policy: Policy
    used_bytes: int = 0
    reserved_bytes: int = 0
    received_bytes: int = 0
    """What came down into it, in all."""

    @property
    def free_bytes(self) -> int:
        """What nobody uses or was promised."""
        return self.capacity_bytes - self.used_bytes - self.reserved_bytes


@dataclass(eq=False, slots=True)
class _Entry:
    tier: int
    length_bytes: int
    holders: int = 0


class TieredCache:
    """Entries in tiers, each tier with a policy of its own. Keys are hashable, lengths in bytes.

    Raises: UsageError if there is no tier, two share a name or policy, or a capacity is none.
    """

    def __init__(self, tiers: Sequence[Tier]) -> None:
        if not tiers:
            raise UsageError("a cache has one tier at least")
        if len({tier.name for tier in tiers}) < len(tiers) or len({id(tier.policy) for tier in tiers}) < len(
            tiers
        ):
            raise UsageError("each tier of a cache has a name and a policy of its own")
        for tier in tiers:
            check_whole(f"capacity of {tier.name}", tier.capacity_bytes, 1, MOST_BYTES)
        self.tiers = tuple(tiers)
        self.dropped_bytes = 0
        self._entries: dict[Hashable, _Entry] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: Hashable) -> bool:
        return key in self._entries

    def tier_of(self, key: Hashable) -> str | None:
        """Return the name of the tier that an entry is in, None if it is in none."""
        entry = self._entries.get(key)
        return None if entry is None else self.tiers[entry.tier].name

    def acquire(self, keys: Iterable[Hashable], total_bytes: int, now_ns: int) -> list[str] | None:
        """Hold the leading entries among `keys`, in the first tier, and promise room there for the rest.

        `total_bytes` is what the request needs in all. Return, for each entry that was there, the tier that
        it was in; the first key that is nowhere ends the prefix. None, and nothing has changed, if the first
        tier has no room, however much is evicted.
        Raises: UsageError if the entries are more than `total_bytes`, or a key is named twice.
        """
        hits: dict[Hashable, _Entry] = {}
        lower_bytes = hit_bytes = idle_bytes = 0
        for key in keys:
            entry = self._entries.get(key)
            if entry is None:
                break
            if key in hits:
                raise UsageError(f"{key!r} is named twice")
            hits[key] = entry
            hit_bytes += entry.length_bytes
            if entry.tier:
                lower_bytes += entry.length_bytes
            elif not self._stays(key, entry):
                idle_bytes += entry.length_bytes
        if hit_bytes > total_bytes:
            raise UsageError(
                f"entries of {hit_bytes} bytes were named, for a request of {total_bytes} in all"
            )
        first, new_bytes = self.tiers[0], total_bytes - hit_bytes
        if lower_bytes + new_bytes > first.free_bytes + first.policy.evictable_bytes - idle_bytes:
            return None
        found = [self.tiers[entry.tier].name for entry in hits.values()]
        self._hold(hits, lower_bytes, now_ns)
        self._make_room(0, new_bytes, now_ns)
        first.reserved_bytes += new_bytes
        return found

    def fill(self, key: Hashable, length_bytes: int, now_ns: int) -> bool:
        """Make an entry, held, of promised room. False if there is one, or the policy does not want it.

        Then the room stays promised, to be given back. Raises: UsageError if so much was not promised.
        """
        first = self.tiers[0]
        if not 0 < length_bytes <= first.reserved_bytes:
            raise UsageError(
                f"{length_bytes} bytes were filled, and {first.reserved_bytes} are promised; acquire them"
            )
        if key in self._entries or not first.policy.admits(key, length_bytes, now_ns):
            return False
        first.reserved_bytes -= length_bytes
        first.used_bytes += length_bytes
        first.policy.inserted(key, length_bytes, now_ns)
        first.policy.held(key)
        self._entries[key] = _Entry(0, length_bytes, 1)
        return True

    def give_back(self, length_bytes: int) -> None:
        """Give promised room back that was not filled. Raises: UsageError if so much was not promised."""
        first = self.tiers[0]
        if not 0 <= length_bytes <= first.reserved_bytes:
            raise UsageError(f"{length_bytes} bytes were given back, and {first.reserved_bytes} are promised")
        first.reserved_bytes -= length_bytes

    def release(self, keys: Sequence[Hashable], now_ns: int, hint: Hint | None = None) -> None:
        """Release entries, the last first, so that a policy that goes by use takes the end of a prefix first.

        Raises: UsageError if one is not held, or named twice.
        """
        if len(set(keys)) < len(keys):
            raise UsageError("a key is named twice")
        for key in keys:
            if not (entry := self._entries.get(key)) or not entry.holders:
                raise UsageError(f"{key!r} is not held")
        for key in reversed(keys):
            entry = self._entries[key]
            entry.holders -= 1
            if not entry.holders:
                self.tiers[0].policy.released(key, now_ns, hint)

    def hint(self, keys: Iterable[Hashable], hint: Hint | None) -> None:
        """Pass on what somebody says of entries; those that are not there any more are passed over."""
        for key in keys:
            if entry := self._entries.get(key):
                self.tiers[entry.tier].policy.hinted(key, hint)

    def remove(self, key: Hashable, now_ns: int) -> None:
        """Drop an entry. Raises: UsageError if it is not there, or held."""
        entry = self._entries.get(key)
        if entry is None or entry.holders:
            raise UsageError(f"{key!r} is {'in use' if entry else 'not in the cache'}")
        self._leave(key, entry, now_ns)
        del self._entries[key]

    def _stays(self, key: Hashable, entry: _Entry) -> bool:
        return bool(entry.holders) or self.tiers[0].policy.is_pinned(key)

    def _hold(self, hits: Mapping[Hashable, _Entry], lower_bytes: int, now_ns: int) -> None:
        """Hold entries; those of lower tiers leave them first, so that what they displace finds room."""
        first = self.tiers[0].policy
        records = {}
        for key, entry in hits.items():
            if not entry.tier:
                if not entry.holders:
                    first.held(key)
                first.touched(key, now_ns)
            else:
                tier = self.tiers[entry.tier]
                tier.used_bytes -= entry.length_bytes
                records[key] = tier.policy.removed(key, now_ns, reused=True)
            entry.holders += 1
        self._make_room(0, lower_bytes, now_ns)
        for key, record in records.items():
            record.use(now_ns)
            first.adopted(key, record, now_ns)
            first.held(key)
            self._entries[key].tier = 0
        self.tiers[0].used_bytes += lower_bytes

    def _make_room(self, place: int, length_bytes: int, now_ns: int) -> bool:
        tier = self.tiers[place]
        wanted_bytes = length_bytes - tier.free_bytes
        if wanted_bytes <= 0:
            return True
        victims = tier.policy.victims(wanted_bytes, now_ns)
        for key in victims:
            self._demote(key, self._entries[key], now_ns)
        return bool(victims)

    def _leave(self, key: Hashable, entry: _Entry, now_ns: int) -> Record:
        tier = self.tiers[entry.tier]
        tier.used_bytes -= entry.length_bytes
        return tier.policy.removed(key, now_ns)

    def _demote(self, key: Hashable, entry: _Entry, now_ns: int) -> None:
        """Move an entry down to the next tier that takes it, or drop it below the last."""
        hint = self.tiers[entry.tier].policy.record(key).hint
        record = self._leave(key, entry, now_ns)
        for place in range(entry.tier + 1, len(self.tiers)):
            tier = self.tiers[place]
            if tier.policy.admits(key, entry.length_bytes, now_ns, hint) and self._make_room(
                place, entry.length_bytes, now_ns
            ):
                tier.used_bytes += entry.length_bytes
                tier.received_bytes += entry.length_bytes
                tier.policy.adopted(key, record, now_ns)
                entry.tier = place
                return
        del self._entries[key]
        self.dropped_bytes += entry.length_bytes
