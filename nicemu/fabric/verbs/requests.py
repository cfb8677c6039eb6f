# SPDX-License-Identifier: Apache-2.0
"""Work requests for a device, made once and filled in for every post.

Making an object of pyverbs costs more than posting it does, and pyverbs gives the memory of none back: its
work requests and pieces are freed by `close` alone. A device has taken what it needs of a request when the
call that posts it returns, so that one request of each shape is enough.
Sources: ibv_post_send(3), ibv_post_recv(3); pyverbs of rdma-core 44, "wr.pyx".
"""

from __future__ import annotations

from typing import Any

from .library import Pyverbs

RECEIVE_ID, SEND_ID = 0, 1
"""wr_ids for the device: what ends, ends in order, and the opcode of a completion in error means nothing."""
MAX_KEPT = 1024
"""Requests of several pieces, and receives, that are kept: pyverbs lets nobody fill those in again."""

Handle = Any
"""An object of pyverbs, which has no types."""
Piece = tuple[int, int, int]
"""Address, length and lkey, as the device has them."""


class Requests:
    """The work requests and receives of one device."""

    def __init__(self, verbs: Pyverbs) -> None:
        self._wr = verbs.wr
        self._signaled = verbs.enums.IBV_SEND_SIGNALED
        self._piece: Handle = verbs.wr.SGE(0, 0, 0)
        self._request: Handle = self._make([self._piece])
        self._request.sg_list = self._piece  # from here on what the piece says counts
        self._gathered: dict[tuple[Piece, ...], list[Handle]] = {}
        self._receives: dict[Piece, list[Handle]] = {}

    def _make(self, pieces: list[Handle]) -> Handle:
        return self._wr.SendWR(wr_id=SEND_ID, num_sge=len(pieces), sg=pieces, send_flags=self._signaled)

    def request(self, opcode: int, pieces: list[Piece]) -> Handle:
        """Return a signaled request of that opcode with these pieces; it is good until the next call."""
        if len(pieces) == 1:
            piece, request = self._piece, self._request
            piece.addr, piece.length, piece.lkey = pieces[0]
        else:
            known = tuple(pieces)
            if known not in self._gathered:
                made = [self._wr.SGE(*piece) for piece in pieces]
                _keep(self._gathered, known, [self._make(made), *made])
            request = self._gathered[known][0]
        request.opcode = opcode
        return request

    def receive(self, piece: Piece) -> Handle:
        """Return a receive into a piece."""
        if piece not in self._receives:
            made = self._wr.SGE(*piece)
            receive = self._wr.RecvWR(wr_id=RECEIVE_ID, num_sge=1, sg=[made])
            _keep(self._receives, piece, [receive, made])
        return self._receives[piece][0]


def _keep(kept: dict[Any, list[Handle]], key: object, made: list[Handle]) -> None:
    """Keep what was made; what is the oldest goes, and its memory, when there is too much."""
    if len(kept) >= MAX_KEPT:
        for handle in kept.pop(next(iter(kept))):
            handle.close()
    kept[key] = made
