# SPDX-License-Identifier: Apache-2.0
"""P4Info as the files that controllers read, in protobuf's formats.

Source: P4Runtime Specification 1.4, "The P4Info Message"; p4info.proto. Protocol Buffers documentation, "Text
Format Language", "ProtoJSON Format".
"""

from __future__ import annotations

from nicemu.pipeline import P4Info

from .info_message import info_message
from .messages import serialize

_HEADER = "# proto-file: p4/config/v1/p4info.proto\n# proto-message: p4.config.v1.P4Info\n\n"


def p4info_text(p4info: P4Info) -> str:
    """Return a program's P4Info message in text format, as a file that ends in .txtpb holds it."""
    from google.protobuf import text_format

    return _HEADER + str(text_format.MessageToString(info_message(p4info)))


def p4info_json(p4info: P4Info) -> str:
    """Return a program's P4Info message as JSON."""
    from google.protobuf import json_format

    return str(json_format.MessageToJson(info_message(p4info)))


def p4info_bytes(p4info: P4Info) -> bytes:
    """Return a program's P4Info message in protobuf's wire format, as a file that ends in .bin holds it."""
    return serialize(info_message(p4info))
