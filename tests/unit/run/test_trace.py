# SPDX-License-Identifier: Apache-2.0
"""Traces in the Trace Event Format: a row for each block, parts of several processes put together."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nicemu.errors import NicemuError
from nicemu.run.trace import TraceWriter, merge_traces


def test_a_trace_has_a_row_for_each_block_and_times_in_microseconds(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    writer = TraceWriter(path, "nic0")
    observe = writer.observer(lambda: 5_000)
    observe("rdma", "arrival", {"bytes": 8})
    observe("nvme", "read", {"duration_ns": 2_000})
    observe("rdma", "arrival", {"bytes": 9})
    writer.close({"fired": 3}, 9_000)
    assert merge_traces(path) == 7
    events = json.loads(path.read_text())["traceEvents"]
    rows = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert sorted(rows.values()) == ["nvme", "rdma"]
    happened = [(rows[e["tid"]], e["name"], e["ts"], e["dur"], e["args"]) for e in events if e["ph"] == "X"]
    assert happened == [
        ("rdma", "arrival", 5.0, 1.0, {"bytes": 8}),
        ("nvme", "read", 3.0, 2.0, {}),
        ("rdma", "arrival", 5.0, 1.0, {"bytes": 9}),
    ]
    assert [e["args"] for e in events if e["name"] == "statistics"] == [{"fired": 3}]


def test_parts_are_put_together_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    for name in ("nic0", "nic1"):
        writer = TraceWriter(path, name)
        writer.observer(lambda: 1)("port", "sent", {})
        writer.close({}, 2)
    merge_traces(path)
    events = json.loads(path.read_text())["traceEvents"]
    assert {e["args"]["name"] for e in events if e["name"] == "process_name"} == {"nic0", "nic1"}
    assert sorted(tmp_path.iterdir()) == [path]


def test_without_parts_a_trace_is_empty_and_still_opens(tmp_path: Path) -> None:
    assert merge_traces(tmp_path / "trace.json") == 0
    assert json.loads((tmp_path / "trace.json").read_text())["traceEvents"] == []


def test_a_part_that_cannot_be_read_is_named_and_costs_the_others_nothing(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    TraceWriter(path, "nic0").close({}, 2)
    (tmp_path / "trace.json.nic1.part").write_text('[{"name": "cut')
    with pytest.raises(NicemuError, match=r"is not whole: trace.json.nic1.part"):
        merge_traces(path)
    assert len(json.loads(path.read_text())["traceEvents"]) == 2


def test_a_trace_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(NicemuError, match=r"trace.json is not whole: No such file"):
        merge_traces(tmp_path / "gone" / "trace.json")
