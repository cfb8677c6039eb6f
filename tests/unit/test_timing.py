# SPDX-License-Identifier: Apache-2.0
"""What transfers cost: a latency that is pipelined, and a rate that occupies the stage."""

from __future__ import annotations

from nicemu.timing import Cost, Resource, Timings


def test_a_cost_is_a_latency_and_a_time_for_each_byte() -> None:
    assert Resource(Cost(100, 0.5)).complete_at(1000, 0) == 600
    assert Resource(Cost(100, 0.5)).complete_at(0, 0) == 100
    assert Resource(Cost()).complete_at(1 << 40, 0) == 0


def test_a_stage_serves_one_transfer_at_a_time() -> None:
    stage = Resource(Cost(100, 0.25))
    assert stage.complete_at(400, 1000) == 1200
    assert stage.complete_at(400, 1000) == 1300
    assert stage.complete_at(400, 1050) == 1400


def test_the_latency_does_not_occupy_the_stage() -> None:
    stage = Resource(Cost(1_000_000, 1.0))
    stage.complete_at(10, 0)
    assert stage.busy_until_ns == 10
    assert stage.complete_at(10, 0) == 1_000_020


def test_a_stage_that_has_been_idle_starts_when_the_transfer_arrives() -> None:
    stage = Resource(Cost(5, 1.0))
    stage.complete_at(10, 0)
    assert stage.complete_at(10, 500) == 515


def test_without_timings_everything_completes_at_once() -> None:
    timings = Timings()
    costs = (timings.link, timings.dma, timings.nvme_read, timings.nvme_write)
    assert [Resource(cost).complete_at(1 << 30, 0) for cost in costs] == [0] * 4
    assert (timings.trigger_ns, timings.pipeline_ns, timings.firmware_step_ns) == (0, 0, 0)
