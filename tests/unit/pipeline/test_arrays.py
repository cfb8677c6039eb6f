# SPDX-License-Identifier: Apache-2.0
"""Arrays whose places are alike until one is used."""

from __future__ import annotations

from nicemu.pipeline import Count, CounterArray, MeterArray, MeterConfig, RegisterArray, ir


def test_a_counter_goes_on_from_what_all_places_stand_at() -> None:
    array = CounterArray("c", 4)
    array.others = Count(10, 100)
    array.count(1, 60)
    array.count(4, 60)
    assert {index: (item.packets, item.bytes) for index, item in array.counts.items()} == {1: (11, 160)}
    assert (array.others.packets, array.others.bytes) == (10, 100)


def test_meters_configured_all_at_once_have_a_bucket_each() -> None:
    array = MeterArray("m", 4, in_bytes=False)
    array.others = MeterConfig(0, 1, 0, 1)
    assert [array.mark(index, 60, 0) for index in (1, 1, 2)] == [0, 2, 0]
    assert [array.mark(4, 60, 0) for _ in range(3)] == [0, 0, 0]


def test_a_register_reads_what_was_written_else_what_all_hold_else_zero() -> None:
    array = RegisterArray("r", 4, ir.Bits(8))
    assert array.read(1, 0) == 0
    array.others = 7
    array.write(2, 9)
    array.write(4, 9)
    assert [array.read(index, 0) for index in (1, 2, 4)] == [7, 9, 0]
