# SPDX-License-Identifier: Apache-2.0
"""A namespace's geometry, and the I/O on it as a value.

Source: NVM Express NVM Command Set Specification 1.0, "Namespaces"; "Logical Block Address Out of Range"
status.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from nicemu.errors import NvmeCommandError, NvmeStatus, UsageError

from .command import BROADCAST_NSID
from .prp import Segment


class BlockIoKind(enum.Enum):
    """What a `BlockIo` does."""

    READ = "read"
    WRITE = "write"
    FLUSH = "flush"


@dataclass(frozen=True, slots=True)
class BlockIo:
    """One piece of I/O that the driver has to perform.

    READ moves bytes from the namespace, from `offset_bytes` on, into the `segments` (bus address, length) in
    order; WRITE moves them the other way, with `fua` onto the medium before it is done; FLUSH has no
    segments. The driver answers every one with `NvmeController.on_io_complete(tag, status, now_ns)`.
    `target_ns` is when the command may complete at the earliest.
    """

    tag: int
    kind: BlockIoKind
    nsid: int
    offset_bytes: int
    segments: tuple[Segment, ...]
    target_ns: int
    fua: bool = False

    @property
    def length_bytes(self) -> int:
        """Bytes of all segments together."""
        return sum(length_bytes for _, length_bytes in self.segments)


@dataclass(frozen=True, slots=True)
class Namespace:
    """Logical blocks 0 to `block_count` - 1 of `block_bytes` each.

    `path` says what the blocks are kept in, for messages; nothing here opens it.
    Raises: UsageError for an nsid outside 1..0xfffffffe, no blocks, or a block size that is no power of two
    from 512 to 65536.
    """

    nsid: int
    block_bytes: int
    block_count: int
    path: str = ""

    def __post_init__(self) -> None:
        if not 1 <= self.nsid < BROADCAST_NSID:
            raise UsageError(f"nsid {self.nsid:#x} is not one of 0x1 to {BROADCAST_NSID - 1:#x}")
        if not 512 <= self.block_bytes <= 65536 or self.block_bytes & (self.block_bytes - 1):
            raise UsageError(
                f"namespace {self.nsid} has blocks of {self.block_bytes} bytes; a power of two from 512 to "
                "65536 is needed, such as 4096"
            )
        if self.block_count < 1:
            raise UsageError(f"namespace {self.nsid} has {self.block_count} blocks; it needs at least one")

    @property
    def size_bytes(self) -> int:
        """Bytes of all blocks together."""
        return self.block_bytes * self.block_count

    def extent(self, slba: int, nlb: int) -> tuple[int, int]:
        """Return offset and length in bytes of `nlb` + 1 blocks from `slba` on.

        Raises: NvmeCommandError with LBA_OUT_OF_RANGE if the last block lies behind the end.
        """
        block_count = nlb + 1
        if slba + block_count > self.block_count:
            raise NvmeCommandError(
                NvmeStatus.LBA_OUT_OF_RANGE,
                f"namespace {self.nsid} has {self.block_count} blocks; blocks [{slba}, {slba + block_count}) "
                "end behind them",
            )
        return slba * self.block_bytes, block_count * self.block_bytes
