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

device = sys.argv[1] if len(sys.argv) > 1 else "rxe0"
configs = [
    NicConfig(name, f"127.0.1.{number}", number, transport="verbs") for number, name in enumerate("ab", 1)
]
nics = Simulation(configs, transports={config.name: VerbsTransport(device) for config in configs})
nics.load_firmware("b", Path(__file__).with_name("lender.py"))

with Nic(nics.open_nic("a")) as nic:
    peer = nic.connect("b")
    page = peer.span(**peer.private_data)
    there = nic.allocate(4096)
    back = nic.allocate(4096)
    produced, written, fetched = nic.counters("produced", "written", "fetched")
    with nic.program("loopback") as program:
        program.when(produced >= 1).write(nic.register(there), page, then=written)
        program.when(written >= 1).read(nic.register(back), page, then=fetched)
    program.arm()
    there.array[:] = np.arange(4096, dtype=np.uint8)  # what is written is what lies there when it fires
    produced.add()
    fetched.wait(1)
    assert (back.array == there.array).all()
    print(f"{device}: one count fired a write and a read of {page.length_bytes} bytes; they are right")
