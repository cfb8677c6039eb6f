# SPDX-License-Identifier: Apache-2.0
"""The metadata, enums and extern functions of v1model, p4/include/v1model.p4.

Source: p4lang/behavioral-model, "The BMv2 Simple Switch target".
"""

from __future__ import annotations

import enum
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from . import ir
from .arithmetic import wrap
from .checksums import digest
from .externs import Argument, ExternCall, ExternFunction, Kind, append_effect
from .shapes import shape_of
from .shared_externs import SHARED_ENUMS, SHARED_FUNCTIONS, SUMMED, WORD
from .values import Layouts, Value, Varbits
from .verdict import DigestPosted, Effect, LogMessage

DROP_PORT = 511
"""The egress_spec of a packet that is to be dropped."""

STANDARD_METADATA = ir.StructType(
    "standard_metadata_t",
    tuple(
        ir.Field(name, ir.ERROR if width == 0 else ir.Bits(width))
        for name, width in (
            ("ingress_port", 9),
            ("egress_spec", 9),
            ("egress_port", 9),
            ("instance_type", 32),
            ("packet_length", 32),
            ("enq_timestamp", 32),
            ("enq_qdepth", 19),
            ("deq_timedelta", 32),
            ("deq_qdepth", 19),
            ("ingress_global_timestamp", 48),
            ("egress_global_timestamp", 48),
            ("mcast_grp", 16),
            ("egress_rid", 16),
            ("checksum_error", 1),
            ("parser_error", 0),
            ("priority", 3),
        )
    ),
)
PLACE = "standard_metadata"
STANDARD = ir.Named(STANDARD_METADATA.name)


class CloneType(enum.IntEnum):
    """Where a copy comes from, and that it goes to egress."""

    I2E = 0
    E2E = 1


class InstanceType(enum.IntEnum):
    """What a packet is, for `instance_type`. Source: behavioral-model, simple_switch.md."""

    NORMAL = 0
    INGRESS_CLONE = 1
    EGRESS_CLONE = 2
    COALESCED = 3
    RECIRC = 4
    REPLICATION = 5
    RESUBMIT = 6


ENUMS: Mapping[str, tuple[str, ...]] = {**SHARED_ENUMS, "CloneType": tuple(CloneType.__members__)}
_NO_WORD = re.compile(r"\W+")


@dataclass(frozen=True, slots=True)
class Clone:
    """A copy that was asked for: for which session, and with which fields of the metadata."""

    session: int
    field_list: int | None = None


@dataclass(slots=True, eq=False)
class V1Outcome:
    """What a packet's program has asked for so far; the last request of each kind counts, and the shortest
    truncation.
    """

    clones: dict[int, Clone] = field(default_factory=dict)
    resubmit: int | None = None
    recirculate: int | None = None
    truncate_bytes: int | None = None
    failed_assertion: bool = False
    effects: list[Effect] = field(default_factory=list)


def _outcome(call: ExternCall) -> V1Outcome:
    outcome: V1Outcome = call.packet.outcome
    return outcome


# Functions


def _mark_to_drop(call: ExternCall) -> None:
    standard = call.arguments[0] if call.arguments else call.packet.places[PLACE]
    standard["egress_spec"], standard["mcast_grp"] = DROP_PORT, 0


def digest_name(kind: ir.Type) -> str:
    """Return the name under which data of a type goes to the controller; a dot keeps those of types without
    one apart from all names of the program.
    """
    return kind.name if isinstance(kind, ir.Named) else f"digest.{_NO_WORD.sub('_', str(kind)).strip('_')}"


def digest_of(layouts: Layouts, kind: ir.Type, receiver: int, data: Value) -> DigestPosted:
    """Return the digest of data of a type."""
    length_bits, number = layouts.packed(kind, data)
    shape = tuple(shape_of(layouts, kind, data))
    return DigestPosted(digest_name(kind), receiver, length_bits, number, shape)


