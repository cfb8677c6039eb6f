# SPDX-License-Identifier: Apache-2.0
"""Formula, stepper and live NICs: how long a deferred RDMA write takes by each, under this machine's profile.

The link is calibrated, then measured once more at sizes between those of the calibration. Prints `name value
unit` lines: `over_formula` is a time by the formula's, of all sizes the median, and the farthest from 1. The
stepper's goal is 1 % at every size; the live NICs' a factor of 1.5 either way in the median of sizes, which
is what caches and the machine's noise leave of a line.
Run: python benchmarks/agreement.py [--json] [FABRIC ...]; direct, shm and udp without one.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median
from typing import Final

from nicemu.calibration import Calibration, measure_copy, measure_link
from nicemu.host import Nic
from nicemu.model import Operation, Profile, Way, timings_of, transfer_s
from nicemu.nic import NicConfig
from nicemu.programs import find_program, load_module
from nicemu.run import Simulation

reports = load_module(Path(__file__).with_name("rig") / "report.py")

MEASURED: Final = tuple(1 << power for power in range(12, 23, 2))
BETWEEN: Final = tuple(1 << power for power in range(13, 22, 2))
STEPPER_BAND, LIVE_BAND = 1.01, 1.5


def stepped_s(profile: Profile, length_bytes: int) -> float:
    """Seconds of virtual time that one write takes."""
    timings = timings_of(profile)
    memory = max(4 * length_bytes, 8 << 20)
    configs = [
        NicConfig(name, f"127.0.1.{number}", number, memory, timings=timings)
        for number, name in enumerate(("here", "there"), start=1)
    ]
    simulation = Simulation(configs)
    simulation.load_firmware("there", find_program("firmware/lend_memory.py"))
    with Nic(simulation.open_nic("here")) as nic:
        local = nic.register(nic.allocate((length_bytes,)))
        peer = nic.connect("there", bytes=length_bytes)
        far = peer.span(peer.private_data["address"], length_bytes, peer.private_data["rkey"])
        go, done = nic.counters("go", "done")
        with nic.program("write") as program:
            program.when(go >= 1).write(local, far, then=done)
        program.arm()
        begin_ns = simulation.clock.now_ns()
        go.add()
        done.wait(1)
        return 1e-9 * (simulation.clock.now_ns() - begin_ns)


def farthest(ratios: list[float]) -> float:
    """Return the ratio that is farthest from 1, either way."""
    return max(ratios, key=lambda ratio: max(ratio, 1 / ratio))


def main() -> None:
    """Compare, and print."""
    report = reports.Report("agreement")
    copy = measure_copy((16 << 20, 32 << 20), lambda text: None)
    for fabric in reports.operands() or ("direct", "shm", "udp"):
        with tempfile.TemporaryDirectory() as folder:
            link = measure_link(fabric, MEASURED, Path(folder), lambda text: None)
            again = measure_link(fabric, BETWEEN, Path(folder), lambda text: None)
        profile = Calibration({"copy": copy, f"link {fabric}": link}, fabric, {}).profile("here")
        formula = {size: transfer_s(profile, Way.TRIGGERED, Operation.STORE, size) for size in BETWEEN}
        live = [seconds / formula[size] for size, seconds in again.points]
        stepper = [stepped_s(profile, size) / formula[size] for size in BETWEEN]
        report.add(f"{fabric}.latency", 1e6 * link.fit.latency_s, "us")
        report.add(f"{fabric}.rate", 1e-9 / max(link.fit.s_per_byte, 1e-15), "GB/s")
        report.add(f"{fabric}.residual", link.fit.residual, "ratio")
        middle = median(live)
        report.add(f"{fabric}.live_over_formula", middle, "ratio")
        report.add(f"{fabric}.live_over_formula_farthest", farthest(live), "ratio")
        report.add_goal(f"{fabric}.live_band", max(middle, 1 / middle), "ratio", LIVE_BAND, at_most=True)
        far = farthest(stepper)
        report.add_goal(f"{fabric}.stepper_band", max(far, 1 / far), "ratio", STEPPER_BAND, at_most=True)
    report.write()


if __name__ == "__main__":
    main()
