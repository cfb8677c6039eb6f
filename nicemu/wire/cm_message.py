# SPDX-License-Identifier: Apache-2.0
"""The messages of InfiniBand's communication management: REQ, MRA, REJ, REP, RTU, DREQ and DREP.

Each is the body of a MAD, 232 bytes, whose fields are whole numbers at bit positions, most significant first,
with private data of the applications behind them. Alternate paths are sent as zeros, and not read.
Source: InfiniBand Architecture Specification Volume 1, "Communication Management", "Message Formats".
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from nicemu.arguments import check_type
from nicemu.errors import UsageError

from .mad import MAD_BODY_BYTES, MAD_HEADER_BYTES, Mad, MadMethod, ManagementClass
from .malformed import MalformedError

CLASS_VERSION = 2
_BODY_BITS = MAD_BODY_BYTES * 8


class RejectReason(enum.IntEnum):
    """Why a connection was refused."""

    NO_QUEUE_PAIR = 1
    NO_RESOURCES = 3
    TIMEOUT = 4
    UNSUPPORTED_REQUEST = 5
    INVALID_COMMUNICATION_ID = 6
    INVALID_COMMUNICATION_INSTANCE = 7
    INVALID_SERVICE_ID = 8
    INVALID_TRANSPORT_TYPE = 9
    STALE_CONNECTION = 10
    INVALID_GID = 12
    INVALID_PATH_MTU = 26
    INSUFFICIENT_RESPONDER_RESOURCES = 27
    CONSUMER = 28
    INVALID_RNR_RETRY_COUNT = 29


class AnsweredMessage(enum.IntEnum):
    """Which message a REJ refuses, or an MRA answers."""

    REQ = 0
    REP = 1
    NONE = 2


def _at(byte: int, bits: int, bit: int = 0) -> tuple[int, int]:
    """Return how far a field is shifted in the body, and how many bits it has."""
    return _BODY_BITS - byte * 8 - bit - bits, bits


@dataclass(frozen=True, slots=True)
class _Message:
    """A message: `ATTRIBUTE` names it in the MAD's header, `LAYOUT` says where each field is.

    Private data begins at byte `PRIVATE_PLACE` and runs to the end.
    """

    ATTRIBUTE: ClassVar[int]
    LAYOUT: ClassVar[dict[str, tuple[int, int]]]
    PRIVATE_PLACE: ClassVar[int]

    private_data: bytes

    def encode(self, transaction_id: int) -> bytes:
        """Return the whole MAD, 256 bytes.

        Raises: UsageError for a value that does not fit its field.
        """
        body = 0
        for name, (shift, bits) in self.LAYOUT.items():
            value = getattr(self, name)
            if not isinstance(value, int) or not 0 <= value < 1 << bits:
                shown = f"{value:#x}" if isinstance(value, int) else repr(value)
                raise UsageError(f"{name} of a {type(self).__name__} is {shown}; it has {bits} bits")
            body |= value << shift
        check_type("private_data", self.private_data, bytes, "bytes")
        room = MAD_BODY_BYTES - self.PRIVATE_PLACE
        if len(self.private_data) > room:
            raise UsageError(
                f"{len(self.private_data)} bytes of private data; a {type(self).__name__} has room for {room}"
            )
        body |= int.from_bytes(self.private_data.ljust(room, b"\0"), "big")
        header = Mad(
            ManagementClass.COMMUNICATION_MANAGEMENT,
            CLASS_VERSION,
            MadMethod.SEND,
            transaction_id,
            self.ATTRIBUTE,
        )
        return header.encode() + body.to_bytes(MAD_BODY_BYTES, "big")

    @classmethod
    def decode_body(cls, body: bytes) -> Self:
        """Read a body of 232 bytes; any are a message."""
        number = int.from_bytes(body, "big")
        fields: dict[str, Any] = {
            name: number >> shift & (1 << bits) - 1 for name, (shift, bits) in cls.LAYOUT.items()
        }
        return cls(private_data=body[cls.PRIVATE_PLACE :], **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Req(_Message):
    """Asks for a connection. `local` is the sender's, `remote` what is meant for its receiver.

    `starting_psn`: what the receiver shall begin with, and so what the sender expects first.
    `*_timeout` are exponents: 4.096 us times 2 to the power. `path_mtu` is 1 for 256 bytes to 5 for 4096.
    `responder_resources`: READs and atomics at a time that the sender answers; `initiator_depth`: that it
    would ask. GIDs are 128-bit numbers. Private data has 92 bytes.
    """

    ATTRIBUTE = 0x10
    PRIVATE_PLACE = 140
    LAYOUT: ClassVar = {
        "local_communication_id": _at(0, 32),
        "service_id": _at(8, 64),
        "local_ca_guid": _at(16, 64),
        "local_q_key": _at(28, 32),
        "local_qpn": _at(32, 24),
        "responder_resources": _at(35, 8),
        "initiator_depth": _at(39, 8),
        "remote_cm_response_timeout": _at(43, 5),
        "transport_service_type": _at(43, 2, 5),
        "end_to_end_flow_control": _at(43, 1, 7),
        "starting_psn": _at(44, 24),
        "local_cm_response_timeout": _at(47, 5),
        "retry_count": _at(47, 3, 5),
        "partition_key": _at(48, 16),
        "path_mtu": _at(50, 4),
        "rnr_retry_count": _at(50, 3, 5),
        "max_cm_retries": _at(51, 4),
        "srq": _at(51, 1, 4),
        "local_lid": _at(52, 16),
        "remote_lid": _at(54, 16),
        "local_gid": _at(56, 128),
        "remote_gid": _at(72, 128),
        "flow_label": _at(88, 20),
        "packet_rate": _at(91, 6, 2),
        "traffic_class": _at(92, 8),
        "hop_limit": _at(93, 8),
        "service_level": _at(94, 4),
        "subnet_local": _at(94, 1, 4),
        "local_ack_timeout": _at(95, 5),
    }

    private_data: bytes = b""
    local_communication_id: int
    service_id: int
    local_qpn: int
    starting_psn: int
    path_mtu: int
    local_gid: int
    remote_gid: int
    local_ca_guid: int = 0
    local_q_key: int = 0
    responder_resources: int = 0
    initiator_depth: int = 0
    remote_cm_response_timeout: int = 20
    transport_service_type: int = 0
    end_to_end_flow_control: int = 0
    local_cm_response_timeout: int = 20
    retry_count: int = 7
    partition_key: int = 0xFFFF
    rnr_retry_count: int = 7
    max_cm_retries: int = 15
    srq: int = 0
    local_lid: int = 0xFFFF
    remote_lid: int = 0xFFFF
    flow_label: int = 0
    packet_rate: int = 0
    traffic_class: int = 0
    hop_limit: int = 64
    service_level: int = 0
    subnet_local: int = 0
    local_ack_timeout: int = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Mra(_Message):
    """Says that a message arrived, and that the answer takes `service_timeout` (an exponent, as in REQ)."""

    ATTRIBUTE = 0x11
    PRIVATE_PLACE = 10
    LAYOUT: ClassVar = {
        "local_communication_id": _at(0, 32),
        "remote_communication_id": _at(4, 32),
        "answered_message": _at(8, 2),
        "service_timeout": _at(9, 5),
    }

    private_data: bytes = b""
    local_communication_id: int
    remote_communication_id: int
    answered_message: int
    service_timeout: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rej(_Message):
    """Refuses; `reason` is a RejectReason where it is one that we know. Additional information is zero."""

    ATTRIBUTE = 0x12
    PRIVATE_PLACE = 84
    LAYOUT: ClassVar = {
        "local_communication_id": _at(0, 32),
        "remote_communication_id": _at(4, 32),
        "answered_message": _at(8, 2),
        "information_length": _at(9, 7),
        "reason": _at(10, 16),
        "information": _at(12, 576),
    }

    private_data: bytes = b""
    local_communication_id: int
    remote_communication_id: int
    answered_message: int
    reason: int
    information_length: int = 0
    information: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Rep(_Message):
    """Accepts a REQ. The fields are those of the REQ, of the other side; private data has 196 bytes."""

    ATTRIBUTE = 0x13
    PRIVATE_PLACE = 36
    LAYOUT: ClassVar = {
        "local_communication_id": _at(0, 32),
        "remote_communication_id": _at(4, 32),
        "local_q_key": _at(8, 32),
        "local_qpn": _at(12, 24),
        "starting_psn": _at(20, 24),
        "responder_resources": _at(24, 8),
        "initiator_depth": _at(25, 8),
        "target_ack_delay": _at(26, 5),
        "failover_accepted": _at(26, 2, 5),
        "end_to_end_flow_control": _at(26, 1, 7),
        "rnr_retry_count": _at(27, 3),
        "srq": _at(27, 1, 3),
        "local_ca_guid": _at(28, 64),
    }

    private_data: bytes = b""
    local_communication_id: int
    remote_communication_id: int
    local_qpn: int
    starting_psn: int
    local_q_key: int = 0
    responder_resources: int = 0
    initiator_depth: int = 0
    target_ack_delay: int = 15
    failover_accepted: int = 0
    end_to_end_flow_control: int = 0
    rnr_retry_count: int = 7
    srq: int = 0
    local_ca_guid: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair(_Message):
    """A message that names the connection and says nothing else."""

    PRIVATE_PLACE = 8
    LAYOUT: ClassVar = {"local_communication_id": _at(0, 32), "remote_communication_id": _at(4, 32)}

    private_data: bytes = b""
    local_communication_id: int
    remote_communication_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rtu(_Pair):
    """Ready to use: what asked for the connection has had the REP."""

    ATTRIBUTE = 0x14


@dataclass(frozen=True, slots=True, kw_only=True)
class Dreq(_Message):
    """Asks for the end of a connection; `remote_qpn` is the receiver's queue pair."""

    ATTRIBUTE = 0x15
    PRIVATE_PLACE = 12
    LAYOUT: ClassVar = {
        "local_communication_id": _at(0, 32),
        "remote_communication_id": _at(4, 32),
        "remote_qpn": _at(8, 24),
    }

    private_data: bytes = b""
    local_communication_id: int
    remote_communication_id: int
    remote_qpn: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Drep(_Pair):
    """Agrees to the end of a connection."""

    ATTRIBUTE = 0x16


