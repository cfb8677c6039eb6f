# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nicemu.cache import POLICIES, Hint, HintPolicy, Lru, NoCache, Pin, Tier, TieredCache
from nicemu.errors import UsageError
from tests.unit.cache.naive_tiers import NaiveTiers

NAMES = ("GPU", "CPU", "NVMe", "remote")


def cache_of(*capacities: int, policy: str = "lru") -> TieredCache:
    tiers = zip(NAMES, capacities, strict=False)
    return TieredCache([Tier(name, capacity, POLICIES[policy]()) for name, capacity in tiers])


def put(cache: TieredCache, *keys: str, now_ns: int = 0, length: int = 1, hint: Hint | None = None) -> None:
    """Fill in entries, one after the other, and let go of them."""
    for key in keys:
        assert cache.acquire((), length, now_ns) == []
        assert cache.fill(key, length, now_ns)
        cache.release([key], now_ns, hint)


def where(cache: TieredCache, keys: str) -> list[str | None]:
    return [cache.tier_of(key) for key in keys]


def test_what_is_evicted_moves_down_tier_by_tier_and_falls_out_below_the_last() -> None:
    cache = cache_of(1, 1, 1)
    put(cache, "a", "b", "c")
    assert where(cache, "abc") == ["NVMe", "CPU", "GPU"]
    put(cache, "d")
    assert where(cache, "abcd") == [None, "NVMe", "CPU", "GPU"]
    assert cache.dropped_bytes == 1
    assert [tier.received_bytes for tier in cache.tiers] == [0, 3, 2]


def test_what_is_used_comes_up_and_its_room_below_is_free_at_once() -> None:
    cache = cache_of(1, 1)
    put(cache, "a", "b")
    assert cache.acquire(["a"], 1, 5) == ["CPU"]
    assert where(cache, "ab") == ["GPU", "CPU"]


def test_a_prefix_ends_at_the_first_key_that_is_nowhere() -> None:
    cache = cache_of(9)
    put(cache, "a", "b", "d")
    assert cache.acquire(["a", "b", "c", "d"], 4, 5) == ["GPU", "GPU"]


def test_the_end_of_a_prefix_goes_before_its_beginning() -> None:
    cache = cache_of(3)
    cache.acquire((), 3, 0)
    for key in "abc":
        cache.fill(key, 1, 0)
    cache.release(["a", "b", "c"], 1)
    put(cache, "d", now_ns=2)
    assert where(cache, "abcd") == ["GPU", "GPU", None, "GPU"]


def test_what_is_held_never_goes_and_then_there_is_no_room_and_nothing_changes() -> None:
    cache = cache_of(3, 3)
    put(cache, "a", "b", "c")
    assert cache.acquire(["a", "b"], 2, 1) == ["GPU", "GPU"]
    assert cache.acquire(["c"], 3, 2) is None
    assert where(cache, "abc") == ["GPU"] * 3
    cache.release(["a", "b"], 3)
    assert cache.acquire(["c"], 3, 4) == ["GPU"]
    assert where(cache, "abc") == ["CPU", "CPU", "GPU"]


def test_two_requests_hold_one_entry_until_both_let_go() -> None:
    cache = cache_of(1)
    put(cache, "a")
    for now_ns in (1, 2):
        assert cache.acquire(["a"], 1, now_ns) == ["GPU"]
    cache.release(["a"], 3)
    assert cache.acquire((), 1, 4) is None
    cache.release(["a"], 5)
    assert cache.acquire((), 1, 6) == []
    assert "a" not in cache


def test_promised_room_is_nobody_else_s_until_it_is_given_back() -> None:
    cache = cache_of(2)
    assert cache.acquire((), 2, 0) == []
    assert cache.acquire((), 1, 1) is None
    cache.give_back(2)
    assert cache.acquire((), 1, 2) == []


def test_the_faster_of_two_who_compute_the_same_makes_the_entry() -> None:
    cache = cache_of(2)
    cache.acquire((), 2, 0)
    assert [cache.fill("a", 1, 0), cache.fill("a", 1, 0)] == [True, False]
    assert cache.tiers[0].reserved_bytes == 1


