# SPDX-License-Identifier: Apache-2.0
"""The numbers of a program's chance."""

from __future__ import annotations

from nicemu.pipeline.chance import Chance


def test_the_words_are_splitmix64s() -> None:
    chance = Chance(1234567)
    drawn = [chance.word() for _ in range(3)]
    assert drawn == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
    ]  # of the authors' own code


def test_a_seed_begins_again() -> None:
    chance = Chance(5)
    first = [chance.word() for _ in range(3)]
    chance.seed(5)
    assert [chance.word() for _ in range(3)] == first
    assert Chance(5 + (1 << 64)).word() == first[0]


def test_numbers_lie_between_their_ends_and_reach_both() -> None:
    chance = Chance()
    assert {chance.between(-2, 3, 8) for _ in range(200)} == set(range(-2, 4))
    assert max(chance.between(0, (1 << 100) - 1, 100) for _ in range(50)).bit_length() > 95


def test_nothing_is_drawn_from_nothing() -> None:
    chance = Chance()
    assert chance.between(4, 3, 8) == 4
    assert chance.word() == Chance().word()
