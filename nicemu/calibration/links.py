# SPDX-License-Identifier: Apache-2.0
"""How long RDMA writes take between two live NICs of this machine, from memory to memory, over a fabric."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from nicemu.abi import RemoteSpan
from nicemu.errors import NicemuError, UsageError
from nicemu.host import Counter, Nic, Span, open_nic
from nicemu.run import Instance

from .curve import Curve, Work, measured

FABRICS = ("direct", "shm", "udp")
"""What joins two NICs of one machine; an RDMA device, verbs:DEVICE, where there is one."""
LONGEST_S = 10.0
"""How long a write may take."""
_TOPOLOGY = """
[nic.here]
p4 = "p4/kvmatch.p4"
firmware = "firmware/lend_memory.py"
memory = "{memory}"
peers = ["there"]
[nic.there]
p4 = "p4/kvmatch.p4"
firmware = "firmware/lend_memory.py"
memory = "{memory}"
"""


def links_here() -> list[str]:
    """Return the fabrics that this machine has: all of `FABRICS`, and its RDMA devices."""
    devices = Path("/sys/class/infiniband")
    names = sorted(device.name for device in devices.iterdir()) if devices.is_dir() else []
    return [*FABRICS, *(f"verbs:{name}" for name in names)]


@contextmanager
def _two_nics(fabric: str, folder: Path, most_bytes: int) -> Iterator[tuple[Nic, Span, RemoteSpan]]:
    path = folder / "calibrate.toml"
    path.write_text(_TOPOLOGY.format(memory=max(2 * most_bytes, 8 << 20)), encoding="utf-8")
    name = f"calibrate-{os.getpid()}"
    with ExitStack() as stack:
        started = Instance.start(path, fabric=fabric, data=folder, name=name)
        instance = stack.enter_context(started)
        nic = stack.enter_context(open_nic(str(instance.nics[0].socket)))
        local = nic.register(nic.allocate((most_bytes,)))
        peer = nic.connect("there", bytes=most_bytes)
        lent = peer.private_data
        yield nic, local, peer.span(lent["address"], most_bytes, lent["rkey"])


def measure_link(fabric: str, sizes: Sequence[int], folder: Path, progress: Callable[[str], None]) -> Curve:
    """Return the seconds of a deferred RDMA write, from the doorbell until the host sees that it is complete.

    Raises: UsageError, NicemuError if two NICs cannot be joined so.
    """
    if not sizes:
        raise UsageError("a link is measured at some sizes; none was given")
    with _two_nics(fabric, folder, max(sizes)) as (nic, local, far):

        def prepare(size: int) -> Work:
            target = RemoteSpan(far.qp_num, far.address, size, far.rkey)
            go, done = nic.counters(
                f"go_{size}", f"done_{size}"
            )  # what is left armed on others does not fire
            writes = _Writes(nic, local[:size], target, go, done)
            return Work(writes.ring, writes.arm)

        return measured(f"link {fabric}", sizes, prepare, progress)


class _Writes:
    """Rings for one write after another; many are armed beforehand, so that arming is not timed."""

    AT_ONCE = 64

    def __init__(self, nic: Nic, local: Span, far: RemoteSpan, go: Counter, done: Counter) -> None:
        self._nic, self._local, self._far, self._go, self._done = nic, local, far, go, done
        self._rung = self._armed = 0

    def arm(self) -> None:
        """Arm more writes where none is left."""
        if self._armed > self._rung:
            return
        with self._nic.program("writes") as program:
            for number in range(self._armed + 1, self._armed + self.AT_ONCE + 1):
                program.when(self._go >= number).write(self._local, self._far, then=self._done)
        program.arm()
        self._armed += self.AT_ONCE

    def ring(self) -> None:
        """Ring for the next one, and look until it is complete: a sleeping host is woken later than that."""
        self._rung += 1
        self._go.add()
        begin = time.monotonic()
        while (found := self._done.read()) != (self._rung, 0):
            if found[1] or time.monotonic() - begin > LONGEST_S:
                raise NicemuError(f"RDMA write {self._rung} did not end well: its counter is at {found}")
