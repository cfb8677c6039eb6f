# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
import math
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.model import BusyStage, Operation, Way, send, transfer_s
from nicemu.study import settings_with
from nicemu.study.replay.cluster import Cluster
from nicemu.study.replay.found import ReplayResult
from nicemu.study.replay.histogram import WIDTH, Histogram
from nicemu.study.replay.run import Found, Replay, node_of
from nicemu.study.replay.settings import Ground, ReplaySettings, ReplayWay, ground_of
from nicemu.study.replay.study import REPLAY
from nicemu.study.traces import Request, synthetic_trace, write_trace

WHOLE = 12_000


def settings(**given: object) -> ReplaySettings:
    return settings_with(ReplaySettings(), {name.replace("__", "."): value for name, value in given.items()})


@cache
def replayed(**given: object) -> ReplayResult:
    return REPLAY.run(settings(**given), 1, lambda done, what: None)


def found(way: str, **given: object) -> Found:
    return replayed(**given).found[ReplayWay(way)]


def served(way: str, requests: Sequence[Request], **given: object) -> Found:
    meant = settings(**given)
    return Replay(ground_of(meant), meant, ReplayWay(way), lambda count: None).run(requests)


def request(at_s: float, tokens: int, blocks: Sequence[int], answer: int = 1) -> Request:
    return Request(at_s, tokens, answer, blocks)


# What the published study says


def test_a_cache_of_prefixes_cuts_the_mean_ttft() -> None:
    """Measured on the conversation trace itself, by a sketch of the same: 0.666 and 0.554 s, 37.3 % hits."""
    none, triggered = found("none"), found("triggered")
    assert none.ttft.count == triggered.ttft.count == WHOLE
    assert none.ttft.mean() == pytest.approx(0.666, rel=0.05)
    assert triggered.ttft.mean() == pytest.approx(0.554, rel=0.07)
    assert triggered.ttft.mean() < 0.85 * none.ttft.mean()
    assert triggered.hit_rate == pytest.approx(0.373, abs=0.01)


def test_triggered_and_cpu_differ_by_about_a_percent_where_messages_differ_several_times() -> None:
    rows = {row.what: row.speedup or 0.0 for row in replayed().compared()}
    assert rows["a fetch of 4 KiB alone, from a node's memory"] > 8
    assert rows["a fetch of 2 MiB alone, from a node's memory"] > 6
    assert rows["a fetch of 2 MiB alone, from a drive"] > 3
    assert 1.0 < rows["a fetch in the replay, mean"] < 1.05
    assert 1.0 < rows["TTFT, mean"] < 1.01


def test_nics_are_a_few_percent_busy_and_prefill_dominates() -> None:
    triggered = found("triggered")
    assert 0.01 < triggered.use["NIC, link in"][0] < triggered.use["NIC, link in"][1] < 0.05
    assert 0.02 < triggered.use["NIC, link out"][0] < 0.05
    assert triggered.prefill_s > 0.7 * triggered.ttft.total
    assert triggered.prefill_s + triggered.fetch_s + triggered.wait_s == pytest.approx(triggered.ttft.total)


def test_triggered_transfers_save_the_host_s_cores() -> None:
    cpu, triggered = found("cpu"), found("triggered")
    assert triggered.host_core_s == 0
    moved = cpu.fetched_bytes + cpu.stored_bytes
    copies = 2 * moved * 1e-10
    software = moved / (2 << 20) * 41.8e-6
    assert cpu.host_core_s == pytest.approx(copies + software, rel=1e-9)
    assert replayed().headline()["host_core_saved_s"] == cpu.host_core_s


@pytest.mark.slow
def test_few_cores_or_one_shared_nic_make_the_difference_show_in_ttft() -> None:
    def ratio(**given: object) -> float:
        result = replayed(requests=2000, ways=("cpu", "triggered"), **given)
        return result.headline()["ttft_cpu_over_triggered"]

    assert 1.0 < ratio(cores=16) < ratio(cores=8) < ratio(cores=4) < ratio(cores=1)
    assert ratio(cores=1) > 1.3
    assert ratio(transfer__cpu_shares="link") > 1.15


# Transfers


def cluster_of(way: Way, **given: object) -> tuple[Cluster, Ground]:
    meant = settings(drives=1, storage_nics=1, cores=1, **given)
    ground = ground_of(meant)
    return Cluster(ground, meant, way), ground


