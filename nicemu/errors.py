# SPDX-License-Identifier: Apache-2.0
"""The three error families, and the status codes that the specifications give their errors.

`UsageError`: the caller broke the contract; raised at once, nothing changed.
`ProtocolError`: a peer or a program sent something illegal.
`ResourceError`: slots, a queue, a table or memory is full.
"""

from __future__ import annotations

import enum


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return a number of things in words: "1 entry", "2 entries"."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


class NicemuError(Exception):
    """Any error that nicemu raises on purpose; the message says what was found, allowed, and what to do."""


class UsageError(NicemuError):
    """The caller broke the contract; nothing was changed."""


class ProtocolError(NicemuError):
    """A peer or a program sent something illegal; it was refused and nothing was changed."""


class ResourceError(NicemuError):
    """Something finite is used up: trigger slots, a queue, a table, memory."""


_FAMILIES = (UsageError, ProtocolError, ResourceError)


def family_name(error: Exception) -> str:
    """Return the name of the family of an error, "NicemuError" for one of none: what an answer says of it."""
    return next((family.__name__ for family in _FAMILIES if isinstance(error, family)), NicemuError.__name__)


def family_of(name: object) -> type[NicemuError]:
    """Return the family of a name that `family_name` gave; of another one NicemuError."""
    return next((family for family in _FAMILIES if family.__name__ == name), NicemuError)


class VerbsStatus(enum.IntEnum):
    """Status of a work completion. Source: rdma-core, `enum ibv_wc_status` (ibv_poll_cq(3))."""

    SUCCESS = 0
    LOC_LEN_ERR = 1
    LOC_QP_OP_ERR = 2
    LOC_EEC_OP_ERR = 3
    LOC_PROT_ERR = 4
    WR_FLUSH_ERR = 5
    MW_BIND_ERR = 6
    BAD_RESP_ERR = 7
    LOC_ACCESS_ERR = 8
    REM_INV_REQ_ERR = 9
    REM_ACCESS_ERR = 10
    REM_OP_ERR = 11
    RETRY_EXC_ERR = 12
    RNR_RETRY_EXC_ERR = 13
    FATAL_ERR = 19
    RESP_TIMEOUT_ERR = 20
    GENERAL_ERR = 21


class NvmeStatus(enum.IntEnum):
    """Status code type << 8 | status code. Source: NVM Express Base Specification 2.0, "Status Field"."""

    SUCCESS = 0x000
    INVALID_COMMAND_OPCODE = 0x001
    INVALID_FIELD = 0x002
    COMMAND_ID_CONFLICT = 0x003
    DATA_TRANSFER_ERROR = 0x004
    ABORTED_POWER_LOSS = 0x005
    INTERNAL_ERROR = 0x006
    ABORTED_BY_REQUEST = 0x007
    ABORTED_SQ_DELETION = 0x008
    INVALID_NAMESPACE = 0x00B
    PRP_OFFSET_INVALID = 0x013
    LBA_OUT_OF_RANGE = 0x080
    CAPACITY_EXCEEDED = 0x081
    NAMESPACE_NOT_READY = 0x082
    COMPLETION_QUEUE_INVALID = 0x100
    INVALID_QUEUE_IDENTIFIER = 0x101
    INVALID_QUEUE_SIZE = 0x102
    WRITE_FAULT = 0x280
    UNRECOVERED_READ_ERROR = 0x281


class NvmeCommandError(ProtocolError):
    """An NVMe command that completes with an error status: an `NvmeStatus`, or an admin command's own."""

    def __init__(self, status: enum.IntEnum, message: str) -> None:
        super().__init__(f"{status.name}: {message}")
        self.status = status


class P4RuntimeCode(enum.IntEnum):
    """Canonical code of a control-plane error. Source: P4Runtime 1.4, "Error Reporting"; google.rpc.Code."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class ControlError(ProtocolError):
    """A control-plane request that is refused; nothing was changed."""

    def __init__(self, code: P4RuntimeCode, message: str) -> None:
        super().__init__(message)
        self.code = code
