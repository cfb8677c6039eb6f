# SPDX-License-Identifier: Apache-2.0
"""Two NIC processes on `direct` and this process as the host of the first: what two benchmarks measure on."""

from __future__ import annotations

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from nicemu.abi import RemoteSpan
from nicemu.host import Nic, open_nic
from nicemu.pcie import Backing
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
            topology.write_text(_TOPOLOGY.format(**self._settings))
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

    def far_memory(self, marker: bytes) -> tuple[Backing, int]:
        """Map all memory of `far` from outside, by way of /proc, and find where `marker` lies in it.

        Raises: SystemExit if it is not there exactly once.
        """
        folder = Path(f"/proc/{self._far_pid}/fd")
        for entry in folder.iterdir():
            if not os.readlink(entry).startswith("/memfd:nicemu-nic "):
                continue
            fd = os.open(entry, os.O_RDWR | os.O_CLOEXEC)
            memory = Backing.from_fd(fd, os.fstat(fd).st_size)
            contents = bytes(memory.view)
            if contents.count(marker) == 1:
                return memory, contents.index(marker)
            memory.close()
        raise SystemExit("the memory of the far NIC was not found")
