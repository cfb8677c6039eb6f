# SPDX-License-Identifier: Apache-2.0
"""The trigger engine: arming, counting and firing with up to a million operations armed.

All of it is the live datapath's own compiled code, run by this process on one core: two NICs whose memory is
mapped here, commands through a process's BAR, `poll` called until nothing is due. Prints `name value unit`
lines. Goals: arming and counting flat within 2x from 1e2 to 1e6 armed (3x where thresholds descend); 100 ns
an operation of a program of 1e5; 10 M counter operations a second of 1e4 armed, 5 M of 1e5; 2 M writes of
8 bytes a second to memory of the other NIC.
Run: python benchmarks/triggers.py [--json]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from nicemu import trigger
from nicemu.abi import ARMED, CommandCode, Limits, Opcode, pack_program
from nicemu.errors import NicemuError
from nicemu.fabric import LibfabricTarget
from nicemu.firmware import load_firmware
from nicemu.host import Nic
from nicemu.hot import Int, hot
from nicemu.nic import NicConfig
from nicemu.pcie import monotonic_ns
from nicemu.programs import load_module
from nicemu.run import Simulation
from nicemu.trigger import TriggerState, TriggerUnit

reports = load_module(Path(__file__).with_name("rig") / "report.py")

DEPTHS: Final = (100, 1_000, 10_000, 100_000, 1_000_000)
PROBES: Final = 64
ROUNDS: Final = 7
FAR: Final = 1 << 40
"""Thresholds that nothing reaches begin here."""
SOCKETS_DEPTHS: Final = (100, 1_000, 10_000)
SOCKETS_WRITES: Final = 200
ORDERS: Final = ("ascending", "random", "descending")


@hot
def fill(state: TriggerState, counter: Int, target: Int, thresholds: np.ndarray) -> None:
    """Arm a counter operation a threshold."""
    for threshold in thresholds:
        slot = trigger.take_slot(state)
        record = state.slots[slot]
        record.opcode, record.options, record.sge_count = 16, 0, 0
        record.trigger, record.threshold, record.completion = counter, threshold, -1
        record.rkey, record.remote_address, record.owner = np.uint32(target), np.uint64(1), 1
        trigger.arm(state, slot)


@hot
def time_arming(state: TriggerState, counter: Int, target: Int, thresholds: np.ndarray, scratch: Int) -> Int:
    """Return the nanoseconds that `fill` takes."""
    begun = monotonic_ns(scratch)
    fill(state, counter, target, thresholds)
    return monotonic_ns(scratch) - begun


@hot
def time_counting(state: TriggerState, counter: Int, count: Int, scratch: Int) -> Int:
    """Return the nanoseconds of `count` additions that fire nothing."""
    begun = monotonic_ns(scratch)
    for _ in range(count):
        trigger.add(state, counter, np.uint64(1), np.uint64(0))
    return monotonic_ns(scratch) - begun


def thresholds(order: str, first: int, count: int) -> np.ndarray[Any, Any]:
    """Return thresholds in one of the orders that people arm them in."""
    values = np.arange(first, first + count, dtype=np.uint64)
    if order == "descending":
        return values[::-1].copy()
    if order == "random":
        np.random.default_rng(1).shuffle(values)
    return values


def depth_figures(order: str) -> tuple[dict[int, float], dict[int, float]]:
    """Return nanoseconds to arm one more, and to count without firing, by the number that is armed."""
    scratch = np.zeros(2, np.uint64)
    arming, counting = {}, {}
    for depth in DEPTHS:
        unit = TriggerUnit(Limits(slot_count=DEPTHS[-1] + ROUNDS * PROBES))
        unit.state.slots["state"] = 0  # the pages are there, as in a NIC that has run for a while
        counter, target = unit.allocate(owner=1), unit.allocate(owner=1)
        total = thresholds(order, FAR, depth + ROUNDS * PROBES)
        place = np.uint64(scratch.ctypes.data)
        fill(unit.state, counter, target, total[:depth])
        armed, counted = [], []
        for number in range(ROUNDS):
            probe = total[depth + number * PROBES : depth + (number + 1) * PROBES]
            armed.append(int(time_arming(unit.state, counter, target, probe, place)) / PROBES)
            counted.append(int(time_counting(unit.state, counter, 10_000, place)) / 10_000)
        arming[depth], counting[depth] = median(armed), median(counted)
    return arming, counting


class World:
    """Two NICs with compiled datapaths, and a process at the first with memory at the second."""

    def __init__(self, folder: Path) -> None:
        limits = Limits(slot_count=1 << 18)
        configs = [
            NicConfig(name, f"127.0.1.{place}", limits=limits)
            for place, name in enumerate(("near", "far"), 1)
        ]
        self.simulation = Simulation(configs, compiled=True)
        script = Path(__file__).with_name("rig") / "memory_firmware.py"
        self.simulation.nics["far"].load_firmware(load_firmware(script), 0)
        self.device = self.simulation.nics["near"]
        self.nic = Nic(self.simulation.open_nic("near"))
        self.peer = self.nic.connect("far", length_bytes=1 << 20)
        self.local = self.nic.register(self.nic.allocate((1 << 20,)))

    def poll(self) -> int:
        """Run the near NIC's datapath until nothing is due; return nanoseconds."""
        begun = time.perf_counter_ns()
        while self.device._poll(self.device.arena, 1 << 30):
            pass
        return time.perf_counter_ns() - begun

    def arm(self, records: np.ndarray[Any, Any]) -> int:
        """Arm records by one ARM_PROGRAM command; return the nanoseconds it took the NIC."""
        memory, span = self.nic._program_memory(len(records))
        memory.array.view(ARMED)[: len(records)] = records
        taken = 0

        def notify() -> None:
            nonlocal taken
            taken += self.poll()

        self.nic.connection.notify = notify  # type: ignore[method-assign]
        self.nic.command(CommandCode.ARM_PROGRAM, span.address, len(records), span.key)
        return taken

    def counter_operations(
        self, trigger_counter: int, target: int, order: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        """Return records that add 1 to `target`, one a threshold."""
        records = np.zeros(len(order), ARMED)
        records["opcode"], records["trigger"], records["completion"] = Opcode.COUNTER_ADD, trigger_counter, -1
        records["threshold"], records["rkey"], records["remote_address"] = order, target, 1
        return records

    def writes(
        self, trigger_counter: int, completion: int, order: np.ndarray[Any, Any]
    ) -> np.ndarray[Any, Any]:
        """Return records that write 8 bytes each to the far NIC."""
        records = np.zeros(len(order), ARMED)
        offsets = 8 * (np.arange(len(order)) % (1 << 17))
        records["opcode"], records["trigger"], records["completion"] = (
            Opcode.RDMA_WRITE,
            trigger_counter,
            completion,
        )
        records["threshold"], records["sge_count"], records["qp"] = order, 1, self.peer.qp_num
        records["sge0_address"], records["sge0_length"] = self.local.address + offsets, 8
        records["sge0_lkey"], records["rkey"] = self.local.key, self.peer.private_data["rkey"]
        records["remote_address"] = self.peer.private_data["address"] + offsets
        return records


def rate(
    world: World, records: Callable[[int, int], np.ndarray[Any, Any]], count: int, rung: int
) -> tuple[float, float]:
    """Return (nanoseconds an operation to arm, M operations a second fired), medians of rounds."""
    arming, firing = [], []
    for _ in range(ROUNDS):
        first, second = world.nic.counters("first", "second")
        arming.append(world.arm(records(first.index, second.index)) / count)
        world.device.unit.add(first.index, rung)
        firing.append(count * 1e3 / world.poll())
        assert world.device.unit.slots_in_use == 0, "not all fired"
        first.close()
        second.close()
    return median(arming), median(firing)


def measure(report: Any, world: World, count: int) -> None:  # noqa: ANN401 - loaded by path
    """Measure arming and firing of programs of `count` operations."""
    goal = 10.0 if count <= 10_000 else 5.0
    ascending = np.arange(1, count + 1, dtype=np.uint64)
    shuffled = np.random.default_rng(1).permutation(ascending)
    arm_ns, fired = rate(world, lambda a, b: world.counter_operations(a, b, ascending), count, count)
    report.add_goal(f"program.{count}.arm", arm_ns, "ns", 100.0, at_most=True)
    report.add_goal(f"counter_operations.fan_out.{count}", fired, "M/s", goal)
    _, fired = rate(world, lambda a, b: world.counter_operations(a, b, shuffled), count, count)
    report.add_goal(f"counter_operations.random.{count}", fired, "M/s", goal)
    _, fired = rate(world, lambda a, b: world.counter_operations(a, a, ascending), count, 1)
    report.add_goal(f"counter_operations.chain.{count}", fired, "M/s", goal)
    _, fired = rate(world, lambda a, b: world.writes(a, b, ascending), count, count)
    report.add_goal(f"writes.8_bytes.{count}", fired, "M/s", 2.0)
    first, second = world.nic.counters("first", "second")
    begun = time.perf_counter_ns()
    with world.nic.program("in Python") as program:
        for threshold in range(1, count + 1):
            program.when(first >= threshold).add(second)
    built = time.perf_counter_ns()
    pack_program(program.work)
    report.add(f"program.{count}.build_in_python", (built - begun) / count, "ns")
    report.add(f"program.{count}.pack_in_python", (time.perf_counter_ns() - built) / count, "ns")


def sockets(report: Any) -> None:  # noqa: ANN401 - loaded by path
    """Measure libfabric's `sockets` provider the same way, in this process, if it is here.

    Calls go through cffi, about a microsecond each; its arming is measured by the Python call.
    """
    try:
        target = LibfabricTarget("sockets")
    except NicemuError as error:
        print(f"# sockets: {error}", file=sys.stderr)
        return
    with target:
        loopback = target.loopback()
        memory = target.allocate((8 * SOCKETS_WRITES,))
        local = target.register(memory)
        remote = target.remote(target.register(memory, qp_num=loopback.peer_qp_num), loopback.qp_num)
        for depth in SOCKETS_DEPTHS:
            waiting, target_counter = target.counters("waiting", "target")
            with target.program("waiting") as program:
                for threshold in range(depth):
                    program.when(waiting >= (1 << 30) + threshold).add(target_counter)
            program.arm()
            samples = []
            for _ in range(ROUNDS * 20):
                begun = time.perf_counter_ns()
                waiting.add(1)
                samples.append(time.perf_counter_ns() - begun)
            report.add(f"sockets.add_fires_nothing.{depth}", median(samples), "ns")
            begun = time.perf_counter_ns()
            waiting.add(1 << 30)
            waiting.add(depth)
            while target_counter.read()[0] < depth:
                pass
            fired = depth * 1e3 / (time.perf_counter_ns() - begun)
            report.add(f"sockets.counter_operations.fan_out.{depth}", fired, "M/s")
        go, done = target.counters("go", "done")
        rates = []
        for number in range(1, ROUNDS + 1):
            with target.program("writes") as program:
                for place in range(SOCKETS_WRITES):
                    part = slice(8 * place, 8 * place + 8)
                    program.when(go >= number).write(local[part], remote[part], then=done)
            program.arm()
            begun = time.perf_counter_ns()
            go.add(1)
            while done.read()[0] < number * SOCKETS_WRITES:
                pass
            rates.append(SOCKETS_WRITES * 1e3 / (time.perf_counter_ns() - begun))
        report.add("sockets.writes.8_bytes", median(rates), "M/s")


def main() -> None:
    """Measure and print."""
    report = reports.Report("triggers")
    for order in ORDERS:
        arming, counting = depth_figures(order)
        for depth in DEPTHS:
            report.add(f"arm.{order}.{depth}", arming[depth], "ns")
        for depth in DEPTHS:
            report.add(f"add_fires_nothing.{order}.{depth}", counting[depth], "ns")
        goal = 3.0 if order == "descending" else 2.0
        report.add_goal(
            f"arm.{order}.growth", max(arming.values()) / arming[DEPTHS[0]], "ratio", goal, at_most=True
        )
        report.add_goal(
            f"add_fires_nothing.{order}.growth",
            max(counting.values()) / counting[DEPTHS[0]],
            "ratio",
            goal,
            at_most=True,
        )
    with ExitStack() as stack:
        world = World(Path(stack.enter_context(tempfile.TemporaryDirectory())))
        for count in (10_000, 100_000):
            measure(report, world, count)
    sockets(report)
    report.add("busy_cores", 1, "count")
    report.write()


if __name__ == "__main__":
    main()
