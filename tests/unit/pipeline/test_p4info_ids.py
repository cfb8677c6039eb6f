# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "ID Allocation for P4Info Objects", with ids as p4c gives them."""

from __future__ import annotations

from nicemu.pipeline import allocate_ids
from nicemu.pipeline.p4info_ids import aliases_of, numbers_of


def test_ids_are_those_that_p4c_gives() -> None:
    """The two ids were read from p4c's own P4Info for a control I with table t and action fwd."""
    assert allocate_ids(0x02, {"I.t": 0}) == {"I.t": 49059515}
    assert allocate_ids(0x01, {"I.fwd": 0}) == {"I.fwd": 31384409}


def test_a_taken_id_is_followed_by_the_next_free_one() -> None:
    taken = 49059515 & 0xFFFFFF
    ids = allocate_ids(0x02, {"I.t": 0, "A.chosen": taken, "B.chosen": taken + 1})
    assert ids["I.t"] == 0x02 << 24 | taken + 2


def test_an_alias_is_the_shortest_suffix_that_nothing_else_ends_in() -> None:
    names = aliases_of(["A.t", "B.t", "A.u", "A.b.v"])
    assert names == {"A.t": "A.t", "B.t": "B.t", "A.u": "u", "A.b.v": "v"}


def test_a_key_or_parameter_without_an_id_has_its_place_or_the_next_number_that_is_free() -> None:
    assert numbers_of([0, 0, 0]) == [1, 2, 3]
    assert numbers_of([7, 0, 0]) == [7, 2, 3]
    assert numbers_of([2, 0, 3, 0]) == [2, 4, 3, 5]
    assert numbers_of([0, 7, 0, 0]) == [1, 7, 2, 3]