@pytest.mark.parametrize("operation", Operation)
@pytest.mark.parametrize("way", Way)
@pytest.mark.parametrize("message", ["chunk", "block"])
def test_one_message_alone_takes_what_the_model_s_formula_says(
    way: Way, operation: Operation, message: str
) -> None:
    """With one of everything. The formula's storage NIC is faster than its link, which ours never is."""
    cluster, ground = cluster_of(
        way, message=message, transfer__completion="remote_memory", link__s_per_byte=5e-11
    )
    length = ground.message_bytes
    done_s = send(0.0, length, cluster.path(operation, 0, 0), cluster.grain_bytes)
    hardware = ground.hardware.having({"software.chunk_bytes": length})
    assert done_s == pytest.approx(transfer_s(hardware, way, operation, length), rel=1e-3)


def test_a_drive_adds_its_fixed_time_and_its_rate() -> None:
    near, _ = cluster_of(Way.TRIGGERED, transfer__completion="remote_memory")
    far, _ = cluster_of(Way.TRIGGERED)
    length = 1 << 30
    times = [send(0.0, length, c.path(Operation.FETCH, 0, 0), c.grain_bytes) for c in (near, far)]
    assert times[0] == pytest.approx(length * 8e-11, rel=0.01)
    request_s = 80e-6 + (8 << 20) / (5.22e9 + 19.4 * (8 << 20))
    assert times[1] == pytest.approx(80e-6 + length / (8 << 20) * request_s, rel=0.01)


def test_a_cluster_gives_each_gpu_a_nic_and_cpus_one_if_the_profile_says_that_they_share() -> None:
    def links(way: Way, **given: object) -> int:
        cluster = Cluster(ground_of(settings(**given)), settings(**given), way)
        paths = [cluster.path(Operation.STORE, gpu, 0) for gpu in range(8)]
        return len({id(stage) for path in paths for stage in path if stage.name == "NIC, link out"})

    assert links(Way.TRIGGERED) == links(Way.CPU) == 8
    assert links(Way.CPU, transfer__cpu_shares="link") == 1
    assert links(Way.TRIGGERED, transfer__cpu_shares="link") == 8
    assert links(Way.TRIGGERED, node__nics=2) == 2


@pytest.mark.parametrize("way", Way)
def test_one_flow_by_chunks_agrees_with_the_analytic_transfer_within_a_chunk(way: Way) -> None:
    """The first request stores, the second fetches; a granule is what a chunk takes through all stages."""
    requests = [request(0.0, 40 * 512, range(40)), request(60.0, 40 * 512 + 100, [*range(40), 99])]
    whole = served(way, requests, placement="prefix")
    chunks = served(way, requests, placement="prefix", detail="chunk")
    ground = ground_of(settings())
    path = Cluster(ground, settings(detail="chunk"), way).path(Operation.FETCH, 0, 0)
    granule_s = sum(stage.latency_s + ground.message_bytes * stage.s_per_byte for stage in path)
    assert whole.fetch.count == chunks.fetch.count == 1
    assert whole.fetch.mean() == pytest.approx(chunks.fetch.mean(), abs=granule_s)
    assert whole.store.mean() == pytest.approx(chunks.store.mean(), abs=granule_s)
    assert whole.fetched_bytes == chunks.fetched_bytes == 40 * ground.block_bytes
    assert whole.ttft.mean() == pytest.approx(chunks.ttft.mean(), abs=granule_s)


def test_flows_on_one_link_by_chunks_have_the_same_last_completion() -> None:
    """Eight GPUs fetch at once from a node with one NIC: its rate says when all are done."""
    prompts = [[*range(100 * gpu, 100 * gpu + 8)] for gpu in range(8)]
    requests = [request(0.0, 8 * 512, blocks) for blocks in prompts]
    requests += [request(100.0, 8 * 512 + 1, [*blocks, 1000 + blocks[0]]) for blocks in prompts]
    last = []
    for detail in ("transfer", "chunk"):
        result = served("triggered", requests, detail=detail, storage_nodes=1, storage_nics=1, drives=64)
        assert result.fetch.count == 8
        last.append(result.fetch.greatest)
    all_bytes = 8 * 8 * ground_of(settings()).block_bytes
    assert last[0] == pytest.approx(all_bytes * 8e-11, rel=0.01)
    assert last[0] == pytest.approx(last[1], rel=0.005)


def test_a_stretch_of_the_trace_by_chunks_agrees_with_analytic_transfers() -> None:
    given: dict[str, object] = {"requests": 400, "message": "block", "ways": ("cpu", "triggered")}
    given["transfer__triggered"] = "store_and_forward"  # what is handed on is a chunk in both
    whole, chunks = replayed(**given), replayed(**given, detail="chunk")
    for way in (ReplayWay.CPU, ReplayWay.TRIGGERED):
        ttft = [result.found[way].ttft.mean() for result in (whole, chunks)]
        assert ttft[0] == pytest.approx(ttft[1], rel=0.03)
        assert whole.found[way].hit_tokens == pytest.approx(chunks.found[way].hit_tokens, rel=0.01)


