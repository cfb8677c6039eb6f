# SPDX-License-Identifier: Apache-2.0
"""What an engine holds, and what of it is told: completions, arrivals, drops."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from nicemu.abi import Opcode
from nicemu.errors import VerbsStatus
from nicemu.hot import Records
from nicemu.wire import format_ipv4

from .queue_pair import Arrival, ArrivalKind, Completion
from .roce_state import ARRIVED, ARRIVED_LIMIT, DATAGRAM, DROPS, ENDED, ENGINE, RoceState

WORD = {name: number for number, name in enumerate(ENGINE.names or ())}
"""Where the engine's words are, as an array of them."""
_KINDS = list(ArrivalKind)
_NO_ENDED, _NO_ARRIVED = np.zeros(0, ENDED), np.zeros(0, ARRIVED)
_RETRANSMITTED = WORD["retransmitted"]
_ENDED, _ENDED_LIMIT, _ARRIVED = WORD["ended_count"], WORD["ended_limit"], WORD["arrived_count"]


class RoceReports:
    """The arrays of an engine, and what they report."""

    def __init__(self, state: RoceState, drops: Counter[str]) -> None:
        self._hold(state)
        self.drops = drops
        """What was not accepted from the wire, by name."""
        self._ended: list[Records] = []
        self._arrived: list[Records] = []

    def _hold(self, state: RoceState) -> None:
        self._state = state
        self._words = state.engine.view(np.int64)
        self._all_ended, self._all_arrived = state.ended.view(np.ndarray), state.arrived.view(np.ndarray)

    def take_completions(self) -> list[Completion]:
        """Return the completions since the last call, oldest first."""
        return [
            Completion(context, number, VerbsStatus(status), Opcode(opcode), byte_len, wr_id)
            for context, wr_id, byte_len, number, status, opcode in self.take_ended().tolist()
        ]

    def take_arrivals(self) -> list[Arrival]:
        """Return the arrivals since the last call, oldest first."""
        arrivals = []
        for (
            byte_len,
            wr_id,
            rkey,
            imm_data,
            number,
            sender,
            address,
            kind,
            has_imm,
        ) in self.take_arrived().tolist():
            arrival = Arrival(number, _KINDS[kind], byte_len, imm_data if has_imm else None, rkey, wr_id)
            if kind >= DATAGRAM:
                source_ip = format_ipv4(address.to_bytes(4, "big"))
                arrival = replace(arrival, source_qp=sender, source_ip=source_ip)
            arrivals.append(arrival)
        return arrivals

    def take_ended(self) -> Records:
        """Return the completions since the last call, oldest first, as ENDED records."""
        self._keep_reports(all_of_them=True)
        taken, self._ended = self._ended, []
        return np.concatenate(taken) if taken else _NO_ENDED

    def take_arrived(self) -> Records:
        """Return the arrivals since the last call, oldest first, as ARRIVED records."""
        self._keep_reports(all_of_them=True)
        taken, self._arrived = self._arrived, []
        return np.concatenate(taken) if taken else _NO_ARRIVED

    @property
    def has_reports(self) -> bool:
        """Whether there are completions or arrivals to take."""
        words = self._words
        return bool(self._ended or self._arrived or words[_ENDED] or words[_ARRIVED])

    @property
    def retransmitted_packets(self) -> int:
        """Packets of requests that were sent again, because they or their answers were lost or not taken."""
        return int(self._words[_RETRANSMITTED])

    def _keep_reports(self, *, all_of_them: bool = False) -> None:
        """Put aside what has been reported, so that there is room for more."""
        ended, arrived = int(self._words[_ENDED]), int(self._words[_ARRIVED])
        if ended and (all_of_them or ended > self._words[_ENDED_LIMIT]):
            self._ended.append(self._all_ended[:ended].copy())
            self._words[_ENDED] = 0
        if arrived and (all_of_them or arrived > ARRIVED_LIMIT):
            self._arrived.append(self._all_arrived[:arrived].copy())
            self._words[_ARRIVED] = 0

    def _count_drops(self) -> None:
        counts = self._state.drops
        if counts.any():
            for number in counts.nonzero()[0].tolist():
                self.drops[DROPS[number]] += int(counts[number])
            counts[:] = 0
