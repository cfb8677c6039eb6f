# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import gzip
import io
import json
import os
from collections import OrderedDict
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.study.traces import (
    BLOCK_TOKENS,
    BlockLru,
    Lengths,
    Request,
    TraceFile,
    blocks_in,
    statistics_of,
    synthetic_trace,
    write_trace,
)

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
BURST = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type\n"
ROW = {"timestamp": 3000, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]}


def read(folder: Path, text: str, form: str = "auto") -> list[Request]:
    path = folder / "trace"
    path.write_text(text)
    with TraceFile(path, form) as trace:
        return list(trace)


def row(**values: object) -> str:
    return json.dumps({**ROW, **values}) + "\n"


def test_mooncake_rows_are_requests_in_seconds_from_the_first(tmp_path: Path) -> None:
    text = row() + "\n" + row(timestamp=6500, session=7, turn=2)
    assert read(tmp_path, text) == [
        Request(0.0, 600, 5, [1, 2]),
        Request(3.5, 600, 5, [1, 2], "7", 2),
    ]


def test_a_session_without_hash_ids_shares_what_its_prompts_have_in_common(tmp_path: Path) -> None:
    rows = [
        {"timestamp": 0, "input_length": length, "output_length": 1, "session": session}
        for length, session in ((1200, "a"), (1800, "a"), (1800, "b"))
    ]
    first, second, other = read(tmp_path, "".join(json.dumps(item) + "\n" for item in rows))
    assert list(second.blocks[:3]) == list(first.blocks)
    assert not set(other.blocks) & set(second.blocks)


def test_azure_rows_share_nothing(tmp_path: Path) -> None:
    text = AZURE + "2023-11-16 18:17:03.9799600,4808,10\r\n2023-11-16 18:17:04.0319600,3180,8\r\n"
    first, second = read(tmp_path, text)
    assert (first.input_tokens, first.output_tokens, len(first.blocks)) == (4808, 10, 10)
    assert second.arrival_s == pytest.approx(0.052, abs=1e-6)
    assert not set(first.blocks) & set(second.blocks)


def test_requests_that_failed_are_left_out_of_burstgpt_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "burst.csv"
    path.write_text(
        BURST
        + "5,ChatGPT,472,18,490,Conversation log\n45,ChatGPT,87,0,87,API log\n118,GPT-4,417,276,693,API log\n"
    )
    with TraceFile(path) as trace:
        assert [(item.arrival_s, item.input_tokens) for item in trace] == [(0, 472), (113, 417)]
        assert trace.failed == 1


def test_a_session_column_of_burstgpt_is_taken(tmp_path: Path) -> None:
    text = BURST.replace("Model", "Session ID,Elapsed time,Model")
    found = read(tmp_path, text + "".join(f"{at},s1,1,GPT-4,600,9,609,API log\n" for at in (1, 2)))
    assert found[0].session == "s1"
    assert list(found[0].blocks) == list(found[1].blocks)


