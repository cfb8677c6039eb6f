# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import os
import signal
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from nicemu.cli.demo import Interrupts, _run, _storage_of
from nicemu.errors import UsageError


def interrupt(number: signal.Signals = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def test_the_first_signal_interrupts_and_those_after_it_do_not() -> None:
    interrupts = Interrupts()
    try:
        with pytest.raises(KeyboardInterrupt):
            interrupt(signal.SIGTERM)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            interrupt(number)
    finally:
        interrupts.restore()


def test_a_signal_after_the_shield_interrupts_nothing_and_the_handlers_come_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    interrupts = Interrupts()
    try:
        interrupts.shield()
        interrupt()
    finally:
        interrupts.restore()
    assert signal.getsignal(signal.SIGINT) is before


class Part:
    """Instance, journey and data folder in one: when it is stopped, the user interrupts."""

    fabric = "direct"
    path = Path("/tmp/nicemu-demo-none")

    def __init__(
        self, done: list[str], here: str = "compute0", peers: tuple[str, ...] = ("s0", "s1")
    ) -> None:
        self.done = done
        self.nics = [types.SimpleNamespace(name=here)]
        compute = types.SimpleNamespace(name="compute0", peers=peers)
        self.topology = types.SimpleNamespace(path="two.toml", nics=[compute])

    def __enter__(self) -> Part:
        return self

    def __exit__(self, *exception: object) -> None:
        self._end("instance")

    def run(self, storage: list[str], config: dict[str, int]) -> str:
        self.done.append(f"journey over {' and '.join(storage)}")
        return "report"

    def close(self) -> None:
        self._end("journey")

    def remove(self) -> None:
        self._end("data")

    def _end(self, what: str) -> None:
        interrupt()
        self.done.append(what)


def test_an_interrupt_while_the_demo_stops_what_it_started_interrupts_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    done: list[str] = []
    part: Any = Part(done)
    run, journey = types.ModuleType("nicemu.run"), types.ModuleType("nicemu.cli.journey")
    start = types.SimpleNamespace(start=lambda *words, **options: part)
    run.__dict__.update(Instance=start, ScratchFolder=lambda: part)
    journey.__dict__.update(Journey=lambda *parts: part)
    monkeypatch.setitem(sys.modules, "nicemu.run", run)
    monkeypatch.setitem(sys.modules, "nicemu.cli.journey", journey)
    interrupts = Interrupts()
    try:
        report: object = _run(interrupts, {}, 4, lambda text: None)
    finally:
        interrupts.restore()
    assert report == "report"
    assert done == ["journey over s0 and s1", "journey", "instance", "data"]


@pytest.mark.parametrize("part", [Part([], here="storage0"), Part([], peers=())], ids=["there", "alone"])
def test_the_journey_wants_the_compute_nic_here_and_storage_nics_as_its_peers(part: Part) -> None:
    with pytest.raises(UsageError, match=r"two\.toml: the journey needs the first NIC, compute0, on this"):
        _storage_of(part)  # type: ignore[arg-type]
