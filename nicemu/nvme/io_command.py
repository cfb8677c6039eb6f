# SPDX-License-Identifier: Apache-2.0
"""What a Read, Write or Flush command asks for, checked, before anything moves.

Source: NVM Express NVM Command Set Specification 1.0, "Read command", "Write command"; Base Specification
2.0, "Flush command".
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from nicemu.errors import NvmeCommandError, NvmeStatus
from nicemu.pcie import AddressSpace

from .command import BROADCAST_NSID, IoOpcode, Sqe
from .namespace import BlockIoKind, Namespace
from .prp import Segment, walk_prp

_KINDS: dict[int, BlockIoKind] = {
    IoOpcode.READ: BlockIoKind.READ,
    IoOpcode.WRITE: BlockIoKind.WRITE,
    IoOpcode.FLUSH: BlockIoKind.FLUSH,
}


@dataclass(frozen=True, slots=True)
class IoRequest:
    """A checked I/O command: bytes of a namespace and the memory they move to or from."""

    kind: BlockIoKind
    nsid: int
    offset_bytes: int
    length_bytes: int
    segments: tuple[Segment, ...]
    fua: bool


def check_io(
    sqe: Sqe,
    namespaces: Mapping[int, Namespace],
    memory: AddressSpace,
    max_transfer_bytes: int,
    initiator: str,
) -> IoRequest:
    """Return what an I/O command asks for; PRP list pages are read as `initiator`.

    Raises: NvmeCommandError with the status that the command completes with: INVALID_COMMAND_OPCODE,
    INVALID_FIELD (fused, scatter gather lists, larger than the maximum data transfer size, an nsid that could
    be active and is not), INVALID_NAMESPACE, LBA_OUT_OF_RANGE, PRP_OFFSET_INVALID, DATA_TRANSFER_ERROR.
    """
    kind = _KINDS.get(sqe.opcode)
    if kind is None:
        raise NvmeCommandError(
            NvmeStatus.INVALID_COMMAND_OPCODE,
            f"I/O opcode {sqe.opcode:#04x}; Flush (0x00), Write (0x01) and Read (0x02) are supported",
        )
    check_plain(sqe)
    namespace = namespaces.get(sqe.nsid)
    if namespace is None:
        is_flush_of_all = kind is BlockIoKind.FLUSH and sqe.nsid == BROADCAST_NSID
        raise NvmeCommandError(
            NvmeStatus.INVALID_NAMESPACE if is_flush_of_all else status_of_nsid(sqe.nsid, namespaces),
            f"nsid {sqe.nsid:#x} is not active; active are {sorted(namespaces)}",
        )
    if kind is BlockIoKind.FLUSH:
        return IoRequest(kind, sqe.nsid, 0, 0, (), False)
    offset_bytes, length_bytes = namespace.extent(sqe.slba, sqe.nlb)
    if length_bytes > max_transfer_bytes:
        raise NvmeCommandError(
            NvmeStatus.INVALID_FIELD,
            f"a transfer of {length_bytes} bytes; the maximum data transfer size is {max_transfer_bytes}",
        )
    segments = walk_prp(sqe.prp1, sqe.prp2, length_bytes, memory, initiator=initiator)
    return IoRequest(kind, sqe.nsid, offset_bytes, length_bytes, tuple(segments), sqe.fua)


def status_of_nsid(nsid: int, namespaces: Iterable[int]) -> NvmeStatus:
    """Return how a command ends whose nsid is no active one: by whether it could be one.

    Source: NVM Express Base Specification 2.0, "Common Command Format", NSID; for a Flush of all namespaces,
    "Identify Controller Data Structure", VWC.
    """
    is_inactive = 1 <= nsid <= max(namespaces, default=0) or nsid == BROADCAST_NSID
    return NvmeStatus.INVALID_FIELD if is_inactive else NvmeStatus.INVALID_NAMESPACE


def check_plain(sqe: Sqe) -> None:
    """Accept a command that is not fused and describes its data by PRPs.

    Raises: NvmeCommandError with INVALID_FIELD for any other.
    """
    if sqe.fuse or sqe.psdt:
        raise NvmeCommandError(
            NvmeStatus.INVALID_FIELD,
            f"FUSE {sqe.fuse}, PSDT {sqe.psdt}; only plain commands with PRPs are supported",
        )
