# SPDX-License-Identifier: Apache-2.0
"""Which order each event gives, in logs written by hand."""

from __future__ import annotations

from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.testing import check_races
from tests.unit.testing.races.handmade import HandMade


@pytest.fixture
def logs() -> HandMade:
    return HandMade()


def test_a_source_that_is_written_before_the_count_is_in_order(logs: HandMade) -> None:
    logs.arm(0)
    logs.access("w")
    logs.add(1)
    logs.fire(0)
    logs.end(0, 1)
    assert logs.kinds() == []


@pytest.mark.parametrize(
    ("first", "length", "kinds"), [(0, 64, 1), (63, 1, 1), (64, 8, 0)], ids=["all", "a byte", "beside it"]
)
def test_a_write_behind_the_count_races_if_it_shares_a_byte(
    logs: HandMade, first: int, length: int, kinds: int
) -> None:
    logs.arm(0)
    logs.add(1)
    logs.access("w", first, length)
    logs.fire(0)
    logs.end(0, 1)
    assert logs.kinds() == ["source_overwritten"] * kinds


def test_a_source_may_be_read_at_any_time(logs: HandMade) -> None:
    logs.arm(0)
    logs.add(1)
    logs.access("r")
    logs.fire(0)
    assert logs.kinds() == []


@pytest.mark.parametrize(("seen", "kinds"), [(1, 0), (0, 1)])
def test_who_has_seen_the_completion_counter_comes_after_the_operation(
    logs: HandMade, seen: int, kinds: int
) -> None:
    logs.arm(0)
    logs.add(1)
    logs.fire(0)
    logs.end(0, 1)
    logs.seen(2, seen)
    logs.access("w")
    assert len(logs.kinds()) == kinds


@pytest.mark.parametrize(
    ("other", "seen", "mine", "its"),
    [(2, 1, 1, 1), (2, 2, 0, 0), (1, 1, 0, 1)],
    ids=["two queue pairs, one end", "two queue pairs, both ends", "one queue pair, one end"],
)
def test_who_has_seen_one_end_knows_whose_only_if_the_ends_have_an_order(
    logs: HandMade, other: int, seen: int, mine: int, its: int
) -> None:
    logs.arm(0, 1)
    logs.add(1)
    for sequence, qp, pieces in ((0, 1, [[0x1000, 32, 7]]), (1, other, [[0x1020, 32, 7]])):
        logs.fire(sequence, qp=qp, pieces=pieces)
        logs.end(sequence, sequence + 1)
    logs.seen(2, seen)
    logs.access("w", 0, 32)
    assert logs.kinds() == ["source_overwritten"] * mine
    logs.access("w", 32, 32)
    races = logs.report().races
    assert len(races) == mine + its
    shared = [race for race in races if "others count at `done`" in race.cure]
    assert len(shared) == (len(races) if other == 2 else 0)
    assert all("`done.wait(2)`" in race.cure for race in races)


def test_an_end_that_comes_after_the_look_was_not_what_was_seen(logs: HandMade) -> None:
    logs.arm(0)
    logs.add(1)
    logs.fire(0, pieces=[[0x1000, 32, 7]])
    logs.end(0, 1)
    logs.seen(2, 1)
    logs.arm(1)
    logs.add(2)
    logs.fire(1, threshold=2, qp=2, pieces=[[0x1020, 32, 7]])
    logs.end(1, 2)
    logs.access("w", 0, 32)
    assert logs.kinds() == []


def test_what_hangs_on_an_order_that_is_none_has_none(logs: HandMade) -> None:
    """Operation 2 fires at one of two ends, so its own end tells of neither."""
    logs.on_nic("counter", counter=3, name="later")
    logs.arm(0, 1, 2)
    logs.add(1)
    logs.fire(0, pieces=[[0x1000, 32, 7]])
    logs.fire(1, qp=2, pieces=[])
    logs.end(0, 1)
    logs.fire(2, qp=3, trigger=2, completion=3, pieces=[])
    logs.end(1, 2)
    logs.on_nic("end", sequence=2, status=0)
    logs.count(3, 1, "end", 2)
    logs.seen(3, 1)
    logs.access("w", 0, 32)
    assert logs.kinds() == ["source_overwritten"]


def test_two_streams_that_ring_one_counter_are_both_needed_only_at_the_sum(logs: HandMade) -> None:
    for threshold, kinds in ((2, []), (1, ["source_overwritten", "source_not_ready"])):
        logs = HandMade()
        logs.arm(0)
        for stream in (0, 1):
            logs.submit("w", stream, 32 * stream, 32)
            logs.ring(1, stream, cell=1 + stream)
            logs.count(1, 1 + stream, "doorbell", 1, 1 + stream, 1)
        logs.fire(0, threshold=threshold)
        assert sorted(logs.kinds()) == sorted(kinds), threshold


