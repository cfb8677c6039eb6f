# SPDX-License-Identifier: Apache-2.0
"""The SmartNIC architecture: one pass of parser, control and deparser, and a verdict.

What the host sends has a control of its own where the program says so, and goes to the network unless that
says otherwise.
"""

from __future__ import annotations

from dataclasses import replace

from . import ir
from .architecture import HOST_PORT, Architecture, Arrival, Role
from .externs import Stuck
from .interpreter import Interpreter, reason_of
from .nic_externs import FUNCTIONS, NIC_METADATA, OBJECTS, NicOutcome
from .shared_externs import SHARED_ENUMS
from .trace import Departed, Dropped
from .verdict import Disposition, Verdict

HOST_TO_NET = "host_to_net"


def run(interpreter: Interpreter, arrival: Arrival) -> Verdict:
    """Take one frame through parser, control and deparser."""
    process = "control"
    outcome = NicOutcome()
    if arrival.port == HOST_PORT and interpreter.has_control(HOST_TO_NET):
        process, outcome.disposition = HOST_TO_NET, Disposition.PORT
    packet = interpreter.packet(arrival.frame, outcome, arrival.trace, arrival.now_ns)
    packet.places[NIC.place]["ingress_port"] = arrival.port & 0xFFFF
    packet.places[NIC.place]["packet_length"] = len(arrival.frame)
    reason = ""
    try:
        error = interpreter.parse(packet)
        if error is not None:
            reason = reason_of(error)
        else:
            for role in (process, "deparser"):
                interpreter.control(packet, role)
    except Stuck as stuck:
        reason = stuck.reason
    effects = () if reason else tuple(outcome.effects)
    if outcome.disposition is Disposition.DROP:
        reason = reason or "pipeline.dropped"
    if reason:
        verdict = Verdict(Disposition.DROP, 0, arrival.frame, reason, effects)
    else:
        verdict = Verdict(outcome.disposition, outcome.port, packet.departing(), "", effects)
    if arrival.trace is None:
        return verdict
    end = Dropped(reason) if reason else Departed(verdict.disposition.value, verdict.port, verdict.frame)
    return replace(verdict, trace=(*arrival.trace, end))


NIC = Architecture(
    "nicemu",
    "SmartNic",
    "nicemu.p4",
    NIC_METADATA,
    ir.NIC,
    (
        Role("control", "control"),
        Role("deparser", "deparser"),
        Role(HOST_TO_NET, "control", is_optional=True),
    ),
    FUNCTIONS,
    OBJECTS,
    SHARED_ENUMS,
    counts_every_table=True,
)
"""The SmartNIC architecture of p4/include/nicemu.p4."""
