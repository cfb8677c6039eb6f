# SPDX-License-Identifier: Apache-2.0
"""Counter, deferred write, counter: over an RDMA device. `python loopback.py [DEVICE]`, rxe0 unless told."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np

from nicemu.fabric import VerbsTransport
from nicemu.host import Nic
from nicemu.nic import NicConfig
from nicemu.run import Simulation


def loop(nic: Nic, peer_name: str) -> int:
    """Write a page to a peer and read it back, both fired by counters; return its length in bytes."""
    peer = nic.connect(peer_name)
    page = peer.span(**peer.private_data)
    there, back = nic.allocate(page.length_bytes), nic.allocate(page.length_bytes)
    produced, written, fetched = nic.counters("produced", "written", "fetched")
    with nic.program("loopback") as program:
        program.when(produced >= 1).write(nic.register(there), page, then=written)
        program.when(written >= 1).read(nic.register(back), page, then=fetched)
    program.arm()
    there.array[:] = np.arange(page.length_bytes, dtype=np.uint64)  # what lies there when it fires is written
    produced.add()
    fetched.wait(1)
    assert (back.array == there.array).all()
    return page.length_bytes


if __name__ == "__main__":
    device = sys.argv[1] if len(sys.argv) > 1 else "rxe0"
    configs = [NicConfig(name, f"127.0.1.{n}", n, transport="verbs") for n, name in enumerate("ab", 1)]
    nics = Simulation(configs, transports={config.name: VerbsTransport(device) for config in configs})
    nics.load_firmware("b", Path(__file__).with_name("lender.py"))
    with Nic(nics.open_nic("a")) as nic:
        print(f"{device}: one count fired a write and a read of {loop(nic, 'b')} bytes; they are right")
