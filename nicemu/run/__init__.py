# SPDX-License-Identifier: Apache-2.0
"""The two drivers of the device: the stepper in virtual time, and live NICs as processes; topologies; finding
NICs.

`Simulation` is also what tests use to step a whole world by hand. Each name is imported when it is first
used, so that a command that asks running NICs something imports neither numba nor a NIC of its own.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .block_io import BlockDevice, FileBlockIo, MemoryBlockIo, create_namespace_file
    from .compiled_datapath import any_processor, compile_datapath
    from .folders import ScratchFolder
    from .kept_programs import LoadableProgram, loadable_program
    from .live_trace import trace_nics
    from .process import run_nic_process
    from .program_file import program_of, read_program
    from .running import RunningNic, ask, find_nic, known_nics, running_nics, take_down
    from .simulation import SimulatedConnection, Simulation
    from .stage import Chooser, Stage, on_stage
    from .stepped_stream import SteppedStream
    from .stepped_topology import simulate
    from .supervisor import Instance, bring_up
    from .topology import Topology, load_topology
    from .trace import TraceWriter, check_recordings, write_trace
    from .warm_up import compile_everything

__all__ = [
    "BlockDevice",
    "Chooser",
    "FileBlockIo",
    "Instance",
    "LoadableProgram",
    "MemoryBlockIo",
    "RunningNic",
    "ScratchFolder",
    "SimulatedConnection",
    "Simulation",
    "Stage",
    "SteppedStream",
    "Topology",
    "TraceWriter",
    "any_processor",
    "ask",
    "bring_up",
    "check_recordings",
    "compile_datapath",
    "compile_everything",
    "create_namespace_file",
    "find_nic",
    "known_nics",
    "load_topology",
    "loadable_program",
    "on_stage",
    "program_of",
    "read_program",
    "run_nic_process",
    "running_nics",
    "simulate",
    "take_down",
    "trace_nics",
    "write_trace",
]

_PLACES = {
    "block_io": ("BlockDevice", "FileBlockIo", "MemoryBlockIo", "create_namespace_file"),
    "compiled_datapath": ("any_processor", "compile_datapath"),
    "folders": ("ScratchFolder",),
    "kept_programs": ("LoadableProgram", "loadable_program"),
    "live_trace": ("trace_nics",),
    "process": ("run_nic_process",),
    "program_file": ("program_of", "read_program"),
    "running": ("RunningNic", "ask", "find_nic", "known_nics", "running_nics", "take_down"),
    "simulation": ("SimulatedConnection", "Simulation"),
    "stage": ("Chooser", "Stage", "on_stage"),
    "stepped_stream": ("SteppedStream",),
    "supervisor": ("Instance", "bring_up"),
    "stepped_topology": ("simulate",),
    "topology": ("Topology", "load_topology"),
    "trace": ("TraceWriter", "check_recordings", "write_trace"),
    "warm_up": ("compile_everything",),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever has that name
    for place, names in _PLACES.items():
        if name in names:
            globals().update({each: getattr(import_module(f".{place}", __name__), each) for each in names})
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
