# SPDX-License-Identifier: Apache-2.0
"""Sweeps: all combinations, once each, the same on every engine, and on from where one was killed."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.study import STUDIES, Plan, Processes, Ray, Settings, run_sweep, settings_with
from nicemu.study.sweep import Outcome, run_point

OVERFLOW = STUDIES["overflow"]
SMALL: Settings = settings_with(
    OVERFLOW.standard,
    {"figures": 6, "requests": 4, "output_tokens": 64, "policies": ["recompute", "triggered"]},
)
AXES: Mapping[str, Sequence[Any]] = {"kv_percent": [5, 20], "block_tokens": [8, 16, 32]}
METRIC = "recompute_makespan_s"


def plan(axes: Mapping[str, Sequence[Any]] = AXES, settings: Settings = SMALL, seed: int = 1) -> Plan:
    return Plan(OVERFLOW, settings, axes, seed)


def quiet(done: float, what: str) -> None:
    assert 0 <= done <= 1


class Counting:
    """One task after another, and which they were; ends like a killed sweep after some."""

    def __init__(self, most: int = 1000) -> None:
        self.points: list[Mapping[str, Any]] = []
        self._most = most

    def run(self, work: Any, tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:  # noqa: ANN401
        for task in tasks:
            if len(self.points) == self._most:
                raise KeyboardInterrupt
            self.points.append(task[-1])
            yield work(*task)


@pytest.fixture(scope="module")
def expected() -> list[Outcome]:
    return [run_point("overflow", SMALL, 1, point) for point in plan().points()]


# Points


def test_the_last_setting_varies_fastest() -> None:
    points = plan({"kv_percent": [5, 20], "seed": [1, 2]}).points()
    assert points == [
        {"kv_percent": 5, "seed": 1},
        {"kv_percent": 5, "seed": 2},
        {"kv_percent": 20, "seed": 1},
        {"kv_percent": 20, "seed": 2},
    ]


def test_a_point_is_the_study_with_its_settings_and_seed() -> None:
    settings = settings_with(SMALL, {"length_sigma": 0.5})
    own = OVERFLOW.run(settings_with(settings, {"kv_percent": 20}), 7, quiet).headline()
    assert dict(run_point("overflow", settings, 1, {"kv_percent": 20, "seed": 7}).figures) == dict(own)
    assert dict(run_point("overflow", settings, 1, {"kv_percent": 20}).figures) != dict(own)


def test_a_point_that_the_study_refuses_says_why_and_the_others_go_on() -> None:
    found = run_sweep(plan({"prompt_tokens": [100, 1 << 22]}), Processes(1), None, quiet)
    first, second = found.outcomes
    assert first.figures
    assert not first.refused
    assert "4,194,304" in second.refused
    assert found.table().notes[0].startswith("prompt_tokens = 4194304: ")
    assert found.as_data()["points"][1] == {"point": {"prompt_tokens": 1 << 22}, "refused": second.refused}  # type: ignore[index]


@pytest.mark.parametrize(
    ("axes", "told"),
    [
        ({}, "a sweep varies something"),
        ({"kv_procent": [1]}, r"there is no setting kv_procent; did you mean kv_percent"),
        ({"kv_percent": [10, 10]}, "kv_percent has a value twice"),
        ({"kv_percent": [10, 10.0]}, "kv_percent has a value twice"),
        ({"kv_percent": [10, 0]}, r"kv_percent is 0"),
        ({"seed": [-1]}, "seed is -1"),
        ({"seed": ["a"]}, "seed is 'a'"),
        ({"seed": range(2000), "block_tokens": range(1, 1001)}, "2,000,000 points"),
    ],
)
def test_what_cannot_be_swept_is_refused_before_anything_runs(axes: dict[str, Any], told: str) -> None:
    with pytest.raises(UsageError, match=told):
        plan(axes)


# Engines


@pytest.mark.parametrize("jobs", [1, 2])
def test_so_many_processes_give_the_same(jobs: int, expected: list[Outcome]) -> None:
    found = run_sweep(plan(), Processes(jobs), None, quiet)
    assert list(found.outcomes) == expected
    assert [outcome.point for outcome in found.outcomes] == plan().points()


def test_processes_raise_what_the_work_raises() -> None:
    with pytest.raises(ZeroDivisionError):
        list(Processes(2).run(divmod, [(1, 1), (1, 0)]))


def test_nothing_of_an_engine_is_left_when_nobody_asks_any_more() -> None:
    import multiprocessing

    results = Processes(2).run(os.path.join, [("a", str(number)) for number in range(50)])
    assert next(results).startswith("a/")
    assert multiprocessing.active_children()
    results.close()  # type: ignore[attr-defined]
    assert not multiprocessing.active_children()


def test_a_process_that_dies_is_told() -> None:
    from nicemu.errors import NicemuError

    with pytest.raises(NicemuError, match="a process of the sweep has ended by itself"):
        list(Processes(2).run(os._exit, [(1,), (1,)]))


def test_ray_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(UsageError, match=r"pip install 'nicemu\[ray\]'"):
        list(Ray().run(divmod, [(1, 1)]))


# Going on


def test_a_sweep_goes_on_from_what_it_had_finished(tmp_path: Path, expected: list[Outcome]) -> None:
    out = tmp_path / "sweep.jsonl"
    with pytest.raises(KeyboardInterrupt):
        run_sweep(plan(), Counting(2), out, quiet)
    rest = Counting()
    found = run_sweep(plan(), rest, out, quiet)
    assert rest.points == plan().points()[2:]
    assert found.found_before == 2
    assert list(found.outcomes) == expected
    none = Counting()
    assert run_sweep(plan(), none, out, quiet).as_data() == found.as_data()
    assert none.points == []


def test_a_sweep_takes_more_values_later(tmp_path: Path) -> None:
    out = tmp_path / "sweep.jsonl"
    run_sweep(plan({"kv_percent": [5, 20]}), Counting(), out, quiet)
    more = Counting()
    found = run_sweep(plan({"kv_percent": [20, 40]}), more, out, quiet)
    assert more.points == [{"kv_percent": 40}]
    assert [outcome.point["kv_percent"] for outcome in found.outcomes] == [20, 40]


def test_a_line_that_was_cut_is_run_again(tmp_path: Path, expected: list[Outcome]) -> None:
    out = tmp_path / "sweep.jsonl"
    run_sweep(plan(), Counting(), out, quiet)
    out.write_bytes(out.read_bytes()[:-20])
    again = Counting()
    found = run_sweep(plan(), again, out, quiet)
    assert again.points == plan().points()[-1:]
    assert list(found.outcomes) == expected
    assert len(out.read_text().splitlines()) == 1 + len(expected)
    run_sweep(plan(), Counting(0), out, quiet)  # and all that stands there now is whole


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{}\n", "is no file of a sweep"),
        ("[1]\n", "is no file of a sweep"),
        ("a b c\n", "line 1: "),
        ('{"nicemu_sweep": 99}\n', "is of another sweep: its nicemu_sweep is 99, not 1"),
    ],
)
def test_a_file_that_is_none_of_this_sweep_is_left_as_it_is(tmp_path: Path, text: str, told: str) -> None:
    out = tmp_path / "sweep.jsonl"
    out.write_text(text)
    with pytest.raises(UsageError, match=told):
        run_sweep(plan(), Counting(), out, quiet)
    assert out.read_text() == text


def test_another_sweep_s_file_and_a_damaged_one_are_told(tmp_path: Path) -> None:
    out = tmp_path / "sweep.jsonl"
    run_sweep(plan(), Counting(), out, quiet)
    with pytest.raises(UsageError, match="is of another sweep: its seed is 1, not 2"):
        run_sweep(plan(seed=2), Counting(), out, quiet)
    other = settings_with(SMALL, {"requests": 5})
    with pytest.raises(UsageError, match="is of another sweep: its settings is"):
        run_sweep(plan(settings=other), Counting(), out, quiet)
    lines = out.read_text().splitlines()
    out.write_text("\n".join([lines[0], json.dumps({"figures": {}}), ""]))
    with pytest.raises(UsageError, match="line 2: no point of a sweep"):
        run_sweep(plan(), Counting(), out, quiet)


def test_a_device_or_pipe_keeps_no_sweep(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for out in (tmp_path / "pipe", Path("/dev/full"), Path("/dev/null"), tmp_path):
        with pytest.raises(UsageError, match="is no file; give one to --out"):
            run_sweep(plan(), Counting(), out, quiet)


def test_a_file_that_settings_name_is_the_same_when_a_sweep_goes_on(tmp_path: Path) -> None:
    server, out = tmp_path / "ours.toml", tmp_path / "sweep.jsonl"
    server.write_text('based_on = "a100_llama2_7b"\n')
    settings = settings_with(SMALL, {"server": str(server)})
    run_sweep(plan({"kv_percent": [20]}, settings), Counting(), out, quiet)
    run_sweep(plan({"kv_percent": [20]}, settings), Counting(0), out, quiet)
    server.write_text('based_on = "a100_llama2_7b"\n[gpu]\ndecode_fixed_s = 1.0\n')
    with pytest.raises(UsageError, match="is of another sweep: its files is"):
        run_sweep(plan({"kv_percent": [20]}, settings), Counting(), out, quiet)


def test_two_sweeps_do_not_write_one_file(tmp_path: Path) -> None:
    out = tmp_path / "sweep.jsonl"

    class Another(Counting):
        def run(self, work: Any, tasks: Sequence[tuple[Any, ...]]) -> Iterator[Any]:  # noqa: ANN401
            with pytest.raises(UsageError, match="is in use"):
                run_sweep(plan(), Counting(), out, quiet)
            return super().run(work, tasks)

    run_sweep(plan(), Another(), out, quiet)


# What people see


def test_a_table_has_a_row_a_point_and_the_figures_that_were_asked_for() -> None:
    found = run_sweep(plan(), Processes(1), None, quiet)
    table = found.table([METRIC])
    assert table.columns == ("kv_percent", "block_tokens", METRIC)
    assert [row[:2] for row in table.rows] == [(a, b) for a in (5, 20) for b in (8, 16, 32)]
    with pytest.raises(UsageError, match="there is no figure speed"):
        found.table(["speed"])


def test_plots_are_drawn_the_same_twice(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    found = run_sweep(plan(), Processes(1), None, quiet)
    first, second = (found.plot(tmp_path / name, [METRIC]) for name in ("one", "two"))
    assert [path.name for path in first] == [f"sweep_overflow_{METRIC}.png", f"sweep_overflow_{METRIC}.svg"]
    assert [path.read_bytes() for path in first] == [path.read_bytes() for path in second]
