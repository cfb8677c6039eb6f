# SPDX-License-Identifier: Apache-2.0
"""What comes before what."""

from __future__ import annotations

import random

from nicemu.testing.races.graph import Graph


def test_an_event_comes_before_itself_and_all_that_follow_it() -> None:
    graph = Graph()
    first = graph.event()
    second = graph.event(first)
    third = graph.event(second)
    aside = graph.event(first)
    assert graph.close() == 0
    assert graph.is_before(first, first)
    assert graph.is_before(first, third)
    assert not graph.is_before(third, first)
    assert not graph.is_before(second, aside)
    assert not graph.is_before(aside, second)


def test_an_event_that_never_came_is_before_nothing() -> None:
    graph = Graph()
    event = graph.event(None)
    graph.edge(None, event)
    graph.edge(event, None)
    assert graph.close() == 0
    assert not graph.is_before(None, event)
    assert not graph.is_before(event, None)


def test_an_edge_may_come_from_an_event_that_was_added_later() -> None:
    graph = Graph()
    late = graph.event()
    early = graph.event()
    graph.edge(early, late)
    assert graph.close() == 0
    assert graph.is_before(early, late)


def test_edges_that_contradict_each_other_are_counted_and_the_rest_stands() -> None:
    graph = Graph()
    first = graph.event()
    second = graph.event(first)
    third = graph.event(second)
    graph.edge(third, second)
    assert graph.close() == 1
    assert graph.is_before(first, third)


def test_the_sets_are_those_of_a_search() -> None:
    draw = random.Random(1)
    for _ in range(20):
        graph, parents = Graph(), []
        for number in range(40):
            chosen = draw.sample(range(number), min(number, draw.randrange(4)))
            parents.append(chosen)
            graph.event(*chosen)
        assert graph.close() == 0

        def reaches(one: int, other: int, parents: list[list[int]] = parents) -> bool:
            return one == other or any(reaches(one, parent) for parent in parents[other])

        for one in range(40):
            for other in range(40):
                assert graph.is_before(one, other) == reaches(one, other)
