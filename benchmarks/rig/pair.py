# SPDX-License-Identifier: Apache-2.0
"""Two NIC processes on `direct` and this process as the host of the first: what two benchmarks measure on."""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np

from nicemu.abi import RemoteSpan, Span, registers
from nicemu.host import Nic, open_nic
from nicemu.hot import Int, hot
from nicemu.pcie import Backing, load_u64, monotonic_ns, store_u64
from nicemu.run import Instance, ask

_TOPOLOGY = """
name = "pair"
[nic.near]
p4 = "p4/kvserve.p4"
firmware = "{firmware}"
peers = ["far"]
spin_us = {near_spin_us}
nap_us = {nap_us}
[nic.far]
p4 = "p4/kvserve.p4"
firmware = "{firmware}"
spin_us = 0
nap_us = {nap_us}
"""
PATIENCE: Final = 400_000_000
"""Loads before a poller gives up."""
_ONE = np.uint64(1)
_FIRMWARE = Path(__file__).resolve().with_name("memory_firmware.py")


def cores() -> tuple[int, int]:
    """Return the two cores that this run uses: this process's, and that of the process at the other end.

    Raises: SystemExit if there is only one.
    """
    allowed = sorted(os.sched_getaffinity(0))
    if len(allowed) < 2:
        raise SystemExit("two processes spin; this needs two cores")
    return allowed[0], allowed[1]


def pin(pid: int, core: int) -> None:
    """Keep all threads of a process on one core."""
    for thread in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(thread.name), {core})


class Pair:
    """`near`, opened by this process, and a connected queue pair to memory of `far`. A context manager.

    The datapath of `near` spins `near_spin_us` after its last event; that of `far` never does: a write to it
    needs nothing of it.
    """

    def __init__(self, length_bytes: int, near_spin_us: int, nap_us: int = 1000) -> None:
        self._length_bytes = length_bytes
        self._settings = {"near_spin_us": near_spin_us, "nap_us": nap_us, "firmware": _FIRMWARE}
        self._stack = ExitStack()

    def __enter__(self) -> Pair:
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            topology = folder / "pair.toml"
            topology.write_text(_TOPOLOGY.format(**self._settings), encoding="utf-8")
            name = f"benchmark-{os.getpid()}"
            self.instance = stack.enter_context(Instance.start(topology, data=folder, name=name))
            near, far = self.instance.nics
            self.nic: Nic = stack.enter_context(open_nic(near.socket))
            self.near_pid, self._far_pid = near.pid, far.pid
            self.peer = self.nic.connect("far", length_bytes=self._length_bytes)
            granted = self.peer.private_data
            self.remote: RemoteSpan = self.peer.span(granted["address"], self._length_bytes, granted["rkey"])
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stack.close()

    def statistics(self) -> dict[str, Any]:
        """What `near` has counted."""
        statistics: dict[str, Any] = ask(self.instance.nics[0], "describe")["statistics"]
        return statistics

    def far_memory(self, source: Span, array: np.ndarray[Any, Any]) -> tuple[Backing, int]:
        """Map the memory of `far` from outside, by way of /proc; return it and where the granted bytes lie.

        They are found by a mark that is written there, from `source`, which `array` shows here.
        Raises: SystemExit if the mark is not found.
        """
        mark = os.urandom(32)
        array[:32] = np.frombuffer(mark, np.uint8)
        self.nic.write(source[0:32], self.remote[0:32])
        time.sleep(0.05)
        for entry in Path(f"/proc/{self._far_pid}/fd").iterdir():
            if os.readlink(entry).startswith("/memfd:nicemu-nic "):
                fd = os.open(entry, os.O_RDWR | os.O_CLOEXEC)
                memory = Backing.from_fd(fd, os.fstat(fd).st_size)
                place = bytes(memory.view).find(mark)
                if place >= 0:
                    return memory, memory.address + place
                memory.close()
        raise SystemExit("the memory of the far NIC was not found")


@hot
def ring_and_watch(
    cell: Int, watched: Int, source: Int, total: Int, scratch: Int, samples: np.ndarray[Any, Any]
) -> Int:
    """Ring once for each sample and wait until `watched` holds the total too; return how often it did."""
    for sample in range(len(samples)):
        total += _ONE
        store_u64(source, total)
        started = np.uint64(monotonic_ns(scratch))
        store_u64(cell, total)
        looks = 0
        while np.uint64(load_u64(watched)) != total:
            looks += 1
            if looks > PATIENCE:
                return sample
        samples[sample] = np.uint64(monotonic_ns(scratch)) - started
    return len(samples)


class Ringer:
    """Arms RDMA writes behind a counter of the near NIC and rings its doorbell, as a stream does."""

    def __init__(self, nic: Nic) -> None:
        self._nic = nic
        self._trigger, self._done = nic.counters("rung", "written")
        cell = nic.connection.request("doorbell_open", counter=self._trigger.index)["cell"]
        bar = nic.connection.bar.address
        self._cell = np.uint64(bar + registers.DOORBELLS + registers.DOORBELL_BYTES * int(cell))
        entry = bar + registers.WRITE_BACK + self._done.index * registers.WRITE_BACK_BYTES
        self._published = np.uint64(entry + 8)
        self._scratch = Backing.anonymous(16)
        self._total = 0

    def burst(
        self, local: Span, remote: RemoteSpan, source: int, count: int, watched: int | None = None
    ) -> np.ndarray[Any, Any]:
        """Arm `count` writes and ring as often, one after the other; return nanoseconds until each is seen.

        Before each ring the new total is stored at raw address `source`. A write is seen when its completion
        is counted, or when its total stands at raw address `watched`.
        Raises: SystemExit if one is not seen.
        """
        with self._nic.program("burst") as program:
            for number in range(1, count + 1):
                step = program.when(self._trigger >= self._total + number)
                step.write(local, remote, then=self._done)
        program.arm()
        samples = np.zeros(count, np.uint64)
        total, scratch = np.uint64(self._total), np.uint64(self._scratch.address)
        place = self._published if watched is None else np.uint64(watched)
        seen = ring_and_watch(self._cell, place, np.uint64(source), total, scratch, samples)
        if seen != count:
            raise SystemExit(f"doorbell {self._total + seen + 1} was not answered")
        self._total += count
        self._done.wait(self._total)
        return samples

    def close(self) -> None:
        """Give back what this holds."""
        self._scratch.close()