def test_packed_traces_are_unpacked_and_broken_ones_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl.gz"
    packed = gzip.compress(b"".join(row(timestamp=at).encode() for at in range(4000)), mtime=0)
    path.write_bytes(packed)
    with TraceFile(path) as trace:
        assert len(list(trace)) == 4000
        assert trace.part() == 1
    path.write_bytes(packed[: len(packed) // 2])
    with TraceFile(path) as trace, pytest.raises(UsageError, match=r"gz cannot be read: "):
        list(trace)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "there are no requests in it"),
        (" \n\n", "there are no requests in it"),
        (AZURE, "has no requests"),
        (BURST + "5,ChatGPT,472,0,472,API log\n", "has no requests"),
        ("a,b\n1,2\n", "line 1: 'a,b' begins no trace that is known"),
        (row() + "{", "line 2: a JSON object was expected"),
        (row() + "[]\n", "line 2: '[]' is no JSON object"),
        (row(input_length=-1), "line 1: input_length is -1; a whole number from 1"),
        (row(input_length=0, hash_ids=[]), "line 1: input_length is 0"),
        (row(input_length=1.5), "line 1: input_length is 1.5"),
        (row(input_length=True), "line 1: input_length is True"),
        (row(output_length=None), "line 1: output_length is None"),
        (row(output_length=-4), "line 1: output_length is -4; a whole number from 0"),
        (row(timestamp=float("nan")), "line 1: timestamp is nan; a number from 0 to 1e+15"),
        (row(timestamp=float("inf")), "line 1: timestamp is inf"),
        (row(timestamp=-3), "line 1: timestamp is -3"),
        (row(timestamp=10**400), "line 1: timestamp is 1000"),
        (row(timestamp=1e300), "line 1: timestamp is 1e+300"),
        (row(timestamp="now"), "line 1: timestamp is 'now'"),
        (row(hash_ids=[1]), "line 1: hash_ids has 1 blocks; 2 were expected, for 600 tokens"),
        (row(hash_ids=[1, 2, 3]), "line 1: hash_ids has 3 blocks; 2 were expected"),
        (row(hash_ids=[1, "2"]), "line 1: hash_ids is [1, '2']; a list of whole numbers"),
        (row(hash_ids=7), "line 1: hash_ids is 7"),
        (row(hash_ids=[1, -2]), "line 1: hash_ids is [1, -2]; a list of whole numbers, 0 at least"),
        ("[" * 200_000, "line 1: '[[["),
        (row(session=1.5), "line 1: session is 1.5"),
        (row(turn=-1), "line 1: turn is -1"),
        (row() + row(timestamp=2000), "line 2: the request comes 1 s before the one above it; sort"),
        (AZURE + "yesterday,4808,10\n", "line 2: TIMESTAMP is 'yesterday'; a date and time"),
        (AZURE + "2023-11-16 18:17:03,4808\n", "line 2: 2 cells; 3 were expected"),
        (AZURE + "2023-11-16 18:17:03,many,10\n", "line 2: ContextTokens is 'many'"),
        (BURST + "nan,ChatGPT,472,18,490,x\n", "line 2: Timestamp is nan"),
        (BURST + "5,ChatGPT,472,18,491,x\n", "line 2: Total tokens is 491; 472 + 18 was expected"),
        (BURST + "5,ChatGPT,0,18,18,x\n", "line 2: Request tokens is 0"),
        (BURST + '5,"ChatGPT,472,18,490,x\n', "line 2: comma-separated cells were expected"),
    ],
)
def test_what_a_trace_cannot_hold_is_refused_with_file_and_line(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(UsageError) as refused:
        read(tmp_path, text)
    assert str(refused.value).startswith(str(tmp_path / "trace"))
    assert told in str(refused.value)


def test_a_format_that_is_named_is_not_looked_for(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="line 1: there is no column TIMESTAMP, ContextTokens"):
        read(tmp_path, BURST + "5,ChatGPT,472,18,490,x\n", "azure")


def test_no_text_and_no_file_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b'{"a": "\xff"}')
    with TraceFile(path) as trace, pytest.raises(UsageError, match="text was expected"):
        list(trace)
    with pytest.raises(UsageError, match="cannot be read: No such file"):
        TraceFile(tmp_path / "nowhere")


def test_a_device_or_pipe_is_refused_before_it_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(UsageError, match="is no file; one was expected"):
            TraceFile(path)


def test_a_line_without_end_is_refused_before_it_fills_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("nicemu.study.traces.reader.MOST_LINE", 100)
    with pytest.raises(UsageError, match="line 2 has 100 characters or more; no request needs so many"):
        read(tmp_path, row() + "{" + 200 * " ")


def test_a_trace_is_read_no_further_than_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_text(row() * 5 + "broken\n")
    with TraceFile(path) as trace:
        assert len(list(islice(trace, 5))) == 5


# Synthetic traces


def test_a_synthetic_trace_has_the_statistics_of_the_conversation_trace() -> None:
    found = statistics_of(synthetic_trace(12_031, 1), (0, 18_279, 3_650))
    assert found.inputs.mean() == pytest.approx(12_035, rel=0.03)
    assert found.inputs.quantile(0.5) == pytest.approx(6_909, rel=0.04)
    assert found.inputs.quantile(0.99) == pytest.approx(85_401, rel=0.06)
    assert found.outputs.mean() == pytest.approx(343, rel=0.02)
    assert found.span_s == pytest.approx(3_537, rel=0.03)
    assert found.arrival_times == pytest.approx(1_180, rel=0.03)
    assert found.blocks == pytest.approx(288_500, rel=0.03)
    assert found.distinct_blocks / found.blocks == pytest.approx(182_790 / 288_500, abs=0.01)
    assert found.partial_last_blocks / found.requests == pytest.approx(0.998, abs=0.002)
    rates = [100 * rate for _, rate in found.hits]
    assert rates == pytest.approx([37.3, 28.4, 8.0], abs=1.5)


