# SPDX-License-Identifier: Apache-2.0
"""The command ring of a process's BAR: a command at a time, and its answer."""

from __future__ import annotations

from nicemu.abi import CommandCode, CommandStatus, Connection, EventLog, registers
from nicemu.errors import NicemuError
from nicemu.pcie import load_u64, store_u64

ANSWER_TIMEOUT_S = 10.0


class CommandRing:
    """Gives one NIC commands; `given` is how many it had so far. One thread at a time may use it."""

    def __init__(self, connection: Connection, log: EventLog | None, opened: int) -> None:
        self._connection = connection
        self._log = log
        self._opened = opened
        self.given = 0

    def told(self) -> dict[str, object]:
        """Say in an event log which command the last one was."""
        return {"nic": self._connection.nic_name, "opened": self._opened, "number": self.given}

    def give(self, code: CommandCode, *words: int) -> tuple[CommandStatus, int]:
        """Give a command; return its status and value. Raises: NicemuError if no answer comes."""
        bar = self._connection.bar.address
        entry = bar + registers.COMMANDS + self.given % registers.COMMAND_COUNT * 64
        response = bar + registers.RESPONSES + self.given % registers.RESPONSE_COUNT * 64
        store_u64(entry, int(code) | (self.given & 0xFFFFFFFF) << 32)
        for position in range(6):
            store_u64(entry + 8 + 8 * position, words[position] if position < len(words) else 0)
        self.given += 1
        if self._log is not None:
            self._log.add_here("command", **self.told(), code=code.name, words=list(words))
        store_u64(entry + 56, self.given)
        self._connection.notify()
        if not self._connection.wait(lambda: load_u64(response + 56) == self.given, ANSWER_TIMEOUT_S, (0, 0)):
            raise NicemuError(
                f"{self._connection.nic_name} did not answer a {code.name} command in {ANSWER_TIMEOUT_S:g} s"
            )
        head, value = load_u64(response), load_u64(response + 8)
        answered = bar + registers.HOST_WORDS + registers.WORD_RESPONSES * registers.WORD_STRIDE
        store_u64(answered, self.given)
        return CommandStatus(head >> 32), value
