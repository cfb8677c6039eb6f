# SPDX-License-Identifier: Apache-2.0
"""A sweep that is killed, and one that is interrupted: what was finished is kept, and no process is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from .live_nics import eventually

pytestmark = pytest.mark.process

SWEEP = ["study", "sweep", "overflow", "--set", "figures=6", "--set", "requests=24", "--jobs", "2", "--json"]
AXES = ["--vary", "seed=" + ",".join(map(str, range(1, 9))), "--set", "length_sigma=0.5"]


def start(out: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "nicemu", *SWEEP, *AXES, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def finished(out: Path) -> int:
    return max(0, out.read_bytes().count(b"\n") - 1) if out.exists() else 0


def left_of(session: int) -> list[int]:
    """Processes of a session that run."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(words[3]) == session and words[0] not in "ZX":
                found.append(int(entry.name))
    return found


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_sweep_that_was_stopped_goes_on(number: signal.Signals, tmp_path: Path) -> None:
    out = tmp_path / "sweep.jsonl"
    first = start(out)
    assert eventually(lambda: finished(out) >= 2 or first.poll() is not None, 60)
    os.kill(first.pid, number)
    first.communicate(timeout=60)
    assert first.returncode != 0
    assert eventually(lambda: not left_of(first.pid), 30)
    kept = finished(out)
    assert 2 <= kept < 8
    second = start(out)
    data = json.loads(second.communicate(timeout=120)[0])
    assert second.returncode == 0
    assert len(data["points"]) == 8
    assert finished(out) == 8
    whole = start(tmp_path / "whole.jsonl")
    assert json.loads(whole.communicate(timeout=120)[0]) == data


RAY = """
import json
from nicemu.study import STUDIES, Plan, Processes, Ray, run_sweep, settings_with
from nicemu.study.sweep import run_point

overflow = STUDIES["overflow"]
settings = settings_with(overflow.standard, {"figures": 6, "requests": 4, "output_tokens": 64})
plan = Plan(overflow, settings, {"kv_percent": [5, 20], "prompt_tokens": [100, 1 << 22]}, 1)
quiet = lambda done, what: None
found = [run_sweep(plan, engine, None, quiet).as_data() for engine in (Ray(), Processes(1))]
try:
    list(Ray().run(run_point, [("weather", settings, 1, {})]))
except KeyError as error:
    refused = [entry.get("refused", "") for entry in found[0]["points"]]
    print(json.dumps([found[0] == found[1], refused, str(error)]))
"""


@pytest.mark.slow
def test_a_local_ray_cluster_gives_what_processes_give_and_is_gone_afterwards() -> None:
    pytest.importorskip("ray", reason="--engine ray needs Ray: pip install 'nicemu[ray]'")
    process = subprocess.Popen(
        [sys.executable, "-c", RAY], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    same, refused, told = json.loads(process.communicate(timeout=240)[0])
    assert same
    assert [bool(text) for text in refused] == [False, True, False, True]
    assert "weather" in told
    assert eventually(lambda: not left_of(process.pid), 30)


def test_a_cluster_that_is_not_there_is_told() -> None:
    pytest.importorskip("ray", reason="--engine ray needs Ray: pip install 'nicemu[ray]'")
    words = ["study", "sweep", "overflow", "--vary", "seed=1", "--engine", "ray", "--address", "nowhere:1"]
    process = subprocess.run(
        [sys.executable, "-m", "nicemu", *words], capture_output=True, text=True, check=False, timeout=120
    )
    assert process.returncode == 1
    assert "no Ray cluster at nowhere:1" in process.stderr
