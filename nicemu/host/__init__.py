# SPDX-License-Identifier: Apache-2.0
"""The host-side library: open a NIC, register memory, arm programs of deferred work behind streams, wait.

It maps the NIC's BAR and shares no code with the NIC but `abi`, `kv` and `pcie`. With a live NIC `open_nic`
connects to the process that runs it; `Nic` also takes any other `Connection`, such as the stepper's.
Specifications: fi_trigger(3), fi_cntr(3), ibv_post_send(3).
"""

from nicemu.abi import CounterError, Granularity, Span, TriggerTableFull

from .completion import CompletionQueue
from .connection import LiveConnection, open_nic
from .counted_queue import CountedQueue
from .counter import Counter, Followed
from .cuda_stream import CudaStream
from .device import Nic
from .memory import Memory
from .peer import Packet, Peer
from .program import ArmableProgram
from .stream import HostStream, ProcessStream, Stream, run_stream_process

__all__ = [
    "ArmableProgram",
    "CompletionQueue",
    "CountedQueue",
    "Counter",
    "CounterError",
    "CudaStream",
    "Followed",
    "Granularity",
    "HostStream",
    "LiveConnection",
    "Memory",
    "Nic",
    "Packet",
    "Peer",
    "ProcessStream",
    "Span",
    "Stream",
    "TriggerTableFull",
    "open_nic",
    "run_stream_process",
]
