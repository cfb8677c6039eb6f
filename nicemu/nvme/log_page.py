# SPDX-License-Identifier: Apache-2.0
"""The log pages that a controller has to have: supported pages, errors, health, firmware slots.

Source: NVM Express Base Specification 2.0, "Get Log Page command", "Supported Log Pages", "Error
Information", "SMART / Health Information", "Firmware Slot Information".
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Final

from nicemu.errors import NvmeStatus

from .command import BROADCAST_NSID, AdminStatus, Sqe
from .identify import FIRMWARE_REVISION
from .namespace import BlockIoKind

_SUPPORTED_BYTES: Final = 1024
_ERROR_ENTRY_BYTES: Final = 64
_HEALTH_BYTES, _SLOTS_BYTES = 512, 512
_IS_SUPPORTED: Final = 1
TEMPERATURE_KELVIN: Final = 300
"""A model has no heat of its own; that of a room."""
_SPARE_PERCENT, _SPARE_THRESHOLD_PERCENT = 100, 10
_UNIT_BYTES: Final = 512 * 1000
_ACTIVE_SLOT: Final = 1
_TEMPERATURE_WARNING: Final = 1 << 1
"""Critical Warning: the temperature is at or beyond a threshold."""


class LogPage(enum.IntEnum):
    """Log page identifiers."""

    SUPPORTED = 0x00
    ERRORS = 0x01
    HEALTH = 0x02
    FIRMWARE_SLOTS = 0x03


@dataclass(slots=True)
class IoTotals:
    """What hosts have moved since the controller was made: commands that succeeded, and their bytes."""

    reads: int = 0
    writes: int = 0
    read_bytes: int = 0
    written_bytes: int = 0

    def count(self, kind: BlockIoKind, length_bytes: int) -> None:
        """Count a command."""
        if kind is BlockIoKind.READ:
            self.reads += 1
            self.read_bytes += length_bytes
        elif kind is BlockIoKind.WRITE:
            self.writes += 1
            self.written_bytes += length_bytes


def read_log(
    sqe: Sqe, totals: IoTotals, max_transfer_bytes: int, *, warns_of_temperature: bool = False
) -> bytes | int:
    """Return the bytes that a Get Log Page asks for, zeros behind the end of the page; or its status."""
    length = ((sqe.cdw11 & 0xFFFF) << 16 | sqe.cdw10 >> 16) * 4 + 4
    offset = sqe.cdw13 << 32 | sqe.cdw12
    identifier = sqe.cdw10 & 0xFF
    if identifier not in LogPage.__members__.values():
        return AdminStatus.INVALID_LOG_PAGE
    if sqe.nsid not in (0, BROADCAST_NSID) or length > max_transfer_bytes:
        return NvmeStatus.INVALID_FIELD
    page = _page(LogPage(identifier), totals, _TEMPERATURE_WARNING if warns_of_temperature else 0)
    if offset % 4 or offset > len(page):
        return NvmeStatus.INVALID_FIELD
    return page[offset : offset + length].ljust(length, b"\0")


def _page(identifier: LogPage, totals: IoTotals, warning: int) -> bytes:
    if identifier is LogPage.SUPPORTED:
        supported = [_IS_SUPPORTED if number in LogPage.__members__.values() else 0 for number in range(256)]
        return struct.pack("<256I", *supported)
    if identifier is LogPage.ERRORS:
        return bytes(_ERROR_ENTRY_BYTES)  # one entry, of which an error count of 0 says that it is none
    if identifier is LogPage.HEALTH:
        return _health(totals, warning)
    return (bytes([_ACTIVE_SLOT]) + bytes(7) + FIRMWARE_REVISION.encode().ljust(8)).ljust(_SLOTS_BYTES, b"\0")


def _health(totals: IoTotals, warning: int) -> bytes:
    page = bytearray(_HEALTH_BYTES)
    struct.pack_into("<BHBB", page, 0, warning, TEMPERATURE_KELVIN, _SPARE_PERCENT, _SPARE_THRESHOLD_PERCENT)
    units = (-(-totals.read_bytes // _UNIT_BYTES), -(-totals.written_bytes // _UNIT_BYTES))
    for place, value in zip((32, 48, 64, 80), (*units, totals.reads, totals.writes), strict=True):
        page[place : place + 16] = value.to_bytes(16, "little")
    return bytes(page)
