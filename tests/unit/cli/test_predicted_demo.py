# SPDX-License-Identifier: Apache-2.0
"""`nicemu demo --time=virtual`: the journey's predicted timeline."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from nicemu.cli import main


def predicted(*words: str) -> dict[str, Any]:
    result = CliRunner().invoke(main, ["demo", "--time=virtual", "--blocks", "8", "--json", *words])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.output)
    return found


@pytest.fixture(scope="module")
def physical() -> dict[str, Any]:
    return predicted("--profile", "physical")


def happening(phase: dict[str, Any], *wanted: str) -> dict[str, Any]:
    names = ("nic", "block", "what")
    (found,) = [item for item in phase["happenings"] if tuple(item[name] for name in names) == wanted]
    return dict(found)


def test_all_that_the_journey_claims_holds(physical: dict[str, Any]) -> None:
    assert physical["ok"]
    assert len(physical["held"]) == 5


def test_what_comes_home_is_read_then_sent_and_then_told(physical: dict[str, Any]) -> None:
    leaves, comes = physical["phases"]
    assert leaves["bytes"] == comes["bytes"] > 0
    for storage in ("storage0", "storage1"):
        read, sent = (
            happening(comes, storage, *which) for which in (("nvme", "read"), ("rdma", "completed"))
        )
        assert read["first_us"] + 80 <= sent["first_us"]  # one NAND read
        assert (
            sent["last_us"] < happening(comes, "compute0", "host", "packet")["first_us"] == comes["took_us"]
        )


def test_nothing_of_a_phase_is_later_than_its_end(physical: dict[str, Any]) -> None:
    for phase in physical["phases"]:
        assert all(0 <= item["first_us"] <= item["last_us"] for item in phase["happenings"])
        assert max(item["last_us"] for item in phase["happenings"]) == pytest.approx(phase["took_us"])


@pytest.mark.slow
def test_the_same_command_predicts_the_same(physical: dict[str, Any]) -> None:
    assert predicted("--profile", "physical") == physical


@pytest.mark.slow
def test_a_slower_drive_makes_the_fetch_as_much_longer(physical: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "slow.toml").write_text('based_on = "physical"\n[nvme]\nread_intercept = 1080.0\n')
    slow = predicted("--profile", str(tmp_path / "slow.toml"))
    took_us = [found["phases"][1]["took_us"] for found in (physical, slow)]
    assert took_us[1] - took_us[0] >= 1000
    assert slow["phases"][0]["took_us"] == pytest.approx(physical["phases"][0]["took_us"])


@pytest.mark.slow
def test_every_frame_is_modelled_where_the_fabric_has_frames(physical: dict[str, Any]) -> None:
    frames = predicted("--profile", "physical", "--fabric", "udp")
    assert frames["fabric"] == "udp"
    took_us = [found["phases"][1]["took_us"] for found in (physical, frames)]
    assert took_us[1] == pytest.approx(took_us[0], rel=0.05)


@pytest.mark.slow
def test_a_trace_in_virtual_time_has_every_nic(tmp_path: Path) -> None:
    predicted("--trace", str(tmp_path / "journey.json"))
    events = json.loads((tmp_path / "journey.json").read_text())["traceEvents"]
    names = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert names == {"compute0", "storage0", "storage1"}
    assert len({event["pid"] for event in events}) == 3


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--pcap", "x"), "--pcap is for live NICs"),
        (("--check-races",), "--check-races is for live NICs"),
        (("--nic", "compute0"), "--nic is for live NICs"),
        (("--trace", "/proc/none/t.json"), "no trace can be written there"),
        (("--profile", "none"), "there is no profile none; seed, physical or a TOML file"),
        (("--fabric", "verbs:rxe0"), "verbs:rxe0 has a time of its own; direct, udp or shm"),
    ],
)
def test_what_cannot_be_predicted_is_told(words: tuple[str, ...], told: str) -> None:
    result = CliRunner().invoke(main, ["demo", "--time=virtual", *words])
    assert result.exit_code != 0
    assert told in f"{result.output} {result.exception}"


def test_a_profile_that_is_too_slow_for_the_programs_is_told(tmp_path: Path) -> None:
    path = tmp_path / "slow.toml"
    path.write_text('based_on = "physical"\n[link]\nlatency_s = 1e6\n')
    result = CliRunner().invoke(main, ["demo", "--time=virtual", "--blocks", "8", "--profile", str(path)])
    assert result.exit_code == 1
    assert not isinstance(result.exception, TimeoutError)
    assert (
        "profile slow is too slow for the journey's programs: 0 of" in f"{result.output} {result.exception}"
    )
