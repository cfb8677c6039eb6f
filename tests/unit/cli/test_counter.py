# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from click.testing import Result

if TYPE_CHECKING:
    from tests.unit.cli.conftest import World

Cli = Callable[..., Result]


def test_counter_list_shows_values_and_waiting_work(world: World, nicemu: Cli) -> None:
    lines = nicemu("counter", "list").stdout.splitlines()
    assert lines[0].split() == [
        "counter",
        "name",
        "owner",
        "success",
        "errors",
        "armed",
        "aimed",
        "in_flight",
        "overflow",
    ]
    assert lines[2].split() == ["7", "kv_ready", "1", "3", "0", "2", "1", "0", "no"]


def test_counter_list_as_json_is_what_the_nic_said(world: World, nicemu: Cli) -> None:
    assert json.loads(nicemu("counter", "list", "--json").stdout) == world.answers["describe"]["counters"]


def test_a_nic_without_counters_is_said_to_have_none(world: World, nicemu: Cli) -> None:
    world.answers["describe"] = world.answers["describe"] | {"counters": []}
    assert nicemu("counter", "list").stdout.startswith("compute0 has no counter of a host program\n")


def test_counter_list_and_stats_show_entries_in_use_like_a_real_nic(world: World, nicemu: Cli) -> None:
    entries = "40 of 2048 in use, 33 of the service's 504 (limits: cassini)"
    assert nicemu("counter", "list").stdout.endswith(f"trigger entries: {entries}\n")
    assert entries in nicemu("stats").stdout


def test_stats_show_program_firmware_peers_and_every_statistic(world: World, nicemu: Cli) -> None:
    lines = [line.split(maxsplit=1) for line in nicemu("stats", "--nic", "compute0").stdout.splitlines()]
    for line in (
        ["program", "kvmatch (compiled)"],
        ["firmware", "kv_follow_up, kv_chunk_missing"],
        ["peers", "storage0 (qp 17, 18)"],
        ["frames_in", "12,345"],
        ["drops.parser.too_short", "2"],
    ):
        assert line in lines


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            {"interpreted_because": "its kernel is being compiled"},
            "kvmatch (interpreted: its kernel is being compiled)",
        ),
        ({"program": None}, "none"),
    ],
)
def test_stats_say_whether_a_program_is_compiled(
    world: World, nicemu: Cli, told: dict[str, object], said: str
) -> None:
    world.answers["describe"] = world.answers["describe"] | told
    lines = [line.split(maxsplit=1) for line in nicemu("stats").stdout.splitlines()]
    assert ["program", said] in lines


def test_a_peer_without_a_queue_pair_is_said_to_have_none(world: World, nicemu: Cli) -> None:
    world.answers["describe"] = world.answers["describe"] | {"peers": {"storage0": []}}
    assert "storage0 (no queue pair)" in nicemu("stats").stdout


def test_stats_as_json_hold_whole_numbers(world: World, nicemu: Cli) -> None:
    told = json.loads(nicemu("stats", "--json").stdout)
    assert told["statistics"]["drops.parser.too_short"] == 2
    assert told["limits"] == "cassini"
    assert "counters" not in told


def test_a_nic_that_does_not_run_is_an_error_of_the_user(world: World, nicemu: Cli) -> None:
    result = nicemu("stats", "--nic", "compute9")
    assert (result.exit_code, result.stderr) == (1, "Error: no NIC compute9 runs\n")
