# SPDX-License-Identifier: Apache-2.0
"""What every eviction policy promises to a cache, whatever its order: one suite for all of them."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from timeit import repeat

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from nicemu.cache import POLICIES, Hint, Policy
from nicemu.errors import UsageError

ALL = pytest.mark.parametrize("kind", POLICIES.values(), ids=POLICIES)
HINTS = st.one_of(
    st.none(),
    st.just(Hint(finished=True)),
    st.just(Hint(pinned=True)),
    st.builds(Hint, expected_ns=st.integers(0, 2_000)),
)


class Told(RuleBasedStateMachine):
    """A cache tells a policy what happens; a dictionary knows what there is."""

    @initialize(kind=st.sampled_from(sorted(POLICIES)))
    def begin(self, kind: str) -> None:
        self.policy: Policy = POLICIES[kind]()
        self.lengths: dict[int, int] = {}
        self.held: set[int] = set()
        self.pinned: set[int] = set()
        self.now_ns = 0

    @rule(step=st.integers(0, 50))
    def wait(self, step: int) -> None:
        self.now_ns += step

    @rule(key=st.integers(0, 20), length=st.integers(1, 100), hint=HINTS)
    def insert(self, key: int, length: int, hint: Hint | None) -> None:
        if key in self.lengths:
            with pytest.raises(UsageError, match="already"):
                self.policy.inserted(key, length, self.now_ns, hint)
        else:
            self.policy.inserted(key, length, self.now_ns, hint)
            self.lengths[key] = length
            self.remember_pin(key, hint)

    def remember_pin(self, key: int, hint: Hint | None) -> None:
        pins = self.policy.heeds_pins and hint is not None and hint.pinned
        (self.pinned.add if pins else self.pinned.discard)(key)

    def pick(self, data: st.DataObject, among: set[int]) -> int:
        return int(data.draw(st.sampled_from(sorted(among))))

    @precondition(lambda self: self.lengths)
    @rule(data=st.data())
    def touch(self, data: st.DataObject) -> None:
        self.policy.touched(self.pick(data, set(self.lengths)), self.now_ns)

    @precondition(lambda self: self.lengths)
    @rule(data=st.data(), hint=HINTS)
    def say(self, data: st.DataObject, hint: Hint | None) -> None:
        key = self.pick(data, set(self.lengths))
        self.policy.hinted(key, hint)
        self.remember_pin(key, hint)

    @precondition(lambda self: set(self.lengths) - self.held)
    @rule(data=st.data())
    def hold(self, data: st.DataObject) -> None:
        key = self.pick(data, set(self.lengths) - self.held)
        self.policy.held(key)
        self.held.add(key)

    @precondition(lambda self: self.held)
    @rule(data=st.data(), hint=HINTS)
    def release(self, data: st.DataObject, hint: Hint | None) -> None:
        key = self.pick(data, self.held)
        self.policy.released(key, self.now_ns, hint)
        self.held.discard(key)
        if hint is not None:
            self.remember_pin(key, hint)

    @precondition(lambda self: self.lengths)
    @rule(data=st.data(), reused=st.booleans())
    def remove(self, data: st.DataObject, reused: bool) -> None:
        key = self.pick(data, set(self.lengths))
        record = self.policy.removed(key, self.now_ns, reused=reused)
        assert record.length_bytes == self.lengths.pop(key)
        self.held.discard(key)
        self.pinned.discard(key)

    @rule(wanted=st.integers(1, 1_000))
    def ask(self, wanted: int) -> None:
        evictable = {key for key in self.lengths if key not in self.held | self.pinned}
        victims = self.policy.victims(wanted, self.now_ns)
        assert self.policy.victims(wanted, self.now_ns) == victims, "asking changes nothing"
        lengths = [self.lengths[key] for key in victims]  # type: ignore[index]
        if sum(self.lengths[key] for key in evictable) < wanted:
            assert victims == []
        else:
            assert len(set(victims)) == len(victims)
            assert set(victims) <= evictable, "what is held or pinned stays"
            assert sum(lengths) >= wanted
            assert sum(lengths[:-1]) < wanted, "and no more than needed"

    @invariant()
    def the_bytes_that_may_go_are_exact(self) -> None:
        if hasattr(self, "policy"):
            free = (length for key, length in self.lengths.items() if key not in self.held | self.pinned)
            assert self.policy.evictable_bytes == sum(free)
            assert len(self.policy) == len(self.lengths)
            assert all(key in self.policy for key in self.lengths)


TestTold = Told.TestCase


@ALL
def test_a_key_is_anything_that_can_be_hashed(kind: type[Policy]) -> None:
    policy = kind()
    keys: list[Hashable] = [b"\x00" * 32, "name", ("conversation", 3), frozenset({1})]
    for key in keys:
        policy.inserted(key, 10, 5)
    assert set(policy.victims(40, 6)) == set(keys)


@ALL
@pytest.mark.parametrize("call", ["touched", "hinted", "held", "released", "removed"])
def test_a_key_that_is_not_there_is_refused(kind: type[Policy], call: str) -> None:
    policy = kind()
    words: tuple[object, ...] = () if call == "held" else (5,)
    with pytest.raises(UsageError, match="'nobody' is not in the cache"):
        getattr(policy, call)("nobody", *words)
    assert len(policy) == 0


@ALL
@pytest.mark.parametrize("length", [0, -1, 1.5, True])
def test_an_entry_without_a_length_is_refused(kind: type[Policy], length: int) -> None:
    policy = kind()
    with pytest.raises(UsageError, match="length_bytes"):
        policy.inserted("key", length, 0)
    assert "key" not in policy


@ALL
def test_holding_is_told_once_and_released_once(kind: type[Policy]) -> None:
    policy = kind()
    policy.inserted("key", 1, 0)
    with pytest.raises(UsageError, match="was not held"):
        policy.released("key", 1)
    policy.held("key")
    with pytest.raises(UsageError, match="held already"):
        policy.held("key")


@ALL
def test_what_is_known_goes_along_to_another_tier(kind: type[Policy]) -> None:
    upper, lower = kind(), kind()
    upper.inserted("key", 7, 10)
    upper.touched("key", 20)
    lower.adopted("key", upper.removed("key", 30), 30)
    record = lower.record("key")
    assert (record.length_bytes, record.uses, record.used_ns) == (7, 2, 20)
    assert "key" not in upper


@ALL
@given(wanted=st.integers(-5, 0))
def test_no_room_needs_no_victim(kind: type[Policy], wanted: int) -> None:
    policy = kind()
    policy.inserted("key", 1, 0)
    assert policy.victims(wanted, 1) == []


def _turns(kind: type[Policy], entries: int) -> Callable[[], None]:
    policy = kind()
    for key in range(entries):
        policy.inserted(key, 1, key, Hint(finished=True) if key % 3 else Hint(expected_ns=key + 500))
    clock = iter(range(entries, 1 << 60))

    def turn() -> None:
        for _ in range(50):
            now_ns = next(clock)
            (key,) = policy.victims(1, now_ns)
            policy.removed(key, now_ns)
            policy.inserted(now_ns, 1, now_ns)
            policy.held(now_ns)
            policy.touched(now_ns, now_ns)
            policy.released(now_ns, now_ns, Hint(finished=True))

    return turn


@ALL
def test_a_call_takes_no_longer_among_a_hundred_times_the_entries(kind: type[Policy]) -> None:
    few, many = (min(repeat(_turns(kind, entries), number=4, repeat=5)) for entries in (400, 40_000))
    assert many < 20 * few, "a scan would take a hundred times as long"
