# SPDX-License-Identifier: Apache-2.0
"""What became of each part of a batch: p4.v1.Error messages in a google.rpc.Status, in the parts' order.

The status travels as trailing metadata, whose size the receiver bounds: 8 KiB for a gRPC client that has
not said otherwise. A client of nicemu raises its bound and says so; for others the sentences are cut, and
as a last resort the details are left out, so that the client still learns the outcome.
Source: P4Runtime Specification 1.4, "Error Reporting Messages"; google/rpc/status.proto.
"""

from __future__ import annotations

from collections.abc import Sequence

from nicemu.errors import ControlError, P4RuntimeCode

from .messages import ERROR_TYPE_URL, SHORT_ERROR_TYPE_URL, Message, messages

ERROR_SPACE = "nicemu"
DEFAULT_MAX_DETAILS_BYTES = 5_000
"""Most bytes of details for a client that names no bound; encoded in base 64 they stay below 8 KiB."""
MAX_DETAILS_BYTES = 4 << 20
"""Most bytes of details for any client."""
MAX_DETAILS_KEY = "nicemu-max-status-bytes"
"""Request metadata in which a client names its bound."""

_WAYS = (
    (ERROR_TYPE_URL, 2_000),
    (ERROR_TYPE_URL, 200),
    (ERROR_TYPE_URL, 60),
    (ERROR_TYPE_URL, 0),
    (SHORT_ERROR_TYPE_URL, 0),
)
"""How a message of a detail names its type, and how long its sentence may be."""
_SHORTEST_DETAIL_BYTES = len(SHORT_ERROR_TYPE_URL)


def batch_status(errors: Sequence[ControlError | None], noun: str, max_bytes: int) -> Message:
    """Return the google.rpc.Status of a batch in which at least one part failed; None stands for a success.

    `noun` says what the parts are: "update", "entity".
    """
    failed = [index for index, error in enumerate(errors) if error is not None]
    first = errors[failed[0]]
    assert first is not None
    nouns = f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}s"
    text = f"{len(failed)} of {len(errors)} {nouns} failed; {noun} {failed[0]}: {first.code.name}: {first}"
    status = messages().Status(code=int(P4RuntimeCode.UNKNOWN), message=text[:400])
    if len(errors) * _SHORTEST_DETAIL_BYTES > max_bytes:
        return status
    for type_url, longest in _WAYS:
        del status.details[:]
        for error in errors:
            detail = status.details.add(type_url=type_url)
            if error is not None:
                item = messages().Error(canonical_code=int(error.code), message=str(error)[:longest])
                if longest:
                    item.space = ERROR_SPACE
                detail.value = item.SerializeToString()
        if status.ByteSize() <= max_bytes:
            return status
    del status.details[:]
    return status


def errors_of_status(data: bytes) -> list[ControlError | None]:
    """Return the outcome of each part of a batch from a serialized Status; empty without details."""
    from google.protobuf.message import DecodeError

    try:
        details = messages().Status.FromString(data).details
        found: list[ControlError | None] = []
        for detail in details:
            error = messages().Error.FromString(detail.value)
            found.append(
                ControlError(code_of(error.canonical_code), error.message) if error.canonical_code else None
            )
    except DecodeError:
        return []
    return found


def code_of(number: int) -> P4RuntimeCode:
    """Return the canonical code of that number; UNKNOWN for numbers that are none."""
    try:
        return P4RuntimeCode(number)
    except ValueError:
        return P4RuntimeCode.UNKNOWN
