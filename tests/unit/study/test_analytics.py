# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.study import settings_with
from nicemu.study.caching.analytics import AnalyticsSettings, AnalyticsStudy, Job, prefix_for

STANDARD = AnalyticsSettings(rows=200)
PREFIXES = (1, 15, 16, 17, 32, 60, 80, 96, 136, 255, 256, 1024, 3500)


def run(settings: AnalyticsSettings, seed: int = 1) -> Any:  # noqa: ANN401 - what tests look into
    return AnalyticsStudy().run(settings, seed, lambda done, what: None)


@pytest.mark.parametrize("batch", [1, 8, 32])
def test_a_cached_prefix_costs_a_tenth_at_most_whatever_its_length(batch: int) -> None:
    job = Job(replace(STANDARD, prefixes=PREFIXES), 1)
    for prefix in PREFIXES:
        row = job.compare(prefix, batch)
        assert row.cached_s <= 1.10 * row.baseline_s, prefix


def test_a_short_prefix_is_5_to_8_percent_slower_and_a_serial_client_gains_from_80_tokens_on() -> None:
    job = Job(STANDARD, 1)
    for prefix in (16, 32, 60):
        assert 0.05 <= 1 - job.compare(prefix, 1).ratio <= 0.085
    least = prefix_for(STANDARD, 1, 1.0)
    assert least is not None
    assert least.prefix == pytest.approx(80, abs=5)
    assert all(job.compare(prefix, 1).ratio > 1 for prefix in range(least.prefix + 2, 400, 7))


def test_the_poster_s_bars_are_met_by_530_rows_behind_136_tokens_if_the_lower_one_is_cached() -> None:
    row = Job(AnalyticsSettings(), 1).compare(136, 1)
    assert row.baseline_s == pytest.approx(30.2, abs=0.3)
    assert row.cached_s == pytest.approx(26.1, abs=0.3)
    poster = run(AnalyticsSettings(prefixes=(16,), batches=(1,))).poster
    assert poster.prefix == pytest.approx(136, abs=4)
    assert poster.rows == pytest.approx(530, abs=8)
    assert poster.cached_s == pytest.approx(26.1, abs=0.05)
    assert poster.baseline_s == pytest.approx(30.2, abs=0.1)


def test_the_gain_grows_with_the_prefix_and_with_the_batch() -> None:
    rows = run(replace(STANDARD, prefixes=(64, 256, 1024, 3488), batches=(1, 8))).rows
    ratios = {(row.batch, row.prefix): row.ratio for row in rows}
    for batch in (1, 8):
        found = [ratios[batch, prefix] for prefix in (64, 256, 1024, 3488)]
        assert found == sorted(found)
    assert all(ratios[8, prefix] > ratios[1, prefix] for prefix in (64, 256, 1024, 3488))


def test_only_full_blocks_of_the_prefix_are_shared() -> None:
    job = Job(STANDARD, 1)
    for prefix, cached in ((15, 0), (16, 16), (31, 16), (136, 128)):
        tokens = sum(prefix + length for length in job.lengths)
        assert job.compare(prefix, 1).hit_rate == pytest.approx(cached * STANDARD.rows / tokens)


def test_the_pinned_prefix_survives_rows_that_fill_the_memory_many_times() -> None:
    tight = replace(STANDARD, values={"gpu.kv_bytes": float(32 * 8 << 20)})
    assert Job(tight, 1).compare(128, 1) == Job(STANDARD, 1).compare(128, 1)


def test_without_the_cache_s_own_work_no_prefix_costs_anything() -> None:
    job = Job(replace(STANDARD, values={"cache.step_s": 0.0}), 1)
    assert all(job.compare(prefix, 1).ratio >= 1 for prefix in PREFIXES if prefix < 3000)


def test_one_answer_token_needs_no_decode() -> None:
    one, two = (Job(replace(STANDARD, answer=answer), 1).compare(64, 1).baseline_s for answer in (1, 2))
    assert two - one == pytest.approx(200 * 0.02269, rel=0.01)


def test_the_result_says_that_the_poster_does_not_name_its_bars() -> None:
    result = run(replace(STANDARD, prefixes=(64,), batches=(1,)))
    (table,) = result.tables()
    assert any("does not say which has the prefix cached" in note for note in table.notes)
    data = result.as_data()
    assert data["poster"]["bars_are_named"] is False
    assert json.dumps(data) == json.dumps(run(replace(STANDARD, prefixes=(64,), batches=(1,))).as_data())
    assert result.headline()["ratio_64_tokens_batch_1"] == result.rows[0].ratio


def test_where_no_prefix_gives_the_ratio_that_is_told() -> None:
    slow = replace(STANDARD, prefixes=(64,), batches=(1,), values={"cache.step_s": 10.0})
    (table,) = run(slow).tables()
    assert (
        table.notes[0] == "a serial client gains with no prefix that there is room for, 1,024 tokens at most"
    )
    assert "no prefix of 1,024 tokens at most gives their ratio" in table.notes


@pytest.mark.parametrize("values", [{"model.context_tokens": 300}, {"gpu.kv_bytes": float(300 << 19)}])
def test_no_longer_prefix_is_looked_at_than_there_is_room_for(values: dict[str, float]) -> None:
    """A serial client gains from 83 tokens on, and 1,024 do not fit."""
    small = replace(STANDARD, prefixes=(64,), batches=(1,), rows=20)
    assert run(replace(small, values=values)).gains_from == run(small).gains_from is not None


def test_plots_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    result = run(replace(STANDARD, rows=20, prefixes=(16, 64), batches=(1, 4)))
    for folder in ("one", "two"):
        assert [path.name for path in result.plot(tmp_path / folder)] == [
            "analytics_ratio.png",
            "analytics_ratio.svg",
        ]
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"rows": 0}, "rows is 0"),
        ({"prefixes": [0]}, r"prefixes\[0\] is 0"),
        ({"batches": []}, "batches is empty"),
        ({"row_sigma": -1}, "row_sigma is -1"),
        ({"answer": 0}, "answer is 0"),
        ({"prefix": 3}, "there is no setting prefix; did you mean prefixes"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        settings_with(STANDARD, given)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"prefixes": (4090,)}, "a prefix of 4090 tokens and a row come to .* window has 4096"),
        ({"values": {"gpu.kv_bytes": float(1 << 23)}, "prefixes": (64,)}, "does not hold the prefix"),
        ({"values": {"gpu.kv_bytes": float(4 << 23)}, "prefixes": (16,)}, "does not hold 1 rows"),
        ({"values": {"nvme.reading": "latency_alone"}}, "there is no field nvme.reading"),
    ],
)
def test_a_job_that_cannot_be_is_refused(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        run(replace(STANDARD, **changed))
