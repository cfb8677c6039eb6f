# SPDX-License-Identifier: Apache-2.0
"""RoCEv2 connections and datagrams, sans-IO: work and frames in; frames, completions and arrivals out.

What happens is written as hot functions over arrays (`roce_batch` and what it uses); this is their face.
Source: InfiniBand Architecture Specification Volume 1, "Transport Layer"; Annex A17, "RoCEv2".
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from operator import index
from typing import Any

import numpy as np

from nicemu.abi import MAX_SGE, Opcode, Sge, WorkRequest
from nicemu.arguments import check_type, check_whole
from nicemu.errors import UsageError
from nicemu.hot import Records

from . import roce_batch
from .dcqcn import Dcqcn
from .queue_pair import (
    SENDING,
    AccessError,
    Arrival,
    ArrivalKind,
    Completion,
    Datagram,
    QpState,
    QpType,
    RemoteQp,
    check_destination,
)
from .roce_lists import first_deadline
from .roce_pairs import RocePairs, as_interpreted
from .roce_reports import WORD
from .roce_state import LONGEST_FRAME_BYTES, NONE, POSTED
from .state import RdmaState, new_state

_OUT_BYTES, _OUT_FRAMES = 1 << 19, 2048
DEFAULT_DCQCN = Dcqcn()
_MISFITS = (AttributeError, TypeError, ValueError, OverflowError)
_WORK = "a WorkRequest(opcode, sges, ...)"
_MASK_32, _MASK_64 = (1 << 32) - 1, (1 << 64) - 1
LATEST_NS = 1 << 62
"""The end of time: 146 years."""
_ACTIVE, _TIMERS = WORD["active_head"], WORD["timer_count"]
_ENDED, _ENDED_LIMIT = WORD["ended_count"], WORD["ended_limit"]


class RoceEngine(RocePairs):
    """The RoCEv2 transport of one NIC with address `mac` and `ip`, over the memory that `rdma` registers.

    Frames are made when they are taken, so after every way in (`post_send`, `on_frame`, `on_timer`) take
    frames, then completions and arrivals. `drops` counts under a name each whatever was not accepted from
    the wire. `dcqcn` is what queue pairs with congestion control go by. `compiled=False` runs the source
    without the JIT.
    """

    def __init__(
        self,
        rdma: RdmaState,
        mac: bytes,
        ip: str,
        rng: random.Random,
        drops: Counter[str],
        *,
        dcqcn: Dcqcn = DEFAULT_DCQCN,
        compiled: bool = True,
    ) -> None:
        super().__init__(rdma, mac, ip, rng, drops, dcqcn)
        self._work = np.zeros(1, POSTED).view(np.recarray)
        self._out = np.empty(_OUT_BYTES, np.uint8)
        self._out_places = np.empty(_OUT_FRAMES, np.int64), np.empty(_OUT_FRAMES, np.int64)
        as_it_runs: Callable[..., Any] = (lambda function: function) if compiled else as_interpreted
        self._take_in, self._give_out = as_it_runs(roce_batch.take_in), as_it_runs(roce_batch.give_out)
        self._post, self._receive = as_it_runs(roce_batch.post), as_it_runs(roce_batch.receive)
        self._run_timers, self._first_deadline = as_it_runs(roce_batch.run_timers), as_it_runs(first_deadline)

    # Work

    def post_send(
        self,
        qp_num: int,
        work: WorkRequest,
        context: int,
        now_ns: int,
        *,
        to: Datagram | None = None,
    ) -> bool:
        """Post work; False if the send queue is full. In an error state it completes with WR_FLUSH_ERR.

        A SEND of a queue pair of type UD says whom it goes `to`, and completes when its packet is made.
        Raises: UsageError if there is no such queue pair, or it is not ready to send, or `to` is missing or
        not wanted, or a value does not fit.
        """
        state = self.state(qp_num)
        if state not in SENDING and state not in (QpState.ERR, QpState.SQE):
            raise UsageError(f"queue pair {qp_num} is in {state.name}; modify it to RTS before posting sends")
        qp_type = self._attributes[qp_num].qp_type
        if (qp_type is QpType.UD) != (to is not None):
            cure = "leave out to=" if to is not None else "pass to=Datagram(handle, qp_num, q_key)"
            raise UsageError(
                f"queue pair {qp_num} is of type {qp_type.name}; type UD alone says whom `to`: {cure}"
            )
        if to is not None:
            check_type("work", work, WorkRequest, _WORK)
            check_destination(to)
            self._check_handle(to.handle)
            work = replace(work, remote_address=to.handle, rkey=to.q_key, compare_add=to.qp_num)
        try:
            self._work[0] = (
                index(context),
                index(work.wr_id),
                *_pieces(work.sges),
                work.remote_address & _MASK_64,
                work.compare_add & _MASK_64,
                work.swap & _MASK_64,
                work.rkey & _MASK_32,
                work.imm_data & _MASK_32,
                qp_num,
                work.opcode,
                min(len(work.sges), MAX_SGE + 1),
            )
        except _MISFITS as error:
            _check_work(work, context)
            raise UsageError(f"{work!r} cannot be posted: {error}") from error
        return self.post_many(self._work, now_ns) == 1

    def post_many(self, works: Records, now_ns: int) -> int:
        """Post work, POSTED records, in order, until one is refused; return how many were not.

        Refused is what finds no queue pair, or one that is not ready to send or whose send queue is full.
        """
        _check_now(now_ns)
        self._keep_reports()
        first = 0
        while True:
            posted = int(self._post(self._state, works, first, now_ns))
            if posted == len(works) or self._words[_ENDED] <= self._words[_ENDED_LIMIT]:
                return posted
            first = posted
            self._keep_reports()

    def post_receive(self, qp_num: int, wr_id: int, sges: Sequence[Sge] = ()) -> bool:
        """Post a receive of up to MAX_SGE pieces; False if the receive queue is full.

        Raises: UsageError if there is no such queue pair, it is in RESET, there are more pieces, or a value
        does not fit.
        """
        if self.state(qp_num) is QpState.RESET:
            raise UsageError(f"queue pair {qp_num} is in RESET; modify it to INIT to post receives")
        try:
            if len(sges) > MAX_SGE:
                raise UsageError(f"a receive of {len(sges)} pieces; at most {MAX_SGE} are allowed")
            self._work[0] = (0, index(wr_id), *_pieces(sges), 0, 0, 0, 0, 0, qp_num, Opcode.RECV, len(sges))
        except _MISFITS as error:
            check_whole("wr_id", wr_id, 0, _MASK_64)
            _check_pieces(sges)
            raise UsageError(f"a receive of {sges!r} cannot be posted: {error}") from error
        self._keep_reports()
        return int(self._receive(self._state, self._work, 0)) == 1

    # Frames

    def on_frame(self, frame: bytes | memoryview, now_ns: int) -> None:
        """Take a whole Ethernet frame; nothing in it makes this raise.

        The frame is not kept: its memory may be reused afterwards.
        """
        self.on_frames([frame], now_ns)

    def on_frames(self, frames: Sequence[bytes | memoryview], now_ns: int) -> None:
        """As `on_frame`, of several frames in order."""
        lengths = np.fromiter(map(len, frames), np.int64, len(frames))
        offsets = np.cumsum(lengths) - lengths
        joined = frames[0] if len(frames) == 1 else b"".join(frames)
        memory = np.frombuffer(joined if len(joined) else b"\0", np.uint8)
        self.on_memory(memory.ctypes.data, offsets, lengths, now_ns)

    def on_memory(
        self, address: int, offsets: np.ndarray[Any, Any], lengths: np.ndarray[Any, Any], now_ns: int
    ) -> None:
        """As `on_frames`, of frames that lie at `offsets` from a raw address (int64 both)."""
        _check_now(now_ns)
        done = 0
        while True:
            done = int(self._take_in(self._state, address, offsets, lengths, done, now_ns))
            self._count_drops()
            if done == len(offsets):
                return
            self._keep_reports(all_of_them=True)

    def take_frames(self, limit: int | None = None) -> list[bytes]:
        """Return frames to send now, at most `limit`; what is over is made at the next call."""
        frames: list[bytes] = []
        offsets, lengths = self._out_places
        while self._words[_ACTIVE] != NONE and (limit is None or len(frames) < limit):
            left = _MASK_32 if limit is None else limit - len(frames)
            count = self.frames_into(self._out, offsets, lengths, left)
            places = zip(offsets[:count].tolist(), lengths[:count].tolist(), strict=True)
            frames += [self._out[offset : offset + length].tobytes() for offset, length in places]
        return frames

    def frames_into(
        self,
        memory: np.ndarray[Any, Any],
        offsets: np.ndarray[Any, Any],
        lengths: np.ndarray[Any, Any],
        limit: int = _MASK_32,
    ) -> int:
        """Make frames to send now in `memory` (bytes), their places in `offsets` and `lengths`; return how
        many.

        At most `limit`, and what there is room for; what is over is made at the next call.
        """
        self._keep_reports()
        address, room = memory.ctypes.data, len(memory)
        made = self._give_out(self._state, address, room, LONGEST_FRAME_BYTES, offsets, lengths, limit)
        self._count_drops()
        return int(made)

    # Time

    def on_timer(self, now_ns: int) -> None:
        """Let every queue pair whose deadline has passed retry.

        Raises: UsageError if the time is no whole number of nanoseconds.
        """
        _check_now(now_ns)
        self._keep_reports()
        while self._run_timers(self._state, now_ns):
            self._keep_reports()

    def next_deadline_ns(self) -> int | None:
        """When `on_timer` wants to be called; None while nothing is waited for."""
        if self._words[_TIMERS] == 0:
            return None
        deadline_ns = int(self._first_deadline(self._state))
        return None if deadline_ns == NONE else deadline_ns


def load_engine() -> None:
    """Run every compiled way into an engine, and out, once: what is not compiled yet is, and all is loaded.

    An engine sends itself a message.
    """
    engine = RoceEngine(new_state(0), bytes(6), "127.0.0.1", random.Random(0), Counter())
    engine.create_qp(1, 0)
    own = engine.local(1)
    engine.modify(1, QpState.INIT)
    engine.modify(1, QpState.RTR, remote=own)
    engine.modify(1, QpState.RTS)
    engine.post_receive(1, 0)
    engine.post_send(1, WorkRequest(Opcode.SEND), 0, 0)
    while frames := engine.take_frames():
        engine.on_frames(frames, 0)
    engine.next_deadline_ns()
    engine.on_timer(0)


def _check_now(now_ns: int) -> None:
    if not isinstance(now_ns, int) or not 0 <= now_ns <= LATEST_NS:
        check_whole("now_ns", now_ns, 0, LATEST_NS)


def _check_work(work: WorkRequest, context: int) -> None:
    """Raise UsageError that says why work fits no record."""
    check_type("work", work, WorkRequest, _WORK)
    check_whole("context", context, 0, _MASK_64)
    check_whole("wr_id", work.wr_id, 0, _MASK_64)
    check_whole("opcode", work.opcode, 0, 255)
    for name in ("remote_address", "compare_add", "swap", "rkey", "imm_data"):
        check_type(name, getattr(work, name), int, "a whole number")
    _check_pieces(work.sges)


def _check_pieces(sges: Sequence[Sge]) -> None:
    check_type("sges", sges, Sequence, "a tuple of pieces, Sge(address, length, lkey)")
    for piece in sges:
        check_type("a piece", piece, Sge, "Sge(address, length, lkey)")
        check_whole("address of a piece", piece.address, 0, _MASK_64)
        check_whole("length of a piece", piece.length, 0, _MASK_64 >> 1)
        check_whole("lkey of a piece", piece.lkey, 0, _MASK_32)


def _pieces(sges: Sequence[Sge]) -> tuple[int, ...]:
    """Return address and length of the first pieces, then their keys, as POSTED has them."""
    pieces = [*sges[:MAX_SGE], *[Sge(0, 0, 0)] * (MAX_SGE - len(sges))]
    return (
        *[n for piece in pieces for n in (piece.address, piece.length)],
        *[piece.lkey for piece in pieces],
    )


__all__ = [
    "AccessError",
    "Arrival",
    "ArrivalKind",
    "Completion",
    "Datagram",
    "QpState",
    "QpType",
    "RemoteQp",
    "RoceEngine",
]
