# SPDX-License-Identifier: Apache-2.0
"""The header of management datagrams (MADs), which have 256 bytes each.

Source: InfiniBand Architecture Specification Volume 1, "Management Datagrams", "Base MAD Format".
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

from .malformed import MalformedError

MAD_BYTES = 256
MAD_HEADER_BYTES = 24
MAD_BODY_BYTES = MAD_BYTES - MAD_HEADER_BYTES
BASE_VERSION = 1

_LAYOUT = struct.Struct("!BBBBHHQHHI")


class ManagementClass(enum.IntEnum):
    """Whom a MAD is for, of those that nicemu knows."""

    COMMUNICATION_MANAGEMENT = 0x07


class MadMethod(enum.IntEnum):
    """What a MAD wants, of those that nicemu knows."""

    SEND = 0x03


@dataclass(frozen=True, slots=True)
class Mad:
    """The 24 bytes in front of a MAD's body. A `transaction_id` ties an answer to what it answers."""

    management_class: int
    class_version: int
    method: int
    transaction_id: int
    attribute_id: int
    attribute_modifier: int = 0
    status: int = 0
    class_specific: int = 0
    base_version: int = BASE_VERSION

    def encode(self) -> bytes:
        """Return the header's 24 bytes."""
        return _LAYOUT.pack(
            self.base_version,
            self.management_class,
            self.class_version,
            self.method,
            self.status,
            self.class_specific,
            self.transaction_id,
            self.attribute_id,
            0,
            self.attribute_modifier,
        )

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Mad:
        """Read the header at the start of a whole MAD.

        Raises: MalformedError with the reason mad.too_short or mad.base_version.
        """
        if len(data) < MAD_BYTES:
            raise MalformedError("mad.too_short", f"{len(data)} bytes; a MAD has {MAD_BYTES}")
        base, group, version, method, status, specific, transaction, attribute, _, modifier = (
            _LAYOUT.unpack_from(data)
        )
        if base != BASE_VERSION:
            raise MalformedError("mad.base_version", f"{base}; only {BASE_VERSION} is read")
        return cls(group, version, method, transaction, attribute, modifier, status, specific, base)
