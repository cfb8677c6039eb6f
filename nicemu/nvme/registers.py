# SPDX-License-Identifier: Apache-2.0
"""The register layout that controller and initiator share.

Source: NVM Express Base Specification 2.0, "Controller Properties"; NVMe over PCIe Transport Specification
1.0, "Submission Queue y Tail Doorbell", "Completion Queue y Head Doorbell".
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

DOORBELL_BASE: Final = 0x1000
VERSION_2_0: Final = 0x0002_0000
IO_SQE_SHIFT: Final = 6
IO_CQE_SHIFT: Final = 4


class Register(enum.IntEnum):
    """Offsets of the registers; those of 64 bits may be accessed by halves."""

    CAP = 0x00
    VS = 0x08
    INTMS = 0x0C
    INTMC = 0x10
    CC = 0x14
    CSTS = 0x1C
    AQA = 0x24
    ASQ = 0x28
    ACQ = 0x30


def doorbell_offset(queue_id: int, *, is_completion: bool, stride: int = 0) -> int:
    """Return the offset of a queue's doorbell; `stride` is CAP.DSTRD."""
    return DOORBELL_BASE + (2 * queue_id + is_completion) * (4 << stride)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """CAP. `max_queue_entry_count` is MQES as a count; `ready_timeout_ms` counts in steps of 500.

    Source: Base Specification 2.0, "Offset 0h: CAP – Controller Capabilities".
    """

    max_queue_entry_count: int
    ready_timeout_ms: int = 5000
    doorbell_stride: int = 0
    min_page_shift: int = 0
    max_page_shift: int = 0

    @classmethod
    def decode(cls, value: int) -> Capabilities:
        """Read the 64 bits of CAP."""
        return cls(
            max_queue_entry_count=(value & 0xFFFF) + 1,
            ready_timeout_ms=(value >> 24 & 0xFF) * 500,
            doorbell_stride=value >> 32 & 0xF,
            min_page_shift=value >> 48 & 0xF,
            max_page_shift=value >> 52 & 0xF,
        )

    def encode(self) -> int:
        """Return the 64 bits: queues contiguous, the NVM command set."""
        contiguous_queues_required = 1 << 16
        nvm_command_set = 1 << 37
        return (
            self.max_queue_entry_count - 1
            | contiguous_queues_required
            | self.ready_timeout_ms // 500 << 24
            | self.doorbell_stride << 32
            | nvm_command_set
            | self.min_page_shift << 48
            | self.max_page_shift << 52
        )


@dataclass(frozen=True, slots=True)
class Configuration:
    """CC. Source: Base Specification 2.0, "Offset 14h: CC – Controller Configuration"."""

    enable: bool
    command_set: int = 0
    page_shift: int = 0
    arbitration: int = 0
    shutdown: int = 0
    io_sqe_shift: int = IO_SQE_SHIFT
    io_cqe_shift: int = IO_CQE_SHIFT

    @classmethod
    def decode(cls, value: int) -> Configuration:
        """Read the 32 bits of CC."""
        return cls(
            enable=bool(value & 1),
            command_set=value >> 4 & 7,
            page_shift=value >> 7 & 0xF,
            arbitration=value >> 11 & 7,
            shutdown=value >> 14 & 3,
            io_sqe_shift=value >> 16 & 0xF,
            io_cqe_shift=value >> 20 & 0xF,
        )

    def encode(self) -> int:
        """Return the 32 bits of CC."""
        return (
            int(self.enable)
            | self.command_set << 4
            | self.page_shift << 7
            | self.arbitration << 11
            | self.shutdown << 14
            | self.io_sqe_shift << 16
            | self.io_cqe_shift << 20
        )


class Status(enum.IntFlag):
    """CSTS. Source: Base Specification 2.0, "Offset 1Ch: CSTS – Controller Status"."""

    READY = 1 << 0
    FATAL = 1 << 1
    SHUTDOWN_OCCURRING = 1 << 2
    SHUTDOWN_COMPLETE = 2 << 2
