# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

import pytest

from nicemu.errors import UsageError
from nicemu.model import Operation, Way, transfer_s
from nicemu.study import (
    STUDIES,
    HpeSettings,
    hpe_rows,
    plot_hpe,
    read_hpe_settings,
    settings_with,
    size_of,
    size_text,
    where_it_holds,
)
from tests.unit.model.rows import GIB, GOLDEN, KIB, MIB, SIZES

ROWS = {row.name: row for row in hpe_rows()}


@pytest.mark.parametrize("name", ["1", "2", "5", "9"])
def test_rows_are_the_golden_readings(name: str) -> None:
    for length, wanted in zip(SIZES, GOLDEN[name][3], strict=True):
        found = ROWS[name].point(Operation.STORE, length, 19).speedup
        assert found == pytest.approx(wanted, rel=0.01, abs=0.05 if wanted > 1.5 else 0.005)


def intervals(name: str, target: float = 19.0, tolerance: float = 0.5) -> list[tuple[int, int]]:
    found = where_it_holds(ROWS[name], Operation.STORE, target, tolerance)
    return [(item.first_bytes, item.last_bytes) for item in found]


def test_nineteen_holds_at_small_messages_with_software_and_at_large_ones_of_a_node() -> None:
    ((first, last),) = intervals("2")
    assert first / KIB == pytest.approx(4.3, rel=0.03)
    assert last / KIB == pytest.approx(5.9, rel=0.03)
    ((first, last),) = intervals("5")
    assert first / KIB == pytest.approx(240, rel=0.03)
    assert last / KIB == pytest.approx(650, rel=0.03)
    assert intervals("1") == intervals("9") == []


def test_a_node_stays_between_18_and_20_2_from_177_kib_on() -> None:
    ((first, last),) = intervals("5", 19.1, 1.1)
    assert first / KIB == pytest.approx(177, rel=0.02)
    assert last == GIB


def test_an_interval_is_exact_at_its_ends() -> None:
    ((first, last),) = intervals("2")
    row = ROWS["2"]
    inside = [abs(row.point(Operation.STORE, size, 19).speedup - 19) <= 0.5 for size in (first, last)]
    outside = [
        abs(row.point(Operation.STORE, size, 19).speedup - 19) <= 0.5 for size in (first - 1, last + 1)
    ]
    assert (inside, outside) == ([True, True], [False, False])


def test_software_that_costs_what_is_told_makes_the_speedup_the_target_s() -> None:
    for length, wanted_us in ((KIB, 27), (4 * KIB, 40), (64 * KIB, 303)):
        cost_s = ROWS["1"].point(Operation.STORE, length, 19).software_for_target_s
        assert cost_s is not None
        assert 1e6 * cost_s == pytest.approx(wanted_us, rel=0.02)
        row = hpe_rows({"software.network_send_s": cost_s})[0]
        assert row.point(Operation.STORE, length, 19).speedup == pytest.approx(19)
    assert ROWS["5"].point(Operation.STORE, MIB, 19).software_for_target_s is None


def test_a_row_says_its_conditions_and_what_was_set() -> None:
    assert "no cost of software" in ROWS["1"].conditions
    assert (
        "41.8 us of software a message, chosen so that row 2 comes out near 19 at 4 KiB"
        in ROWS["2"].conditions
    )
    assert "8 GPUs at once: the CPUs' way shares one NIC and link, the triggered one has a NIC for each" in (
        ROWS["5"].conditions
    )
    assert "2.4 us a chunk of 1 MiB" in ROWS["9"].conditions
    durable = hpe_rows({"transfer.completion": "durable"})
    assert all(
        "complete when durable, both ways: NVMe by fixed_and_rate" in row.conditions for row in durable
    )
    assert all("transfer.completion = durable, as given" in row.conditions for row in durable)


def test_fetches_take_longer_than_stores() -> None:
    for row in ROWS.values():
        for way in Way:
            fetch, store = (
                transfer_s(row.profile, way, item, MIB) for item in (Operation.FETCH, Operation.STORE)
            )
            assert fetch > store


def test_settings_are_read_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "hpe.toml"
    path.write_text(
        'sizes = ["4KiB", "1 MiB", 100]\noperations = ["fetch"]\ntarget = 10\n'
        '[set.transfer]\ncompletion = "nic"\n'
    )
    assert read_hpe_settings(path) == HpeSettings(
        (4 * KIB, MIB, 100), (Operation.FETCH,), 10.0, 0.5, {"transfer.completion": "nic"}
    )
    path.write_text("")
    assert read_hpe_settings(path) == HpeSettings()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("size = 3", "size is unknown; there may be sizes, operations"),
        ("sizes = []", r"sizes is \[\]; a list of one or more"),
        ("sizes = [0]", "sizes: 0 is no size"),
        ('sizes = ["1.5 B"]', r"sizes: '1\.5 B' is no size"),
        ('sizes = ["4 kB"]', "sizes: '4 kB' is no size"),
        ('operations = ["both"]', "operations: 'both' is no operation; store or fetch"),
        ("target = -1", "target is -1"),
        ("target = nan", "target is nan"),
        ("set = 3", "set is 3; tables of fields"),
        ("[set]\npcie = 3", r"set\.pcie is 3; a table of fields"),
        ("[set", "hpe.toml: "),
    ],
)
def test_settings_that_cannot_be_are_refused_with_the_key(tmp_path: Path, text: str, told: str) -> None:
    path = tmp_path / "hpe.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=told) as raised:
        read_hpe_settings(path)
    assert str(path) in str(raised.value)


def test_plots_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="plots need matplotlib: pip install 'nicemu[plots]'")
    settings = HpeSettings(operations=(Operation.STORE,))
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        paths = plot_hpe(list(ROWS.values()), settings, folder)
        assert sorted(path.name for path in paths) == sorted(
            f"hpe_store_{what}.{kind}"
            for what in ("latency_small", "latency_large", "speedup")
            for kind in ("png", "svg")
        )
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes(), path.name


def test_sizes_are_read_and_written_as_people_do() -> None:
    assert [size_of(text) for text in ("1", "4KiB", "1.5 MiB", 77)] == [1, 4 * KIB, 1536 * KIB, 77]
    assert [size_text(size) for size in (1, 4 * KIB, 1536 * KIB, 4311, GIB)] == [
        "1 B",
        "4 KiB",
        "1.5 MiB",
        "4.21 KiB",
        "1 GiB",
    ]


# One message, as sweeps have it


def run_point(**values: object) -> dict[str, float]:
    study = STUDIES["hpe"]
    settings = settings_with(study.standard, values)
    return dict(study.run(settings, 1, lambda done, what: None).headline())


def test_a_message_of_a_sweep_is_that_of_the_study() -> None:
    (row,) = (row for row in hpe_rows() if row.name == "2")
    found = run_point(row=2, operation="fetch", length_bytes=65536)
    point = row.point(Operation.FETCH, 65536, 19)
    assert found["speedup"] == point.speedup
    assert found["cpu_us"] == pytest.approx(1e6 * point.cpu_s)


def test_fields_of_profiles_vary_too() -> None:
    slow, fast = (run_point(length_bytes=1 << 20, **{"link.s_per_byte": rate}) for rate in (8e-11, 2e-11))
    assert fast["triggered_us"] < slow["triggered_us"]
    assert fast["speedup"] > 1


def test_a_row_that_the_study_has_not_is_refused() -> None:
    with pytest.raises(UsageError, match="row is 3; 1, 2, 5, 9 are the rows"):
        run_point(row=3)
