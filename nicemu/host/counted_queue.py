# SPDX-License-Identifier: Apache-2.0
"""A queue pair of the NIC's NVMe controller whose completions feed a counter by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nicemu.errors import UsageError

if TYPE_CHECKING:
    from .device import Nic


class CountedQueue:
    """What `counter.count_completions()` returns: the `queue` of `Step.nvme_read` and `Step.nvme_write`.

    Its commands go one at a time, in the order in which they fire. It counts until `close`, or until its
    counter is closed with force=True.
    """

    def __init__(self, nic: Nic, number: int) -> None:
        self._nic = nic
        self._number = number
        self.closed = False

    def __index__(self) -> int:
        """Its number at the controller. Raises: UsageError if it was given back: another may have it now."""
        if self.closed:
            raise UsageError(
                "this queue pair was given back (EINVAL); `counter.count_completions()` returns one"
            )
        return self._number

    def close(self) -> None:
        """Count no more, and give the queue pair back; commands under way end without counting. Twice is
        once.
        """
        if not self.closed:
            self._nic.connection.request("completions_stop", queue=self._number)
            self.closed = True
