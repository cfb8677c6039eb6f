# SPDX-License-Identifier: Apache-2.0
"""Traces in the Trace Event Format: a row for each block, parts of several processes put together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nicemu.errors import NicemuError
from nicemu.run import trace
from nicemu.run.trace import TraceWriter, merge_traces, write_part


def test_a_trace_has_a_row_for_each_block_and_times_in_microseconds(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    writer = TraceWriter("nic0")
    observe = writer.observer(lambda: 5_000)
    observe("rdma", "arrival", {"bytes": 8})
    observe("pipeline", "drop", {})
    write_part(path, "nic0", writer.finish({"fired": 3}, 9_000))
    assert merge_traces(path) == 6
    events = json.loads(path.read_text())["traceEvents"]
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert sorted(rows.values()) == ["pipeline", "rdma"]
    happened = [(rows[e["tid"]], e["name"], e["ts"], e["args"]) for e in events if e.get("s") == "t"]
    assert happened == [("rdma", "arrival", 5.0, {"bytes": 8}), ("pipeline", "drop", 5.0, {})]
    assert [e["args"] for e in events if e["name"] == "statistics"] == [{"fired": 3}]


def test_firmware_tasks_and_block_ios_are_spans_from_their_start_to_their_end(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    writer = TraceWriter("nic0")
    now_ns = 0
    observe = writer.observer(lambda: now_ns)
    for now_ns, block, what, details in (  # noqa: B007 - the clock reads it
        (1_000, "firmware", "start", {"task": "fetch"}),
        (2_000, "nvme", "read", {"tag": 7, "bytes": 4096}),
        (3_000, "firmware", "start", {"task": "fetch"}),
        (4_000, "nvme", "done", {"tag": 7, "status": "SUCCESS"}),
        (5_000, "firmware", "end", {"task": "fetch"}),
        (6_000, "firmware", "end", {"task": "fetch"}),
        (7_000, "firmware", "end", {"task": "of before the trace"}),
        (8_000, "nvme", "done", {"tag": 6, "status": "SUCCESS"}),
    ):
        observe(block, what, details)
    write_part(path, "nic0", writer.finish({}, 9_000))
    merge_traces(path)
    events = json.loads(path.read_text())["traceEvents"]
    spans = [(e["cat"], e["name"], e["id"], e["ph"], e["ts"]) for e in events if e["ph"] in "be"]
    assert spans == [
        ("firmware", "fetch", 1, "b", 1.0),
        ("nvme", "block I/O", 7, "b", 2.0),
        ("firmware", "fetch", 2, "b", 3.0),
        ("nvme", "block I/O", 7, "e", 4.0),
        ("firmware", "fetch", 1, "e", 5.0),
        ("firmware", "fetch", 2, "e", 6.0),
    ]


def test_what_comes_after_the_last_event_that_is_kept_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MAX_EVENTS", 5)
    writer = TraceWriter("nic0")
    observe = writer.observer(lambda: 1)
    for _ in range(6):  # behind a name for the process and one for the row
        observe("port", "sent", {})
    events = writer.finish({"fired": 3}, 2)
    assert len(events) == 6
    assert events[-1]["args"] == {"fired": 3, "trace.missed": 3}


def test_parts_are_put_together_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    for name in ("nic0", "nic1"):
        writer = TraceWriter(name)
        writer.observer(lambda: 1)("port", "sent", {})
        write_part(path, name, writer.finish({}, 2))
    merge_traces(path)
    events = json.loads(path.read_text())["traceEvents"]
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {"nic0", "nic1"}
    assert sorted(tmp_path.iterdir()) == [path]


def test_without_parts_a_trace_is_empty_and_still_opens(tmp_path: Path) -> None:
    assert merge_traces(tmp_path / "trace.json") == 0
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"] == []


def test_a_part_that_cannot_be_read_is_named_and_costs_the_others_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    write_part(path, "nic0", TraceWriter("nic0").finish({}, 2))
    (tmp_path / "trace.json.nic1.part").write_text('[{"name": "cut')
    with pytest.raises(NicemuError, match=r"is not whole: trace.json.nic1.part"):
        merge_traces(path)
    assert len(json.loads(path.read_text())["traceEvents"]) == 2


def test_a_trace_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(NicemuError, match=r"trace.json is not whole: No such file"):
        merge_traces(tmp_path / "gone" / "trace.json")
