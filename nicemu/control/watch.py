# SPDX-License-Identifier: Apache-2.0
"""The ports that members of groups and actions of sets watch: kept, and told again.

A member whose port is down is to be passed over. No port of this pipeline goes down, so there is no more to
do.
Source: P4Runtime Specification 1.4, "ActionProfileMember & ActionProfileGroup", "One Shot Action Selector
Programming".
"""

from __future__ import annotations

from typing import TypeAlias

from nicemu.pipeline import HOST_PORT

from .byte_string import encode_bytes
from .messages import Message
from .refusals import illegal

Watch: TypeAlias = int | bytes | None
"""A port as bytes, or as a number in the deprecated field; None where none is watched."""


def watch_of(message: Message, what: str) -> Watch:
    """Return what a Member or ActionProfileAction watches. Raises: ControlError(INVALID_ARGUMENT) for a port
    that there is not.
    """
    form = message.WhichOneof("watch_kind")
    if form is None or (form == "watch_port" and not message.watch_port):
        return None
    port = int(message.watch) if form == "watch" else int.from_bytes(message.watch_port, "big")
    if not 0 <= port <= HOST_PORT:
        shown = str(port) if port.bit_length() <= 64 else f"a number of {port.bit_length()} bits"
        raise illegal(f"{what}: watch_port is {shown}; there are ports 0 to {HOST_PORT}")
    return port if form == "watch" else encode_bytes(port)


def fill_watch(message: Message, watch: object) -> None:
    """Set what a Member or ActionProfileAction watches."""
    if isinstance(watch, int):
        message.watch = watch
    elif isinstance(watch, bytes):
        message.watch_port = watch
