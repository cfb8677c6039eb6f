# SPDX-License-Identifier: Apache-2.0
"""The data structures that Identify returns, both ways.

Source: NVM Express Base Specification 2.0, "Identify Controller Data Structure", "Active Namespace ID list",
"Namespace Identification Descriptor"; NVM Command Set Specification 1.0, "Identify Namespace Data Structure".
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from nicemu.errors import UsageError

from .registers import IO_CQE_SHIFT, IO_SQE_SHIFT, VERSION_2_0

IDENTIFY_BYTES: Final = 4096
ASYNC_EVENT_LIMIT: Final = 4
MAX_LISTED_NAMESPACES: Final = IDENTIFY_BYTES // 4

_MODEL = "nicemu NVMe controller"
FIRMWARE_REVISION: Final = "1.0"
WARNING_TEMPERATURE_KELVIN: Final = 343
"""WCTEMP: 70 degrees Celsius, and what the temperature threshold is at first."""
_CRITICAL_TEMPERATURE_KELVIN: Final = 373
_SELECTS_FEATURES: Final = 1 << 4
"""ONCS: Set Features has the Save field, Get Features the Select field."""
_UUID_DESCRIPTOR = 3
_IO_CONTROLLER = 1


@dataclass(frozen=True, slots=True)
class ControllerIdentity:
    """What a host needs to know of a controller.

    `mdts`: maximum data transfer size as a power of two of the smallest memory page, 0 for no limit.
    `namespace_limit`: the highest valid nsid.
    """

    serial: str
    model: str
    mdts: int
    namespace_limit: int

    @classmethod
    def decode(cls, data: bytes | memoryview) -> ControllerIdentity:
        """Read the structure of 4096 bytes."""
        _check_length(len(data))
        return cls(
            serial=bytes(data[4:24]).decode("ascii", "replace").strip(),
            model=bytes(data[24:64]).decode("ascii", "replace").strip(),
            mdts=data[77],
            namespace_limit=struct.unpack_from("<I", data, 516)[0],
        )

    def encode(self) -> bytes:
        """Return the structure of 4096 bytes."""
        data = bytearray(IDENTIFY_BYTES)
        data[4:24] = _padded(self.serial, 20)
        data[24:64] = _padded(self.model, 40)
        data[64:72] = _padded(FIRMWARE_REVISION, 8)
        data[77] = self.mdts
        struct.pack_into("<I", data, 80, VERSION_2_0)
        data[111] = _IO_CONTROLLER
        data[259] = ASYNC_EVENT_LIMIT - 1
        data[260] = 1 << 1 | 1  # one firmware slot, and that read-only
        data[261] = 1 << 2  # log pages may be read from an offset on
        struct.pack_into("<HH", data, 266, WARNING_TEMPERATURE_KELVIN, _CRITICAL_TEMPERATURE_KELVIN)
        data[512] = IO_SQE_SHIFT << 4 | IO_SQE_SHIFT
        data[513] = IO_CQE_SHIFT << 4 | IO_CQE_SHIFT
        struct.pack_into("<I", data, 516, self.namespace_limit)
        struct.pack_into("<H", data, 520, _SELECTS_FEATURES)
        data[525] = 0b10 << 1 | 1  # a volatile write cache; Flush does not take the broadcast nsid
        name = f"nqn.2014-08.org.nvmexpress:uuid:{uuid.uuid5(uuid.NAMESPACE_OID, self.serial)}"
        data[768 : 768 + len(name)] = name.encode()
        return bytes(data)


@dataclass(frozen=True, slots=True)
class NamespaceIdentity:
    """Geometry of a namespace; all zero for one that is not active."""

    block_bytes: int
    block_count: int

    @classmethod
    def decode(cls, data: bytes | memoryview) -> NamespaceIdentity:
        """Read the structure of 4096 bytes, in the format that is in use."""
        _check_length(len(data))
        (block_count,) = struct.unpack_from("<Q", data)
        flbas = data[26]
        format_index = flbas & 0xF | (flbas >> 5 & 3) << 4
        block_shift = data[128 + 4 * format_index + 2]
        return cls(1 << block_shift if block_count else 0, block_count)

    def encode(self) -> bytes:
        """Return the structure of 4096 bytes, with one format."""
        data = bytearray(IDENTIFY_BYTES)
        if self.block_count:
            struct.pack_into("<QQQ", data, 0, self.block_count, self.block_count, self.block_count)
            data[128 + 2] = self.block_bytes.bit_length() - 1
        return bytes(data)


def controller_identity(serial: str, mdts: int, namespace_limit: int) -> ControllerIdentity:
    """Return what nicemu's controller says of itself.

    Raises: UsageError if the serial number is not 1 to 20 printable ASCII characters.
    """
    if not 1 <= len(serial) <= 20 or not (serial.isascii() and serial.isprintable()):
        raise UsageError(f"serial number {serial!r} is not 1 to 20 printable ASCII characters")
    return ControllerIdentity(serial, _MODEL, mdts, namespace_limit)


def encode_namespace_list(nsids: Iterable[int]) -> bytes:
    """Return the list of 4096 bytes: at most 1024 identifiers in rising order, then zeros."""
    listed = sorted(nsids)[:MAX_LISTED_NAMESPACES]
    return struct.pack(f"<{len(listed)}I", *listed).ljust(IDENTIFY_BYTES, b"\0")


def decode_namespace_list(data: bytes | memoryview) -> list[int]:
    """Return the identifiers before the first zero."""
    _check_length(len(data))
    nsids = list(struct.unpack(f"<{MAX_LISTED_NAMESPACES}I", data))
    return nsids[: nsids.index(0)] if 0 in nsids else nsids


def encode_namespace_descriptors(serial: str, nsid: int) -> bytes:
    """Return the descriptor list of a namespace: one UUID, the same for the same serial number and nsid."""
    name = uuid.uuid5(uuid.NAMESPACE_OID, f"{serial}/{nsid}").bytes
    return (bytes([_UUID_DESCRIPTOR, len(name), 0, 0]) + name).ljust(IDENTIFY_BYTES, b"\0")


def _padded(text: str, width: int) -> bytes:
    return text.encode("ascii").ljust(width)[:width]


def _check_length(found: int) -> None:
    if found != IDENTIFY_BYTES:
        raise UsageError(f"an Identify structure has {IDENTIFY_BYTES} bytes, these are {found}")
