# SPDX-License-Identifier: Apache-2.0
"""Reliable connections over RoCEv2, sans-IO: work and frames in; frames, completions and arrivals out.

What happens is written as hot functions over arrays (`roce_batch` and what it uses); this is their face.
Source: InfiniBand Architecture Specification Volume 1, "Transport Layer"; Annex A17, "RoCEv2".
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from nicemu.abi import MAX_SGE, Opcode, Sge, WorkRequest, registers
from nicemu.errors import UsageError, VerbsStatus
from nicemu.hot import Records, interpreted
from nicemu.wire import PSN_BITS, PSN_MASK, TEMPLATE_BYTES, make_template, parse_ipv4, rnr_timer_code

from . import roce_batch
from .queue_pair import (
    SENDING,
    AccessError,
    Arrival,
    ArrivalKind,
    Completion,
    QpAttributes,
    QpState,
    RemoteQp,
    check_remote,
    check_transition,
)
from .requester import reset_requester
from .responder_lists import drop_receives, reset_responder
from .roce_error import enter_error
from .roce_lists import activate, deactivate, first_deadline
from .roce_state import (
    DROPS,
    ENGINE,
    MAX_WAITING_ANSWERS,
    NONE,
    POSTED,
    QUEUE_PAIR,
    RoceState,
    grown,
    name_queue_pair,
    new_roce_state,
)
from .state import RdmaState, new_state

LONGEST_FRAME_BYTES = 4352
"""Room that a frame of the largest path MTU needs."""
_OUT_BYTES, _OUT_FRAMES = 1 << 19, 2048
_MASK_32, _MASK_64 = (1 << 32) - 1, (1 << 64) - 1
_STATES, _CODES = list(QpState), {state: code for code, state in enumerate(QpState)}
_KINDS = list(ArrivalKind)
_LINKS = ("send_head", "send_tail", "receive_head", "receive_tail", "answer_head", "answer_tail")
_WORD = {name: number for number, name in enumerate(ENGINE.names or ())}
_ACTIVE, _TIMERS = _WORD["active_head"], _WORD["timer_count"]
_ENDED, _ENDED_LIMIT, _ARRIVED = _WORD["ended_count"], _WORD["ended_limit"], _WORD["arrived_count"]
_interpreted = cache(interpreted)
_reset_requester, _reset_responder = _interpreted(reset_requester), _interpreted(reset_responder)
_drop_receives, _enter_error = _interpreted(drop_receives), _interpreted(enter_error)
_activate, _deactivate = _interpreted(activate), _interpreted(deactivate)


class RoceEngine:
    """The RoCEv2 transport of one NIC with address `mac` and `ip`, over the memory that `rdma` registers.

    Frames are made when they are taken, so after every way in (`post_send`, `on_frame`, `on_timer`) take
    frames, then completions and arrivals. `drops` counts under a name each whatever was not accepted from
    the wire. `compiled=False` runs the source without the JIT.
    """

    def __init__(
        self,
        rdma: RdmaState,
        mac: bytes,
        ip: str,
        rng: random.Random,
        drops: Counter[str],
        *,
        compiled: bool = True,
    ) -> None:
        self._mac = mac
        self._ip = ip
        self._address = parse_ipv4(ip)
        self._rng = rng
        self.drops = drops
        """What was not accepted from the wire, by name."""
        table = int(rdma.public[0]) + registers.REGION_TABLE
        address = int.from_bytes(self._address, "big")
        self._hold(new_roce_state(table, rdma.backings, address))
        self._templates: np.ndarray[Any, Any] = np.zeros(0, np.uint8)
        self._indices: dict[int, int] = {}
        self._attributes: dict[int, QpAttributes] = {}
        self._free: list[int] = []
        self._created = self._sends = self._receives = 0
        self._work = np.zeros(1, POSTED).view(np.recarray)
        self._out = np.empty(_OUT_BYTES, np.uint8)
        self._out_places = np.empty(_OUT_FRAMES, np.int64), np.empty(_OUT_FRAMES, np.int64)
        self._ended: list[Records] = []
        self._arrived: list[Records] = []
        as_it_runs: Callable[..., Any] = (lambda function: function) if compiled else _interpreted
        self._take_in, self._give_out = as_it_runs(roce_batch.take_in), as_it_runs(roce_batch.give_out)
        self._post, self._receive = as_it_runs(roce_batch.post), as_it_runs(roce_batch.receive)
        self._run_timers, self._first_deadline = as_it_runs(roce_batch.run_timers), as_it_runs(first_deadline)

    def _hold(self, state: RoceState) -> None:
        self._state = state
        self._words = state.engine.view(np.int64)

    # Queue pairs

    def create_qp(
        self,
        qp_num: int,
        pd: int,
        *,
        path_mtu: int = 1024,
        send_queue_depth: int = 128,
        receive_queue_depth: int = 128,
        retry_count: int = 7,
        rnr_retry: int = 7,
        timeout_ns: int = 67_108_864,
        min_rnr_timer_ns: int = 640_000,
        implicit_receives: bool = False,
    ) -> None:
        """Create a queue pair in RESET, with a random first PSN; the attributes are those of QpAttributes.

        Raises: UsageError if the number is taken or no 24-bit number, or an attribute is out of range.
        """
        if not 0 <= qp_num < 1 << 24 or qp_num in self._indices:
            raise UsageError(f"queue pair number {qp_num:#x} is taken or has more than 24 bits")
        attributes = QpAttributes(
            pd,
            path_mtu,
            send_queue_depth,
            receive_queue_depth,
            retry_count,
            rnr_retry,
            timeout_ns,
            min_rnr_timer_ns,
            implicit_receives,
        )
        is_new = not self._free
        index = len(self._indices) if is_new else self._free.pop()
        self._indices[qp_num], self._attributes[qp_num] = index, attributes
        self._make_room(qp_num, index)
        pair = self._state.queue_pairs[index]
        timer_place = NONE if is_new else int(pair.timer_place)
        self._state.queue_pairs[index] = np.zeros((), QUEUE_PAIR)
        self._created += 1
        pair.number, pair.pd, pair.path_mtu, pair.timeout_ns = qp_num, pd, path_mtu, timeout_ns
        pair.sequence, pair.timer_place = self._created, timer_place  # an old entry of the heap may be left
        pair.send_depth, pair.receive_depth = send_queue_depth, receive_queue_depth
        pair.retry_count, pair.rnr_retry = retry_count, rnr_retry
        pair.rnr_timer, pair.implicit_receives = rnr_timer_code(min_rnr_timer_ns), implicit_receives
        for link in _LINKS:
            pair[link] = NONE
        _reset_requester(self._state, pair, self._rng.getrandbits(PSN_BITS))
        _reset_responder(self._state, pair, 0)

    def _make_room(self, qp_num: int, index: int) -> None:
        """Have room for one more queue pair and all that it may hold, and let its number name it."""
        attributes = self._attributes[qp_num]
        self._sends += attributes.send_queue_depth
        self._receives += attributes.receive_queue_depth
        count = max(len(self._indices), index + 1)
        state = grown(self._state, count, self._sends, self._receives, count * MAX_WAITING_ANSWERS)
        pairs = len(state.queue_pairs)
        if len(self._templates) < pairs * TEMPLATE_BYTES:
            templates = np.zeros(pairs * TEMPLATE_BYTES, np.uint8)
            templates[: len(self._templates)] = self._templates
            self._templates = templates
            state.engine["templates"] = templates.ctypes.data
        self._hold(name_queue_pair(state, qp_num, index))

    def modify(
        self, qp_num: int, state: QpState, *, remote: RemoteQp | None = None, sq_psn: int | None = None
    ) -> None:
        """Move a queue pair to `state`; RTR needs `remote`, and RTS from RTR may set the first PSN, `sq_psn`.

        Going to ERR flushes both queues; going to RESET forgets them and draws a new first PSN.
        Raises: UsageError if the transition is not allowed or a value is missing or wrong; nothing is
        changed.
        """
        index = self._find(qp_num)
        pair = self._state.queue_pairs[index]
        before = _STATES[pair.state]
        address = template = b""
        if state is QpState.RTR:
            if remote is None:
                raise UsageError(
                    f"queue pair {qp_num} cannot go to RTR without its peer; pass remote=RemoteQp(...)"
                )
            check_remote(remote)
            address = parse_ipv4(remote.ip)
            template = make_template(self._mac, remote.mac, self._address, address)
        elif remote is not None:
            raise UsageError(f"the peer of queue pair {qp_num} is set on the way to RTR, not to {state.name}")
        starts = state is QpState.RTS and before is QpState.RTR
        if sq_psn is not None and (not starts or not 0 <= sq_psn < 1 << PSN_BITS):
            raise UsageError(f"sq_psn {sq_psn:#x} is a 24-bit number, set on the way from RTR to RTS")
        check_transition(qp_num, before, state)
        pair.state = _CODES[state]
        if state is QpState.ERR:
            self._keep_reports()
            _enter_error(self._state, index)
        elif state is QpState.RESET:
            self._forget(index)
            _reset_requester(self._state, pair, self._rng.getrandbits(PSN_BITS))
        elif remote is not None:
            pair.remote_number, pair.peer_address = remote.qp_num, int.from_bytes(address, "big")
            place = index * TEMPLATE_BYTES
            self._templates[place : place + TEMPLATE_BYTES] = np.frombuffer(template, np.uint8)
            _reset_responder(self._state, pair, remote.psn)
        elif state is QpState.RTS:
            if sq_psn is not None:
                _reset_requester(self._state, pair, sq_psn)
            _activate(self._state, index)

    def _forget(self, index: int) -> None:
        """Drop all that a queue pair holds, without completions."""
        pair = self._state.queue_pairs[index]
        _reset_requester(self._state, pair, 0)
        _reset_responder(self._state, pair, 0)
        _drop_receives(self._state, pair)
        _deactivate(self._state, index)

    def destroy_qp(self, qp_num: int) -> None:
        """Remove a queue pair; its work goes without completions, as ibv_destroy_qp(3) says.

        Raises: UsageError if there is none of this number.
        """
        index = self._find(qp_num)
        self._forget(index)
        attributes = self._attributes.pop(qp_num)
        self._sends -= attributes.send_queue_depth
        self._receives -= attributes.receive_queue_depth
        self._hold(name_queue_pair(self._state, qp_num, NONE))
        del self._indices[qp_num]
        self._free.append(index)

    def state(self, qp_num: int) -> QpState:
        """Return the state of a queue pair."""
        code = int(self._state.queue_pairs[self._find(qp_num)].state)
        return _STATES[code]

    def local(self, qp_num: int) -> RemoteQp:
        """Return what a peer has to know to connect to this queue pair."""
        psn = int(self._state.queue_pairs[self._find(qp_num)].next_psn) & PSN_MASK
        return RemoteQp(self._mac, self._ip, qp_num, psn)

    # Work

    def post_send(self, qp_num: int, work: WorkRequest, context: int, now_ns: int) -> bool:
        """Post work; False if the send queue is full. In an error state it completes with WR_FLUSH_ERR.

        Raises: UsageError if there is no such queue pair, or it is not ready to send.
        """
        state = self.state(qp_num)
        if state not in SENDING and state not in (QpState.ERR, QpState.SQE):
            raise UsageError(f"queue pair {qp_num} is in {state.name}; modify it to RTS before posting sends")
        self._work[0] = (
            context,
            work.wr_id,
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
        return self.post_many(self._work, now_ns) == 1

    def post_many(self, works: Records, now_ns: int) -> int:
        """Post work, POSTED records, in order, until one is refused; return how many were not.

        Refused is what finds no queue pair, or one that is not ready to send or whose send queue is full.
        """
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

        Raises: UsageError if there is no such queue pair, it is in RESET, or there are more pieces.
        """
        if self.state(qp_num) is QpState.RESET:
            raise UsageError(f"queue pair {qp_num} is in RESET; modify it to INIT to post receives")
        if len(sges) > MAX_SGE:
            raise UsageError(f"a receive of {len(sges)} pieces; at most {MAX_SGE} are allowed")
        self._work[0] = (0, wr_id, *_pieces(sges), 0, 0, 0, 0, 0, qp_num, Opcode.RECV, len(sges))
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
        """Let every queue pair whose deadline has passed retry."""
        self._keep_reports()
        while self._run_timers(self._state, now_ns):
            self._keep_reports()

    def next_deadline_ns(self) -> int | None:
        """When `on_timer` wants to be called; None while nothing is waited for."""
        if self._words[_TIMERS] == 0:
            return None
        deadline_ns = int(self._first_deadline(self._state))
        return None if deadline_ns == NONE else deadline_ns

    # What happened

    def take_completions(self) -> list[Completion]:
        """Return the completions since the last call, oldest first."""
        return [
            Completion(context, number, VerbsStatus(status), Opcode(opcode), byte_len, wr_id)
            for context, wr_id, byte_len, number, status, opcode in self.take_ended().tolist()
        ]

    def take_arrivals(self) -> list[Arrival]:
        """Return the arrivals since the last call, oldest first."""
        return [
            Arrival(number, _KINDS[kind], byte_len, imm_data if has_imm else None, rkey, wr_id)
            for byte_len, wr_id, rkey, imm_data, number, kind, has_imm in self.take_arrived().tolist()
        ]

    def take_ended(self) -> Records:
        """Return the completions since the last call, oldest first, as ENDED records."""
        self._keep_reports(all_of_them=True)
        taken, self._ended = self._ended, []
        return np.concatenate(taken) if taken else self._state.ended[:0]

    def take_arrived(self) -> Records:
        """Return the arrivals since the last call, oldest first, as ARRIVED records."""
        self._keep_reports(all_of_them=True)
        taken, self._arrived = self._arrived, []
        return np.concatenate(taken) if taken else self._state.arrived[:0]

    @property
    def has_reports(self) -> bool:
        """Whether there are completions or arrivals to take."""
        words = self._words
        return bool(self._ended or self._arrived or words[_ENDED] or words[_ARRIVED])

    def _keep_reports(self, *, all_of_them: bool = False) -> None:
        """Put aside what has been reported, so that there is room for more."""
        ended, arrived = int(self._words[_ENDED]), int(self._words[_ARRIVED])
        if ended and (all_of_them or ended > self._words[_ENDED_LIMIT]):
            self._ended.append(self._state.ended[:ended].copy())
            self._words[_ENDED] = 0
        if arrived and (all_of_them or arrived == len(self._state.arrived)):
            self._arrived.append(self._state.arrived[:arrived].copy())
            self._words[_ARRIVED] = 0

    def _count_drops(self) -> None:
        counts = self._state.drops
        if counts.any():
            for number in counts.nonzero()[0].tolist():
                self.drops[DROPS[number]] += int(counts[number])
            counts[:] = 0

    def _find(self, qp_num: int) -> int:
        index = self._indices.get(qp_num)
        if index is None:
            raise UsageError(f"there is no queue pair {qp_num:#x}; create it first")
        return index


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
    "QpState",
    "RemoteQp",
    "RoceEngine",
]
