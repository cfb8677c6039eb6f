# SPDX-License-Identifier: Apache-2.0
"""State of a RoCEv2 engine as arrays: queue pairs, what is posted, what has to be answered, what has ended.

What is posted and what has to be answered are lists in pools that all queue pairs share, so that memory
that was just used is used again; each queue pair has its own bound. Numbers are signed 64-bit, so that they
mix with plain integers; keys, addresses that work names and what work carries are not.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nicemu.hot import Records
from nicemu.wire import FRAME_REFUSALS

from .dcqcn import SETTINGS

NONE = -1
RESET, INIT, RTR, RTS, SQD, SQE, ERR = range(7)
"""States, in the order of QpState."""

MAX_RD_ATOMIC = 16
"""READ and atomic requests that may be unanswered at once, and atomic results kept for replay."""
MAX_WAITING_ANSWERS = 256
"""Answers of a queue pair that may wait to be sent before requests are dropped (they will be repeated)."""
HANDLE_BYTES = 64
SELECTIVE_PACKETS = 64
"""Packets behind a missing one that a selective acknowledgement tells of, and that are kept at most."""
HELD_FRAMES = 4096
"""Frames that an engine keeps at most, for all its queue pairs."""
LONGEST_FRAME_BYTES = 4352
"""Room that a frame of the largest path MTU needs."""
NUMBER_PAGES, NUMBERS_OF_PAGE = 1 << 12, 1 << 12
"""Queue pair numbers have 24 bits: a page is named by the high ones, a place on it by the low ones."""

IS_DATAGRAM, IS_SELECTIVE, HAS_CONGESTION_CONTROL = 1, 2, 4
"""Features of a queue pair: it is of type UD; packets behind a lost one are kept; DCQCN is on."""
IS_LIMITED, HAS_SACKS, HAS_HELD = 8, 16, 32
"""What it has just now: a rate to keep, packets known to be missing, frames behind a gap. All stand together,
so that a frame of a queue pair that has none of them costs one look.
"""
QUEUE_PAIR = np.dtype(
    [
        # Attributes, fixed at creation
        ("number", "i8"),
        ("pd", "u4"),
        ("path_mtu", "i4"),
        ("timeout_ns", "i8"),
        ("sequence", "i8"),  # queue pairs are told apart by age, where several are due at once
        ("send_depth", "i4"),
        ("receive_depth", "i4"),
        ("retry_count", "i4"),
        ("rnr_retry", "i4"),
        ("features", "i4"),  # what most have not: IS_DATAGRAM and so on
        ("implicit_receives", "i4"),
        # The connection
        ("state", "i4"),
        ("active", "i4"),
        ("active_next", "i4"),
        ("active_prev", "i4"),
        ("peer_address", "i8"),
        ("remote_number", "i8"),
        # Requester: packets are counted without end, only the wire sees 24 bits of them
        ("next_psn", "i8"),  # the next message's first packet
        ("unanswered_psn", "i8"),  # the oldest packet without an answer
        ("send_psn", "i8"),  # the next packet to send or to repeat
        ("sent_end_psn", "i8"),  # first packet never sent so far
        ("gap_psn", "i8"),  # where an answer was missed and asked for again, or NONE
        ("deadline_ns", "i8"),
        ("wait_until_ns", "i8"),  # a receiver-not-ready NAK asked for it
        ("send_head", "i4"),
        ("send_tail", "i4"),
        ("cursor", "i4"),  # the message that holds send_psn, or NONE
        ("send_count", "i4"),
        ("data_awaited", "i4"),  # READs and atomics before the cursor
        ("retries_left", "i4"),
        ("rnr_retries_left", "i4"),
        ("timer_place", "i4"),  # in the heap of deadlines, or NONE
        # Responder
        ("expected_psn", "i8"),
        ("msn", "i8"),
        ("incoming", "i4"),  # kind of the message of which not all packets are here, or NONE
        ("incoming_receive", "i4"),  # the receive that an incoming SEND fills
        ("incoming_done", "i8"),
        ("incoming_address", "u8"),
        ("incoming_length", "i8"),
        ("incoming_rkey", "u4"),
        ("gap_answered", "i4"),
        ("receive_head", "i4"),
        ("receive_tail", "i4"),
        ("receive_count", "i4"),
        ("answer_head", "i4"),
        ("answer_tail", "i4"),
        ("answer_count", "i4"),
        ("reads_waiting", "i4"),
        ("replay_count", "i8"),
        ("rnr_timer", "i4"),  # code of the wait that a peer is asked for
        ("extra", "i4"),  # where its features are kept, or NONE
    ],
    align=True,
)
EXTRA = np.dtype(
    [
        ("q_key", "u4"),
        # Selective retransmission
        ("held_head", "i4"),
        ("sacked", "u8"),  # bit n: packet n + 1 behind the oldest one without an answer has arrived
        ("sack_end_psn", "i8"),  # behind the last of them
        ("resend_psn", "i8"),  # where to look for the next packet that is missing
        ("pass_end_psn", "i8"),  # first packet never sent when the missing ones began to be sent again
        # Congestion control
        ("notified", "i4"),  # there has been a CNP
        ("cnp_after_ns", "i8"),  # no CNP is sent before
        ("pace_ns", "i8"),  # when the next frame may be made
        ("paced_until_ns", "i8"),  # the same, where a frame waits for it, or NONE
        ("rate", "f8"),  # bytes a nanosecond
        ("target_rate", "f8"),
        ("alpha", "f8"),
        ("alpha_at_ns", "i8"),
        ("increase_at_ns", "i8"),
        ("byte_stage", "i8"),
        ("time_stage", "i8"),
        ("bytes_left", "i8"),
    ],
    align=True,
)
"""What queue pairs with features have beside; others have none, so that many of them lie close together."""
WORK_FIELDS = [
    ("context", "u8"),
    ("wr_id", "u8"),
    ("address0", "u8"),
    ("length0", "i8"),
    ("address1", "u8"),
    ("length1", "i8"),
    ("lkey0", "u4"),
    ("lkey1", "u4"),
    ("remote_address", "u8"),
    ("compare_add", "u8"),
    ("swap", "u8"),
    ("rkey", "u4"),
    ("imm_data", "u4"),
    ("number", "u4"),  # of the queue pair that it is posted to
    ("opcode", "u1"),
    ("sge_count", "u1"),
]
POSTED = np.dtype(WORK_FIELDS, align=True)
"""Work, or a receive, as it is posted.

