# SPDX-License-Identifier: Apache-2.0
"""Submission and completion queue entries: bytes to typed values and back.

Source: NVM Express Base Specification 2.0, "Common Command Format", "Completion Queue Entry", "Admin Command
Set"; NVM Express NVM Command Set Specification 1.0, "NVM Command Set Commands".
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass
from typing import Final

from nicemu.errors import NvmeStatus, UsageError

SQE_BYTES: Final = 64
CQE_BYTES: Final = 16
BROADCAST_NSID: Final = 0xFFFF_FFFF

_SQE = struct.Struct("<BBHIIIQQQ6I")
_CQE = struct.Struct("<IIHHHH")

_DNR = 1 << 14
"""Do Not Retry, as a bit of the 15-bit status field."""


class AdminOpcode(enum.IntEnum):
    """Admin commands that the controller knows.

    Source: Base Specification 2.0, "Opcodes for Admin Commands".
    """

    DELETE_IO_SQ = 0x00
    CREATE_IO_SQ = 0x01
    GET_LOG_PAGE = 0x02
    DELETE_IO_CQ = 0x04
    CREATE_IO_CQ = 0x05
    IDENTIFY = 0x06
    ABORT = 0x08
    SET_FEATURES = 0x09
    GET_FEATURES = 0x0A
    ASYNC_EVENT_REQUEST = 0x0C


class IoOpcode(enum.IntEnum):
    """I/O commands. Source: NVM Command Set Specification 1.0, "Opcodes for NVM Commands"."""

    FLUSH = 0x00
    WRITE = 0x01
    READ = 0x02


class AdminStatus(enum.IntEnum):
    """Status codes of admin commands beside those of `NvmeStatus`.

    Source: Base Specification 2.0, "Generic Command Status Definition", "Command Specific Status Definition".
    """

    COMMAND_SEQUENCE_ERROR = 0x00C
    ABORT_COMMAND_LIMIT_EXCEEDED = 0x103
    ASYNC_EVENT_LIMIT_EXCEEDED = 0x105
    INVALID_INTERRUPT_VECTOR = 0x108
    INVALID_LOG_PAGE = 0x109
    INVALID_QUEUE_DELETION = 0x10C
    FEATURE_NOT_SAVEABLE = 0x10D
    FEATURE_NOT_CHANGEABLE = 0x10E
    FEATURE_NOT_NAMESPACE_SPECIFIC = 0x10F


_STATUSES: Final[dict[int, int]] = {int(status): status for status in (*NvmeStatus, *AdminStatus)}


class Feature(enum.IntEnum):
    """Feature identifiers. Source: Base Specification 2.0, "Feature Identifiers"."""

    ARBITRATION = 0x01
    POWER_MANAGEMENT = 0x02
    TEMPERATURE_THRESHOLD = 0x04
    ERROR_RECOVERY = 0x05
    VOLATILE_WRITE_CACHE = 0x06
    NUMBER_OF_QUEUES = 0x07
    INTERRUPT_COALESCING = 0x08
    INTERRUPT_VECTOR_CONFIGURATION = 0x09
    WRITE_ATOMICITY_NORMAL = 0x0A
    ASYNC_EVENT_CONFIGURATION = 0x0B
    KEEP_ALIVE_TIMER = 0x0F


class IdentifyCns(enum.IntEnum):
    """What Identify returns. Source: Base Specification 2.0, "Identify – CNS Values"."""

    NAMESPACE = 0x00
    CONTROLLER = 0x01
    ACTIVE_NAMESPACES = 0x02
    NAMESPACE_DESCRIPTORS = 0x03
    COMMAND_SET_NAMESPACE = 0x05
    COMMAND_SET_CONTROLLER = 0x06


def status_from_code(code: int) -> int:
    """Return the named status of a 15-bit status field without its Do Not Retry, More and delay bits.

    A code that nicemu has no name for stays a plain integer.
    """
    return _STATUSES.get(code & 0x7FF, code & 0x7FF)


@dataclass(frozen=True, slots=True)
class Sqe:
    """A submission queue entry: one command.

    `cid`: command identifier; `nsid`: namespace identifier; `psdt`: 0 where PRPs describe the data;
    `fuse`: 0 for a command on its own; `mptr`: metadata pointer; `cdw*`: command dwords.
    """

    opcode: int
    cid: int = 0
    nsid: int = 0
    prp1: int = 0
    prp2: int = 0
    cdw10: int = 0
    cdw11: int = 0
    cdw12: int = 0
    cdw13: int = 0
    cdw14: int = 0
    cdw15: int = 0
    fuse: int = 0
    psdt: int = 0
    cdw2: int = 0
    cdw3: int = 0
    mptr: int = 0

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Sqe:
        """Read an entry from exactly 64 bytes.

        Raises: UsageError for any other length.
        """
        _check_length("submission", len(data), SQE_BYTES)
        opcode, flags, cid, nsid, cdw2, cdw3, mptr, prp1, prp2, *cdws = _SQE.unpack(data)
        fuse, psdt = flags & 3, flags >> 6
        cdw10, cdw11, cdw12, cdw13, cdw14, cdw15 = cdws
        return cls(
            opcode, cid, nsid, prp1, prp2,
            cdw10, cdw11, cdw12, cdw13, cdw14, cdw15,
            fuse, psdt, cdw2, cdw3, mptr,
        )  # fmt: skip

    def encode(self) -> bytes:
        """Return the 64 bytes of the entry.

        Raises: UsageError if a field does not fit its width.
        """
        try:
            return _SQE.pack(
                self.opcode,
                self.psdt << 6 | self.fuse,
                self.cid,
                self.nsid,
                self.cdw2,
                self.cdw3,
                self.mptr,
                self.prp1,
                self.prp2,
                self.cdw10,
                self.cdw11,
                self.cdw12,
                self.cdw13,
                self.cdw14,
                self.cdw15,
            )
        except struct.error as error:
            raise UsageError(f"{self} does not fit a submission queue entry: {error}") from error

    @property
    def slba(self) -> int:
        """First logical block of a read or write."""
        return self.cdw11 << 32 | self.cdw10

    @property
    def nlb(self) -> int:
        """Number of logical blocks of a read or write, zero-based as in the specification."""
        return self.cdw12 & 0xFFFF

    @property
    def fua(self) -> bool:
        """Force unit access: a write is on the medium before it completes."""
        return bool(self.cdw12 >> 30 & 1)


@dataclass(frozen=True, slots=True)
class Cqe:
    """A completion queue entry: how one command ended.

    `status`: status code type << 8 | status code; `result`: dword 0, command specific; `sq_head`: how far the
    controller has fetched from submission queue `sq_id`; `phase` is the bit that tells a new entry from an
    old one; `dnr`: a retry would fail as well.
    """

    cid: int
    status: int
    sq_id: int = 0
    sq_head: int = 0
    result: int = 0
    phase: int = 0
    dnr: bool = False

    @classmethod
    def decode(cls, data: bytes | memoryview) -> Cqe:
        """Read an entry from exactly 16 bytes.

        Raises: UsageError for any other length.
        """
        _check_length("completion", len(data), CQE_BYTES)
        result, _, sq_head, sq_id, cid, word = _CQE.unpack(data)
        return cls(cid, status_from_code(word >> 1), sq_id, sq_head, result, word & 1, bool(word >> 1 & _DNR))

    def encode(self, phase: int | None = None) -> bytes:
        """Return the 16 bytes of the entry, with `phase` in place of its own where one is given.

        Raises: UsageError if a field does not fit its width.
        """
        word = (self.status | (_DNR if self.dnr else 0)) << 1 | (self.phase if phase is None else phase)
        try:
            return _CQE.pack(self.result, 0, self.sq_head, self.sq_id, self.cid, word)
        except struct.error as error:
            raise UsageError(f"{self} does not fit a completion queue entry: {error}") from error


def _check_length(kind: str, found: int, needed: int) -> None:
    if found != needed:
        raise UsageError(f"a {kind} queue entry has {needed} bytes, these are {found}")
