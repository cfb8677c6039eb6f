# SPDX-License-Identifier: Apache-2.0
"""Limits profiles: known names, and values that make sense."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from nicemu.abi import FiringOrder, Limits
from nicemu.errors import UsageError


def test_a_profile_can_be_changed() -> None:
    limits = Limits.named("cassini", slot_count=np.int64(4096), order=FiringOrder.ISSUE)
    assert (limits.slot_count, limits.max_errors, limits.order) == (4096, 127, FiringOrder.ISSUE)
    assert type(limits.slot_count) is int


@pytest.mark.parametrize("profile", ["cray", 3, None, ["cassini"]])
def test_a_profile_that_is_not_known_is_refused(profile: object) -> None:
    with pytest.raises(UsageError, match=r"no limits profile .*; there are unlimited, portals, cassini"):
        Limits.named(profile)  # type: ignore[arg-type]


def test_a_limit_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match="no limit is called foo; there are counter_count, slot_count, "):
        Limits.named("cassini", foo=1)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"slot_count": "many"}, "slot_count is a whole number, 1 to 16777216, not 'many'"),
        ({"slot_count": 0}, "slot_count is a whole number, 1 to"),
        ({"counter_count": 65537}, "counter_count is a whole number, 1 to 65536"),
        ({"max_success": -1}, "max_success is a whole number"),
        ({"local_pieces": True}, "local_pieces is a whole number"),
        ({"single_cancel": 1}, "single_cancel is True or False, not 1"),
        ({"order": 1}, "order is a FiringOrder, not 1"),
        ({"profile": 7}, "profile is text"),
        ({"slot_count": 10, "service_slots": 11}, "service_slots 11 is more than slot_count 10"),
    ],
)
def test_a_limit_that_makes_no_sense_is_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError, match=said):
        replace(Limits(), **change)  # type: ignore[arg-type]
