# SPDX-License-Identifier: Apache-2.0
"""Ids of tables and actions are those of p4c: a P4Info that p4c made for a program fits ours."""

from __future__ import annotations

import pytest

from nicemu.pipeline import allocate_ids

TABLE, ACTION = 0x02, 0x01


@pytest.mark.parametrize(
    ("prefix", "name", "number"), [(TABLE, "I.t", 49059515), (ACTION, "I.fwd", 31384409)]
)
def test_an_id_is_the_prefix_and_the_hash_of_the_full_name(prefix: int, name: str, number: int) -> None:
    assert allocate_ids(prefix, {name: 0}) == {name: number}


def test_an_id_that_the_program_chose_is_kept_with_its_prefix() -> None:
    assert allocate_ids(TABLE, {"I.t": 0x12AB34}) == {"I.t": 0x0212AB34}
    assert allocate_ids(TABLE, {"I.t": 0x0212AB34}) == {"I.t": 0x0212AB34}


def test_a_number_already_taken_is_followed_by_the_next_free_one() -> None:
    assert allocate_ids(TABLE, {"I.t": 0, "I.u": 49059515}) == {"I.t": 49059516, "I.u": 49059515}
