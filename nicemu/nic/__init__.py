# SPDX-License-Identifier: Apache-2.0
"""The device: one emulated NIC put together from its blocks, sans-IO.

`SmartNic` has six ways in and one way out; `run_datapath` is its datapath for a thread of its own. The two
drivers, the stepper and the live process, are in `nicemu.run`.
"""

from .admin import Admin
from .arena import STAT_NAMES, Arena
from .card import KV_PORT, SERVICE_PD
from .config import NamespaceConfig, NicConfig
from .control import ControlRings
from .datapath import poll, run_datapath
from .device import SmartNic
from .effects import Effect, PerformIo, SendFrames
from .footprint import Footprint, Step, Thing, Use, are_independent, makes_for, order_matters
from .interrupts import CountedInterrupt, CountedInterrupts
from .outside_work import OutsideWork
from .owner import MAX_PACKET_BYTES, Owner
from .pacing import STAGES_A_NIC, send_frame, stages_of
from .peering import attach, detach, make_inbox, map_backing, shared_backings, unmap_backing
from .queue_pairs import Peer
from .steps import NicSteps

__all__ = [
    "KV_PORT",
    "MAX_PACKET_BYTES",
    "SERVICE_PD",
    "STAGES_A_NIC",
    "STAT_NAMES",
    "Admin",
    "Arena",
    "ControlRings",
    "CountedInterrupt",
    "CountedInterrupts",
    "Effect",
    "Footprint",
    "NamespaceConfig",
    "NicConfig",
    "NicSteps",
    "OutsideWork",
    "Owner",
    "Peer",
    "PerformIo",
    "SendFrames",
    "SmartNic",
    "Step",
    "Thing",
    "Use",
    "are_independent",
    "attach",
    "detach",
    "make_inbox",
    "makes_for",
    "map_backing",
    "order_matters",
    "poll",
    "run_datapath",
    "send_frame",
    "shared_backings",
    "stages_of",
    "unmap_backing",
]
