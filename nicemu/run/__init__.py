# SPDX-License-Identifier: Apache-2.0
"""The two drivers of the device: the stepper in virtual time, and live NICs as processes; topologies; finding
NICs.

`Simulation` is also what tests use to step a whole world by hand.
"""

from .block_io import BlockDevice, FileBlockIo, MemoryBlockIo, create_namespace_file
from .process import run_nic_process
from .simulation import SimulatedConnection, Simulation, SteppedStream
from .supervisor import (
    Instance,
    RunningNic,
    ask,
    bring_up,
    compile_datapath,
    find_nic,
    running_nics,
    take_down,
)
from .topology import Topology, load_topology
from .warm_up import compile_everything

__all__ = [
    "BlockDevice",
    "FileBlockIo",
    "Instance",
    "MemoryBlockIo",
    "RunningNic",
    "SimulatedConnection",
    "Simulation",
    "SteppedStream",
    "Topology",
    "ask",
    "bring_up",
    "compile_datapath",
    "compile_everything",
    "create_namespace_file",
    "find_nic",
    "load_topology",
    "run_nic_process",
    "running_nics",
    "take_down",
]
