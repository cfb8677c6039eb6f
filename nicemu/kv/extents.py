# SPDX-License-Identifier: Apache-2.0
"""Which logical blocks of a range are free: first fit, neighbours merged."""

from __future__ import annotations

import bisect

from nicemu.errors import ResourceError, UsageError


class FreeExtents:
    """The free blocks of [`first`, `first + count`), as runs; at the beginning all of them."""

    def __init__(self, first: int, count: int) -> None:
        if first < 0 or count < 1:
            raise UsageError(
                f"a range of {count} blocks from block {first}; it needs one block and no negative number"
            )
        self.first = first
        self.end = first + count
        self._starts = [first]
        self._ends = [self.end]

    @property
    def free_blocks(self) -> int:
        """Blocks that are free."""
        return sum(self._ends) - sum(self._starts)

    @property
    def largest_run(self) -> int:
        """Blocks of the longest free run."""
        return max((end - start for start, end in zip(self._starts, self._ends, strict=True)), default=0)

    def take(self, count: int) -> int:
        """Take the first run of `count` blocks that is free and return its first block.

        Raises: ResourceError if there is none; UsageError if `count` is not positive.
        """
        if count < 1:
            raise UsageError(f"asked for {count} blocks; ask for at least 1")
        for start, end in zip(self._starts, self._ends, strict=True):
            if end - start >= count:
                self.take_at(start, count)
                return start
        raise ResourceError(
            f"no run of {count} data blocks is free; {self.free_blocks} of {self.end - self.first} are, "
            f"at most {self.largest_run} in a row; free some chunks or use a larger namespace"
        )

    def take_at(self, start: int, count: int) -> bool:
        """Take blocks [`start`, `start + count`) if all of them are free; return whether they were."""
        run = bisect.bisect_right(self._starts, start) - 1
        end = start + count
        if count < 1 or run < 0 or end > self._ends[run]:
            return False
        run_start, run_end = self._starts[run], self._ends[run]
        remaining = [(low, high) for low, high in ((run_start, start), (end, run_end)) if low < high]
        self._starts[run : run + 1] = [low for low, _ in remaining]
        self._ends[run : run + 1] = [high for _, high in remaining]
        return True

    def release(self, start: int, count: int) -> None:
        """Give blocks back. Raises: UsageError if one of them is free already or outside the range."""
        end = start + count
        run = bisect.bisect_left(self._starts, start)
        overlaps = (run > 0 and self._ends[run - 1] > start) or (
            run < len(self._starts) and self._starts[run] < end
        )
        if count < 1 or start < self.first or end > self.end or overlaps:
            raise UsageError(f"blocks [{start}, {end}) are not all taken from [{self.first}, {self.end})")
        low = run - 1 if run > 0 and self._ends[run - 1] == start else run
        high = run + 1 if run < len(self._starts) and self._starts[run] == end else run
        merged_start = self._starts[low] if low < run else start
        merged_end = self._ends[run] if high > run else end
        self._starts[low:high] = [merged_start]
        self._ends[low:high] = [merged_end]
