# SPDX-License-Identifier: Apache-2.0
"""Packets from and to the controller: the header of the program that carries their metadata, and the rest.

Source: P4Runtime Specification 1.4, "Packet I/O", "ControllerPacketMetadata".
"""

from __future__ import annotations

from nicemu.pipeline import PacketMetadataInfo

from .byte_string import decode_bytes, encode_bytes
from .messages import Message, messages
from .refusals import illegal

MAX_PACKET_BYTES = 9216
"""Longest packet that a controller may send."""


def packet_in_message(frame: bytes, header: PacketMetadataInfo | None) -> Message:
    """Return the StreamMessageResponse for a frame that begins with `header`, where the program has one."""
    fields = header.metadata if header is not None else ()
    width_bits = sum(field.width for field in fields)
    number = int.from_bytes(frame[: width_bits // 8], "big")
    response = messages().StreamMessageResponse()
    packet = response.packet
    packet.payload = frame[width_bits // 8 :]
    for field in fields:
        width_bits -= field.width
        value = number >> width_bits & ((1 << field.width) - 1)
        packet.metadata.add(metadata_id=field.id, value=encode_bytes(value))
    return response


def frame_of_message(packet: Message, header: PacketMetadataInfo | None) -> bytes:
    """Return the frame that a PacketOut means.

    Raises: ControlError: INVALID_ARGUMENT for metadata that is missing, unknown or given twice, and for a
    packet that is too long; OUT_OF_RANGE for a value that is too wide.
    """
    if len(packet.payload) > MAX_PACKET_BYTES:
        raise illegal(f"the packet has {len(packet.payload)} bytes; {MAX_PACKET_BYTES} are allowed")
    fields = {field.id: field for field in header.metadata} if header is not None else {}
    given: dict[int, int] = {}
    for item in packet.metadata:
        field = fields.get(item.metadata_id)
        if field is None or field.id in given:
            have = ", ".join(f"{one.id} ({one.name})" for one in fields.values()) or "none"
            raise illegal(f"metadata {item.metadata_id} is unknown or given twice; packet_out has {have}")
        given[field.id] = decode_bytes(item.value, field.width, f"packet_out: {field.name}")
    missing = [field.name for field in fields.values() if field.id not in given]
    if missing:
        raise illegal(f"packet_out: no value for {', '.join(missing)}")
    number, width_bits = 0, 0
    for field in fields.values():
        number, width_bits = number << field.width | given[field.id], width_bits + field.width
    return number.to_bytes(width_bits // 8, "big") + bytes(packet.payload)