def _digest(call: ExternCall) -> None:
    receiver, data = call.arguments
    append_effect(_outcome(call).effects, digest_of(call.layouts, call.types[1], receiver, data))


def _checksum(with_payload: bool, update: bool) -> ExternFunction:
    def body(call: ExternCall) -> None:
        condition, _, checksum, algorithm = call.arguments
        if not condition or isinstance(checksum, Varbits):
            return
        payload = call.packet.payload if with_payload else b""
        found = wrap(digest(algorithm, *call.bits(1), payload, call.objects.random), call.types[2])
        if update:
            call.arguments[2] = found
        elif found != checksum:
            call.packet.places[PLACE]["checksum_error"] = 1
            call.note = f"{checksum:#x} given, {found:#x} computed"

    takes = (
        Argument(ir.BOOL),
        SUMMED,
        Argument(Kind.NUMBER, ir.Direction.INOUT if update else ir.Direction.IN, only_valid=not update),
        Argument(ir.Bits(32)),
    )
    return ExternFunction((takes,), body, role="compute" if update else "verify")


def _resubmit(call: ExternCall) -> None:
    _outcome(call).resubmit = call.arguments[0]


def _recirculate(call: ExternCall) -> None:
    _outcome(call).recirculate = call.arguments[0]


def _clone(call: ExternCall) -> None:
    kept = call.arguments[2] if len(call.arguments) > 2 else None
    _outcome(call).clones[call.arguments[0]] = Clone(call.arguments[1], kept)


def _truncate(call: ExternCall) -> None:
    outcome, length = _outcome(call), call.arguments[0]
    before = outcome.truncate_bytes
    outcome.truncate_bytes = length if before is None else min(before, length)


def _assert(call: ExternCall) -> None:
    if not call.arguments[0]:
        _outcome(call).failed_assertion = True
        call.note = "does not hold"


def message_of(text: str, *values: Value) -> LogMessage:
    """Return what is logged: the text with the numbers in some values put in."""
    for number in (number for value in values for number in _numbers(value)):
        text = text.replace("{}", str(number), 1)
    return LogMessage(text)


def _log(call: ExternCall) -> None:
    text, *values = call.arguments
    message = message_of(text, *values)
    append_effect(_outcome(call).effects, message)
    call.note = message.text


def _numbers(value: Value) -> list[int]:
    if isinstance(value, int):
        return [value]
    parts = value if isinstance(value, dict) else getattr(value, "fields", {})
    return [number for part in parts.values() for number in _numbers(part)]


_LIST = Argument(ir.Bits(8))
_TEXT = Argument(ir.STRING)

FUNCTIONS: Mapping[str, ExternFunction] = {
    "mark_to_drop": ExternFunction(((), (Argument(STANDARD, ir.Direction.INOUT),)), _mark_to_drop),
    "digest": ExternFunction(((WORD, Argument(Kind.DATA)),), _digest),
    "verify_checksum": _checksum(with_payload=False, update=False),
    "update_checksum": _checksum(with_payload=False, update=True),
    "verify_checksum_with_payload": _checksum(with_payload=True, update=False),
    "update_checksum_with_payload": _checksum(with_payload=True, update=True),
    "resubmit_preserving_field_list": ExternFunction(((_LIST,),), _resubmit),
    "recirculate_preserving_field_list": ExternFunction(((_LIST,),), _recirculate),
    "clone": ExternFunction(((WORD, WORD),), _clone),
    "clone_preserving_field_list": ExternFunction(((WORD, WORD, _LIST),), _clone),
    "truncate": ExternFunction(((WORD,),), _truncate),
    "assert": ExternFunction(((Argument(ir.BOOL),),), _assert),
    "assume": ExternFunction(((Argument(ir.BOOL),),), _assert),
    "log_msg": ExternFunction(((_TEXT,), (_TEXT, Argument(Kind.DATA))), _log),
    **SHARED_FUNCTIONS,
}
