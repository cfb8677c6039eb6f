# SPDX-License-Identifier: Apache-2.0
"""Where all lies that the traffic manager of a kernel works on, in bytes: the desk, states, records."""

from __future__ import annotations

from typing import Final

import numpy as np

from nicemu.pipeline import DROP_PORT, HOST_PORT, MAX_AGAIN_BYTES, MAX_COPIES, MAX_ROUNDS, InstanceType, ir

from .records import PACKET, offset_of
from .v1_requests import ASKED as WITHOUT_LIST
from .v1_requests import REQUESTS
from .v1_requests import WITH_LIST as LISTED
from .v1_stages import STAGES
from .v1_state import EFFECTS, FAILED, FIRST_REQUEST, PORT, RESULT, TURNS

u64 = np.uint64

FIELDS: Final = (
    *("ingress_port", "ingress_global_timestamp", "packet_length", "instance_type", "parser_error"),
    *("mcast_grp", "egress_spec", "egress_port", "egress_global_timestamp", "enq_timestamp", "enq_qdepth"),
    *("deq_timedelta", "deq_qdepth", "egress_rid"),
)
"""Fields of the standard metadata that a traffic manager reads or sets."""
_WORDS: Final = (
    *("run", "stage", "context", "next_state", "state", "next_effect", "effects", "told", "record"),
    *("state_bytes", "zeros", "free", "free_count"),
    *("queue", "head", "tail", "copies", "reason", "limit", "room", "room_end", "left", "left_count"),
    *(
        "left_most",
        "most_copies",
        "most_rounds",
        "longest",
        "number",
        "port",
        "now_ns",
        "headroom",
        "cpu_port",
        "skipped",
        "colours",
    ),
    *("metadata", "metadata_bytes", "standard", "standard_bytes", "lists", "spans", "replicas"),
    *("groups", "group_count", "group_starts", "sessions", "session_count", "session_starts", "truncations"),
    *FIELDS,
)
DESK: Final = {name: place for place, name in enumerate(_WORDS)}
"""The desk's words by name. Those of standard metadata's fields, and of the metadata, are bytes into a state;
`lists` says by numbers of field lists where their pairs of bytes into a state and bytes begin in `spans`.
"""
ITEM_WORDS: Final = 6
"""Words of what is waiting: which step it is, state, frame, length, port, rounds."""
LISTS_MOST: Final = 256


def _at(name: str) -> np.uint64:
    return u64(8 * DESK[name])


def _request(name: str) -> np.uint64:
    return u64(8 * (FIRST_REQUEST + REQUESTS.index(name)))


RUN, STAGE, CONTEXT, RECORD = map(_at, ("run", "stage", "context", "record"))
NEXT_STATE, STATE, NEXT_EFFECT = map(_at, ("next_state", "state", "next_effect"))
SCRATCH, TOLD = map(_at, ("effects", "told"))
STATE_BYTES, ZEROS, FREE, FREE_COUNT = map(_at, ("state_bytes", "zeros", "free", "free_count"))
QUEUE, HEAD, TAIL, COPIES = map(_at, ("queue", "head", "tail", "copies"))
REASON, LIMIT, ROOM, ROOM_END = map(_at, ("reason", "limit", "room", "room_end"))
LEFT, LEFT_COUNT, LEFT_MOST, NUMBER = map(_at, ("left", "left_count", "left_most", "number"))
MOST_OF_ONE, ROUNDS_OF_ONE, LONGEST = map(_at, ("most_copies", "most_rounds", "longest"))
ARRIVAL_PORT, NOW_NS, HEADROOM, CPU_PORT = map(_at, ("port", "now_ns", "headroom", "cpu_port"))
SKIPPED, COLOURS, LISTS, SPANS, REPLICAS = map(_at, ("skipped", "colours", "lists", "spans", "replicas"))
METADATA, METADATA_BYTES = map(_at, ("metadata", "metadata_bytes"))
STANDARD, STANDARD_BYTES = map(_at, ("standard", "standard_bytes"))
GROUPS, GROUP_COUNT, GROUP_STARTS = map(_at, ("groups", "group_count", "group_starts"))
SESSIONS, SESSION_COUNT, SESSION_STARTS = map(_at, ("sessions", "session_count", "session_starts"))
TRUNCATIONS = _at("truncations")
INGRESS_PORT, INGRESS_TIME = map(_at, ("ingress_port", "ingress_global_timestamp"))
PACKET_LENGTH, INSTANCE_TYPE, PARSER_ERROR = map(_at, ("packet_length", "instance_type", "parser_error"))
GROUP, SPEC, EGRESS_PORT, RID = map(_at, ("mcast_grp", "egress_spec", "egress_port", "egress_rid"))
EGRESS_TIME, ENQ_TIME = map(_at, ("egress_global_timestamp", "enq_timestamp"))
ENQ_DEPTH, DEQ_DELTA, DEQ_DEPTH = map(_at, ("enq_qdepth", "deq_timedelta", "deq_qdepth"))

