# SPDX-License-Identifier: Apache-2.0
"""The host's end of one I/O queue pair: its rings, free command identifiers, and what is outstanding.

Source: NVM Express Base Specification 2.0, "Command Submission and Completion Mechanism".
"""

from __future__ import annotations

from collections import Counter, deque
from dataclasses import dataclass
from typing import Any

from nicemu.pcie import AddressSpace

from .queue import CompletionConsumer, SubmissionProducer


@dataclass(frozen=True, slots=True)
class Outstanding:
    """A command that has not completed: its caller's cookie, and the PRP list pages that it uses."""

    cookie: Any
    list_pages: tuple[int, ...]


class IoQueue:
    """Queue pair `number`, new; one with `entry_count` entries carries one command less at a time."""

    def __init__(
        self,
        number: int,
        memory: AddressSpace,
        addresses: tuple[int, int],
        entry_count: int,
        initiator: str,
    ) -> None:
        self.number = number
        self.entry_count = entry_count
        self.sq_address, self.cq_address = addresses
        self.sq = SubmissionProducer(memory, self.sq_address, entry_count, initiator)
        self.cq = CompletionConsumer(memory, self.cq_address, entry_count, initiator)
        self.cids = deque(range(entry_count - 1))
        self.outstanding: dict[int, Outstanding] = {}

    def take_completed(self, faults: Counter[str]) -> tuple[list[tuple[Outstanding, int]], bool]:
        """Take what has completed, with its status, and whether the head moved; count what makes no sense."""
        taken, moved = [], False
        while cqe := self.cq.poll():
            moved = True
            self.sq.learn_head(cqe.sq_head)
            ended = self.outstanding.pop(cqe.cid, None)
            if ended is None:
                faults["completion.unknown_cid"] += 1
                continue
            self.cids.append(cqe.cid)
            taken.append((ended, cqe.status))
        return taken, moved
