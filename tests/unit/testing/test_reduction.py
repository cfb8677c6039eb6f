# SPDX-License-Identifier: Apache-2.0
"""The search over made-up steps: what is independent is not permuted, and every outcome is seen."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Callable, Sequence

import pytest

from nicemu.errors import UsageError
from nicemu.nic import Footprint, Step, Thing, Use
from nicemu.testing.choices import Schedule
from nicemu.testing.explorer import Exploration, explore
from nicemu.testing.reduction import Search

Chain = Sequence[tuple[str, bool]]
"""What a chain does in order: which variable it uses, and whether it appends its name to it."""


def run_chains(chains: Sequence[Chain], schedule: Schedule) -> dict[str, str]:
    """Let the schedule interleave the chains; return what the variables hold."""
    held: dict[str, str] = {}
    places = [0] * len(chains)
    while any(place < len(chain) for place, chain in zip(places, chains, strict=True)):
        able = [number for number, chain in enumerate(chains) if places[number] < len(chain)]
        keys: list[Thing] = [("chain", number) for number in able]
        number = able[schedule.choose([Step(key, str(key)) for key in keys])]
        variable, writes = chains[number][places[number]]
        touched = Footprint()
        touched.use(Use.WRITE if writes else Use.READ, variable)
        if writes:
            held[variable] = held.get(variable, "") + f"{number}"
        else:
            held[f"seen by {number}"] = held.get(f"seen by {number}", "") + held.get(variable, "-") + ";"
        schedule.took(touched)
        places[number] += 1
    return held


def outcomes(chains: Sequence[Chain], *, reduction: bool) -> tuple[set[str], Exploration]:
    found: set[str] = set()

    def run(schedule: Schedule) -> bool:
        found.add(str(sorted(run_chains(chains, schedule).items())))
        return True

    return found, explore(run, 100_000, reduction=reduction)


@pytest.mark.parametrize("length", [1, 2, 5, 50])
def test_two_chains_that_share_nothing_cost_one_schedule(length: int) -> None:
    chains = [[(f"{name}{n}", True) for n in range(length)] for name in "ab"]
    found, exploration = outcomes(chains, reduction=True)
    assert (exploration.schedules, exploration.is_complete, len(found)) == (1, True, 1)


def test_without_reduction_they_cost_every_interleaving() -> None:
    chains = [[(f"{name}{n}", True) for n in range(4)] for name in "ab"]
    assert outcomes(chains, reduction=False)[1].schedules == math.comb(8, 4)


@pytest.mark.parametrize("count", [2, 3, 4])
def test_writers_of_one_variable_cost_each_order_once(count: int) -> None:
    found, exploration = outcomes([[("x", True)]] * count, reduction=True)
    assert len(found) == exploration.schedules == math.factorial(count)


def test_readers_of_one_variable_cost_one_schedule() -> None:
    assert outcomes([[("x", False)]] * 4, reduction=True)[1].schedules == 1


@pytest.mark.parametrize("seed", range(60))
def test_the_reduced_search_sees_every_outcome_of_the_whole_one(seed: int) -> None:
    rng = random.Random(seed)
    chains = [
        [(rng.choice("xyz"), rng.random() < 0.5) for _ in range(rng.randint(1, 3))]
        for _ in range(rng.randint(2, 3))
    ]
    whole, all_of_it = outcomes(chains, reduction=False)
    reduced, less = outcomes(chains, reduction=True)
    assert reduced == whole
    assert all_of_it.is_complete
    assert less.is_complete
    assert less.schedules <= all_of_it.schedules


def counting(rings: Sequence[str], threshold: int) -> Callable[[Schedule], str]:
    """Streams ring one counter, each after it has stored; work that fires at `threshold` reads all stores."""

    def run(schedule: Schedule) -> str:
        stored, value, fired, places = "", 0, "", [0] * len(rings)
        while True:
            able = [n for n in range(len(rings)) if places[n] < 2]
            keys: list[Thing] = [("stream", n) for n in able]
            if value >= threshold and not fired:
                keys.append(("fire",))
            if not keys:
                return fired
            key = keys[schedule.choose([Step(key, str(key)) for key in keys])]
            touched = Footprint()
            if key == ("fire",):
                fired = "".join(sorted(stored)) + "!"
                touched.needs = ("counter", "nic", 1), threshold, value
                touched.use(Use.TAKE, "due", "nic", 1)
                for name in rings:
                    touched.use(Use.READ, "stored", name)
            else:
                number = int(key[1])
                if places[number] == 0:
                    stored += rings[number]
                    touched.use(Use.WRITE, "stored", rings[number])
                else:
                    value += 1
                    touched.count(1, "nic", 1)
                    if value == threshold:
                        touched.use(Use.MAKE, "due", "nic", 1)
                places[number] += 1
            schedule.took(touched)

    return run


@pytest.mark.parametrize(("rings", "threshold"), [("ab", 1), ("ab", 2), ("abc", 1), ("abc", 2), ("abc", 3)])
def test_work_is_seen_to_fire_by_every_set_of_counts_that_suffices(rings: str, threshold: int) -> None:
    def seen(reduction: bool) -> tuple[set[str], int]:
        found: set[str] = set()

        def run(schedule: Schedule) -> bool:
            found.add(counting(rings, threshold)(schedule))
            return True

        return found, explore(run, 10_000, reduction=reduction).schedules

    reduced, fewer = seen(True)
    whole, more = seen(False)
    assert reduced == whole
    assert {"".join(some) + "!" for some in itertools.combinations(rings, threshold)} <= reduced
    assert fewer < more


def test_counts_of_one_counter_commute() -> None:
    exploration = explore(lambda schedule: bool(counting("abc", 3)(schedule)), 1000)
    assert (exploration.schedules, exploration.is_complete) == (1, True)


@pytest.mark.parametrize(("depth", "systematic"), [(0, 1), (2, 3), (None, 6)])
def test_with_a_depth_the_first_choices_alone_are_varied(depth: int | None, systematic: int) -> None:
    chains = [[("x", True)] * 2] * 2
    exploration = explore(lambda schedule: bool(run_chains(chains, schedule)), 20, depth=depth)
    assert exploration.systematic == systematic
    assert exploration.is_complete == (depth is None)
    assert exploration.drawn == (0 if depth is None else 20 - systematic)


def test_a_test_that_is_not_the_same_each_time_is_told_so() -> None:
    search = Search()
    for number in range(2):
        schedule = search.next_schedule()
        assert schedule is not None
        able: list[Thing] = [("a", number), ("b", number)]
        with pytest.raises(UsageError, match="not the same each time") if number else _nothing():
            for _ in range(2):
                position = schedule.choose([Step(key, "") for key in able])
                able.remove(able[position])
                touched = Footprint()
                touched.use(Use.WRITE, "x")
                schedule.took(touched)
        search.learn(schedule)


class _nothing:  # noqa: N801 - a context that is none
    def __enter__(self) -> None: ...
    def __exit__(self, *_: object) -> None: ...
