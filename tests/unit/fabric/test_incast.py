# SPDX-License-Identifier: Apache-2.0
"""Eight engines write to one through a switch in virtual time: examples/congestion/incast.py."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nicemu.errors import UsageError
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


@pytest.mark.parametrize("text", ["twenty", "nan", "inf", "-1", "0", "1e300", "", "20ms", "0.0000001"])
def test_a_length_that_is_none_is_refused_in_a_sentence(
    text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        incast.main(["--", text])
    assert ended.value.code == 2
    assert f"{text!r} is no time to run for; give milliseconds, from" in capsys.readouterr().err


def test_more_arguments_than_there_are_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        incast.main(["1", "2"])
    assert ended.value.code == 2
    assert "unrecognized arguments: 2" in capsys.readouterr().err


def test_a_run_of_a_nanosecond_has_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    incast.main(["0.000001"])
    assert capsys.readouterr().out.count("| 0.00 | 0.000 |") == len(incast.cases())


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"senders": 0}, "senders is 0; it is a whole number from 1 to 99"),
        ({"senders": 100}, "senders is 100"),
        ({"senders": 1.5}, "senders is 1.5"),
        ({"queue_bytes": -1}, "queue_bytes is -1"),
        ({"pause": "PFC"}, "pause is 'PFC'"),
        ({"marking": 1}, "marking is 1"),
    ],
)
def test_an_incast_of_nobody_or_into_nothing_is_refused(wrong: dict[str, object], words: str) -> None:
    right = {"pause": False, "marking": False, "queue_bytes": incast.SHORT_QUEUE, "senders": 1}
    with pytest.raises(UsageError, match=words):
        incast.Incast(**right | wrong)
    with pytest.raises(UsageError, match="length_ns is 0"):
        incast.Incast(**right).measure(0)


@pytest.mark.slow
@pytest.mark.skipif(not JIT, reason="NICEMU_JIT=0: a minute of interpreted engines")
def test_with_dcqcn_queues_stay_short_and_all_have_the_same() -> None:
    found = incast.cases()["DCQCN"].measure(SETTLED_NS)
    assert found.lost == 0
    assert found.marks > 0
    assert found.deepest_bytes < incast.QUEUE_BOUND
    assert found.jain_index > 0.98
    assert sum(found.goodputs) > 0.7