def test_the_same_seed_makes_the_same_trace_and_another_one_another() -> None:
    assert list(synthetic_trace(200, 3)) == list(synthetic_trace(200, 3))
    assert list(synthetic_trace(200, 3)) != list(synthetic_trace(200, 4))
    assert list(synthetic_trace(50, 3)) == list(synthetic_trace(200, 3))[:50]


def test_a_synthetic_trace_is_read_as_it_was_made(tmp_path: Path) -> None:
    made = list(synthetic_trace(300, 2))
    with (tmp_path / "trace").open("w") as file:
        assert write_trace(iter(made), file) == 300
    with TraceFile(tmp_path / "trace") as trace:
        found = list(trace)
    assert found == [item._replace(arrival_s=item.arrival_s - made[0].arrival_s) for item in made]


def test_a_turn_begins_with_the_whole_blocks_of_the_turn_before() -> None:
    last: dict[str | None, Request] = {}
    turns = 0
    for request in synthetic_trace(3000, 1):
        assert len(request.blocks) == blocks_in(request.input_tokens)
        before = last.get(request.session)
        if before is not None:
            turns += 1
            assert request.turn == (before.turn or 0) + 1
            assert request.blocks[: before.full_blocks] == before.blocks[: before.full_blocks]
            assert before.full_blocks == len(before.blocks) or before.blocks[-1] not in request.blocks
        last[request.session] = request
    assert turns > 500


def test_what_is_written_is_one_json_object_a_line() -> None:
    file = io.StringIO()
    write_trace(iter([Request(3.0, 600, 5, range(2))]), file)
    assert file.getvalue() == (
        '{"timestamp": 3000, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}\n'
    )


# Caches


prompts = st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6 * BLOCK_TOKENS)), min_size=1, max_size=40)


@given(asked=prompts, capacity=st.integers(1, 12))
def test_a_bounded_cache_holds_the_blocks_that_were_used_last(
    asked: list[tuple[int, int]], capacity: int
) -> None:
    cache, naive, hits, expected = BlockLru(capacity), OrderedDict[int, None](), 0, 0
    for session, tokens in asked:
        blocks = range(10 * session, 10 * session + tokens // BLOCK_TOKENS)
        hits += cache.prefix(blocks, len(blocks), 0.0)
        expected += next((place for place, block in enumerate(blocks) if block not in naive), len(blocks))
        cache.put(blocks, 0.0)
        for block in reversed(blocks):
            naive[block] = None
            naive.move_to_end(block)
        while len(naive) > capacity:
            naive.popitem(last=False)
        assert len(cache) <= capacity
    assert hits == expected


def test_a_partial_last_block_is_nobody_s_hit() -> None:
    same = [Request(0.0, 700, 1, [1, 2]), Request(0.0, 700, 1, [1, 2])]
    assert statistics_of(same).hits == [(0, 512 / 1400)]


def test_blocks_on_their_way_cannot_be_read_yet_but_are_not_stored_again() -> None:
    cache = BlockLru()
    cache.put([1, 2], 5.0)
    assert cache.prefix([1, 2, 3], 3, 4.0) == 0
    assert cache.missing([1, 2, 3], 0, 3) == [3]
    assert cache.prefix([1, 2, 3], 3, 5.0) == 2
    cache.ready([2, 9], 7.0)
    assert (cache.prefix([1, 2], 2, 6.0), 9 in cache) == (1, False)


def test_the_tail_of_a_prompt_goes_before_its_head() -> None:
    cache = BlockLru(4)
    cache.put([1, 2, 3], 0.0)
    cache.use([1, 2, 3], 3)
    cache.put([7, 8], 0.0)
    assert [block in cache for block in (1, 2, 3, 7, 8)] == [True, True, False, True, True]
    assert cache.evicted == 1


@given(values=st.lists(st.integers(1, 1000), min_size=1, max_size=100))
def test_quantiles_of_lengths_are_exact(values: list[int]) -> None:
    lengths = Lengths()
    lengths.counts.update(values)
    ordered = sorted(values)
    assert lengths.quantile(1.0) == ordered[-1]
    assert lengths.quantile(0.5) == ordered[(len(ordered) + 1) // 2 - 1]
    assert lengths.mean() == pytest.approx(sum(values) / len(values))
