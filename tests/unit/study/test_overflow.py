# SPDX-License-Identifier: Apache-2.0
"""Golden values of the study of KV overflow, what was published of it, and the trends that must hold."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from nicemu.errors import UsageError
from nicemu.model import Serving, read_server
from nicemu.study import STUDIES, settings_with
from nicemu.study.overflow.figures import Case, CaseFigure
from nicemu.study.overflow.published import BY_BLOCK_TOKENS, BY_EVICTED_TOKENS, TOTALS
from nicemu.study.overflow.runs import Run, evict_once
from nicemu.study.overflow.scheduler import StepKind
from nicemu.study.overflow.settings import OverflowSettings
from nicemu.study.overflow.study import Overflow, OverflowResult


def study(seed: int = 1, **given: object) -> OverflowResult:
    named = {name.replace("__", "."): value for name, value in given.items()}
    settings = settings_with(OverflowSettings(), named)
    return Overflow().run(settings, seed, lambda done, what: None)


@cache
def result() -> OverflowResult:
    """Return the study as it stands, run when a test first asks."""
    return study()


RECOMPUTE, PINNED, PAGEABLE, TRIGGERED = "recompute", "swap_pinned", "swap_pageable", "triggered"


def served(number: int) -> CaseFigure:
    (found,) = [figure for figure in result().served if figure.number == number]
    return found


def run_of(case: Case, policy: str) -> Run:
    (found,) = [run for run in case.runs if run.policy == policy]
    return found


def overheads(number: int, policy: str) -> dict[float, float]:
    cases = served(number).cases
    return {case.labels[0]: run_of(case, policy).overhead.attributed_s for case in cases}


def evictions(number: int, policy: str) -> dict[int, float]:
    (figure,) = [figure for figure in result().evictions if figure.number == number]
    return {at: item.gpu_s for at, items in figure.points.items() for item in items if item.policy == policy}


def all_cases() -> Iterator[Case]:
    totals = result().totals
    assert totals is not None
    for figure in (*result().served, totals):
        yield from figure.cases
    yield Case((), result().workload.runs)


def test_the_study_is_one_of_those_that_a_command_runs() -> None:
    assert STUDIES["overflow"].name == "overflow"


# Figure 2


@pytest.mark.parametrize("block", BY_BLOCK_TOKENS[PINNED])
def test_an_eviction_costs_what_was_measured_at_each_block_size(block: int) -> None:
    for policy, published in BY_BLOCK_TOKENS.items():
        assert evictions(2, policy)[block] == pytest.approx(published[block], rel=0.035)


def test_swap_falls_with_block_size_and_recompute_does_not_care() -> None:
    for policy in (PINNED, PAGEABLE):
        assert all(before > after for before, after in pairwise(evictions(2, policy).values()))
    assert len(set(evictions(2, RECOMPUTE).values())) == 1
    published = BY_BLOCK_TOKENS[RECOMPUTE]
    assert published[64] / published[2] == pytest.approx(1.05, abs=0.005)


def test_pageable_memory_costs_more_than_twice_as_much_and_never_beats_recompute() -> None:
    pageable, pinned, recompute = (evictions(2, policy) for policy in (PAGEABLE, PINNED, RECOMPUTE))
    assert all(pageable[block] > 2 * pinned[block] for block in pageable)
    assert all(pageable[block] > recompute[block] for block in pageable)


def test_pinned_swap_crosses_recompute_near_blocks_of_16() -> None:
    pinned, recompute = evictions(2, PINNED), evictions(2, RECOMPUTE)
    assert pinned[8] > recompute[8]
    assert pinned[16] / recompute[16] == pytest.approx(1, abs=0.05)
    assert pinned[32] < recompute[32]


# Figure 3


@pytest.mark.parametrize("tokens", BY_EVICTED_TOKENS[PINNED])
def test_an_eviction_costs_what_was_measured_of_each_length(tokens: int) -> None:
    assert evictions(3, RECOMPUTE)[tokens] == pytest.approx(BY_EVICTED_TOKENS[RECOMPUTE][tokens], rel=0.004)
    assert evictions(3, PINNED)[tokens] == pytest.approx(BY_EVICTED_TOKENS[PINNED][tokens], rel=0.1)


def test_both_grow_with_tokens_and_swap_is_cheaper_from_8_k_on() -> None:
    recompute, pinned = evictions(3, RECOMPUTE), evictions(3, PINNED)
    for costs in (recompute, pinned):
        assert all(before < after for before, after in pairwise(costs.values()))
    assert pinned[8192] / recompute[8192] == pytest.approx(0.92, abs=0.01)
    assert pinned[16_384] / recompute[16_384] == pytest.approx(0.82, abs=0.01)


# Figure 4


def test_overheads_of_16_requests_are_the_golden_ones() -> None:
    recompute, pinned = overheads(4, RECOMPUTE), overheads(4, PINNED)
    golden = {2048: (0, 0), 4096: (0.827, 0.829), 8192: (4.813, 3.114), 16_384: (12.136, 7.076)}
    golden[32_768] = (43.360, 20.015)
    for tokens, (wanted_recompute, wanted_swap) in golden.items():
        assert recompute[tokens] == pytest.approx(wanted_recompute, abs=0.001)
        assert pinned[tokens] == pytest.approx(wanted_swap, abs=0.001)


def test_overhead_grows_with_sequences_and_swap_is_cheaper_than_recompute_from_8_k_on() -> None:
    recompute, pinned = overheads(4, RECOMPUTE), overheads(4, PINNED)
    for costs in (recompute, pinned):
        assert costs[2048] == 0
        assert all(before < after for before, after in pairwise(costs.values()))
    assert all(pinned[tokens] < recompute[tokens] for tokens in (8192, 16_384, 32_768))


def test_recompute_costs_less_in_the_margin_than_what_is_attributed_to_it() -> None:
    (case,) = [case for case in served(4).cases if case.labels == (8192,)]
    overhead = run_of(case, RECOMPUTE).overhead
    assert overhead.marginal_s == pytest.approx(3.559, abs=0.001)
    assert all(
        run.overhead.attributed_s == run.overhead.marginal_s
        for case in all_cases()
        for run in case.runs
        if run.policy != RECOMPUTE
    )


# The follow-up's totals


def test_the_22_published_totals_come_out_between_0_71_and_1_23_of_what_was_measured() -> None:
    totals = result().totals
    assert totals is not None
    ratios = {
        (case.labels, policy): run_of(case, policy).overhead.attributed_s / measured
        for case in totals.cases
        for policy, measured in case.published.items()
    }
    assert len(ratios) == 2 * len(TOTALS) == 22
    assert min(ratios.values()) == pytest.approx(0.71, abs=0.005)
    assert max(ratios.values()) == pytest.approx(1.23, abs=0.005)


def test_swap_is_cheaper_than_recompute_from_4_k_on_as_was_measured() -> None:
    totals = result().totals
    assert totals is not None
    for case in totals.cases:
        if case.labels[1] >= 4096:
            assert case.published[PINNED] < case.published[RECOMPUTE]
            recompute, pinned = (run_of(case, policy).overhead for policy in (RECOMPUTE, PINNED))
            assert pinned.attributed_s < recompute.attributed_s


# Figure 5


def test_overheads_by_available_memory_are_the_golden_ones() -> None:
    recompute, pinned = overheads(5, RECOMPUTE), overheads(5, PINNED)
    assert list(recompute.values()) == pytest.approx([3.84, 3.15, 2.58, 2.45, 1.66], abs=0.006)
    assert list(pinned.values()) == pytest.approx([2.12, 1.92, 1.62, 1.69, 1.18], abs=0.006)


def test_10_percent_is_worst_50_best_and_30_below_20() -> None:
    for policy in (RECOMPUTE, PINNED, PAGEABLE):
        costs = overheads(5, policy)
        assert max(costs, key=lambda percent: costs[percent]) == 10
        assert min(costs, key=lambda percent: costs[percent]) == 50
        assert costs[30] < costs[20]


# Figure 6


def test_kv_memory_is_nearly_full_and_use_drops_at_evictions_and_completions() -> None:
    for run in result().workload.runs:
        full = [step for step in run.steps if step.end_s < 0.85 * run.makespan_s]
        seconds = sum(step.end_s - step.start_s for step in full)
        used = sum((step.kv_use_start + step.kv_use_end) / 2 * (step.end_s - step.start_s) for step in full)
        assert used / seconds == pytest.approx(0.9, abs=0.02)
        drops = sum(before.kv_use_end - after.kv_use_start > 0.1 for before, after in pairwise(run.steps))
        assert drops >= 10


def test_recompute_prefills_oftener_than_swap_which_resumes_without() -> None:
    prefills = {run.policy: run.prefills for run in result().workload.runs}
    assert prefills[RECOMPUTE] == 20
    assert prefills[PINNED] == prefills[PAGEABLE] == 14
    small = {run.policy: run.prefills for run in study(figures=6, prompt_budget_tokens=8192).workload.runs}
    assert (small[RECOMPUTE], small[PINNED]) == (22, 15)


def test_prefills_are_spikes_of_throughput() -> None:
    for run in result().workload.runs:
        rates = {kind: [step.tokens_per_s for step in run.steps if step.kind is kind] for kind in StepKind}
        assert min(rates[StepKind.PREFILL]) > 10 * max(rates[StepKind.DECODE])


def test_recompute_and_swap_take_as_long_in_all() -> None:
    run = {run.policy: run for run in result().workload.runs}
    assert run[RECOMPUTE].makespan_s == pytest.approx(run[PINNED].makespan_s, rel=0.001)


# The third policy


def test_t1_triggers_cost_the_gpu_less_than_a_hundredth_of_a_swap() -> None:
    compared = 0
    for case in all_cases():
        triggered, pinned = (run_of(case, policy).overhead for policy in (TRIGGERED, PINNED))
        if pinned.attributed_s:
            assert 0 < triggered.attributed_s < 0.01 * pinned.attributed_s
            assert triggered.attributed_s < 300e-6
            compared += 1
    assert compared == 21


def test_t2_triggered_offload_is_done_no_later_than_swap() -> None:
    gains = [
        1 - run_of(case, TRIGGERED).makespan_s / run_of(case, PINNED).makespan_s
        for case in all_cases()
        if run_of(case, PINNED).overhead.preemptions
    ]
    assert min(gains) == pytest.approx(0.005, abs=0.0006)
    assert max(gains) == pytest.approx(0.062, abs=0.0006)


def test_t3_a_fetch_is_behind_a_swap_in_below_138_gbit_a_second_and_before_recompute() -> None:
    def waits(gbit_per_s: float, block_tokens: int) -> tuple[float, float]:
        values = {"offload.nic_bytes_per_s": gbit_per_s / 8 * 1e9, "offload.request_s": 0.0}
        serving = Serving(read_server("a100_llama2_7b").having(values))
        fetch, swap = (
            evict_once(serving, policy, 16_384, block_tokens, True).wait_s for policy in (TRIGGERED, PINNED)
        )
        return fetch, swap

    for block, even in ((16, 138), (16_384, 207)):
        below, above = waits(even - 1, block), waits(even + 1, block)
        assert below[0] > below[1]
        assert above[0] < above[1]
    figure = result().waits
    assert figure is not None
    (thousand,) = [point for point in figure.points if point.tokens == 1024]
    ms = [1e3 * wait for wait in (thousand.fetch_s, thousand.swap_in_s, thousand.recompute_s)]
    assert ms == pytest.approx([43, 31, 68], abs=0.6)
    assert 8e-9 * figure.even_bytes_per_s == pytest.approx(138, abs=0.5)
    fast = study(figures=3, offload__nic_bytes_per_s=5e10).waits
    assert fast is not None
    assert fast.points[0].fetch_s == pytest.approx(0.011, abs=0.0005)


def test_writing_through_asks_57_to_67_percent_of_the_nic() -> None:
    waits = study(figures=3, figure3_evicted_tokens=[512, 2048]).waits
    assert waits is not None
    shares = [point.prefill_bytes_per_s / waits.nic_bytes_per_s for point in waits.points]
    assert shares == pytest.approx([0.57, 0.67], abs=0.005)


def test_t4_without_write_through_blocks_are_free_late_and_all_takes_longer() -> None:
    through, late = (
        study(figures=6, policies=TRIGGERED, write_through=flag).workload.runs[0] for flag in (True, False)
    )
    assert late.makespan_s > through.makespan_s
    slower = study(
        figures=6, policies=TRIGGERED, write_through=False, offload__nic_bytes_per_s=1.25e9
    ).workload.runs[0]
    assert slower.makespan_s > late.makespan_s


# A workload of one's own


def test_the_headline_is_of_the_workload_for_each_policy() -> None:
    assert dict(study(figures=6, policies=[PINNED, TRIGGERED]).headline()) == {
        "swap_pinned_makespan_s": pytest.approx(120.34, abs=0.01),
        "swap_pinned_attributed_overhead_s": pytest.approx(1.811, abs=0.001),
        "swap_pinned_marginal_overhead_s": pytest.approx(1.811, abs=0.001),
        "swap_pinned_preemptions": 16,
        "triggered_makespan_s": pytest.approx(118.93, abs=0.01),
        "triggered_attributed_overhead_s": pytest.approx(36e-6),
        "triggered_marginal_overhead_s": pytest.approx(36e-6),
        "triggered_preemptions": 18,
    }


def test_figure_5_is_the_workload_at_other_shares_of_memory() -> None:
    for percent, wanted in overheads(5, RECOMPUTE).items():
        found = study(figures=6, policies=RECOMPUTE, kv_percent=percent)
        assert found.headline()["recompute_attributed_overhead_s"] == wanted


def test_one_token_of_lookahead_moves_a_total_by_less_than_a_tenth() -> None:
    none = study(figures=5, policies=RECOMPUTE, lookahead_tokens=0).served[0].cases
    for case, wanted in zip(none, overheads(5, RECOMPUTE).values(), strict=True):
        assert case.runs[0].overhead.attributed_s == pytest.approx(wanted, rel=0.1)


def test_the_seed_draws_arrivals_and_lengths_and_nothing_else() -> None:
    def told(seed: int, **given: object) -> str:
        return json.dumps(study(seed, **given).as_data())

    assert told(1, figures=6) == told(2, figures=6)
    spread = {"length_sigma": 0.3, "arrivals_per_s": 0.5, "kv_percent": 20}
    assert told(1, figures=6, **spread) == told(1, figures=6, **spread) != told(2, figures=6, **spread)


def test_what_a_figure_cannot_serve_is_left_out_with_the_reason() -> None:
    found = study(figures=4, figure4_sequence_tokens=[2048, 65_536], gpu__kv_bytes=17179869184.0)
    assert [case.labels for case in found.served[0].cases] == [(2048,)]
    (told,) = found.served[0].refused
    assert told.startswith("tokens 65536: request 0 has 32,768 tokens of prompt and 32,768 of output, 4,096")
    assert any(note == f"not served: {told}" for note in found.served[0].table().notes)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"prompt_tokens": 9000}, r"request 0 has 9,000 tokens of prompt and 1,024 of output, 627 blocks"),
        ({"prompt_tokens": 65_000}, r"the model's context has 65,536 tokens \(model\.context_tokens\)"),
        ({"prompt_budget_tokens": 2000}, r"a prefill takes 2,000 tokens at most"),
        (
            {"block_tokens": 16_384},
            r"a block of 16,384 tokens has 8,589,934,592 bytes of KV; .* 5,153,960,755",
        ),
        ({"model__kv_heads": 6}, r"model\.heads is 32 and model\.kv_heads 6"),
        ({"gpu__kv_bytes": 5e10}, r"gpu\.kv_bytes is 50,000,000,000 and gpu\.memory_bytes 42,949,672,960"),
        ({"link__s_per_byte": 1e-9}, r"there is no field link\.s_per_byte"),
        ({"server": "tpu"}, r"there is no server tpu"),
        ({"figures": 1}, r"figures\[0\] is 1; it is a whole number from 2 to 6"),
        ({"figures": [2, 2]}, r"figures has 2 twice; each may be there once"),
        ({"policies": ["recompute", "recompute"]}, r"policies has 'recompute' twice"),
        ({"policies": "swap"}, r"policies\[0\] is 'swap'; one of recompute, swap_pinned"),
        ({"figure5_kv_percents": [10, 120]}, r"figure5_kv_percents\[1\] is 120; it is 100 at most"),
        ({"kv_percent": 0}, r"kv_percent is 0"),
        ({"kv_percent": 101}, r"kv_percent is 101; it is 100 at most"),
        (
            {"arrivals_per_s": 1e-300},
            r"arrivals_per_s is 1e-300; 1e-06 at least was expected, one in 11 days",
        ),
        ({"gpu__decode_fixed_s": 1e308}, r"gpu\.decode_fixed_s is 1e\+308; 1e-30 to 1e\+06"),
        ({"watermark": 1}, r"watermark is 1; it is 0\.99 at most"),
        ({"write_through": 1}, r"write_through is 1"),
        ({"requests": 0}, r"requests is 0"),
        ({"length_sigma": 0.9, "requests": 500}, r"request \d+ has .* it never fits"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(given: dict[str, object], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        study(1, **{"figures": 6, **given})


# What is told


def test_tables_and_data_have_what_was_asked_for() -> None:
    assert [table.title.split(":")[0] for table in result().tables()] == [
        "Figure 2",
        "Figure 3",
        "Until a preempted sequence runs again",
        "Figure 4",
        "Totals of the follow-up, half prompt, half output",
        "Figure 5",
        "The workload, figure 6",
    ]
    assert all(len(row) == len(table.columns) for table in result().tables() for row in table.rows)
    data = result().as_data()
    assert list(data) == ["workload", "figure2", "figure3", "figure4", "figure5", "waits", "totals"]
    alone = study(figures=2, policies=TRIGGERED)
    assert [table.title.split(":")[0] for table in alone.tables()] == ["Figure 2", "The workload, figure 6"]
    assert study(figures=6, requests=31).tables()[0].title.startswith("The workload: 31 x 1,500")
    assert "steps" not in json.dumps(alone.as_data())


def test_progress_goes_from_nothing_to_nearly_all() -> None:
    told: list[tuple[float, str]] = []
    Overflow().run(OverflowSettings(), 1, lambda done, what: told.append((done, what)))
    assert told[0] == (0.0, "workload")
    assert all(before[0] < after[0] < 1 for before, after in pairwise(told))
    assert "figure 5: KV % 30" in [what for _, what in told]


@pytest.mark.slow
def test_plots_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    folders = [tmp_path / name for name in ("one", "two")]
    found = study(figures=[3, 5, 6], policies=[RECOMPUTE, TRIGGERED])
    for folder in folders:
        paths = found.plot(folder)
        assert [path.name for path in paths] == [
            f"overflow_figure{number}.{kind}" for number in (3, 5, 6) for kind in ("png", "svg")
        ]
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name


@pytest.mark.parametrize(("policy", "drawn"), [(TRIGGERED, ["figure4"]), (PINNED, ["figure4", "totals"])])
def test_modelled_totals_are_drawn_where_something_was_measured(
    policy: str, drawn: list[str], tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    names = {path.stem for path in study(policies=policy, figures=4).plot(tmp_path)}
    assert names == {f"overflow_{name}" for name in drawn}