def test_a_wake_up_of_a_host_that_waits_is_no_operation_that_was_seen(logs: HandMade) -> None:
    logs.arm(0)
    logs.add(1)
    logs.fire(0)
    logs.fire(1, opcode="WRITE_BACK", pieces=[], qp=0, completion=-1)
    assert logs.report().operations == 1


def test_the_end_of_a_later_operation_of_a_queue_pair_tells_that_of_an_earlier_one(logs: HandMade) -> None:
    logs.arm(0, 1)
    logs.add(1)
    logs.fire(0, completion=-1)
    logs.on_nic("end", sequence=0, status=0)
    logs.fire(1, pieces=[])
    logs.end(1, 1)
    logs.seen(2, 1)
    logs.access("w")
    assert logs.kinds() == []


def test_an_error_counts_towards_what_was_seen(logs: HandMade) -> None:
    logs.arm(0, 1)
    logs.add(1)
    logs.fire(0)
    logs.end(0, 1)
    logs.fire(1)
    logs.on_nic("end", sequence=1, status=10)
    logs.count(2, 1, "end", 1, errors=1)
    logs.seen(2, 1, 1)
    logs.access("w")
    assert logs.kinds() == []


def test_an_operation_that_failed_has_moved_nothing(logs: HandMade) -> None:
    logs.arm(0)
    logs.add(1)
    logs.access("w")
    logs.fire(0)
    logs.end(0, 0, status=10)
    assert logs.kinds() == []


# Streams


def test_a_ring_is_ordered_behind_the_kernels_before_it(logs: HandMade) -> None:
    logs.arm(0)
    logs.submit("w")
    logs.ring(1)
    logs.count(1, 1, "doorbell", 1, 1, 1)
    logs.fire(0)
    logs.end(0, 1)
    assert logs.kinds() == []


def test_a_ring_of_another_stream_orders_nothing(logs: HandMade) -> None:
    logs.arm(0)
    logs.submit("w", stream=0)
    logs.ring(1, stream=1)
    logs.count(1, 1, "doorbell", 1, 1, 1)
    logs.fire(0)
    logs.end(0, 1)
    assert logs.kinds() == ["source_not_ready"]


def test_two_rings_that_the_nic_finds_at_once_are_two_counts(logs: HandMade) -> None:
    """The operation was fired by the first ring, though both had rung when it fired."""
    logs.arm(0)
    logs.submit("w", first=0, length=32)
    logs.ring(1)
    logs.submit("w", first=32, length=32)
    logs.ring(2)
    logs.count(1, 2, "doorbell", 1, 1, 2)
    logs.fire(0, threshold=1)
    logs.end(0, 1)
    (race,) = logs.report().races
    assert race.kind.name == "SOURCE_OVERWRITTEN"
    assert (race.address, race.length_bytes) == (0x1020, 32)


def test_what_waits_for_a_counter_in_a_stream_comes_after_it(logs: HandMade) -> None:
    logs.arm(0)
    logs.on_host("wait_on", stream=0, nic="here", counter=2, success=1)
    logs.submit("w")
    logs.add(1)
    logs.fire(0)
    logs.end(0, 1)
    assert logs.kinds() == []


def test_what_stands_behind_a_wait_that_is_not_over_has_not_begun(logs: HandMade) -> None:
    logs.arm(0)
    logs.add(1)
    logs.fire(0)
    logs.on_host("wait_on", stream=0, nic="here", counter=2, success=1)
    logs.submit("w")
    assert logs.kinds() == []


@pytest.mark.parametrize("waits", [True, False])
def test_a_synchronize_brings_a_stream_to_the_host(logs: HandMade, waits: bool) -> None:
    logs.submit("w")
    if waits:
        logs.on_host("synchronize", stream=0)
    logs.access("r")
    assert logs.kinds() == ([] if waits else ["stream_not_synchronized"])


# Landing


@pytest.mark.parametrize("seen", [True, False])
def test_what_a_read_brings_is_there_when_its_end_was_seen(logs: HandMade, seen: bool) -> None:
    logs.arm(0)
    logs.add(1)
    logs.fire(0, opcode="RDMA_READ")
    logs.end(0, 1)
    if seen:
        logs.seen(2, 1)
    logs.access("r")
    assert logs.kinds() == ([] if seen else ["landing_not_observed"])


def test_a_landing_that_is_fired_while_a_kernel_reads_is_a_reuse(logs: HandMade) -> None:
    logs.arm(0)
    logs.submit("r")
    logs.add(1)
    logs.fire(0, opcode="RDMA_READ")
    logs.end(0, 1)
    assert logs.kinds() == ["landing_reused"]