@given(block=st.integers(-(1 << 60), 1 << 60), nodes=st.integers(1, 64))
def test_a_block_lies_on_one_of_the_nodes(block: int, nodes: int) -> None:
    assert 0 <= node_of(block, nodes) < nodes


def test_blocks_are_spread_evenly() -> None:
    counts = [0] * 4
    for block in range(100_000):
        counts[node_of(block, 4)] += 1
    assert max(counts) < 1.01 * min(counts)


# Requests


def test_a_prompt_that_is_all_there_still_passes_its_last_token() -> None:
    result = served("triggered", [request(0.0, 1024, [1, 2]), request(50.0, 1024, [1, 2])])
    assert (result.hit_tokens, result.prompt_tokens) == (1023, 2048)


def test_a_partial_last_block_is_neither_stored_nor_fetched() -> None:
    result = served("triggered", [request(0.0, 700, [1, 2]), request(50.0, 700, [1, 2])])
    block_bytes = ground_of(settings()).block_bytes
    assert (result.hit_tokens, result.held_blocks) == (512, 1)
    assert result.stored_bytes == result.fetched_bytes == block_bytes


def test_a_block_can_be_fetched_when_its_store_is_complete_and_no_sooner() -> None:
    alone = served("triggered", [request(0.0, 5120, range(10))])
    stored_s = alone.ttft.mean() + alone.store.mean()
    for later_s, hits in ((-1e-3, 0), (1e-3, 5119)):
        both = served(
            "triggered", [request(0.0, 5120, range(10)), request(stored_s + later_s, 5120, range(10))]
        )
        assert both.hit_tokens == hits
        assert both.stored_bytes == alone.stored_bytes


def test_what_is_recomputed_takes_the_model_s_prefill_and_decode() -> None:
    serving = ground_of(settings()).serving
    result = served("none", [request(0.0, 4000, range(8), answer=11)])
    assert result.ttft.mean() == pytest.approx(serving.prefill_s([4000]))
    assert result.tpot_s == pytest.approx(0.012)
    assert result.end_to_end.mean() == pytest.approx(serving.prefill_s([4000]) + 10 * 0.012)
    assert result.use == {}


def test_requests_wait_for_gpus_that_work_for_others() -> None:
    together = served("none", [request(0.0, 4000, range(8))] * 16)
    alone_s = ground_of(settings()).serving.prefill_s([4000])
    assert together.ttft.greatest == pytest.approx(2 * alone_s)
    assert together.gpu_use == pytest.approx((1.0, 1.0))


def test_decodes_contend_where_the_server_says_that_they_do() -> None:
    many = [request(0.0, 600, [place, -place], 101) for place in range(64)]
    assert served("none", many, gpu__decode_sequence_s=1e-3).tpot_s > served("none", many).tpot_s + 2e-3


def test_a_small_store_evicts_and_hits_less() -> None:
    block_bytes = ground_of(settings()).block_bytes
    small = found("triggered", ways="triggered", requests=2000, store_bytes=3650.0 * block_bytes)
    large = found("triggered", ways="triggered", requests=2000)
    assert small.held_blocks == 3650
    assert small.evicted_blocks > 10_000
    assert small.hit_rate < 0.5 * large.hit_rate


def test_a_short_prefix_is_recomputed_where_the_user_says_so() -> None:
    twice = [request(0.0, 1000, [1, 2]), request(50.0, 1000, [1, 2])]
    assert served("triggered", twice, least_blocks=2).fetch.count == 0
    assert served("triggered", twice, least_blocks=1).fetch.count == 1


def test_arrivals_come_faster_by_the_rate() -> None:
    slow, fast = (found("none", ways="none", requests=1000, rate=rate) for rate in (1.0, 4.0))
    assert fast.span_s < 0.35 * slow.span_s
    assert fast.wait_s > slow.wait_s


# The study


