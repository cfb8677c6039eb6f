# SPDX-License-Identifier: Apache-2.0
"""Meters whose state lies in memory."""

from __future__ import annotations

import ctypes
from dataclasses import replace

from nicemu.pipeline import Meter, MeterConfig, MeterState

CONFIG = MeterConfig(1.0, 2, 1.0, 3)
GREEN, YELLOW, RED = range(3)


def test_a_copy_of_a_meter_has_buckets_of_its_own() -> None:
    meter = Meter()
    meter.configure(CONFIG, 0)
    copy = replace(meter)
    assert [meter.mark(1, 0) for _ in range(4)] == [GREEN, GREEN, YELLOW, RED]
    assert copy.mark(1, 0) == GREEN


def test_a_meter_that_moves_keeps_what_its_buckets_hold() -> None:
    meter, room = Meter(), MeterState()
    meter.configure(CONFIG, 0)
    meter.mark(2, 0)
    meter.move(ctypes.addressof(room))
    assert (room.committed, room.peak) == (0.0, 1.0)
    assert meter.mark(1, 0) == YELLOW
    assert room.peak == 0.0
    meter.leave()
    room.peak = 100.0
    assert meter.mark(1, 0) == RED


def test_a_meter_without_rates_lets_everything_pass() -> None:
    meter = Meter()
    assert meter.mark(1000, 0) == GREEN
    meter.configure(CONFIG, 0)
    meter.configure(None, 0)
    assert meter.mark(1000, 0) == GREEN


def test_a_meter_of_one_rate_lends_what_its_bucket_cannot_hold_from_an_excess_burst() -> None:
    """RFC 2697, "Metering"."""
    meter = Meter()
    meter.configure(MeterConfig(1.0, 2, 1.0, 2, excess_burst=3), 0)
    assert [meter.mark(1, 0) for _ in range(6)] == [GREEN] * 2 + [YELLOW] * 3 + [RED]
    at_ns = 3_000_000_000  # the committed bucket is full again, and one more is in excess
    assert [meter.mark(1, at_ns) for _ in range(4)] == [GREEN, GREEN, YELLOW, RED]
    assert meter.mark(4, 1 << 62) == RED
    assert meter.mark(3, 1 << 62) == YELLOW
