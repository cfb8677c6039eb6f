# SPDX-License-Identifier: Apache-2.0
"""The chat benchmark's figures; docs/prefix-caching.md has those that they are compared with."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.study import STUDIES, settings_with
from nicemu.study.caching.chat import ChatSettings
from nicemu.study.caching.chat_workload import conversations
from tests.unit.study.chat_cases import GIB, STANDARD, run, small, standard

SEEDS = (1, 2, 3)
CACHING = ("lru", "lfu", "hint", "pin", "triggered")


@pytest.fixture(scope="module")
def talks() -> list[Any]:
    return [talk for seed in SEEDS for talk in conversations(STANDARD, 4096, 0, seed)]


def test_conversations_are_as_long_as_the_sources_say_but_for_the_window(talks: list[Any]) -> None:
    turns = [turn for talk in talks for turn in talk.turns]
    assert len(talks) == 600
    assert len(turns) / len(talks) == pytest.approx(4.6, abs=0.35)
    assert fmean(turn.prompt for turn in turns) == pytest.approx(141, rel=0.05)
    assert fmean(turn.answer for turn in turns) == pytest.approx(289, rel=0.05)
    assert max(sum(turn.prompt + turn.answer for turn in talk.turns) for talk in talks) <= 4096


def test_without_a_window_turns_have_the_mean_that_is_set() -> None:
    wide = conversations(replace(STANDARD, conversations=20_000, prompt_most=4, answer_most=4), 1 << 20, 0, 1)
    assert fmean(len(talk.turns) for talk in wide) == pytest.approx(5.75, rel=0.02)
    assert sum(len(talk.turns) == 1 for talk in wide) / len(wide) == pytest.approx(0.27, abs=0.01)


def test_policies_and_seeds_see_their_own_conversations_alone() -> None:
    one, again, other = (conversations(STANDARD, 4096, 50, seed) for seed in (1, 1, 2))
    assert one == again != other
    hinted = conversations(replace(STANDARD, wrong_hints=1.0), 4096, 50, 1)
    assert [talk.shared for talk in hinted] == [talk.shared for talk in one]
    assert all(turn.misled for talk in hinted for turn in talk.turns)


@pytest.mark.parametrize("seed", SEEDS)
def test_large_tiers_hit_89_percent_of_tokens_less_what_partial_blocks_lose(seed: int) -> None:
    row = standard("lru", 8, seed)
    assert row.hit_rate == pytest.approx(0.89, abs=0.015)
    assert row.above[0.75] == pytest.approx(0.68, abs=0.05)
    assert row.none_cached == pytest.approx(0.22, abs=0.025)


@pytest.mark.parametrize("seed", SEEDS)
def test_eight_chatters_see_their_first_byte_80_percent_sooner(seed: int) -> None:
    saved = 1 - standard("lru", 8, seed).first_byte_s / standard("none", 8, seed).first_byte_s
    assert saved == pytest.approx(0.84, abs=0.05)


@pytest.mark.slow
def test_messages_a_second_grow_by_a_tenth_at_8_chatters_and_a_quarter_at_32() -> None:
    gains = {
        chatters: fmean(
            standard("lru", chatters, seed).messages_per_s / standard("none", chatters, seed).messages_per_s
            for seed in SEEDS
        )
        for chatters in (8, 32)
    }
    assert gains[8] == pytest.approx(1.09, abs=0.03)
    assert gains[32] == pytest.approx(1.24, abs=0.06)


@pytest.mark.parametrize(("talks", "chatters"), [(4, 4), (6, 3), (1, 1)])
def test_answers_that_end_with_one_step_have_a_rate_too(talks: int, chatters: int) -> None:
    """Conversations of one turn, all alike, so that chatters have their answers at once."""
    alike = replace(STANDARD, single_turn=1.0, mean_turns=1.0, prompt_sigma=0.0, answer_sigma=0.0)
    (row,) = run(replace(alike, conversations=talks, chatters=(chatters,), policies=("none",))).rows
    assert row.messages_per_s == pytest.approx(talks / row.makespan_s, rel=0.7)
    assert talks > chatters or row.messages_per_s == talks / row.makespan_s


def test_one_serial_chatter_gets_slower_end_to_end_and_only_by_the_cache_s_own_work() -> None:
    none, lru = standard("none", 1), standard("lru", 1)
    assert none.end_to_end_s == pytest.approx(6.87, rel=0.03)
    assert lru.end_to_end_s == pytest.approx(7.27, rel=0.03)
    free = replace(STANDARD, chatters=(1,), policies=("lru",), values={"cache.step_s": 0.0})
    (row,) = run(free).rows
    assert row.end_to_end_s < none.end_to_end_s


@pytest.mark.slow
def test_a_partial_block_is_nobody_s_so_that_smaller_blocks_hit_more() -> None:
    rates = [
        run(replace(STANDARD, chatters=(8,), policies=("lru",), block_tokens=tokens)).rows[0].hit_rate
        for tokens in (4, 16, 64, 256)
    ]
    assert rates == sorted(rates, reverse=True)
    assert rates[0] - rates[1] < 0.01
    assert rates[0] - rates[3] > 0.05


def test_without_a_shared_prompt_pin_is_lru() -> None:
    lru, pin = standard("lru", 32), standard("pin", 32)
    assert replace(pin, policy="lru") == lru


def test_triggered_offload_brings_what_hint_s_tiers_have_without_the_gpu_waiting() -> None:
    hint, triggered = standard("hint", 32), standard("triggered", 32)
    assert triggered.hit_rate == pytest.approx(hint.hit_rate, abs=0.001)
    assert triggered.hits_by_tier["remote"] > 0.1
    assert triggered.end_to_end_s < hint.end_to_end_s
    assert set(triggered.hits_by_tier) == {"GPU", "remote"}


def test_the_tiers_hits_are_all_hits_and_what_is_dropped_was_in_the_last_one() -> None:
    result = run(small(10, 4, policies=("none", *CACHING)))
    for row in result.rows:
        assert sum(row.hits_by_tier.values()) == pytest.approx(row.hit_rate)
        assert 1 >= 1 - row.none_cached >= row.above[0.25] >= row.above[0.5] >= row.above[0.75] >= 0
        assert 0 < row.gpu_busy <= 1
        if row.policy != "triggered":
            assert row.dropped_bytes <= row.down_bytes["CPU"]
    assert result.rows[0].hit_rate == result.rows[0].dropped_bytes == 0


def test_a_remote_tier_can_stand_below_all_policies() -> None:
    settings = small(10, 4, policies=("lru",), remote="all", remote_gib=1024.0)
    (row,) = run(settings).rows
    assert row.dropped_bytes == 0
    assert row.hits_by_tier["remote"] > 0.1
    assert row.hit_rate > run(small(10, 4, policies=("lru",))).rows[0].hit_rate


def test_a_drive_of_3_gib_a_second_brings_kv_no_faster_than_this_gpu_computes_it() -> None:
    """163 us a token from the drive, 142 us and attention for a prefill: only CPU memory gains time."""
    lru = {"policies": ("lru",), "chatters": (8,), "think_s": 0.0}
    memory = small(6, 200, **lru)
    drive = replace(memory, values={**memory.values, "tier.cpu_bytes": 0.0, "tier.ssd_bytes": 200.0 * GIB})
    nothing = replace(memory, policies=("none",))
    from_memory, from_drive, computed = (
        run(settings).rows[0].first_byte_s for settings in (memory, drive, nothing)
    )
    assert from_memory < 0.95 * computed
    assert from_drive == pytest.approx(computed, rel=0.05)
    fast = replace(drive, values={**drive.values, "tier.ssd_read_bytes_per_s": 1.2e10})
    assert run(fast).rows[0].first_byte_s < 0.95 * computed


def test_the_poster_s_legend_can_be_a_share_of_requests_that_have_a_shared_prompt() -> None:
    settings = small(10, 4, shared_percent=(0.0, 25.0, 50.0, 75.0), policies=("lru",), block_tokens=64)
    rows = run(settings).rows
    assert [row.shared_percent for row in rows] == [0, 25, 50, 75]
    rates = [row.hit_rate for row in rows]
    assert rates == sorted(rates)
    assert [row.none_cached for row in rows] == sorted((row.none_cached for row in rows), reverse=True)


def test_a_pinned_prompt_is_there_for_everyone_who_shares_it() -> None:
    """One-turn conversations of long prompts push everything else out of the GPU."""
    settings = replace(
        small(3, 0, shared_percent=(5.0,), policies=("lru", "pin"), block_tokens=64, chatters=(2,)),
        single_turn=1.0,
        mean_turns=1.0,
        prompt_mean=1500.0,
        prompt_sigma=0.2,
        think_s=0.0,
    )
    lru, pin = run(settings).rows
    shares = sum(talk.shared > 0 for talk in conversations(settings, 4096, 5.0, 1))
    with_prompt = round((1 - pin.none_cached) * pin.messages)
    assert shares - 2 <= with_prompt <= shares
    assert pin.hit_rate > lru.hit_rate


def test_the_same_seed_gives_the_same_bytes_and_another_one_others() -> None:
    settings = small(10, 4, policies=("hint", "triggered"), conversations=60)
    texts = [json.dumps(run(settings, seed).as_data()) for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]


def test_tables_and_headline_have_every_row() -> None:
    result = run(small(10, 8, policies=("lru", "triggered"), conversations=40))
    speed, tiers = result.tables()
    assert [row[2] for row in speed.rows] == [row[2] for row in tiers.rows] == ["lru", "triggered"]
    assert all(len(row) == len(table.columns) for table in (speed, tiers) for row in table.rows)
    assert "32 chatters" not in speed.notes[0]
    assert "GPU 10 GiB, CPU 8 GiB" in speed.notes[0]
    assert result.headline()["lru_32_hit_rate"] == result.rows[0].hit_rate
    assert STUDIES["chat"].name == "chat"


@pytest.mark.slow
def test_plots_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    settings = small(10, 8, policies=("lru", "hint"), conversations=30, shared_percent=(0.0, 50.0))
    result = run(settings)
    for folder in ("one", "two"):
        written = result.plot(tmp_path / folder)
        assert sorted({path.stem for path in written}) == [
            "chat_cached", "chat_cached_50_shared", "chat_speed", "chat_speed_50_shared",
        ]  # fmt: skip
    for path in (tmp_path / "one").iterdir():
        assert path.read_bytes() == (tmp_path / "two" / path.name).read_bytes(), path.name


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"chatters": 0}, r"chatters\[0\] is 0"),
        ({"policies": ["mru"]}, r"policies\[0\] is 'mru'; one of none, lru"),
        ({"policies": []}, "policies is empty"),
        ({"shared_percent": [101]}, r"shared_percent\[0\] is 101; it is 100 at most"),
        ({"policies": ["lru", "lru"]}, "policies has 'lru' twice; each may be there once"),
        ({"chatters": [8, 1, 8]}, "chatters has 8 twice"),
        ({"shared_percent": [-1]}, r"shared_percent\[0\] is -1"),
        ({"wrong_hints": 1.5}, "wrong_hints is 1.5; it is 1 at most"),
        ({"mean_turns": 1.5}, "mean_turns is 1.5; .* it is 1.73 at least"),
        ({"single_turn": 1}, "mean_turns is 1, and not 5.75"),
        ({"think_s": float("nan")}, "think_s is nan"),
        ({"block_tokens": 0}, "block_tokens is 0"),
        ({"remote": "some"}, "remote is 'some'; one of triggered, all"),
        ({"policy": "lru"}, "there is no setting policy; did you mean policies"),
    ],
)
def test_settings_that_cannot_be_are_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        settings_with(STANDARD, given)


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"values": {"gpu.kv_bytes": 1e9}}, r"a conversation has \d+ tokens, .* the GPU has 1000000000"),
        ({"values": {"gpu.kv_bytes": 0.0}}, "gpu.kv_bytes is 0"),
        ({"values": {"gpu.kv_byte": 1.0}}, "there is no field gpu.kv_byte; did you mean gpu.kv_bytes"),
        ({"values": {"link.latency_s": 1.0}}, "there is no field link.latency_s"),
        ({"server": "b100"}, "there is no server b100"),
        ({"shared_percent": (100.0,), "shared_tokens": 4096}, "none had a first turn that fits"),
    ],
)
def test_a_run_that_cannot_be_is_refused(changed: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        run(replace(ChatSettings(), **changed))
