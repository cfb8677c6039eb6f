# SPDX-License-Identifier: Apache-2.0
"""What comes from a device by itself, in the words of the program, and what a client answers.

Source: P4Runtime Specification 1.4, "P4Runtime Stream Messages".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from nicemu.errors import ControlError, P4RuntimeCode, UsageError
from nicemu.pipeline import Match, plain

from .byte_string import encode_bytes
from .data_message import value_of_data
from .entry_message import matches_of_message
from .messages import Message, messages
from .schema import Schema
from .status_details import code_of
from .value_text import TEXT_BITS, parse_value, text_of


@dataclass(frozen=True, slots=True)
class ReceivedPacket:
    """A packet, and the fields of the program's packet_in header."""

    payload: bytes
    metadata: Mapping[str, int | str]


@dataclass(frozen=True, slots=True)
class ReceivedDigests:
    """A list of digests, each a number or {field: number}; `list_id` is what an acknowledgement names."""

    name: str
    list_id: int
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class IdleEntry:
    """An entry that no packet has matched for as long as its timeout."""

    table: str
    matches: tuple[Match, ...]
    priority: int


@dataclass(frozen=True, slots=True)
class ReceivedIdle:
    """Entries that are idle."""

    entries: tuple[IdleEntry, ...]


Received: TypeAlias = ReceivedPacket | ReceivedDigests | ReceivedIdle


def received(message: Message, schema: Schema) -> Received | None:
    """Return what a stream message says; None for arbitration.

    Raises: ControlError for a stream error, as of a packet that was sent and dropped.
    """
    form = message.WhichOneof("update")
    if form == "packet":
        header = schema.packet_headers.get("packet_in")
        names = {field.id: field.name for field in header.metadata} if header else {}
        texts = {field.id for field in header.metadata if field.width == TEXT_BITS} if header else ()
        values = {item.metadata_id: int.from_bytes(item.value, "big") for item in message.packet.metadata}
        metadata = {
            names.get(number, str(number)): text_of(value) if number in texts else value
            for number, value in values.items()
        }
        return ReceivedPacket(message.packet.payload, metadata)
    if form == "digest":
        info = schema.item("digest", message.digest.digest_id)
        data = (value_of_data(item, info.type, schema.layouts, info.name) for item in message.digest.data)
        return ReceivedDigests(info.name, message.digest.list_id, tuple(map(plain, data)))
    if form == "idle_timeout_notification":
        entries = []
        for item in message.idle_timeout_notification.table_entry:
            table = schema.table_of_id(item.table_id)
            entries.append(IdleEntry(table.name, matches_of_message(item, table), item.priority))
        return ReceivedIdle(tuple(entries))
    if form == "error":
        raise ControlError(code_of(message.error.canonical_code), message.error.message)
    if form == "arbitration":
        return None
    raise ControlError(P4RuntimeCode.UNIMPLEMENTED, f"a stream message of kind {form} came")


def packet_out_message(payload: bytes, metadata: Mapping[str, int | str], schema: Schema) -> Message:
    """Return the stream message that sends a packet. Raises: UsageError for fields missing or unknown."""
    header = schema.packet_headers.get("packet_out")
    fields = {field.name: field for field in header.metadata} if header else {}
    if set(metadata) != set(fields):
        have = ", ".join(fields) or "none"
        raise UsageError(f"packet_out has the fields {have}; {', '.join(metadata) or 'none'} given")
    request = messages().StreamMessageRequest()
    request.packet.payload = payload
    for name, value in metadata.items():
        number = parse_value(value, fields[name].width, f"packet_out: {name}")
        request.packet.metadata.add(metadata_id=fields[name].id, value=encode_bytes(number))
    return request


def acknowledgement(digests: ReceivedDigests, schema: Schema) -> Message:
    """Return the stream message that acknowledges a list of digests."""
    request = messages().StreamMessageRequest()
    request.digest_ack.digest_id = schema.named("digest", digests.name).id
    request.digest_ack.list_id = digests.list_id
    return request