What a queue pair of type UD sends names no memory: `remote_address` is the address handle, `rkey` the Q_Key,
and `compare_add` the queue pair there, as in the union of ibv_post_send(3).
"""
SEND = np.dtype(
    [
        *WORK_FIELDS,
        ("kind", "u1"),
        ("error", "u1"),  # a VerbsStatus where the work cannot be sent, else 0
        ("first_psn", "i8"),
        ("end_psn", "i8"),
        ("length", "i8"),
        ("next", "i4"),
    ],
    align=True,
)
"""Posted work and the packets it takes: [first_psn, end_psn)."""
RECEIVE = np.dtype(
    [
        ("wr_id", "u8"),
        ("address0", "u8"),
        ("length0", "i8"),
        ("address1", "u8"),
        ("length1", "i8"),
        ("lkey0", "u4"),
        ("lkey1", "u4"),
        ("sge_count", "i4"),
        ("next", "i4"),
    ],
    align=True,
)
ANSWER = np.dtype(
    [
        ("psn", "i8"),  # of a READ's next response
        ("first_psn", "i8"),  # of a READ: the packet that `address` belongs to
        ("end_psn", "i8"),
        ("address", "u8"),
        ("dma_length", "i8"),
        ("whole_length", "i8"),  # of a READ, also where only its end was asked for again
        ("original", "u8"),  # what an atomic found; of a selective acknowledgement, the packets that are here
        ("rkey", "u4"),
        ("syndrome", "i4"),
        ("msn", "i8"),
        ("next", "i4"),
        ("kind", "u1"),
        ("coalesces", "u1"),
        ("reported", "u1"),
    ],
    align=True,
)
ANSWER_ACK, ANSWER_ATOMIC, ANSWER_READ, ANSWER_SELECTIVE, ANSWER_CNP = range(5)
TIMER_KEY, TIMER_PAIR, TIMER_DUE = range(3)
"""Columns of `timers`."""
HELD_PSN, HELD_NEXT = range(2)
"""Columns of `held`."""
REPLAY = np.dtype([("psn", "i8"), ("original", "u8"), ("msn", "i8")])
ENDED = np.dtype(
    [
        ("context", "u8"),
        ("wr_id", "u8"),
        ("byte_len", "i8"),
        ("number", "u4"),
        ("status", "u1"),
        ("opcode", "u1"),
    ],
    align=True,
)
"""The end of posted work, or of a receive that did not end well."""
ARRIVED = np.dtype(
    [
        ("byte_len", "i8"),
        ("wr_id", "u8"),
        ("rkey", "u4"),
        ("imm_data", "u4"),
        ("number", "u4"),
        ("source_qp", "u4"),  # of a datagram alone: who sent it, and from which IPv4 address
        ("source_address", "u4"),
        ("kind", "u1"),
        ("has_imm", "u1"),
    ],
    align=True,
)
"""A message that a peer has completed here."""
WRITE, WRITE_WITH_IMM, SENT, SENT_WITH_IMM, READ, ATOMIC, DATAGRAM, DATAGRAM_WITH_IMM = range(8)
"""Kinds of arrival, in the order of ArrivalKind."""
ENGINE = np.dtype(
    [
        (name, "i8")
        for name in (
            "address",  # IPv4, of this NIC
            "regions",  # raw address of the table of memory regions
            "templates",  # raw address of the frames' first bytes, TEMPLATE_BYTES a queue pair
            "handles",  # raw address of the address handles: a template, a byte that is 1, HANDLE_BYTES each
            "handle_count",
            "scratch",  # raw address of `scratch_word`
            "scratch_word",
            "now_ns",
            "active_head",
            "active_tail",
            "burst_left",  # frames that the queue pair whose turn it is may still give
            "timer_count",
            "send_free",
            "send_touched",
            "receive_free",
            "receive_touched",
            "answer_free",
            "answer_touched",
            "ended_count",
            "ended_limit",  # with more than so many ends nothing is begun that could bring others
            "arrived_count",
            "held_memory",  # raw address of the frames that wait, LONGEST_FRAME_BYTES each
            "held_free",
            "held_touched",
            "retransmitted",  # packets of requests that were sent again
        )
    ]
    + SETTINGS.descr
)

DROPS = (
    *FRAME_REFUSALS,
    "ip.destination",
    "rocev2.unknown_qp",
    "rocev2.qp_state",
    "rocev2.source",
    "rocev2.partition_key",
    "rocev2.transport",
    "datagram.q_key",
    "datagram.no_receive",
    "datagram.too_long",
    "congestion.not_asked_for",
    "requester.stale_response",
    "requester.unexpected_psn",
    "requester.syndrome",
    "requester.out_of_order",
    "requester.bad_response",
    "responder.psn_gap",
    "responder.not_ready",
    "responder.invalid_request",
    "responder.remote_access_error",
    "responder.remote_operational_error",
    "responder.duplicate",
    "responder.too_many_replays",
    "responder.no_replay",
    "responder.bad_duplicate_read",
    "responder.key_taken_back",
    "responder.answers_full",
    "responder.held_full",
)
"""Names of what is not accepted from the wire; the first ones are those of frames that are none."""
DROP = {name: number for number, name in enumerate(DROPS)}


class RoceState(NamedTuple):
    """The arrays that the hot functions work on.

    engine: one ENGINE record. number_pages: int32[NUMBER_PAGES], the page of a number's high bits, or NONE;
    numbers: int32[pages, NUMBERS_OF_PAGE], the index of a queue pair, or NONE. held: int64[frames, 2], PSN
    and next one of each frame that waits for those before it. timers: int64[pairs, 3], a binary heap of (not
    later than its deadline, index), and room for an index of one that is due. backings: as in RdmaState.
    Held frames and timers are no records, because a call from Python costs less with arrays of one type.
    """

    engine: Records
    queue_pairs: Records
    sends: Records
    receives: Records
    answers: Records
    replays: Records
    held: np.ndarray
    ended: Records
    arrived: Records
    drops: np.ndarray
    number_pages: np.ndarray
    numbers: np.ndarray
    timers: np.ndarray
    extras: Records
    backings: np.ndarray


ARRIVED_COUNT = 4096
ARRIVED_LIMIT = ARRIVED_COUNT - SELECTIVE_PACKETS - 1
"""With more than so many arrivals no frame is taken: one can bring those that waited for it."""
_SLACK = 4096
_GROWN_WITH_PAIRS = ("queue_pairs", "replays", "timers")


def new_roce_state(regions: int, backings: np.ndarray, address: int) -> RoceState:
    """Return the state of an engine without queue pairs. `regions`: raw address of the region table."""
    engine = np.zeros(1, ENGINE).view(np.recarray)
    engine["address"], engine["regions"] = address, regions
    engine["scratch"] = engine.ctypes.data + ENGINE.fields["scratch_word"][1]  # type: ignore[index]
    for name in ("active_head", "active_tail", "send_free", "receive_free", "answer_free", "held_free"):
        engine[name] = NONE
    return RoceState(
        engine,
        _records(1, QUEUE_PAIR),
        _records(1, SEND),
        _records(1, RECEIVE),
        _records(1, ANSWER),
        _records(MAX_RD_ATOMIC, REPLAY),
        np.zeros((1, 2), np.int64),
        _records(1, ENDED),
        _records(ARRIVED_COUNT, ARRIVED),
        np.zeros(len(DROPS), np.int64),
        np.full(NUMBER_PAGES, NONE, np.int32),
        np.full((1, NUMBERS_OF_PAGE), NONE, np.int32),
        np.zeros((1, 3), np.int64),
        _records(1, EXTRA),
        backings,
    )


def _records(count: int, dtype: np.dtype) -> Records:
    return np.zeros(count, dtype).view(np.recarray)


def _longer(array: Records, count: int, used: int) -> Records:
    """Return an array of `count` entries that begins as `array` does up to `used`."""
    grown = np.zeros((count, *array.shape[1:]), array.dtype).view(type(array))
    grown[:used] = array[:used]
    return grown


def grown(state: RoceState, pairs: int, sends: int, receives: int, answers: int, extras: int) -> RoceState:
    """Return the state with room for so many queue pairs, and so much that all of them may hold together."""
    room: dict[str, Records] = {}
    engine = state.engine[0]

    def grow(name: str, needed: int, used: int, each: int = 1) -> None:
        array = getattr(state, name)
        if len(array) < needed * each:
            room[name] = _longer(array, each * max(needed, len(array) * 2 // each, 16), used)

    before = len(state.queue_pairs)
    for name in _GROWN_WITH_PAIRS:
        grow(
            name,
            pairs,
            before * (MAX_RD_ATOMIC if name == "replays" else 1),
            MAX_RD_ATOMIC if name == "replays" else 1,
        )
    grow("sends", sends, int(engine.send_touched))
    grow("receives", receives, int(engine.receive_touched))
    grow("answers", answers, int(engine.answer_touched))
    grow("extras", extras, len(state.extras))
    state = state._replace(**room)
    outstanding = len(state.sends) + len(state.receives)
    if len(state.ended) < 2 * outstanding + _SLACK:
        state = state._replace(ended=_longer(state.ended, 2 * outstanding + _SLACK, int(engine.ended_count)))
    engine.ended_limit = len(state.ended) - outstanding - 1
    return state


def name_queue_pair(state: RoceState, number: int, index: int) -> RoceState:
    """Let `number` mean the queue pair at `index` (or NONE); return the state with a page for it."""
    page, place = divmod(number, NUMBERS_OF_PAGE)
    if state.number_pages[page] == NONE:
        used = int(state.number_pages.max()) + 1
        if used == len(state.numbers):
            numbers = np.full((2 * used, NUMBERS_OF_PAGE), NONE, np.int32)
            numbers[:used] = state.numbers
            state = state._replace(numbers=numbers)
        state.number_pages[page] = used
    state.numbers[state.number_pages[page], place] = index
    return state
