# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, the one control path of a NIC: a server on targets it is given, a client for CLI and tests.

The names load on first use: importing the room imports neither gRPC nor protobuf.
Specification: P4Runtime Specification 1.4.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .addresses import checked_address
    from .arbitration import passing_role
    from .client_entries import ReadEntry, Update
    from .entry_text import call_json, choice_json, entry_json, match_text, matches_json, number_text
    from .info_message import config_message, program_json_of
    from .info_text import p4info_bytes, p4info_json, p4info_text
    from .object_client import ObjectClient, ObjectInfo, Place
    from .p4runtime_client import P4RuntimeClient
    from .p4runtime_server import P4RuntimeServer
    from .pipeline_config import ProgramReader, ir_reader
    from .pipeline_loader import load_pipeline
    from .schema import TableSchema
    from .stream_client import IdleEntry, Received, ReceivedDigests, ReceivedIdle, ReceivedPacket
    from .target import PipelineTarget
    from .text_values import TextValues
    from .texts import Texts
    from .value_text import parse_match, parse_value

_HOMES = {
    "IdleEntry": "stream_client",
    "ObjectClient": "object_client",
    "ObjectInfo": "object_client",
    "P4RuntimeClient": "p4runtime_client",
    "P4RuntimeServer": "p4runtime_server",
    "checked_address": "addresses",
    "PipelineTarget": "target",
    "ProgramReader": "pipeline_config",
    "Place": "object_client",
    "ReadEntry": "client_entries",
    "Received": "stream_client",
    "ReceivedDigests": "stream_client",
    "ReceivedIdle": "stream_client",
    "ReceivedPacket": "stream_client",
    "TableSchema": "schema",
    "TextValues": "text_values",
    "Texts": "texts",
    "Update": "client_entries",
    "call_json": "entry_text",
    "choice_json": "entry_text",
    "config_message": "info_message",
    "entry_json": "entry_text",
    "ir_reader": "pipeline_config",
    "load_pipeline": "pipeline_loader",
    "match_text": "entry_text",
    "matches_json": "entry_text",
    "number_text": "entry_text",
    "p4info_bytes": "info_text",
    "p4info_json": "info_text",
    "p4info_text": "info_text",
    "passing_role": "arbitration",
    "parse_match": "value_text",
    "parse_value": "value_text",
    "program_json_of": "info_message",
}

__all__ = [
    "IdleEntry",
    "ObjectClient",
    "ObjectInfo",
    "P4RuntimeClient",
    "P4RuntimeServer",
    "PipelineTarget",
    "Place",
    "ProgramReader",
    "ReadEntry",
    "Received",
    "ReceivedDigests",
    "ReceivedIdle",
    "ReceivedPacket",
    "TableSchema",
    "TextValues",
    "Texts",
    "Update",
    "call_json",
    "checked_address",
    "choice_json",
    "config_message",
    "entry_json",
    "ir_reader",
    "load_pipeline",
    "match_text",
    "matches_json",
    "number_text",
    "p4info_bytes",
    "p4info_json",
    "p4info_text",
    "parse_match",
    "parse_value",
    "passing_role",
    "program_json_of",
]


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"nicemu.control has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
