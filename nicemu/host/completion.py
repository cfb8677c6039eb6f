# SPDX-License-Identifier: Apache-2.0
"""Completion queues as the host drains them: entries in order, each seen once.

Source: ibv_poll_cq(3). A queue whose consumer falls a whole ring behind has overrun: the NIC writes no more
into it and moves the queue pair to the error state.
"""

from __future__ import annotations

from nicemu.abi import Connection, EventLog, Opcode, WorkCompletion, registers, seconds, whole
from nicemu.errors import UsageError, VerbsStatus, counted
from nicemu.pcie import load_u32, load_u64, store_u64


class CompletionQueue:
    """Queue number `queue` of this process, 0 to QUEUE_COUNT - 1; work is completed into queue 0."""

    def __init__(self, connection: Connection, queue: int = 0) -> None:
        queue = whole(queue, "the number of a process's completion queue", most=registers.QUEUE_COUNT - 1)
        self._connection = connection
        self._closed = ""
        bar = connection.bar.address
        self._ring = bar + registers.COMPLETIONS + queue * registers.COMPLETION_COUNT * 64
        word = registers.WORD_COMPLETIONS + queue
        self._consumer = bar + registers.HOST_WORDS + word * registers.WORD_STRIDE
        self._head = int(load_u64(self._consumer))

    def close(self, said: str = "") -> None:
        """The NIC is closed: there is nothing to be polled any more; `said` says why."""
        self._closed = said or f"{self._connection.nic_name} was closed; open it again"

    def _entry(self) -> int:
        if self._closed:
            raise UsageError(self._closed)
        return self._ring + self._head % registers.COMPLETION_COUNT * 64

    def poll(self, limit: int = 64) -> list[WorkCompletion]:
        """Return up to `limit` completions that are there now, oldest first; it never waits."""
        limit = whole(limit, "the limit of a poll")
        completions: list[WorkCompletion] = []
        log: EventLog | None = getattr(self._connection, "log", None)
        while len(completions) < limit and load_u64(self._entry() + 56) == self._head + 1:
            entry = self._entry()
            has_imm = load_u32(entry + 32)
            completions.append(
                WorkCompletion(
                    load_u64(entry),
                    VerbsStatus(load_u32(entry + 8)),
                    Opcode(load_u32(entry + 12)),
                    load_u64(entry + 16),
                    load_u32(entry + 24),
                    load_u32(entry + 28) if has_imm else None,
                )
            )
            self._head += 1
            if log is not None:
                told = {"nic": self._connection.nic_name, "cq": load_u32(entry + 36), "tail": self._head}
                log.add_here("completion", **told)
        store_u64(self._consumer, self._head)
        return completions

    def wait(self, count: int = 1, timeout_s: float = 5.0) -> list[WorkCompletion]:
        """Return the next `count` completions, as many as the queue holds at most.

        Raises: TimeoutError if they do not come within `timeout_s`; what came is kept for the next call.
        """
        self._entry()
        count = whole(count, "how many completions", least=1, most=registers.COMPLETION_COUNT)
        timeout_s = seconds(timeout_s)
        ready = self._ring + (self._head + count - 1) % registers.COMPLETION_COUNT * 64 + 56
        if not self._connection.wait(lambda: load_u64(ready) == self._head + count, timeout_s, (0, 0)):
            raise TimeoutError(f"fewer than {counted(count, 'completion')} within {timeout_s:g} s")
        return self.poll(count)
