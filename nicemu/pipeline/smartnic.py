# SPDX-License-Identifier: Apache-2.0
"""The SmartNIC architecture: one pass of parser, control and deparser, and a verdict."""

from __future__ import annotations

from . import ir
from .architecture import Architecture, Arrival, Role
from .interpreter import Interpreter, Stuck, reason_of
from .nic_externs import FUNCTIONS, NIC_METADATA, OBJECTS, NicOutcome
from .verdict import Disposition, Verdict


def run(interpreter: Interpreter, arrival: Arrival) -> Verdict:
    """Take one frame through parser, control and deparser."""
    outcome = NicOutcome()
    packet = interpreter.packet(arrival.frame, outcome, arrival.trace, arrival.now_ns)
    packet.places[NIC.place]["ingress_port"] = arrival.port & 0xFFFF
    packet.places[NIC.place]["packet_length"] = len(arrival.frame)
    reason = ""
    try:
        error = interpreter.parse(packet)
        if error is not None:
            reason = reason_of(error)
        else:
            for role in NIC.roles:
                interpreter.control(packet, role.name)
    except Stuck:
        reason = "pipeline.too_many_turns"
    trace = tuple(packet.trace or ())
    if reason:
        return Verdict(Disposition.DROP, 0, arrival.frame, reason, trace=trace)
    dropped = outcome.disposition is Disposition.DROP
    return Verdict(
        outcome.disposition,
        outcome.port,
        arrival.frame if dropped else packet.departing(),
        "pipeline.dropped" if dropped else "",
        tuple(outcome.effects),
        trace,
    )


NIC = Architecture(
    "nicemu",
    "SmartNic",
    "nicemu.p4",
    NIC_METADATA,
    ir.NIC,
    (Role("control", "control"), Role("deparser", "deparser")),
    FUNCTIONS,
    OBJECTS,
    run,
)
"""The SmartNIC architecture of p4/include/nicemu.p4."""
