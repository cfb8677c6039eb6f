# SPDX-License-Identifier: Apache-2.0
"""A stand-in for the live world: `nicemu.run` as the commands see it, with NICs that are only remembered."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from nicemu.cli import main
from nicemu.errors import NicemuError, UsageError
from nicemu.run import loadable_program, read_program


@dataclass
class Nic:
    """As `nicemu.run.RunningNic`."""

    name: str
    topology: str = "two_storage_nodes"
    pid: int = 4321
    socket: Path = Path("/run/nic.sock")
    p4runtime: str = "unix:/run/nic.p4rt"
    program: str = "p4/kvmatch.p4"
    firmware: str = "firmware/kv_requestor.py"
    ended: str = ""


@dataclass
class World:
    """The NICs that run, what was asked of them, and what they answer."""

    nics: list[Nic] = field(default_factory=lambda: [Nic("compute0")])
    asked: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    brought_up: list[tuple[Path, dict[str, Any]]] = field(default_factory=list)
    taken_down: list[str | None] = field(default_factory=list)
    looked_for: list[str | None] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)

    def bring_up(self, topology: Path, *, progress: Callable[[str], None], **options: Any) -> list[Nic]:  # noqa: ANN401
        self.brought_up.append((topology, options))
        progress("compiling the datapath")
        return self.nics

    def take_down(self, topology: str | None) -> tuple[list[str], list[str]]:
        self.taken_down.append(topology)
        running, ended = (
            [nic.name for nic in self.nics if bool(nic.ended) is over] for over in (False, True)
        )
        return running, ended

    def known_nics(self, topology: str | None = None) -> list[Nic]:
        self.looked_for.append(topology)
        return self.nics

    def find_nic(self, name: str | None) -> Nic:
        for nic in self.nics:
            if name in (None, nic.name):
                return nic
        raise UsageError(f"no NIC {name} runs")

    def ask(self, nic: Nic, operation: str, **operands: Any) -> dict[str, Any]:  # noqa: ANN401
        self.asked.append((nic.name, operation, operands))
        answer = self.answers[operation]
        if isinstance(answer, NicemuError):
            raise answer
        return dict(answer)


TRIGGER_SLOTS = {
    "trigger.slots_in_use": 40,
    "trigger.slots": 2048,
    "trigger.service_slots_in_use": 33,
    "trigger.service_slots": 504,
}
DESCRIPTION = {
    "nic": "compute0",
    "statistics": {"frames_in": 12345, "drops.parser.too_short": 2} | TRIGGER_SLOTS,
    "limits": "cassini",
    "counters": [
        {
            "counter": 7,
            "name": "kv_ready",
            "owner": 1,
            "success": 3,
            "errors": 0,
            "armed": 2,
            "aimed": 1,
            "in_flight": 0,
            "overflow": False,
        }
    ],
    "address": "127.1.2.3",
    "missing_externs": [],
    "firmware": ["kv_follow_up", "kv_chunk_missing"],
    "program": "kvmatch",
    "interpreted_because": "",
    "peers": {"storage0": [17, 18]},
}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> World:
    """The world that the commands meet when they import `nicemu.run`."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    world = World(answers={"describe": dict(DESCRIPTION), "flash": {"handlers": ["kv_fetch"]}})
    module = types.ModuleType("nicemu.run")
    for name in ("bring_up", "take_down", "known_nics", "find_nic", "ask"):
        setattr(module, name, getattr(world, name))
    module.__dict__.update(read_program=read_program, loadable_program=loadable_program)
    monkeypatch.setitem(sys.modules, "nicemu.run", module)
    return world


@pytest.fixture
def nicemu() -> Callable[..., Result]:
    """Run the command line in this process."""
    return lambda *words: CliRunner().invoke(main, list(words), prog_name="nicemu")
