# SPDX-License-Identifier: Apache-2.0
"""NVMe commands of the firmware: on the queue pair that everybody uses, or on one whose completions count."""

from __future__ import annotations

from nicemu.errors import NvmeStatus

from .card import Card, CompletionError
from .core import Signal


class CountedQueue:
    """A queue pair of the NIC's NVMe controller whose completions count, until `close`.

    Commands go one at a time, in order; the others wait. What the controller completes counts 1, however it
    ends; a command that it never gets, because it cannot be expressed or names memory that it does not reach,
    counts nothing.
    """

    def __init__(self, card: Card, number: int) -> None:
        self._card = card
        self._number = number

    async def nvme_read(self, nsid: int, slba: int, nlb: int, address: int) -> None:
        """Read as `Nic.nvme_read`; the counter has counted, or does so in a moment, when this returns."""
        await run_nvme(self._card, "read", nsid, slba, nlb, address, self._number)

    async def nvme_write(self, nsid: int, slba: int, nlb: int, address: int) -> None:
        """Write as `Nic.nvme_write`."""
        await run_nvme(self._card, "write", nsid, slba, nlb, address, self._number)

    async def nvme_flush(self, nsid: int) -> None:
        """Flush as `Nic.nvme_flush`."""
        await run_nvme(self._card, "flush", nsid, 0, 0, 0, self._number)

    def close(self) -> None:
        """Count no more; commands under way end without counting."""
        self._card.stop_counting(self._number)


async def run_nvme(
    card: Card, opcode: str, nsid: int, slba: int, nlb: int, address: int, queue: int = 0
) -> None:
    """Carry out an NVMe command; `queue` 0 is the one that everybody uses.

    Raises: CompletionError with the NvmeStatus.
    """
    signal = Signal()
    if queue:
        card.nvme(opcode, nsid, slba, nlb, address, signal, queue)
    else:
        card.nvme(opcode, nsid, slba, nlb, address, signal)
    status = NvmeStatus(await signal)
    if status is not NvmeStatus.SUCCESS:
        raise CompletionError(status, f"NVMe {opcode} of {nlb} blocks at {slba}, namespace {nsid},")
