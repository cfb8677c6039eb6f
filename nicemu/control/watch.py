# SPDX-License-Identifier: Apache-2.0
"""The ports that members of groups and actions of sets watch: kept, and told again.

A member whose port is down is to be passed over. No port of this pipeline goes down, so there is no more to
do.
Source: P4Runtime Specification 1.4, "ActionProfileMember & ActionProfileGroup", "One Shot Action Selector
Programming".
"""

from __future__ import annotations

from typing import TypeAlias

from .byte_string import decode_bytes, encode_bytes
from .messages import Message

PORT_BITS = 32
"""Widest port that may be watched."""

Watch: TypeAlias = int | bytes | None
"""A port as bytes, or as a number in the deprecated field; None where none is watched."""


def watch_of(message: Message, what: str) -> Watch:
    """Return what a Member or ActionProfileAction watches. Raises: ControlError(OUT_OF_RANGE)."""
    form = message.WhichOneof("watch_kind")
    if form == "watch":
        return int(message.watch)
    return (
        encode_bytes(decode_bytes(message.watch_port, PORT_BITS, f"{what}: watch_port"))
        if form and message.watch_port
        else None
    )


def fill_watch(message: Message, watch: object) -> None:
    """Set what a Member or ActionProfileAction watches."""
    if isinstance(watch, int):
        message.watch = watch
    elif isinstance(watch, bytes):
        message.watch_port = watch
