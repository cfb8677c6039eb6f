# SPDX-License-Identifier: Apache-2.0
"""Compiles every hot function that a NIC process calls, and the shipped programs, so that the processes only
load code.
"""

from __future__ import annotations

from nicemu.fabric import load_ports
from nicemu.kernels import CompiledEngine
from nicemu.nic import NicConfig, SmartNic, run_datapath
from nicemu.programs import programs_root
from nicemu.rdma import load_engine

from .program_file import read_program


def compile_everything() -> None:
    """Run a NIC with nothing to do through each compiled way in; the code lands in the cache."""
    nic = SmartNic(NicConfig("warm-up", "127.0.0.1", memory_bytes=1 << 20))
    owner = nic.open_owner()
    counter = nic.unit.allocate()
    nic.unit.add(counter, 1)
    nic.unit.set(counter, 0)
    nic.unit.flush(owner.number)
    nic.unit.cancel_counter(counter)
    nic.unit.close(counter, force=True)
    nic.settle()
    nic.close_owner(owner, 0)
    nic.rings.stop()
    run_datapath(nic.arena, 50_000, 200)
    load_engine()
    load_ports()
    for path in sorted(programs_root().glob("p4/*.p4")):
        CompiledEngine().load(read_program(path).program)
