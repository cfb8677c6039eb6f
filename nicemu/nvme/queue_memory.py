# SPDX-License-Identifier: Apache-2.0
"""Where an initiator's queues, Identify page and PRP list pages lie in one piece of memory.

Source: NVM Express Base Specification 2.0, "Queue Size" (physically contiguous queues start on a page).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from nicemu.errors import UsageError
from nicemu.pcie import PAGE_BYTES

from .command import CQE_BYTES, SQE_BYTES
from .prp import list_page_count

MAX_DEPTH: Final = 1023
_WORST_OFFSET: Final = PAGE_BYTES - 4
_ADMIN_PAGES: Final = 3


@dataclass(frozen=True, slots=True)
class QueueMemory:
    """Bus addresses, each on a page: admin queues, I/O queues, the Identify page, and the PRP list pages.

    `single_queues`: submission and completion queues for one command each.
    """

    admin_sq_address: int
    admin_cq_address: int
    identify_address: int
    sq_address: int
    cq_address: int
    single_queues: tuple[tuple[int, int], ...]
    list_pages: tuple[int, ...]

    @classmethod
    def lay_out(
        cls, base: int, length_bytes: int, depth: int, max_transfer_bytes: int, single_queues: int = 0
    ) -> QueueMemory:
        """Place everything from `base` on.

        Raises: UsageError if `base` is not on a page, or `length_bytes` less than `queue_memory_bytes` says.
        """
        needed_bytes = queue_memory_bytes(depth, max_transfer_bytes, single_queues)
        if base % PAGE_BYTES or length_bytes < needed_bytes:
            raise UsageError(
                f"queue memory of {length_bytes} bytes at {base:#x}; {needed_bytes} bytes that start on a "
                f"page are needed for depth {depth} and transfers of {max_transfer_bytes} bytes"
            )
        sq_address = base + _ADMIN_PAGES * PAGE_BYTES
        cq_address = sq_address + _ring_bytes(depth, SQE_BYTES)
        first_single = cq_address + _ring_bytes(depth, CQE_BYTES)
        first_list = first_single + single_queues * 2 * PAGE_BYTES
        return cls(
            base,
            base + PAGE_BYTES,
            base + 2 * PAGE_BYTES,
            sq_address,
            cq_address,
            tuple((at, at + PAGE_BYTES) for at in range(first_single, first_list, 2 * PAGE_BYTES)),
            tuple(range(first_list, base + needed_bytes, PAGE_BYTES)),
        )


def queue_memory_bytes(depth: int, max_transfer_bytes: int = 2 << 20, single_queues: int = 0) -> int:
    """Return how much memory an initiator's queues and list pages take.

    Raises: UsageError for a depth outside 1 to 1023, a transfer size below one page, or a negative number of
    single queues.
    """
    if not 1 <= depth <= MAX_DEPTH or max_transfer_bytes < PAGE_BYTES or single_queues < 0:
        raise UsageError(
            f"depth {depth}, transfers of {max_transfer_bytes} bytes, {single_queues} single queues; allowed "
            f"are 1 to {MAX_DEPTH}, at least {PAGE_BYTES} bytes, and 0 or more"
        )
    list_pages = (depth + single_queues) * list_page_count(_WORST_OFFSET, max_transfer_bytes)
    rings = _ring_bytes(depth, SQE_BYTES) + _ring_bytes(depth, CQE_BYTES)
    return rings + (_ADMIN_PAGES + 2 * single_queues + list_pages) * PAGE_BYTES


def _ring_bytes(depth: int, entry_bytes: int) -> int:
    return -(-entry_bytes * (depth + 1) // PAGE_BYTES) * PAGE_BYTES