CmMessage = Req | Mra | Rej | Rep | Rtu | Dreq | Drep
_BY_ATTRIBUTE: dict[int, type[CmMessage]] = {
    message.ATTRIBUTE: message for message in (Req, Mra, Rej, Rep, Rtu, Dreq, Drep)
}


def decode_cm_message(data: bytes | memoryview) -> tuple[int, CmMessage]:
    """Return the transaction ID and the message in a MAD.

    Raises: MalformedError with the reason of the MAD's header, or mad.class, mad.class_version, mad.method,
    cm.attribute.
    """
    header = Mad.decode(data)
    if header.management_class != ManagementClass.COMMUNICATION_MANAGEMENT:
        raise MalformedError("mad.class", f"{header.management_class:#04x}; only the CM's (0x07) is read")
    if header.class_version != CLASS_VERSION:
        raise MalformedError("mad.class_version", f"{header.class_version}; only {CLASS_VERSION} is read")
    if header.method != MadMethod.SEND:
        raise MalformedError("mad.method", f"{header.method:#04x}; the CM has only Send (0x03)")
    message = _BY_ATTRIBUTE.get(header.attribute_id)
    if message is None:
        raise MalformedError("cm.attribute", f"{header.attribute_id:#06x} is no message of connections")
    body = bytes(data[MAD_HEADER_BYTES : MAD_HEADER_BYTES + MAD_BODY_BYTES])
    return header.transaction_id, message.decode_body(body)
