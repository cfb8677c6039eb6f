# SPDX-License-Identifier: Apache-2.0
"""The bench over libfabric: two endpoints of one domain of the `sockets` provider, in real time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace

from nicemu.abi import Limits, Opcode, ProgramTarget, RemoteSpan, Sge, Span, Unsupported, WorkRequest
from nicemu.errors import ResourceError
from nicemu.fabric import LibfabricTarget

from .bench import MEMORY_BYTES, Absent, Bench

PROVIDER = "sockets"
SETTLE_S = 1e-3
LATER_S = 2e-3
AT_MOST_NS = 1_000_000_000
JOIN_S = 5.0
_MESSAGES_BYTES = 2 * MEMORY_BYTES
_WRONG_KEY = 1 << 20
_ANY = Limits()
_NARROWER = ("slot_count", "service_slots", "counter_count", "local_pieces", "max_message_bytes")


class LibfabricBench:
    """Implements `Bench`. Everything of the peer is in this process, and its memory is looked at directly."""

    patience = 1000
    many = 4000
    inside = None

    def __init__(self, target: LibfabricTarget, limits: Limits) -> None:
        self.nic = target
        self.limits = limits
        self._target = target
        self._loopback = target.loopback()
        here, there = target.allocate((MEMORY_BYTES,)), target.allocate((MEMORY_BYTES,))
        self._messages = target.allocate((_MESSAGES_BYTES,))
        self._received = 0
        self._threads: list[threading.Thread] = []
        peer, qp_num = self._loopback.peer_qp_num, self._loopback.qp_num
        self.local: Span = target.register(here)
        self.local_bytes = here.array.data
        self.remote: RemoteSpan = target.remote(target.register(there, qp_num=peer), qp_num)
        self.remote_bytes = there.array.data
        self.wrong = replace(self.remote, rkey=self.remote.rkey + _WRONG_KEY)
        self._message_key = target.register(self._messages, qp_num=peer).key

    def settle(self) -> None:
        """Let a millisecond pass, and let the library go on."""
        time.sleep(SETTLE_S)
        self._target.progress()

    def later(self, action: Callable[[], object]) -> None:
        """Have a thread do it when this one has begun to wait, for a wait lets the provider go on."""
        now_ns = time.monotonic_ns()

        def act() -> None:
            while self._target.progressed_ns <= now_ns and time.monotonic_ns() < now_ns + AT_MOST_NS:
                time.sleep(LATER_S)
            time.sleep(LATER_S)
            action()

        thread = threading.Thread(target=act, daemon=True)
        self._threads.append(thread)
        thread.start()

    def close(self) -> None:
        """Let what was to be done later be done."""
        for thread in self._threads:
            thread.join(JOIN_S)

    def peer_receive(self, length_bytes: int) -> memoryview:
        """Post a receive at the second endpoint."""
        offset, self._received = self._received, self._received + length_bytes
        sge = Sge(self._messages.address + offset, length_bytes, self._message_key)
        self._target.post(self._loopback.peer_qp_num, WorkRequest(Opcode.RECV, (sge,)))
        return self._messages.array.data[offset : offset + length_bytes]

    def peer_send(self, data: bytes) -> None:
        """Send from the second endpoint; each message from memory of its own."""
        offset, self._received = self._received, self._received + len(data)
        self._messages.array[offset : offset + len(data)] = memoryview(data)
        sge = Sge(self._messages.address + offset, len(data), self._message_key)
        self._target.post(self._loopback.peer_qp_num, WorkRequest(Opcode.SEND, (sge,)))

    def another(self) -> AbstractContextManager[ProgramTarget]:
        """Raises: Unsupported, for counters of a domain belong to the process that opened it."""
        raise Unsupported("R19", f"processes share nothing of {PROVIDER}")


@contextmanager
def libfabric_bench(limits: Limits) -> Iterator[Bench]:
    """Set the bench up. Raises: Absent, saying what to install, Unsupported for limits it cannot have."""
    narrower = {
        name: getattr(limits, name) for name in _NARROWER if getattr(limits, name) != getattr(_ANY, name)
    }
    if limits != replace(_ANY, **narrower):
        raise Unsupported(
            "R2", f"{PROVIDER} has limits of its own, and cannot have those of {limits.profile!r}"
        )
    try:
        target = LibfabricTarget(PROVIDER, **narrower)
    except ResourceError as error:
        raise Absent(str(error)) from error
    with target:
        bench = LibfabricBench(target, target.limits)
        yield bench
        bench.close()


_NO_FLUSH = "R38: it cannot flush; nicemu says so (Unsupported)"
_NO_CANCEL = "R37: it cannot cancel an operation; nicemu says so (Unsupported)"
_NOT_SHARED = "R19: processes share nothing, so there is nothing to keep apart"
_NARROW = "R2: its values have 31 bits; nicemu refuses more, which it would misread"
_ERRORS_FIRE_NOTHING = "R22: thresholds are compared with the success value alone"
_ORDER = "R24: what is due together fires in arming order"
_FAILURE = "R27: a failed operation moves neither value of its completion counter"
_NO_ENTRY = "R28: deferred work that ends well leaves no completion entry, also if asked"
_CYCLE = "R31: counts that lead back to their counter hang it; nicemu refuses them (Unsupported)"

DEVIATIONS: Mapping[str, str] = {
    "a_value_of_64_bits_stays_at_its_maximum": _NARROW,
    "the_sum_of_both_values_does_not_wrap": _NARROW,
    "thresholds_are_unsigned_numbers_of_64_bits": _NARROW,
    "both_values_are_counted_in_one_step": _ERRORS_FIRE_NOTHING,
    "work_fires_by_the_sum_of_both_values": _ERRORS_FIRE_NOTHING,
    "sets_take_effect_by_threshold_also_after_a_jump": _ORDER,
    "what_one_count_makes_due_fires_by_threshold": _ORDER,
    "remote_keys_are_looked_at_when_work_fires": _FAILURE,
    "a_failed_operation_counts_an_error_and_tells": _FAILURE,
    "what_depends_on_a_failed_operation_fires": _FAILURE,
    "a_write_counts_once_and_tells_if_asked": _NO_ENTRY,
    "a_read_counts_once_and_tells_if_asked": _NO_ENTRY,
    "a_send_arrives_when_its_counter_gets_there": _NO_ENTRY,
    "atomics_change_the_peer_s_word": _NO_ENTRY,
    "cycles_come_to_rest": _CYCLE,
    "a_chain_of_any_depth_finishes": _CYCLE,
    "a_chain_of_many_counters_finishes": _CYCLE,
    "a_counter_closed_by_force_takes_its_work_along": "R40: it cannot cancel what concerns a counter",
    "what_finds_no_receive_waits_for_one": "R32: the receiver keeps it, so a send ends before its receive",
    "a_cancelled_operation_never_fires": _NO_CANCEL,
    "cancelling_what_has_fired_changes_nothing": _NO_CANCEL,
    "what_is_not_there_cannot_be_cancelled": _NO_CANCEL,
    "what_was_cancelled_can_be_armed_again": _NO_CANCEL,
    "what_waits_for_a_counter_is_cancelled": _NO_FLUSH,
    "after_a_flush_nothing_happens": _NO_FLUSH,
    "what_fires_of_a_window_and_what_is_cancelled_is_all_of_it": _NO_CANCEL,
    "a_window_that_was_cancelled_can_be_opened_again": _NO_CANCEL,
    "a_flush_takes_what_a_window_has_not_armed": _NO_FLUSH,
    "a_counter_s_work_is_cancelled_in_windows_too": _NO_FLUSH,
    "a_full_table_is_said_and_a_flush_empties_it": _NO_FLUSH,
    "counters_of_another_process_are_refused": _NOT_SHARED,
    "a_flush_takes_the_work_of_one_process": _NOT_SHARED,
    "closing_a_nic_cancels_what_the_process_has_armed": _NOT_SHARED,
}
"""By the names of cases, what `sockets` of libfabric 1.17 does instead, and its rule."""