def test_an_entry_that_is_larger_than_the_next_tier_goes_to_the_one_below() -> None:
    cache = cache_of(4, 1, 4)
    put(cache, "a", length=4)
    put(cache, "b", length=4)
    assert where(cache, "ab") == ["NVMe", "GPU"]


def test_a_pinned_entry_stays_in_its_tier_and_whoever_needs_the_room_waits() -> None:
    cache = TieredCache([Tier("GPU", 2, Pin()), Tier("CPU", 2, Pin())])
    put(cache, "a", hint=Hint(pinned=True))
    put(cache, "b", "c", "d")
    assert where(cache, "abcd") == ["GPU", "CPU", "CPU", "GPU"]
    assert cache.acquire((), 2, 9) is None
    assert cache.acquire(["a"], 2, 9) == ["GPU"]


def test_a_wrong_hint_costs_a_way_down_and_no_entry() -> None:
    cache = TieredCache([Tier("GPU", 2, HintPolicy()), Tier("CPU", 2, HintPolicy())])
    put(cache, "a", now_ns=1, hint=Hint(expected_ns=50))
    put(cache, "b", now_ns=2, hint=Hint(finished=True))
    put(cache, "c", now_ns=3, hint=Hint(expected_ns=60))
    assert where(cache, "abc") == ["GPU", "CPU", "GPU"]
    assert cache.acquire(["b"], 1, 4) == ["CPU"]


def test_hints_go_along_and_are_heeded_where_the_entry_is() -> None:
    cache = TieredCache([Tier("GPU", 1, HintPolicy()), Tier("CPU", 2, HintPolicy())])
    put(cache, "a", "b", "c", now_ns=1, hint=Hint(expected_ns=50))
    cache.hint(["b", "nowhere"], Hint(finished=True))
    put(cache, "d", now_ns=2)
    assert where(cache, "abcd") == ["CPU", None, "CPU", "GPU"]


def test_a_tier_learns_from_what_leaves_it_to_be_used() -> None:
    lower = HintPolicy()
    cache = TieredCache([Tier("GPU", 1, HintPolicy()), Tier("CPU", 2, lower)])
    put(cache, "a", now_ns=1, hint=Hint(finished=True))
    put(cache, "b", now_ns=2)
    before = lower.worth.chance(Hint(finished=True))
    cache.acquire(["a"], 1, 9)
    assert lower.worth.chance(Hint(finished=True)) > before
    assert lower.worth.interval_ns == 8


def test_a_cache_that_keeps_nothing_gives_all_room_to_requests() -> None:
    cache = TieredCache([Tier("GPU", 2, NoCache())])
    cache.acquire((), 2, 0)
    assert not cache.fill("a", 1, 0)
    cache.give_back(2)
    assert (len(cache), cache.tiers[0].free_bytes) == (0, 2)


def test_an_entry_can_be_dropped_unless_it_is_in_use() -> None:
    cache = cache_of(2, 1)
    put(cache, "a")
    cache.remove("a", 1)
    assert ("a" in cache, cache.tiers[0].free_bytes) == (False, 2)
    put(cache, "b")
    cache.acquire(["b"], 1, 2)
    with pytest.raises(UsageError, match="'b' is in use"):
        cache.remove("b", 3)
    with pytest.raises(UsageError, match="'a' is not in the cache"):
        cache.remove("a", 3)


def test_misuse_is_refused_and_changes_nothing() -> None:
    cache = cache_of(4)
    put(cache, "a", length=2)
    for refused, told in (
        (lambda: cache.acquire(["a"], 1, 1), "entries of 2 bytes were named, for a request of 1"),
        (lambda: cache.acquire(["a", "a"], 4, 1), "'a' is named twice"),
        (lambda: cache.fill("b", 1, 1), "1 bytes were filled, and 0 are promised"),
        (lambda: cache.give_back(1), "1 bytes were given back, and 0 are promised"),
        (lambda: cache.release(["a"], 1), "'a' is not held"),
        (lambda: cache.release(["a", "a"], 1), "named twice"),
        (lambda: cache.release(["b"], 1), "'b' is not held"),
    ):
        with pytest.raises(UsageError, match=told):
            refused()
    assert (cache.tiers[0].used_bytes, cache.tiers[0].reserved_bytes, len(cache)) == (2, 0, 1)
    assert cache.acquire((), 4, 2) == []


