# SPDX-License-Identifier: Apache-2.0
"""The program in a p4_device_config, which controllers written for BMv2's server may wrap.

P4Runtime leaves the bytes to the device. Controllers from before it was settled put a program into a message
of its own, p4.tmp.P4DeviceConfig, and simple_switch_grpc still takes that.
Source: P4Runtime Specification 1.4, "ForwardingPipelineConfig Message"; p4lang/PI, p4config.proto, in which
`device_data` was field 3, behind `reassign` and `extras`, and later field 2, behind `extras`.
"""

from __future__ import annotations

_FIRST_BYTES = (b"\x08", b"\x12", b"\x1a")
"""How such a message begins: with `reassign`, or field 2 or 3. No program as text begins with these."""
_BYTES = 2
"""Wire type LEN."""


def program_in(config: bytes) -> bytes:
    """Return the `device_data` of a config that is wrapped, any other as it is."""
    if not config.startswith(_FIRST_BYTES):
        return config
    from google.protobuf.empty_pb2 import Empty
    from google.protobuf.message import DecodeError
    from google.protobuf.unknown_fields import UnknownFieldSet

    message = Empty()
    try:
        message.ParseFromString(config)
    except DecodeError:
        return config
    found = {item.field_number: item.data for item in UnknownFieldSet(message) if item.wire_type == _BYTES}
    return bytes(found.get(3, found.get(2, config)))
