# SPDX-License-Identifier: Apache-2.0
"""The queue pairs of an engine, and the address handles that datagrams are sent to.

Source: InfiniBand Architecture Specification Volume 1, "Create Queue Pair", "Modify Queue Pair", "Create
Address Handle"; ibv_modify_qp(3), ibv_create_ah(3).
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any, Unpack

import numpy as np

from nicemu.abi import registers
from nicemu.arguments import check_type, check_whole
from nicemu.errors import UsageError
from nicemu.hot import interpreted
from nicemu.wire import (
    PSN_BITS,
    PSN_MASK,
    TEMPLATE_BYTES,
    check_mac,
    make_template,
    parse_ipv4,
    rnr_timer_code,
)

from .dcqcn import SETTINGS, Dcqcn
from .queue_pair import (
    LARGEST_NUMBER,
    QpAttributes,
    QpOptions,
    QpState,
    QpType,
    RemoteQp,
    check_remote,
    check_traffic_class,
    check_transition,
)
from .requester_answers import INFINITE_RNR_RETRY
from .responder_lists import drop_receives, reset_responder
from .roce_error import enter_error
from .roce_lists import activate, deactivate
from .roce_reports import RoceReports
from .roce_state import (
    EXTRA,
    HANDLE_BYTES,
    HAS_CONGESTION_CONTROL,
    HELD_FRAMES,
    IS_DATAGRAM,
    IS_SELECTIVE,
    LONGEST_FRAME_BYTES,
    MAX_WAITING_ANSWERS,
    NONE,
    QUEUE_PAIR,
    SELECTIVE_PACKETS,
    RoceState,
    grown,
    name_queue_pair,
    new_roce_state,
)
from .send_queue import reset_requester
from .state import RdmaState

_STATES, _CODES = list(QpState), {state: code for code, state in enumerate(QpState)}
_LINKS = (
    "send_head",
    "send_tail",
    "receive_head",
    "receive_tail",
    "answer_head",
    "answer_tail",
)
_MASK_32 = (1 << 32) - 1
_ECT_0 = 2
"""What says to routers that the ends understand marks of congestion (RFC 3168)."""
as_interpreted = cache(interpreted)
_reset_requester, _reset_responder = as_interpreted(reset_requester), as_interpreted(reset_responder)
_drop_receives, _enter_error = as_interpreted(drop_receives), as_interpreted(enter_error)
_activate, _deactivate = as_interpreted(activate), as_interpreted(deactivate)


class RocePairs(RoceReports):
    """The queue pairs of a NIC with address `mac` and `ip`, over the memory that `rdma` registers."""

    def __init__(
        self,
        rdma: RdmaState,
        mac: bytes,
        ip: str,
        rng: random.Random,
        drops: Counter[str],
        dcqcn: Dcqcn,
    ) -> None:
        check_mac(mac, is_own=True)
        check_type("dcqcn", dcqcn, Dcqcn, "the settings, Dcqcn(...)")
        self._mac = mac
        self._ip = ip
        self._address = parse_ipv4(ip)
        self._rng = rng
        table = int(rdma.public[0]) + registers.REGION_TABLE
        super().__init__(new_roce_state(table, rdma.backings, int.from_bytes(self._address, "big")), drops)
        settings = dcqcn.record()
        for name in SETTINGS.names or ():
            self._state.engine[name] = settings[name]
        self._extras: dict[int, int] = {}
        self._free_extras: list[int] = []
        self._templates: np.ndarray[Any, Any] = np.zeros(0, np.uint8)
        self._handles: np.ndarray[Any, Any] = np.zeros(0, np.uint8)
        self._held_memory: np.ndarray[Any, Any] = np.zeros(0, np.uint8)
        self._free_handles: list[int] = []
        self._reserved: frozenset[int] = frozenset()
        self._indices: dict[int, int] = {}
        self._attributes: dict[int, QpAttributes] = {}
        self._free: list[int] = []
        self._created = self._sends = self._receives = 0

    def reserve(self, *qp_nums: int) -> None:
        """Refuse queue pairs of these numbers from here on: something else takes what is sent to them."""
        self._reserved |= set(qp_nums)

    def create_qp(self, qp_num: int, pd: int, **options: Unpack[QpOptions]) -> None:
        """Create a queue pair in RESET, with a random first PSN; the attributes are those of QpAttributes.

        Raises: UsageError if the number is taken, reserved or no 24-bit number, or an attribute is of another
        type or out of range; then nothing is changed.
        """
        self._check_is_free(qp_num)
        attributes = QpAttributes(pd, **options)
        is_new = not self._free
        index = len(self._indices) if is_new else self._free[-1]
        self._make_room(qp_num, index, attributes)
        if not is_new:
            self._free.pop()
        self._indices[qp_num], self._attributes[qp_num] = index, attributes
        pair = self._state.queue_pairs[index]
        timer_place = NONE if is_new else int(pair.timer_place)
        self._state.queue_pairs[index] = np.zeros((), QUEUE_PAIR)
        self._created += 1
        pair.number, pair.pd = qp_num, pd
        pair.path_mtu, pair.timeout_ns = attributes.path_mtu, attributes.timeout_ns
        pair.sequence, pair.timer_place = self._created, timer_place  # an old entry of the heap may be left
        pair.send_depth, pair.receive_depth = attributes.send_queue_depth, attributes.receive_queue_depth
        pair.retry_count, pair.rnr_retry = attributes.retry_count, attributes.rnr_retry
        pair.rnr_timer = rnr_timer_code(attributes.min_rnr_timer_ns)
        pair.implicit_receives = attributes.implicit_receives
        pair.features = (
            (IS_DATAGRAM if attributes.qp_type is QpType.UD else 0)
            | (IS_SELECTIVE if attributes.selective_retransmission else 0)
            | (HAS_CONGESTION_CONTROL if attributes.congestion_control else 0)
        )
        pair.extra = self._extra_of(qp_num)
        for link in _LINKS:
            pair[link] = NONE
        _reset_requester(self._state, pair, self._rng.getrandbits(PSN_BITS))
        _reset_responder(self._state, pair, 0)

    def _check_is_free(self, qp_num: int) -> None:
        number = check_whole("a queue pair number", qp_num, 0, LARGEST_NUMBER)
        if number in self._indices:
            raise UsageError(f"queue pair number {number:#x} is taken; numbers have 24 bits, use another one")
        if number in self._reserved:
            taken = ", ".join(map(hex, sorted(self._reserved)))
            raise UsageError(
                f"queue pair number {number:#x} is reserved, for management; use another one than {taken}"
            )

    def _make_room(self, qp_num: int, index: int, attributes: QpAttributes) -> None:
        """Have room for one more queue pair and all that it may hold, and let its number name it."""
        sends = self._sends + attributes.send_queue_depth
        receives = self._receives + attributes.receive_queue_depth
        count = max(len(self._indices), index + 1)
        answers, extras = count * MAX_WAITING_ANSWERS, len(self._extras) + 1
        state = grown(self._state, count, sends, receives, answers, extras)
        pairs = len(state.queue_pairs)
        if len(self._templates) < pairs * TEMPLATE_BYTES:
            templates = np.zeros(pairs * TEMPLATE_BYTES, np.uint8)
            templates[: len(self._templates)] = self._templates
            self._templates = templates
            state.engine["templates"] = templates.ctypes.data
        pairs_that_keep = attributes.selective_retransmission + sum(
            one.selective_retransmission for one in self._attributes.values()
        )
        self._hold(name_queue_pair(self._with_held_frames(state, pairs_that_keep), qp_num, index))
        self._sends, self._receives = sends, receives

    def _is_special(self, qp_num: int) -> bool:
        attributes = self._attributes[qp_num]
        has_options = attributes.selective_retransmission or attributes.congestion_control
        return attributes.qp_type is QpType.UD or has_options

    def _extra_of(self, qp_num: int) -> int:
        """Return the place of what a queue pair with features has beside, made ready; NONE for others."""
        if not self._is_special(qp_num):
            return NONE
        place = self._free_extras.pop() if self._free_extras else len(self._extras)
        self._extras[qp_num] = place
        extra = self._state.extras[place]
        self._state.extras[place] = np.zeros((), EXTRA)
        extra.q_key, extra.held_head, extra.paced_until_ns = self._attributes[qp_num].q_key, NONE, NONE
        return place

    def _with_held_frames(self, state: RoceState, pairs: int) -> RoceState:
        """Return the state with room for the frames that so many queue pairs keep behind a gap."""
        count = min(HELD_FRAMES, SELECTIVE_PACKETS * pairs)
        if len(state.held) >= count:
            return state
        held = np.zeros((max(count, min(HELD_FRAMES, 2 * len(state.held))), 2), np.int64)
        held[: len(state.held)] = state.held
        memory = np.zeros(len(held) * LONGEST_FRAME_BYTES, np.uint8)
        memory[: len(self._held_memory)] = self._held_memory
        self._held_memory = memory
        state.engine["held_memory"] = memory.ctypes.data
        return state._replace(held=held)

    def modify(
        self,
        qp_num: int,
        state: QpState,
        *,
        remote: RemoteQp | None = None,
        sq_psn: int | None = None,
        rnr_retry: int | None = None,
    ) -> None:
        """Move a queue pair to `state`; RTS from RTR may set the first PSN, `sq_psn`, and `rnr_retry`.

        RTR needs `remote`; a queue pair of type UD has none.

        Going to ERR flushes both queues; going to RESET forgets them and draws a new first PSN.
        Raises: UsageError if the transition is not allowed or a value is missing or wrong; nothing is
        changed.
        """
        index = self._find(qp_num)
        check_type("state", state, QpState, "a QpState, such as QpState.RTS")
        pair = self._state.queue_pairs[index]
        attributes = self._attributes[qp_num]
        before = _STATES[pair.state]
        address = template = b""
        if attributes.qp_type is QpType.UD:
            if remote is not None:
                raise UsageError(f"queue pair {qp_num} sends datagrams and has no peer; pass no remote")
        elif state is QpState.RTR:
            if remote is None:
                raise UsageError(
                    f"queue pair {qp_num} cannot go to RTR without its peer; pass remote=RemoteQp(...)"
                )
            check_remote(remote)
            address = parse_ipv4(remote.ip)
            traffic_class = attributes.traffic_class | (_ECT_0 if attributes.congestion_control else 0)
            template = make_template(self._mac, remote.mac, self._address, address, traffic_class)
        elif remote is not None:
            raise UsageError(f"the peer of queue pair {qp_num} is set on the way to RTR, not to {state.name}")
        starts = state is QpState.RTS and before is QpState.RTR
        for name, value, most in (("sq_psn", sq_psn, PSN_MASK), ("rnr_retry", rnr_retry, INFINITE_RNR_RETRY)):
            if value is None:
                continue
            if not starts:
                raise UsageError(f"{name} is {value!r}; it is set on the way from RTR to RTS alone")
            check_whole(name, value, 0, most)
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
        elif state is QpState.RTR:
            _reset_responder(self._state, pair, 0)
        elif state is QpState.RTS:
            if rnr_retry is not None:
                self._attributes[qp_num] = replace(attributes, rnr_retry=rnr_retry)
                pair.rnr_retry = pair.rnr_retries_left = rnr_retry
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
        if qp_num in self._extras:
            self._free_extras.append(self._extras.pop(qp_num))
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

    # Address handles

    def create_address_handle(self, mac: bytes, ip: str, *, traffic_class: int = 0) -> int:
        """Return the number of a path that datagrams may take.

        Raises: UsageError if an address or the traffic class (four times a DSCP) is none.
        """
        check_mac(mac)
        check_traffic_class(traffic_class)
        template = make_template(self._mac, mac, self._address, parse_ipv4(ip), traffic_class)
        count = len(self._handles) // HANDLE_BYTES
        if not self._free_handles:
            handles = np.zeros(max(16, 2 * count) * HANDLE_BYTES, np.uint8)
            handles[: len(self._handles)] = self._handles
            self._handles = handles
            self._free_handles = list(range(len(handles) // HANDLE_BYTES - 1, count - 1, -1))
            self._state.engine["handles"] = handles.ctypes.data
            self._state.engine["handle_count"] = len(handles) // HANDLE_BYTES
        number = self._free_handles.pop()
        place = number * HANDLE_BYTES
        self._handles[place : place + TEMPLATE_BYTES] = np.frombuffer(template, np.uint8)
        self._handles[place + TEMPLATE_BYTES] = 1
        return number

    def destroy_address_handle(self, handle: int) -> None:
        """Give a path back. What is still queued for it, and has not left, ends with LOC_QP_OP_ERR.

        Raises: UsageError if there is no such handle.
        """
        self._check_handle(handle)
        self._handles[handle * HANDLE_BYTES + TEMPLATE_BYTES] = 0
        self._free_handles.append(handle)

    def _check_handle(self, handle: int) -> None:
        number = check_whole("an address handle", handle, 0, _MASK_32)
        place = number * HANDLE_BYTES + TEMPLATE_BYTES
        if place >= len(self._handles) or not self._handles[place]:
            raise UsageError(f"there is no address handle {number}; create it first")

    def _find(self, qp_num: int) -> int:
        try:
            return self._indices[qp_num]
        except (KeyError, TypeError):
            number = check_whole("a queue pair number", qp_num, 0, LARGEST_NUMBER)
            raise UsageError(f"there is no queue pair {number:#x}; create it first") from None