# Two operations


@pytest.mark.parametrize(
    ("other", "kinds"),
    [
        ({"qp": 2}, ["overlapping_operations"]),
        ({"qp": 1}, []),
        ({"qp": 2, "trigger": 2, "threshold": 1}, []),
        ({"qp": 2, "pieces": [[0x1040, 64, 7]]}, []),
    ],
    ids=["two queue pairs", "one queue pair", "one behind the other", "other bytes"],
)
def test_two_landings_need_an_order(logs: HandMade, other: dict[str, Any], kinds: list[str]) -> None:
    logs.arm(0, 1)
    logs.add(1)
    logs.fire(0, opcode="RDMA_READ")
    logs.end(0, 1)
    logs.fire(1, opcode="RDMA_READ", **other)
    logs.end(1, 2)
    assert logs.kinds() == kinds


def test_atomics_on_one_word_need_no_order(logs: HandMade) -> None:
    logs.arm(0, 1)
    logs.add(1)
    for sequence in (0, 1):
        piece = [[0x1000 + 8 * sequence, 8, 7]]
        logs.fire(sequence, opcode="FETCH_ADD", qp=sequence + 1, remote=0x9000, pieces=piece)
        logs.end(sequence, sequence + 1)
    assert logs.kinds() == []


# Counters


def test_a_set_begins_anew(logs: HandMade) -> None:
    """After a set to 0 the second end is what brings the counter to 1 again."""
    logs.arm(0, 1)
    logs.add(1)
    logs.fire(0, pieces=[[0x1000, 32, 7]], qp=1)
    logs.end(0, 1)
    number = logs.command("COUNTER_SET", 2, 0, 0, 1)
    logs.count(2, 0, "command", 1, number, 2)
    logs.fire(1, pieces=[[0x1020, 32, 7]], qp=2)
    logs.end(1, 1)
    logs.seen(2, 1)
    logs.access("w", 32, 32)
    assert logs.kinds() == []
    logs.access("w", 0, 32)
    assert logs.kinds() == ["source_overwritten"]


def test_a_counter_of_the_same_number_is_another_one(logs: HandMade) -> None:
    logs.arm(0)
    logs.add(1)
    logs.fire(0)
    logs.end(0, 1)
    logs.on_nic("counter", counter=2, name="another")
    logs.count(2, 1, "control")
    logs.seen(2, 1)
    logs.access("w")
    assert logs.kinds() == ["source_overwritten"]


def test_a_deferred_add_hands_the_order_on(logs: HandMade) -> None:
    logs.arm(0, 1)
    logs.add(1)
    logs.fire(0)
    logs.end(0, 1)
    logs.fire(1, opcode="COUNTER_ADD", trigger=2, threshold=1, pieces=[], completion=-1, qp=0)
    logs.count(3, 1, "work", 1, 16)
    logs.seen(3, 1)
    logs.access("w")
    assert logs.kinds() == []


# Deregistering


def test_a_key_may_go_when_the_end_was_seen_or_the_work_cancelled(logs: HandMade) -> None:
    logs.arm(0)
    logs.command("CANCEL", 0, 0)
    logs.on_host("reply", nic="here", operation="deregister", operands={"key": 7}, reply={})
    assert logs.kinds() == []


def test_a_key_that_goes_under_armed_work_is_reported_though_nothing_ever_fires(logs: HandMade) -> None:
    logs.arm(0)
    logs.on_host("reply", nic="here", operation="deregister", operands={"key": 7}, reply={})
    assert logs.kinds() == ["deregistered"]


# The report


def test_the_same_two_are_reported_once_and_counted(logs: HandMade) -> None:
    logs.arm(0, 1)
    logs.add(1)
    logs.fire(0)
    logs.fire(1)
    logs.access("w")
    (race,) = logs.report().races
    assert race.count == 2


def test_events_that_were_lost_make_a_report_incomplete(logs: HandMade) -> None:
    logs.on_nic("lost", count=3)
    report = logs.report()
    assert not report.is_whole
    assert "no room for 3 events" in str(report)


def test_what_is_past_the_limit_is_left_out_and_said() -> None:
    from nicemu.testing.races.logs import Logs

    logs = HandMade()
    for _ in range(10):
        logs.access("r")
    kept = Logs.of([logs.host, logs.nic], limit=12)
    assert kept.cut > 0
    assert sum(map(len, kept.hosts)) + sum(map(len, kept.nics.values())) == 12 - 2


def test_something_that_is_no_log_is_refused() -> None:
    with pytest.raises(UsageError, match="--check-races"):
        check_races([[{"what": "open", "ns": 1}]])
