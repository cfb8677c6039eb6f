# SPDX-License-Identifier: Apache-2.0
"""A tiered cache by LRU as one would write it on a blackboard: lists, scans, no policy objects."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class NaiveTiers:
    """Each tier is a list of keys, the least recently used first; `held` counts holders."""

    capacities: list[int]
    lengths: dict[int, int] = field(default_factory=dict)
    tiers: list[list[int]] = field(default_factory=list)
    held: dict[int, int] = field(default_factory=dict)
    reserved: int = 0
    dropped: int = 0

    def __post_init__(self) -> None:
        self.tiers = [[] for _ in self.capacities]

    def used(self, tier: int) -> int:
        return sum(self.lengths[key] for key in self.tiers[tier]) + (0 if tier else self.reserved)

    def tier_of(self, key: int) -> int | None:
        return next((place for place, keys in enumerate(self.tiers) if key in keys), None)

    def acquire(self, keys: list[int], total: int) -> list[int] | None:
        prefix: list[int] = []
        for key in keys:
            if self.tier_of(key) is None:
                break
            prefix.append(key)
        found = [place for key in prefix if (place := self.tier_of(key)) is not None]
        stays = sum(self.lengths[key] for key in self.tiers[0] if key in self.held and key not in prefix)
        if stays + self.reserved + total > self.capacities[0]:
            return None
        lower = [key for key, place in zip(prefix, found, strict=True) if place]
        for key, place in zip(prefix, found, strict=True):
            self.held[key] = self.held.get(key, 0) + 1
            if place:
                self.tiers[place].remove(key)
        self.shrink(0, sum(self.lengths[key] for key in lower))
        self.tiers[0] += lower
        new = total - sum(self.lengths[key] for key in prefix)
        self.shrink(0, new)
        self.reserved += new
        return found

    def shrink(self, place: int, room: int) -> None:
        out: list[int] = []
        while self.used(place) + room > self.capacities[place]:
            idle = [key for key in self.tiers[place] if key not in self.held]
            self.tiers[place].remove(idle[0])
            out.append(idle[0])
        for key in out:
            self.demote(key, place + 1)

    def demote(self, key: int, place: int) -> None:
        while place < len(self.tiers):
            if self.lengths[key] <= self.capacities[place]:
                self.shrink(place, self.lengths[key])
                self.tiers[place].append(key)
                return
            place += 1
        self.dropped += self.lengths.pop(key)

    def fill(self, key: int, length: int) -> bool:
        if self.tier_of(key) is not None:
            return False
        self.reserved -= length
        self.lengths[key] = length
        self.tiers[0].append(key)
        self.held[key] = 1
        return True

    def release(self, keys: list[int]) -> None:
        for key in reversed(keys):
            self.held[key] -= 1
            if not self.held[key]:
                del self.held[key]
                self.tiers[0].remove(key)
                self.tiers[0].append(key)
