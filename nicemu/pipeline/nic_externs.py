# SPDX-License-Identifier: Apache-2.0
"""Functions and extern objects of the SmartNIC architecture, p4/include/nicemu.p4."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from . import ir
from .externs import CONTROLS, Argument, ExternCall, ExternFunction, ExternType, Kind, append_effect
from .shared_externs import SHARED_FUNCTIONS, SHARED_OBJECTS
from .verdict import CounterAdd, Disposition, Effect, EventPosted, WorkArmed

NIC_METADATA = ir.StructType(
    "nic_metadata_t", (ir.Field("ingress_port", ir.Bits(16)), ir.Field("packet_length", ir.Bits(32)))
)
"""What the NIC tells the program about a frame; `packet_length` is in bytes."""


@dataclass(slots=True)
class NicOutcome:
    """What a packet's program has asked for so far. A frame goes to the host unless something else is
    said.
    """

    disposition: Disposition = Disposition.HOST
    port: int = 0
    effects: list[Effect] = field(default_factory=list)


def _goes(disposition: Disposition) -> ExternFunction:
    def body(call: ExternCall) -> None:
        outcome: NicOutcome = call.packet.outcome
        outcome.disposition = disposition
        outcome.port = call.arguments[0] if call.arguments else 0

    takes = (Argument(ir.Bits(16)),) if disposition is Disposition.PORT else ()
    return ExternFunction((takes,), body, places=CONTROLS)


def _asked(call: ExternCall, effect: Effect) -> None:
    append_effect(call.packet.outcome.effects, effect)


def _add(call: ExternCall) -> None:
    _asked(call, CounterAdd(call.arguments[0], call.arguments[1]))


def _post(call: ExternCall) -> None:
    assert call.instance is not None
    _asked(call, EventPosted(str(call.instance.arguments[0]), dict(call.arguments[0])))


def _arm(call: ExternCall) -> None:
    assert call.instance is not None
    _asked(call, WorkArmed(str(call.instance.arguments[0]), call.arguments[0], call.arguments[1]))


FUNCTIONS: Mapping[str, ExternFunction] = {
    "send_to_port": _goes(Disposition.PORT),
    "send_to_host": _goes(Disposition.HOST),
    "drop_packet": _goes(Disposition.DROP),
    "hold_packet": _goes(Disposition.FIRMWARE),
    **SHARED_FUNCTIONS,
}

_ADD = ExternFunction(((Argument(ir.Bits(32)), Argument(ir.Bits(64))),), _add, places=CONTROLS)
_POST = ExternFunction(((Argument(Kind.CARRIED),),), _post, places=CONTROLS)

_ARM = ExternFunction(((Argument(ir.Bits(32)), Argument(ir.Bits(64))),), _arm, places=CONTROLS)

OBJECTS: Mapping[str, ExternType] = {
    "TriggerCounter": ExternType(((),), methods={"add": _ADD}),
    "FirmwareEvent": ExternType(((str,),), ((Kind.RECORD,),), {"post": _POST}),
    "DeferredWork": ExternType(((str,),), methods={"arm": _ARM}),
    **SHARED_OBJECTS,
}
