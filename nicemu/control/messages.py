# SPDX-License-Identifier: Apache-2.0
"""P4Runtime's protobuf messages, from descriptors of our own in a pool of our own.

No generated code: `protos/p4runtime.binpb` is data, so it works with every protobuf that can read
descriptors, and a private pool clashes with no other copy of P4Runtime in the process. Loaded at the
first use of `messages()`.
Source: P4Runtime Specification 1.4, p4runtime.proto, p4info.proto; google.rpc.Status.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from enum import IntEnum
from importlib import resources
from types import SimpleNamespace
from typing import Any, ParamSpec, TypeAlias, TypeVar

from nicemu.errors import ControlError, P4RuntimeCode, UsageError

Message: TypeAlias = Any
"""A protobuf message. Its classes are made at run time, so no type checker can know their fields."""

SERVICE = "p4.v1.P4Runtime"
API_VERSION = "1.4.0"
"""Version of P4Runtime that the server says it implements (Capabilities)."""
MAX_MESSAGE_BYTES = 64 << 20
"""Longest message that server and client receive or send."""
ERROR_TYPE_URL = "type.googleapis.com/p4.v1.Error"
SHORT_ERROR_TYPE_URL = "/p4.v1.Error"
"""The same: what stands before the last slash says nothing (any.proto)."""
STATUS_DETAILS = "grpc-status-details-bin"
"""Trailing metadata that carries a serialized google.rpc.Status."""

_NAMES = {
    "p4.v1": (
        "P4Data "
        "CapabilitiesRequest CapabilitiesResponse Entity Error ForwardingPipelineConfig "
        "GetForwardingPipelineConfigRequest GetForwardingPipelineConfigResponse ReadRequest ReadResponse "
        "SetForwardingPipelineConfigRequest SetForwardingPipelineConfigResponse StreamMessageRequest "
        "StreamMessageResponse TableEntry Uint128 Update WriteRequest WriteResponse"
    ),
    "p4.config.v1": "P4DataTypeSpec P4Info P4TypeInfo",
    "google.rpc": "Status",
}


class UpdateType(IntEnum):
    """Update.Type."""

    INSERT = 1
    MODIFY = 2
    DELETE = 3


INSERT, MODIFY, DELETE = UpdateType


class Atomicity(IntEnum):
    """WriteRequest.Atomicity."""

    CONTINUE_ON_ERROR = 0
    ROLLBACK_ON_ERROR = 1
    DATAPLANE_ATOMIC = 2


class ConfigAction(IntEnum):
    """SetForwardingPipelineConfigRequest.Action."""

    VERIFY = 1
    VERIFY_AND_SAVE = 2
    VERIFY_AND_COMMIT = 3
    COMMIT = 4
    RECONCILE_AND_COMMIT = 5


class ConfigPart(IntEnum):
    """GetForwardingPipelineConfigRequest.ResponseType."""

    ALL = 0
    COOKIE_ONLY = 1
    P4INFO_AND_COOKIE = 2
    DEVICE_CONFIG_AND_COOKIE = 3


_Taken = ParamSpec("_Taken")
_Returned = TypeVar("_Returned")


def within_fields(call: Callable[_Taken, _Returned]) -> Callable[_Taken, _Returned]:
    """Have a call that fills messages say as a UsageError that a number does not fit its field."""

    @functools.wraps(call)
    def told(*arguments: _Taken.args, **named: _Taken.kwargs) -> _Returned:
        try:
            return call(*arguments, **named)
        except (ValueError, OverflowError) as error:
            if isinstance(error, ValueError) and "out of range" not in str(error):
                raise
            what = str(error).partition(": ")[2] or "a number"
            raise UsageError(f"{what} is out of range: no field of P4Runtime holds it") from error

    return told


@functools.cache
def messages() -> SimpleNamespace:
    """Return the message classes by name.

    Those of messages inside others are held too: protobuf makes a class when it is first met, lets it go with
    its last message, and does not stand that while other threads have some (upb, seen with 7.36).
    """
    from google.protobuf import any_pb2, descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(any_pb2.DESCRIPTOR.serialized_pb)
    data = resources.files(__package__).joinpath("protos", "p4runtime.binpb").read_bytes()
    files = [pool.FindFileByName(any_pb2.DESCRIPTOR.name)]
    for file in descriptor_pb2.FileDescriptorSet.FromString(data).file:
        pool.AddSerializedFile(file.SerializeToString())
        files.append(pool.FindFileByName(file.name))
    pending = [one for file in files for one in file.message_types_by_name.values()]
    held = []
    while pending:
        descriptor = pending.pop()
        held.append(message_factory.GetMessageClass(descriptor))
        pending += descriptor.nested_types
    classes = SimpleNamespace(held=held)
    for package, names in _NAMES.items():
        for name in names.split():
            descriptor = pool.FindMessageTypeByName(f"{package}.{name}")
            setattr(classes, name, message_factory.GetMessageClass(descriptor))
    return classes


def parse(name: str, data: bytes) -> Message:
    """Return the message `name` that `data` encodes.

    Raises: ControlError(INVALID_ARGUMENT) if it does not.
    """
    from google.protobuf.message import DecodeError

    message = getattr(messages(), name)()
    try:
        message.ParseFromString(data)
    except (DecodeError, RecursionError, ValueError):
        raise ControlError(
            P4RuntimeCode.INVALID_ARGUMENT, f"the {len(data)} bytes received are not a p4.v1.{name} message"
        ) from None
    return message


def serialize(message: Message) -> bytes:
    """Return the encoding of a message."""
    data: bytes = message.SerializeToString()
    return data
