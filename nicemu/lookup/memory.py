# SPDX-License-Identifier: Apache-2.0
"""Memory of lookup structures: zeroed, on huge pages where the kernel gives them, taken as it is touched."""

from __future__ import annotations

import ctypes
import mmap
from contextlib import suppress

from nicemu.errors import ResourceError

LINE_BYTES = 64
"""What a processor fetches at once; entries and buckets begin at multiples of it."""
_HUGE_PAGE_BYTES = 2 << 20
_HUGE_FROM_BYTES = 1 << 20
"""What is as long is given whole huge pages: the processor remembers few small ones."""


class Memory:
    """Zeroed memory of this process, at `address`, which is a multiple of a page, until `close`.

    The kernel gives pages when they are first touched, so a large reservation that is little used costs
    little. Raises: ResourceError if the kernel refuses the reservation.
    """

    def __init__(self, length_bytes: int) -> None:
        whole = length_bytes
        if length_bytes >= _HUGE_FROM_BYTES:  # whole huge pages, and one more so that they can begin anywhere
            whole = (-(-length_bytes // _HUGE_PAGE_BYTES) + 1) * _HUGE_PAGE_BYTES
        try:
            self._memory = mmap.mmap(-1, whole, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError) as error:
            raise ResourceError(
                f"{length_bytes} bytes for a table cannot be reserved ({error}); declare a smaller size"
            ) from error
        self.length_bytes = length_bytes
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._first = 0
        if whole > length_bytes:
            self._first = -self.address % _HUGE_PAGE_BYTES
            self.address += self._first
            with suppress(OSError):  # a kernel without transparent huge pages
                self._memory.madvise(mmap.MADV_HUGEPAGE)

    @property
    def view(self) -> memoryview:
        """The memory as bytes; it cannot be closed while somebody holds a view."""
        return memoryview(self._memory)[self._first : self._first + self.length_bytes]

    def close(self) -> None:
        """Give the memory back; nobody may read at its addresses any more."""
        self._memory.close()


def whole_lines(length_bytes: int) -> int:
    """Return a length rounded up to whole lines."""
    return -(-length_bytes // LINE_BYTES) * LINE_BYTES