CLONE_I, CLONE_I_SESSION, CLONE_I_LIST = (
    _request(f"clone_of_ingress{part}") for part in ("", ".session", ".list")
)
CLONE_E, CLONE_E_SESSION, CLONE_E_LIST = (
    _request(f"clone_of_egress{part}") for part in ("", ".session", ".list")
)
RESUBMIT, RESUBMIT_LIST = _request("resubmit"), _request("resubmit.list")
RECIRCULATE, RECIRCULATE_LIST = _request("recirculate"), _request("recirculate.list")
TRUNCATE, TRUNCATE_BYTES = _request("truncate"), _request("truncate.bytes")
REQUESTS_BEGIN, REQUESTS_END = u64(8 * FIRST_REQUEST), u64(8 * (FIRST_REQUEST + len(REQUESTS)))
AT_RESULT, AT_TURNS, AT_EFFECTS = u64(8 * RESULT), u64(8 * TURNS), u64(8 * EFFECTS)
AT_PORT, AT_FAILED = u64(8 * PORT), u64(8 * FAILED)
LENGTH, IN_PORT, TIME, VERDICT = map(u64, map(offset_of, ("length", "port", "now_ns", "verdict")))
OUT_PORT, OUT_OFFSET, OUT_LENGTH = map(u64, map(offset_of, ("out_port", "out_offset", "out_length")))
STATE_AT, EFFECT_COUNT = map(u64, map(offset_of, ("state_at", "effects_count")))
ITEM, PACKET_BYTES, LINE = u64(8 * ITEM_WORDS), u64(PACKET.itemsize), u64(64)
MICROSECOND, TIME_MASK = u64(1000), u64((1 << 48) - 1)
PARSE, VERIFY, INGRESS, EGRESS, COMPUTE, DEPARSER = map(u64, range(len(STAGES)))
BEGIN, LEAVE = u64(0), u64(1)
"""Steps that wait: the ingress of a state, and its egress."""
NORMAL, OF_INGRESS, OF_EGRESS, _, RECIRCULATED, REPLICATED, RESUBMITTED = map(u64, InstanceType)
ASKED, WITH_LIST, PORT_MASK, MAX_LIST = u64(WITHOUT_LIST), u64(LISTED), u64(DROP_PORT), u64(LISTS_MOST)
TIMEOUT = u64(1 + ir.CORE_ERRORS.index("ParserTimeout"))
"""What a parser that does not end says: 1 + its error."""
MOST_COPIES, MOST_ROUNDS, MOST_BYTES = u64(MAX_COPIES), u64(MAX_ROUNDS), u64(MAX_AGAIN_BYTES)
HALF, WORD, HOST, GIVEN = u64(0xFFFF), u64(0xFFFFFFFF), u64(HOST_PORT), u64(1 << 16)
"""`GIVEN` tells the reason 0 from none."""
