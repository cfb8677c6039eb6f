# SPDX-License-Identifier: Apache-2.0
"""P4Runtime 1.4, "Idle-timeout": the rows whose timeouts have passed, whatever was asked of them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from nicemu.pipeline import Exact, Row, TableEntry
from nicemu.pipeline.idle_rows import IdleRows

STEPS = st.lists(
    st.tuples(
        st.sampled_from(("add", "change", "remove", "put back", "hit", "look")),
        st.integers(0, 4),
        st.integers(0, 9),
    ),
    max_size=60,
)


def entry(number: int, timeout_ns: int) -> TableEntry:
    return TableEntry((Exact(number),), "a", idle_timeout_ns=timeout_ns)


@given(STEPS)
def test_a_row_is_idle_when_its_timeout_has_passed_since_it_came_was_hit_or_told_of(
    steps: list[tuple[str, int, int]],
) -> None:
    watched, rows, hits, now_ns, made = IdleRows(), dict[int, Row](), dict[int, int](), 0, 0
    for step, key, number in steps:
        now_ns += number
        row = rows.get(key)
        if step == "add" and row is None:
            made += 1
            rows[key] = row = Row(entry(key, number), last_hit_ns=now_ns, number=made)
            hits[made] = now_ns
            watched.watch(row)
        elif step == "look":
            asked: list[Row] = []

            def gather(row: Row, asked: list[Row] = asked) -> None:
                asked.append(row)
                assert any(row is present for present in rows.values())
                row.last_hit_ns = hits[row.number]

            expected = [
                row
                for row in rows.values()
                if row.entry.idle_timeout_ns
                and now_ns >= max(hits[row.number], row.told_ns) + row.entry.idle_timeout_ns
            ]
            found = watched.passed(now_ns, gather)
            assert sorted(row.number for row in found) == sorted(row.number for row in expected)
            assert len(asked) <= len(rows)
        elif row is None:
            continue
        elif step == "hit":
            hits[row.number] = now_ns
        elif step == "change":
            row.entry, row.told_ns = entry(key, number), -1
            watched.watch(row)
        elif step == "remove":
            watched.forget(rows.pop(key))
        elif step == "put back":
            watched.forget(row)
            rows[key] = row.copy()
            watched.watch(rows[key])


def test_rows_that_cannot_be_idle_yet_are_not_asked() -> None:
    watched, asked = IdleRows(), list[Row]()
    for number in range(1, 5001):
        watched.watch(Row(entry(number, 1000 + number), number=number))
    assert watched.passed(999, asked.append) == []
    assert asked == []
    assert [row.number for row in watched.passed(1003, asked.append)] == [1, 2, 3]
    assert len(asked) == 3


def test_what_is_watched_no_more_is_forgotten() -> None:
    watched = IdleRows()
    for number in range(1, 10_001):
        row = Row(entry(number, 10**9), number=number)
        watched.watch(row)
        watched.forget(row)
    assert len(watched._heap) < 2000
