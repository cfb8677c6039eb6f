# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import Result

from nicemu.errors import NicemuError

if TYPE_CHECKING:
    from tests.unit.cli.conftest import World

Cli = Callable[..., Result]


def test_up_shows_progress_on_stderr_and_the_nics_on_stdout(world: World, nicemu: Cli) -> None:
    result = nicemu("up", "examples/two_storage_nodes.toml")
    assert result.exit_code == 0
    assert result.stderr == "compiling the datapath\n"
    row = result.stdout.splitlines()[2]
    assert row.split()[:5] == ["compute0", "two_storage_nodes", "4321", "127.1.2.3", "kvmatch"]


def test_up_hands_its_options_on(world: World, nicemu: Cli) -> None:
    nicemu("up", "mine.toml", "--fabric", "udp", "--pcap", "caught", "--trace", "trace.json", "--nic", "a")
    options = {"fabric": "udp", "pcap": Path("caught"), "trace": Path("trace.json"), "only": ("a",)}
    assert world.brought_up == [(Path("mine.toml"), options | {"check_races": False, "profile": None})]


def test_up_has_races_checked_on_demand(world: World, nicemu: Cli) -> None:
    nicemu("up", "mine.toml", "--check-races")
    assert [options["check_races"] for _, options in world.brought_up] == [True]


def test_down_names_what_it_stopped(world: World, nicemu: Cli) -> None:
    assert nicemu("down").stdout == "stopped compute0\n"
    world.nics.append(replace(world.nics[0], name="storage0", ended="storage0 has ended"))
    assert nicemu("down", "mine.toml").stdout == "stopped compute0; storage0 had ended already\n"
    del world.nics[0]
    assert nicemu("down").stdout == "storage0 had ended already\n"
    assert world.taken_down == [None, "mine.toml", None]


def test_status_shows_what_each_nic_says_it_runs(world: World, nicemu: Cli) -> None:
    assert "kv_follow_up, kv_chunk_missing" in nicemu("status").stdout
    told = json.loads(nicemu("status", "--json").stdout)
    assert told == [
        {
            "nic": "compute0",
            "topology": "two_storage_nodes",
            "pid": 4321,
            "address": "127.1.2.3",
            "program": "kvmatch",
            "firmware": ["kv_follow_up", "kv_chunk_missing"],
            "problem": None,
            "p4runtime": "unix:/run/nic.p4rt",
            "socket": "/run/nic.sock",
        }
    ]


def test_status_shows_a_nic_that_does_not_answer(world: World, nicemu: Cli) -> None:
    world.answers["describe"] = NicemuError("compute0 does not answer")
    result = nicemu("status")
    assert result.exit_code == 0
    assert result.stdout.splitlines()[2].endswith("compute0 does not answer")


def test_status_shows_what_keeps_the_frames_of_a_nic_that_runs(world: World, nicemu: Cli) -> None:
    world.answers["describe"] |= {"problem": "interface eth1 is down: ip link set eth1 up"}
    assert nicemu("status").stdout.splitlines()[2].endswith("interface eth1 is down: ip link set eth1 up")


def test_status_shows_one_topology_if_it_is_named(world: World, nicemu: Cli) -> None:
    nicemu("status", "two_storage_nodes")
    assert world.looked_for == ["two_storage_nodes"]
    world.nics = []
    assert nicemu("status", "two_storage_nodes").stdout == "topology two_storage_nodes is not up\n"


def test_status_shows_a_nic_that_has_ended_with_its_problem_and_asks_it_nothing(
    world: World, nicemu: Cli
) -> None:
    world.nics[0].ended = "compute0 has ended, see compute0.log"
    assert nicemu("status").stdout.splitlines()[2].endswith("compute0 has ended, see compute0.log")
    assert world.asked == []


def test_status_without_a_nic_says_how_to_start_some(world: World, nicemu: Cli) -> None:
    world.nics = []
    assert "nicemu up examples/two_storage_nodes.toml" in nicemu("status").stdout
    assert json.loads(nicemu("status", "--json").stdout) == []
