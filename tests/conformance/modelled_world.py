# SPDX-License-Identifier: Apache-2.0
"""Compute NICs, each with a host, and a storage NIC that lends them memory, in modelled time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from nicemu.abi import RemoteSpan
from nicemu.host import Counter, Nic, Span
from nicemu.model import Operation, Profile, timings_of
from nicemu.nic import NicConfig
from nicemu.run import Simulation

LENDER = """
from nicemu.firmware import Connection, Nic, on_connect

@on_connect
def lend(nic: Nic, connection: Connection) -> dict[str, int]:
    page = nic.allocate(connection.private_data["bytes"], remote=True)
    return {"address": page.address, "rkey": page.key}
"""
MEMORY = 64 << 20


@dataclass
class Compute:
    """A host at a NIC, with memory of its own and at the storage NIC."""

    nic: Nic
    local: Span
    far: RemoteSpan
    go: Counter
    done: Counter

    def arm(self, operation: Operation, count: int = 1) -> None:
        """Arm transfers that fire together when `go` counts one."""
        with self.nic.program("transfers") as program:
            for _ in range(count):
                step = program.when(self.go >= 1)
                if operation is Operation.STORE:
                    step.write(self.local, self.far, then=self.done)
                else:
                    step.read(self.local, self.far, then=self.done)
        program.arm()


@contextmanager
def computes(
    profile: Profile, folder: Path, count: int, length_bytes: int
) -> Iterator[tuple[Simulation, list[Compute]]]:
    """`count` compute NICs and one storage NIC, whose firmware lends each of them memory."""
    timings = timings_of(profile)
    names = [f"compute{number}" for number in range(count)]
    configs = [
        NicConfig(name, f"127.0.1.{number}", number, MEMORY, timings=timings)
        for number, name in enumerate([*names, "storage0"], start=1)
    ]
    simulation = Simulation(configs)
    script = folder / "lender.py"
    script.write_text(LENDER)
    simulation.load_firmware("storage0", script)
    hosts = []
    for name in names:
        nic = Nic(simulation.open_nic(name))
        local = nic.register(nic.allocate((length_bytes,)))
        peer = nic.connect("storage0", bytes=length_bytes)
        far = peer.span(peer.private_data["address"], length_bytes, peer.private_data["rkey"])
        go, done = nic.counters("go", "done")
        hosts.append(Compute(nic, local, far, go, done))
    simulation.run_until_idle()
    yield simulation, hosts
    for host in hosts:
        host.nic.close()