@pytest.mark.parametrize(
    ("tiers", "told"),
    [
        ([], "one tier at least"),
        ([Tier("GPU", 0, Lru())], "capacity of GPU is 0"),
        ([Tier("GPU", 1, Lru()), Tier("GPU", 1, Lru())], "a name and a policy of its own"),
        ([Tier("GPU", 1, shared := Lru()), Tier("CPU", 1, shared)], "a name and a policy of its own"),
    ],
)
def test_impossible_tiers_are_refused(tiers: list[Tier], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        TieredCache(tiers)


class Requests(RuleBasedStateMachine):
    """Requests come and go; the bytes are counted by hand, and by LRU a naive cache does the same."""

    @initialize(
        policy=st.sampled_from(["lru", "lfu", "hint", "lru", "pin", "lru"]),
        capacities=st.lists(st.integers(1, 24), min_size=1, max_size=4),
    )
    def begin(self, policy: str, capacities: list[int]) -> None:
        self.cache = cache_of(*capacities, policy=policy)
        self.naive = NaiveTiers(capacities) if policy == "lru" else None
        self.lengths: dict[int, int] = {}
        self.running: list[tuple[list[int], int]] = []
        self.now_ns = self.filled = 0

    @rule(first=st.integers(0, 12), count=st.integers(0, 6), extra=st.integers(0, 10))
    def come(self, first: int, count: int, extra: int) -> None:
        self.now_ns += 7
        keys = list(range(first, first + count))
        total = sum(self.lengths.get(key, 0) for key in keys) + extra
        before = {key: self.cache.tier_of(key) for key in self.lengths}
        found = self.cache.acquire(keys, total, self.now_ns)
        if self.naive is not None:
            naive = self.naive.acquire(keys, total)
            assert found == (naive if naive is None else [NAMES[place] for place in naive])
        if found is None:
            assert before == {key: self.cache.tier_of(key) for key in self.lengths}
        else:
            assert found == [before[key] for key in keys[: len(found)]]
            hit_bytes = sum(self.lengths[key] for key in keys[: len(found)])
            self.running.append((keys[: len(found)], total - hit_bytes))

    @precondition(lambda self: self.running)
    @rule(data=st.data(), key=st.integers(0, 18), length=st.integers(1, 6))
    def fill(self, data: st.DataObject, key: int, length: int) -> None:
        place = data.draw(st.integers(0, len(self.running) - 1))
        keys, room = self.running[place]
        if length > room or key in keys:
            return
        filled = self.cache.fill(key, length, self.now_ns)
        if self.naive is not None:
            assert filled == self.naive.fill(key, length)
        if filled:
            self.lengths[key] = length
            self.filled += length
            self.running[place] = [*keys, key], room - length

    @precondition(lambda self: self.running)
    @rule(data=st.data(), finished=st.booleans())
    def go(self, data: st.DataObject, finished: bool) -> None:
        self.now_ns += 3
        keys, room = self.running.pop(data.draw(st.integers(0, len(self.running) - 1)))
        self.cache.give_back(room)
        self.cache.release(
            keys, self.now_ns, Hint(finished=True) if finished else Hint(expected_ns=self.now_ns + 9)
        )
        if self.naive is not None:
            self.naive.reserved -= room
            self.naive.release(keys)

    @invariant()
    def every_byte_is_somewhere(self) -> None:
        if not hasattr(self, "cache"):
            return
        self.lengths = {key: length for key, length in self.lengths.items() if key in self.cache}
        for tier in self.cache.tiers:
            inside = [key for key in self.lengths if self.cache.tier_of(key) == tier.name]
            assert tier.used_bytes == sum(self.lengths[key] for key in inside)
            assert len(tier.policy) == len(inside)
            assert tier.free_bytes >= 0
        assert self.cache.tiers[0].reserved_bytes == sum(room for _, room in self.running)
        assert self.filled == self.cache.dropped_bytes + sum(self.lengths.values())
        assert all(self.cache.tier_of(key) == "GPU" for keys, _ in self.running for key in keys)
        if self.naive is not None:
            assert [len(keys) for keys in self.naive.tiers] == [len(tier.policy) for tier in self.cache.tiers]
            assert all(NAMES[self.naive.tier_of(key) or 0] == self.cache.tier_of(key) for key in self.lengths)


TestRequests = Requests.TestCase
