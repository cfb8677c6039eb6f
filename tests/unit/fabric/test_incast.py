# SPDX-License-Identifier: Apache-2.0
"""Eight engines write to one through a switch in virtual time: examples/congestion/incast.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nicemu.hot import JIT
from nicemu.programs import load_module

incast: Any = load_module(Path(__file__).parents[3] / "examples" / "congestion" / "incast.py")
LENGTH_NS = 1_500_000
SETTLED_NS = 16_000_000
FRAME_BYTES = incast.PATH_MTU + 82


def test_with_neither_frames_are_lost_where_the_queue_is_short() -> None:
    found = incast.cases()["neither, 200 kB queue"].measure(LENGTH_NS)
    assert found.lost > 100
    assert found.deepest_bytes <= incast.SHORT_QUEUE


def test_with_pauses_none_is_lost() -> None:
    case = incast.cases()["PFC"]
    found = case.measure(LENGTH_NS)
    assert found.lost == 0
    assert found.pauses > incast.SENDERS
    bound = incast.SENDERS * (incast.PAUSE.xoff_bytes + 6 * FRAME_BYTES)
    assert found.deepest_bytes < bound < incast.LONG_QUEUE
    assert sum(found.goodputs) > 0.85
    assert case.target.engine.drops == {}


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="NICEMU_JIT=0: a minute of interpreted engines")
def test_with_dcqcn_queues_stay_short_and_all_have_the_same() -> None:
    found = incast.cases()["DCQCN"].measure(SETTLED_NS)
    assert found.lost == 0
    assert found.marks > 0
    assert found.deepest_bytes < incast.QUEUE_BOUND
    assert found.jain_index > 0.98
    assert sum(found.goodputs) > 0.7
