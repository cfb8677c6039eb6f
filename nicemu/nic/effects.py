# SPDX-License-Identifier: Apache-2.0
"""What a NIC wants done outside itself; the driver takes and does it, in order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from nicemu.nvme import BlockIo


@dataclass(frozen=True, slots=True)
class SendFrames:
    """Send frames: `roce` says whether they are RDMA traffic or request-protocol datagrams."""

    frames: tuple[bytes, ...]
    roce: bool


@dataclass(frozen=True, slots=True)
class PerformIo:
    """Read or write a namespace, then tell `on_dma_complete` with the I/O's tag."""

    io: BlockIo


Effect: TypeAlias = SendFrames | PerformIo