def test_a_file_is_replayed_as_the_synthetic_trace_that_it_holds(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    with path.open("w") as file:
        write_trace(synthetic_trace(300, 1), file)
    of_file = REPLAY.run(settings(trace=str(path)), 9, lambda done, what: None).as_data()
    assert {**of_file, "trace": ""} == {**replayed(requests=300).as_data(), "trace": ""}


def test_the_same_seed_gives_the_same_bytes_and_another_one_others() -> None:
    def bytes_of(seed: int) -> str:
        return json.dumps(REPLAY.run(settings(requests=300), seed, lambda done, what: None).as_data())

    assert bytes_of(1) == bytes_of(1) != bytes_of(2)


def test_progress_rises_to_the_end() -> None:
    told: list[float] = []
    REPLAY.run(settings(requests=2000), 1, lambda done, what: told.append(done))
    assert told == sorted(told)
    assert (len(told), told[-1]) == (13, 1.0)


def test_one_way_alone_has_nothing_beside_it() -> None:
    result = replayed(requests=300, ways="cpu")
    assert result.compared() == []
    assert list(result.headline()) == ["cpu_ttft_mean_s", "cpu_hit_rate", "cpu_fetch_mean_s"]
    assert len(result.tables()) == 3


def test_a_trace_without_hits_is_told_without_fetches(tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03,4808,10\n")
    result = REPLAY.run(settings(trace=str(path)), 1, lambda done, what: None)
    assert result.found[ReplayWay.CPU].fetch.count == 0
    assert any("no bytes" in note for table in result.tables() for note in table.notes)
    json.dumps(result.as_data(), allow_nan=False)


@pytest.mark.slow
def test_figures_are_drawn_the_same_each_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    result = replayed(requests=300)
    first, again = (result.plot(tmp_path / name) for name in ("a", "b"))
    assert [path.name for path in first] == [
        f"replay_{name}.{kind}"
        for name in ("ttft", "where_time_goes", "use", "fetch", "side_by_side")
        for kind in ("png", "svg")
    ]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in again]


def test_how_long_it_takes_is_no_span_of_the_trace() -> None:
    """One request comes at 0 s; what is told is the time until its answer is whole, at whatever rate."""
    result = replayed(requests=1, ways="none", gpu__decode_fixed_s=100.0)
    answer = next(iter(synthetic_trace(1, 1))).output_tokens
    told = result.tables()[0].notes[0]
    assert f"the last answer ends after {round(result.found[ReplayWay.NONE].span_s):,} s" in told
    assert result.found[ReplayWay.NONE].span_s == pytest.approx(100 * (answer - 1), rel=0.01)


def test_a_dollar_in_the_name_of_a_trace_is_no_formula(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    trace = tmp_path / r"$\foo$.jsonl"
    with trace.open("w") as file:
        write_trace(synthetic_trace(5, 1), file)
    assert len(replayed(trace=str(trace), ways="none").plot(tmp_path)) == 6


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"store_bytes": 1e6}, r"store_bytes is 1e\+06; a block of 512 tokens has 67,108,864 bytes"),
        ({"ways": ["cpu", "cpu"]}, "ways has 'cpu' twice; each may be there once"),
        ({"ways": ["gpu"]}, r"ways\[0\] is 'gpu'; one of none, cpu, triggered"),
        (
            {"node.gpus": 1 << 20},
            r"node\.gpus is 1,048,576 and storage_nodes 4; 16,384 pairs of them at most",
        ),
        ({"rate": 0}, "rate is 0"),
        ({"rate": 1e-300}, "rate is 1e-300; it is a finite number, 1e-06 at least"),
        ({"store_bytes": math.inf}, "store_bytes is inf"),
        ({"model.heads": 33}, "model.heads is 33 and model.kv_heads 8"),
        ({"nic.speed": 3}, "there is no field nic.speed, neither in the profile physical nor in the server"),
        ({"profile": "nowhere"}, "there is no profile nowhere"),
        ({"trace": "nowhere.jsonl"}, "nowhere.jsonl cannot be read"),
        (
            {"model.context_tokens": 4096},
            r"the synthetic trace: request \d+ has .* the model's context is 4,096",
        ),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        REPLAY.run(settings_with(ReplaySettings(requests=100), given), 1, lambda done, what: None)


def test_fields_go_into_the_profile_that_has_them() -> None:
    ground = ground_of(
        settings(link__s_per_byte=4e-11, gpu__prefill_fixed_s=0.1, gpu__host_copy_s_per_byte=1e-10)
    )
    assert ground.hardware.number("link.s_per_byte") == 4e-11
    assert ground.hardware.number("gpu.host_copy_s_per_byte") == 1e-10
    assert ground.serving.prefill_fixed_s == 0.1


# Histograms


@given(
    values=st.lists(st.floats(1e-8, 1e8), min_size=1, max_size=200), share=st.sampled_from([0.5, 0.9, 0.99])
)
def test_a_quantile_is_within_half_a_bucket(values: list[float], share: float) -> None:
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    exact = sorted(values)[math.ceil(share * len(values)) - 1]
    assert histogram.quantile(share) == pytest.approx(exact, rel=WIDTH / 2 + 1e-9)
    assert histogram.mean() == pytest.approx(sum(values) / len(values))
    assert histogram.cumulative()[1][-1] == 1


def test_an_empty_histogram_is_zero() -> None:
    assert (Histogram().mean(), Histogram().quantile(0.5)) == (0, 0)
    assert BusyStage("link", 0.0, 1.0).busy_s == 0
