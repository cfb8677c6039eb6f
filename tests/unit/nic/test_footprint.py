# SPDX-License-Identifier: Apache-2.0
"""Which steps are independent, as docs/testing.md lists it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from nicemu.nic import Footprint, Use, are_independent, makes_for, order_matters


def made(*notes: Callable[[Footprint], None], by_host: bool = False) -> Footprint:
    touched = Footprint(by_host=by_host)
    for note in notes:
        note(touched)
    return touched


def moves(start: int, end: int, is_written: bool, nic: str = "a") -> Footprint:
    return made(lambda touched: touched.move(nic, start, end - start, is_written))


def uses(how: Use, *thing: str | int) -> Footprint:
    return made(lambda touched: touched.use(how, *thing))


def counts(counter: int) -> Footprint:
    return made(lambda touched: touched.count(1, "a", counter))


def fires(counter: int) -> Footprint:
    touched = Footprint()
    touched.needs = ("counter", "a", counter), 1, 1
    return touched


HOST = made(by_host=True)


@pytest.mark.parametrize(
    ("one", "other", "is_independent"),
    [
        (moves(0, 8, True), moves(8, 16, True), True),
        (moves(0, 8, True), moves(7, 16, True), False),
        (moves(0, 8, False), moves(0, 8, False), True),
        (moves(0, 8, False), moves(0, 8, True), False),
        (moves(0, 8, True), moves(0, 8, True, nic="b"), True),
        (counts(1), counts(1), True),
        (counts(1), uses(Use.READ, "counter", "a", 1), False),
        (counts(1), uses(Use.WRITE, "counter", "a", 1), False),
        (counts(1), uses(Use.WRITE, "counter", "a", 2), True),
        (counts(1), uses(Use.READ, "counters", "a"), False),
        (counts(1), fires(1), False),
        (counts(1), fires(2), True),
        (uses(Use.WRITE, "outbox", "a", "b"), uses(Use.WRITE, "outbox", "a", "b"), False),
        (uses(Use.WRITE, "outbox", "a", "b"), uses(Use.WRITE, "outbox", "b", "a"), True),
        (uses(Use.MAKE, "cell", "a", 1, 1), uses(Use.TAKE, "cell", "a", 1, 1), False),
        (uses(Use.MAKE, "cell", "a", 1, 1), uses(Use.TAKE, "cell", "a", 1, 2), True),
        (HOST, counts(1), False),
        (HOST, moves(0, 8, True), False),
        (HOST, moves(0, 8, False), True),
        (HOST, uses(Use.WRITE, "send queue", "a", 1), True),
        (HOST, uses(Use.WRITE, "completions", "a", 1), False),
        (HOST, HOST, False),
    ],
)
def test_two_steps_are_independent_as_the_page_says(
    one: Footprint, other: Footprint, is_independent: bool
) -> None:
    assert are_independent(one, other) is is_independent
    assert are_independent(other, one) is is_independent


def test_what_is_made_is_an_order_and_no_race() -> None:
    store, look = uses(Use.MAKE, "cell", "a", 1, 1), uses(Use.TAKE, "cell", "a", 1, 1)
    assert makes_for(store, look)
    assert not makes_for(look, store)
    assert not order_matters(store, look)


def test_a_move_of_no_bytes_touches_nothing() -> None:
    assert moves(8, 8, True).memory == []
