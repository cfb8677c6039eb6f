# SPDX-License-Identifier: Apache-2.0
"""Modelled transfers a second of one core: the stepper under profile `physical`, RDMA writes of 4 KiB.

`run_ahead`: one program of many, fired by one count, until nothing is left to happen. `chained`: each write
fires the next one. `waited`: a host waits for every single one. `frames`: the same writes with every RoCEv2
frame modelled; `frames.frames` is the rate of frames, acknowledgements too. CPU time, compiled, after a run
that does not count. Prints `name value unit` lines; the goal is 100,000 a second on `direct`.
Run: python benchmarks/stepper.py [--json]
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from nicemu.host import Nic
from nicemu.model import read_profile, timings_of
from nicemu.nic import NicConfig
from nicemu.programs import find_program, load_module
from nicemu.run import Simulation

reports = load_module(Path(__file__).with_name("rig") / "report.py")

LENGTH: Final = 4096
ROUNDS: Final = 5
GOAL: Final = 100_000.0
MANY, FEW = 20_000, 500


class Pair:
    """Two stepped NICs, and a host at the first with memory at the second."""

    def __init__(self, transport: str) -> None:
        timings = timings_of(read_profile("physical"))
        configs = [
            NicConfig(name, f"127.0.1.{number}", number, 8 << 20, transport=transport, timings=timings)
            for number, name in enumerate(("here", "there"), start=1)
        ]
        self.simulation = Simulation(configs, compiled=True)
        self.simulation.load_firmware("there", find_program("firmware/lend_memory.py"))
        self.nic = Nic(self.simulation.open_nic("here"))
        self.local = self.nic.register(self.nic.allocate((LENGTH,)))
        peer = self.nic.connect("there", bytes=LENGTH)
        self.far = peer.span(peer.private_data["address"], LENGTH, peer.private_data["rkey"])
        self.go, self.done = self.nic.counters("go", "done")
        self._done = 0

    def arm(self, count: int, *, chained: bool = False, waited: bool = False) -> None:
        """Arm writes: all for the next count, each for the end of the one before, or for its own count."""
        with self.nic.program("writes") as program:
            for number in range(count):
                condition = self.go >= sum(self.go.read()) + 1 + (number if waited else 0)
                if chained and number:
                    condition = self.done >= self._done + number
                program.when(condition).write(self.local, self.far, then=self.done)
        program.arm()

    def run(self, count: int, *, waited: bool = False) -> float:
        """Fire `count` armed writes; return CPU seconds."""
        self._done += count
        begin = time.process_time()
        if waited:
            for number in range(self._done - count + 1, self._done + 1):
                self.go.add()
                self.done.wait(number)
        else:
            self.go.add()
            self.simulation.run_until_idle()
        took = time.process_time() - begin
        assert self.done.read() == (self._done, 0)
        return took


def sent(pair: Pair) -> int:
    """Return how many frames both NICs have sent."""
    return sum(" port sent " in line for line in pair.simulation.trace)


def main() -> None:
    """Measure and print."""
    report = reports.Report("stepper")
    pair = Pair("direct")
    for name, count, how in (
        ("run_ahead", MANY, {}),
        ("chained", MANY, {"chained": True}),
        ("waited", FEW, {"waited": True}),
    ):
        rates = []
        for _ in range(ROUNDS + 1):
            pair.arm(count, **how)
            rates.append(count / pair.run(count, waited="waited" in how))
        report.add_rounds(f"direct.{name}", rates[1:], "transfers/s")
        if "waited" not in how:
            report.add_goal(f"direct.{name}_least", min(rates[1:]), "transfers/s", GOAL)
    pair = Pair("port")
    rates, frames = [], []
    for _ in range(ROUNDS + 1):
        pair.arm(FEW)
        before = sent(pair)
        took = pair.run(FEW)
        rates.append(FEW / took)
        frames.append((sent(pair) - before) / took)
    report.add_rounds("frames.transfers", rates[1:], "transfers/s")
    report.add_rounds("frames.frames", frames[1:], "frames/s")
    report.write()


if __name__ == "__main__":
    main()
