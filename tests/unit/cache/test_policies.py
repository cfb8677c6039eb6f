# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from random import Random

import pytest

from nicemu.cache import POLICIES, Hint, HintPolicy, Lfu, Lru, NoCache, Pin, Policy, Triggered

GONE, SOON, LATE = Hint(finished=True), Hint(expected_ns=100), Hint(expected_ns=900)


def filled(policy: Policy, **hints: Hint | None) -> Policy:
    for now_ns, (key, hint) in enumerate(hints.items(), 1):
        policy.inserted(key, 1, now_ns, hint)
    return policy


def order(policy: Policy, now_ns: int = 50) -> str:
    return "".join(str(key) for key in policy.victims(policy.evictable_bytes, now_ns))


def test_the_names_are_those_that_people_know() -> None:
    assert list(POLICIES) == ["none", "lru", "lfu", "hint", "pin", "triggered"]
    assert all(name == policy.name for name, policy in POLICIES.items())


def test_lru_takes_the_least_recently_used() -> None:
    policy = filled(Lru(), a=None, b=None, c=None)
    policy.touched("a", 10)
    policy.held("b")
    policy.released("b", 11)
    assert order(policy) == "cab"


def test_a_hint_is_no_use_of_an_entry() -> None:
    policy = filled(Lru(), a=None, b=None)
    policy.hinted("a", SOON)
    assert order(policy) == "ab"


def test_lfu_takes_the_least_often_used_and_among_equals_the_least_recently() -> None:
    policy = filled(Lfu(), a=None, b=None, c=None, d=None)
    for now_ns, key in enumerate("aabbc", 10):
        policy.touched(key, now_ns)
    assert order(policy) == "dcab"


def test_lfu_counts_uses_in_other_tiers() -> None:
    upper, lower = filled(Lfu(), a=None), filled(Lfu(), b=None)
    lower.touched("b", 9)
    for now_ns in (10, 11, 12):
        upper.touched("a", now_ns)
    lower.adopted("a", upper.removed("a", 20), 20)
    assert order(lower) == "ba"


def test_none_finds_nothing_worth_a_place() -> None:
    assert not NoCache().admits("a", 1, 0)
    assert all(kind().admits("a", 1, 0) for name, kind in POLICIES.items() if name != "none")


def test_pin_is_lru_but_for_what_is_pinned_until_it_is_not() -> None:
    policy = filled(Pin(), a=None, b=Hint(pinned=True), c=None)
    assert order(policy) == "ac"
    assert policy.is_pinned("b")
    policy.touched("b", 5)
    assert order(policy) == "ac"
    policy.hinted("b", None)
    assert order(policy) == "acb"


@pytest.mark.parametrize("kind", [Lru, Lfu, HintPolicy, Triggered])
def test_others_do_not_heed_pins(kind: type[Policy]) -> None:
    assert order(filled(kind(), a=Hint(pinned=True), b=None)) == "ab"


@pytest.mark.parametrize("kind", [HintPolicy, Triggered])
def test_hints_take_finished_entries_first_then_the_latest_expected(kind: type[Policy]) -> None:
    policy = filled(kind(), a=SOON, b=LATE, c=GONE, d=Hint(expected_ns=400), e=GONE)
    assert order(policy) == "cebda"


def test_an_overdue_entry_goes_the_sooner_the_longer_it_is_overdue() -> None:
    policy = filled(HintPolicy(), a=Hint(expected_ns=100), b=Hint(expected_ns=500), c=Hint(expected_ns=900))
    assert order(policy, 1_000) == "abc"
    assert order(policy, 510) == "acb"


def test_a_use_fulfils_a_hint() -> None:
    policy = filled(HintPolicy(), a=GONE, b=GONE)
    policy.touched("a", 20)
    assert policy.record("a").hint is None
    assert order(policy) == "ba"


def test_finished_entries_that_come_back_are_believed_the_less() -> None:
    policy = HintPolicy()
    before = policy.worth.chance(GONE)
    for turn in range(100):
        policy.inserted("a", 1, 10 * turn, GONE)
        policy.removed("a", 10 * turn + 5)
    assert policy.worth.chance(GONE) > 10 * before
    assert policy.worth.interval_ns == pytest.approx(10)


def test_evicted_entries_that_stay_away_are_counted_after_four_mean_intervals() -> None:
    policy = HintPolicy()
    filled(policy, a=SOON)
    policy.touched("a", 101)
    policy.hinted("a", SOON)
    policy.removed("a", 120)
    known = policy.worth.chance(SOON)
    policy.inserted("b", 1, 500)
    assert policy.worth.chance(SOON) == known
    policy.inserted("c", 1, 502)
    assert policy.worth.chance(SOON) < known


def test_no_more_evicted_entries_are_remembered_than_a_thousand_or_those_that_are_there() -> None:
    policy = HintPolicy()
    for key in range(3_000):
        policy.inserted(key, 1, key, GONE)
        policy.removed(key, key)
    assert len(policy._evicted) == 1_024
    assert policy.worth.chance(GONE) < 0.001


def test_hints_that_tell_nothing_leave_the_order_to_lru() -> None:
    """Whatever is said, an entry comes back as often: then nobody should go by it."""
    draw, policy = Random("useless hints"), HintPolicy()
    keys = list(range(40))
    for now_ns in range(0, 20_000, 10):
        key = draw.choice(keys)
        if key in policy:
            policy.removed(key, now_ns, reused=draw.random() < 0.5)
        hint = GONE if draw.random() < 0.5 else Hint(expected_ns=now_ns + draw.randrange(500))
        policy.inserted(key, 1, now_ns, hint)
    assert not policy.worth.tells
    by_use = sorted(policy._records, key=lambda key: policy.record(key).used_ns)
    assert policy.victims(policy.evictable_bytes, 20_000) == by_use


def test_hints_that_are_always_wrong_are_read_the_other_way_round() -> None:
    policy = HintPolicy()
    for turn in range(2_000):
        now_ns = 100 * turn
        policy.inserted(("goes", turn), 1, now_ns, Hint(expected_ns=now_ns + 50))
        policy.removed(("goes", turn), now_ns + 10)
        policy.inserted(("comes", turn % 5), 1, now_ns, GONE)
        policy.removed(("comes", turn % 5), now_ns + 20)
    assert policy.worth.tells
    policy.inserted("said to be finished", 1, 199_990, GONE)
    policy.inserted("said to come", 1, 199_995, Hint(expected_ns=200_100))
    assert policy.victims(1, 200_000) == ["said to come"]
