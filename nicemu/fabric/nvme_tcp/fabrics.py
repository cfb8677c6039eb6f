# SPDX-License-Identifier: Apache-2.0
"""Commands of NVMe over Fabrics, and what a fabric changes in Identify Controller.

Source: NVM Express Base Specification 2.0, "Fabrics Command Set", "Connect Command and Response", "Property
Get Command and Response", "Identify Controller Data Structure" (Fabric Specific); "SGL Descriptor".
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Final

from nicemu.nvme import Sqe

from .pdu import CAPSULE_DATA_BYTES
from .qualified_name import decoded_name

FABRICS_OPCODE: Final = 0x7F
CONNECT_DATA_BYTES: Final = 1024
CONTROLLER_ID: Final = 1
_ANY_CONTROLLER: Final = (0xFFFF, 0xFFFE)
KEEP_ALIVE_UNITS: Final = 10
"""KAS: the keep alive timer goes in steps of 100 ms."""
MDTS: Final = 5
"""128 KiB, in pages of 4096 bytes."""
_NQN_BYTES: Final = 256
_DISABLE_FLOW_CONTROL: Final = 1 << 2
"""CATTR."""


class FabricsType(enum.IntEnum):
    """FCTYPE."""

    PROPERTY_SET = 0x00
    CONNECT = 0x01
    PROPERTY_GET = 0x04
    DISCONNECT = 0x08


class FabricsStatus(enum.IntEnum):
    """Status code type << 8 | status code. Source: "Status Code - Command Specific Status", fabrics."""

    INCOMPATIBLE_FORMAT = 0x180
    CONTROLLER_BUSY = 0x181
    INVALID_PARAMETERS = 0x182
    INVALID_HOST = 0x184
    SGL_DESCRIPTOR_TYPE_INVALID = 0x011
    SGL_DATA_LENGTH_INVALID = 0x00F
    COMMAND_SEQUENCE_ERROR = 0x00C


@dataclass(frozen=True, slots=True)
class Sgl:
    """The one SGL descriptor of a capsule. `in_capsule`: the data came with it, from `offset` on."""

    offset: int
    length: int
    in_capsule: bool

    @classmethod
    def of(cls, sqe: Sqe) -> Sgl | None:
        """Read the descriptor; None if it is of a type that NVMe/TCP has not."""
        kind = sqe.prp2 >> 56
        length = sqe.prp2 & 0xFFFF_FFFF
        if kind == 0x5A:  # transport SGL data block
            return cls(0, length, False)
        if kind == 0x01:  # data block, an offset into the capsule
            return cls(sqe.prp1, length, True)
        return cls(0, 0, False) if kind == 0 and length == 0 else None


@dataclass(frozen=True, slots=True)
class Connect:
    """A Connect command with its data."""

    record_format: int
    qid: int
    entry_count: int
    keep_alive_ms: int
    host_id: bytes
    controller_id: int
    subsystem: str | None
    host: str | None
    """None: the field holds no name."""
    has_flow_control: bool
    """Whether the host wants to hear how far its submission queue is taken; with CATTR bit 2 it does not."""

    @classmethod
    def decode(cls, sqe: Sqe, data: bytes) -> Connect:
        """Read a command and its 1024 bytes of data."""
        return cls(
            sqe.cdw10 & 0xFFFF,
            sqe.cdw10 >> 16,
            (sqe.cdw11 & 0xFFFF) + 1,
            sqe.cdw12,
            data[:16],
            struct.unpack_from("<H", data, 16)[0],
            decoded_name(data[256 : 256 + _NQN_BYTES]),
            decoded_name(data[512 : 512 + _NQN_BYTES]),
            not sqe.cdw11 >> 16 & _DISABLE_FLOW_CONTROL,
        )

    @property
    def names_this_controller(self) -> bool:
        """Whether the controller asked for can be ours: any, or the one that an admin queue was given."""
        return self.controller_id == CONTROLLER_ID or (
            self.qid == 0 and self.controller_id in _ANY_CONTROLLER
        )


def invalid_parameter(offset: int, *, of_data: bool) -> int:
    """Return dword 0 of a refused Connect: where the parameter lies, in the data or in the command."""
    return of_data << 16 | offset


def patched_identity(data: bytes, subsystem: str, entry_count: int) -> bytes:
    """Return a controller's Identify structure as it is behind this transport."""
    patched = bytearray(data)
    patched[77] = min(patched[77] or MDTS, MDTS)
    struct.pack_into("<H", patched, 78, CONTROLLER_ID)
    struct.pack_into("<H", patched, 320, KEEP_ALIVE_UNITS)
    struct.pack_into("<H", patched, 514, entry_count)
    struct.pack_into("<I", patched, 536, 1 << 20 | 1)  # SGLs, with offsets into the capsule
    patched[768 : 768 + _NQN_BYTES] = subsystem.encode().ljust(_NQN_BYTES, b"\0")
    struct.pack_into("<II", patched, 1792, (64 + CAPSULE_DATA_BYTES) // 16, 1)
    struct.pack_into("<HBB", patched, 1800, 0, 0, 1)
    return bytes(patched)
