# SPDX-License-Identifier: Apache-2.0
"""Trigger counters as a host program sees them: count, read, wait, ring behind a stream, follow flags."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from nicemu.abi import (
    CommandCode,
    Condition,
    CounterError,
    DeferredWork,
    Opcode,
    SharedMemory,
    Span,
    TriggerTableFull,
    local_piece,
    registers,
    seconds,
    shown,
    whole,
    yes_or_no,
)
from nicemu.errors import UsageError, counted
from nicemu.pcie import load_u64

from .counted_queue import CountedQueue
from .stream import Stream

if TYPE_CHECKING:
    from .device import Nic

WRITE_BACK_VALID = 1 << 63
_U64_MAX = (1 << 64) - 1


class Followed:
    """A word in memory that feeds a counter, until `close`, or until the counter or the word's key goes.

    `key`: that of the word's memory.
    """

    def __init__(self, nic: Nic, place: int, key: int) -> None:
        self._nic = nic
        self._place = place
        self.key = key
        self.closed = False

    def close(self) -> None:
        """Stop following. Twice is once: the place that it had at the NIC may be another one's by then."""
        if not self.closed:
            self._nic.connection.request("counter_unfollow", place=self._place)
            self.closed = True


class Counter:
    """A trigger counter. `counter >= n` is a condition for `Program.when`."""

    __hash__ = object.__hash__

    def __init__(self, nic: Nic, index: int, name: str) -> None:
        self._nic = nic
        self.index = index
        self.name = name
        self.closed = False
        self._cells: dict[int, tuple[Stream, int, int]] = {}
        self._ringing = threading.RLock()
        self._followed: list[Followed] = []
        self._counted: list[CountedQueue] = []
        self._publish_here()

    def _publish_here(self) -> None:
        """The write-back entry is where it is when a counter is opened: in the BAR."""
        self._published: int | None = None
        bar, place = self._nic.connection.bar, registers.WRITE_BACK + self.index * registers.WRITE_BACK_BYTES
        self._place: tuple[SharedMemory, int] | None = (bar, place)
        self._entry = bar.address + place

    @property
    def target(self) -> object:
        """The NIC that it is a counter of."""
        return self._nic

    def __repr__(self) -> str:
        return f"Counter({self.name})"

    def __ge__(self, threshold: int) -> Condition:
        if type(threshold) is not int or not 0 <= threshold <= _U64_MAX:
            threshold = whole(threshold, "a threshold")
        if self.closed:
            self._check_open()
        return Condition(self.index, threshold, self.name, self._nic, self)

    def _compare(self, other: object) -> Condition:
        """Refuse the comparisons that no trigger unit makes."""
        raise UsageError(
            f"write `{self.name} >= {shown(other)}`: a trigger unit compares nothing else (EINVAL)"
        )

    __gt__ = __lt__ = __le__ = _compare

    def next(self, count: int = 1) -> Condition:
        """A condition `count` counts from now; thresholds are absolute, so write it where "now" is meant.

        Counts that arrive while this runs are in it or not: for a loop whose doorbells run ahead, add up
        thresholds instead. Where errors fire nothing (`limits.stall_on_error`), they are no counts here.
        Raises: UsageError (EINVAL) for less than 1, or for more than a threshold holds.
        """
        count = whole(count, "the next count", least=1)
        success, errors = self.read()
        return self >= success + (0 if self._nic.limits.stall_on_error else errors) + count

    def read(self) -> tuple[int, int]:
        """Return (success, errors) as last published, both of one moment."""
        success, errors = self._read()
        self._tell_seen(success, errors)
        return success, errors

    def _tell_seen(self, success: int, errors: int) -> None:
        """Put down what the program knows of this counter from here on: it had at least these values."""
        log = self._nic.log
        if log is not None:
            nic = self._nic.connection.nic_name
            log.add_here("seen", nic=nic, counter=self.index, success=success, errors=errors)

    def _check_open(self) -> None:
        self._nic.check_open()
        if self.closed:
            raise UsageError(f"counter {self.name} was closed (EINVAL); allocate another")

    def _read(self) -> tuple[int, int]:
        self._check_open()
        if self._place is None:
            raise UsageError(
                f"counter {self.name} is published in memory that this process does not read (EINVAL); "
                "publish it in memory that this handle has allocated and registered"
            )
        while True:
            version = load_u64(self._entry + 24)
            success, errors = load_u64(self._entry + 8), load_u64(self._entry + 16)
            if version % 2 == 0 and load_u64(self._entry + 24) == version:
                return success, errors

    @property
    def success(self) -> int:
        """The success value."""
        return self.read()[0]

    @property
    def errors(self) -> int:
        """The error value."""
        return self.read()[1]

    @property
    def overflow(self) -> bool:
        """Whether a value has ever been counted beyond its maximum, where it then stayed.

        It is sticky: `set` does not take it back. The NIC is asked, which takes tens of microseconds.
        Source: Cassini's counters saturate; the flag is nicemu's own.
        """
        self._check_open()
        return bool(self._nic.connection.request("counter_overflow", counter=self.index)["overflow"])

    def add(self, success: int = 1, errors: int = 0) -> None:
        """Count from the host.

        Raises: UsageError (EINVAL) for a value that does not fit, or for both values where a set replaces
        both (`limits.set_replaces_both`; Portals 4.3, "PtlCTInc": one field is zero).
        """
        self._check_open()
        success, errors = self._checked(success, errors)
        if success and errors and self._nic.limits.set_replaces_both:
            raise UsageError(f"{self._nic.limits.profile} counts successes or errors, not both (EINVAL)")
        told = f"counting at {self.name}"
        self._nic.command(CommandCode.COUNTER_ADD, self.index, success, errors, what=told)

    def set(self, success: int | None = None, errors: int | None = None) -> None:
        """Replace the success value, the error value or both. Raises: UsageError (EINVAL) as `add`."""
        self._check_open()
        which = (1 if success is not None else 0) | (2 if errors is not None else 0)
        values = self._checked(0 if success is None else success, 0 if errors is None else errors)
        self._nic.command(CommandCode.COUNTER_SET, self.index, *values, which, what=f"setting {self.name}")

    def _checked(self, success: int, errors: int) -> tuple[int, int]:
        limits = self._nic.limits
        return (
            whole(success, "a count of successes", most=limits.max_success),
            whole(errors, "a count of errors", most=limits.max_errors),
        )

    def wait(self, threshold: int, timeout_s: float = 5.0) -> None:
        """Wait until the success value reaches `threshold`.

        Where waits take trigger slots (`limits.waits_take_slots`), this one takes one until the counter gets
        there, also if it times out. Portals counts errors too (`limits.wait_counts_errors`).
        Raises: CounterError if the error value changes first, TimeoutError after `timeout_s`, UsageError
        (EINVAL) for a threshold that no counter reaches, or a time that makes no sense, TriggerTableFull
        (ENOSPC) where a wait takes a slot and none is free.
        Source: fi_cntr(3), fi_cntr_wait; fi_cxi(7), "Counters"; Portals 4.3, "PtlCTWait".
        """
        limits = self._nic.limits
        threshold = whole(threshold, "a threshold", most=limits.max_success)
        timeout_s = seconds(timeout_s)
        errors_before = self._read()[1]
        reached = False

        def is_over() -> bool:
            nonlocal reached
            success, errors = self._read()
            reached = success + (errors if limits.wait_counts_errors else 0) >= threshold
            return reached or errors != errors_before

        if limits.waits_take_slots and not is_over():
            self._take_slot(threshold)
        # The NIC wakes at a sum of successes and errors; those errors that are there already count in it.
        in_sum = 0 if limits.wait_counts_errors or limits.stall_on_error else errors_before
        over = self._nic.connection.wait(is_over, timeout_s, (self.index, threshold + in_sum))
        success, errors = self._read()
        if reached:
            self._tell_seen(min(threshold, success), 0)
            return
        if over:
            self._tell_seen(success, errors)
            raise CounterError(self.name, success, errors)
        failed = f", with {counted(errors, 'error')}" if errors else ""
        what = f"counter {self.name} is at {success} after {timeout_s:g} s, not at {threshold}"
        raise TimeoutError(what + failed)

    def _take_slot(self, threshold: int) -> None:
        try:
            self._nic.arm([DeferredWork(self.index, threshold, Opcode.WRITE_BACK)])
        except TriggerTableFull as error:
            raise TriggerTableFull(
                f"a wait takes a trigger slot with {self._nic.limits.profile}, and none is free for "
                f"{self.name} >= {threshold} (ENOSPC); look at counter.read(), or cancel work"
            ) from error

    def trigger_after(self, stream: Stream, by: int = 1) -> None:
        """Count `by` when `stream` has finished what was put into it before.

        A doorbell cell of its own holds the absolute total that the stream has rung, so two rings never
        become one. A ring that a failed kernel keeps from being carried out counts nothing, now or later; a
        CUDA stream cannot know: there the next ring brings its count. Any thread may ring.
        Raises: UsageError for a count that is not 0 or more, or a total that no doorbell holds.
        """
        self._check_open()
        _check_stream(stream)
        by = whole(by, "what a ring counts")
        with self._ringing:
            _, cell, rung = self._cells.get(id(stream), (stream, -1, 0))
            if rung + by > _U64_MAX:
                raise UsageError(f"a doorbell holds 64 bits; {rung} were rung, {by} more do not fit (EINVAL)")
            if cell < 0:
                cell = int(self._nic.connection.request("doorbell_open", counter=self.index)["cell"])
            total = rung + by
            self._cells[id(stream)] = (stream, cell, total)
            if (log := self._nic.log) is not None:
                told = {"nic": self._nic.connection.nic_name, "opened": self._nic.opened, "cell": cell}
                log.add_here("ring", **told, stream=log.stream(stream), counter=self.index, total=total)
            place = registers.DOORBELLS + registers.DOORBELL_BYTES * cell
            if (add_value := getattr(stream, "add_value", None)) is not None:
                add_value(self._nic.connection.bar, place, by)
            else:
                stream.store(self._nic.connection.bar, place, total)

    def wait_on(self, stream: Stream, threshold: int) -> None:
        """Let `stream` go on only when this counter's success value has reached `threshold`; nobody waits.

        The stream compares the write-back word, so an error lets it go on too: look at `errors` afterwards
        (streams that can say so fail). Source: CUDA driver API, cuStreamWaitValue64 (GEQ).
        """
        self._check_open()
        _check_stream(stream)
        threshold = whole(threshold, "a threshold in the write-back word", most=(1 << 48) - 1)
        self._read()
        assert self._place is not None
        memory, place = self._place
        if (log := self._nic.log) is not None:
            told = {"nic": self._nic.connection.nic_name, "counter": self.index, "success": threshold}
            log.add_here("wait_on", **told, stream=log.stream(stream))
        stream.wait_value(memory, place, threshold | WRITE_BACK_VALID)

    def follow(self, word: Span, at_least: int = 0) -> Followed:
        """Let 8 bytes of registered memory feed this counter: a flag that a kernel writes.

        The word has one writer and only grows. Every step counts its size; with `at_least` the word counts
        once, when it gets there (at once, if it has). Without, what it holds now is where it starts from.
        The NIC polls it.
        Raises: UsageError for a span that is not 8 bytes, aligned, ResourceError (ENOSPC) if the NIC follows
        all it can.
        """
        self._check_open()
        local_piece(word)
        if word.length_bytes != 8:
            raise UsageError(f"a flag is a word of 8 bytes, not {word.length_bytes}")
        at_least = whole(at_least, "at_least")
        place = self._nic.connection.request(
            "counter_follow", counter=self.index, address=word.address, key=word.key, at_least=at_least
        )
        self._followed = [one for one in self._followed if not one.closed]
        self._followed.append(Followed(self._nic, int(place["place"]), word.key))
        return self._followed[-1]

    def count_completions(self) -> CountedQueue:
        """Let completions of the NIC's NVMe controller feed this counter: of commands with this `queue`.

        The controller's interrupt is a message into NIC memory, which the NIC follows: what waits for this
        counter fires without its control thread. Each completion counts 1 success, however the command ends
        (its `then` tells how); a command that the controller never gets counts nothing.
        Raises: UsageError if the NIC has no namespace, ResourceError (ENOSPC) if all such queue pairs of its
        controller are in use.
        Source: PCI Express Base Specification 5.0, "MSI-X Capability and Table Structure".
        """
        self._check_open()
        reply = self._nic.connection.request("completions_count", counter=self.index)
        self._counted = [one for one in self._counted if not one.closed]
        self._counted.append(CountedQueue(self._nic, int(reply["queue"])))
        return self._counted[-1]

    def publish_in(self, place: Span) -> None:
        """Move this counter's write-back entry (64 bytes) to registered memory, such as the GPU's.

        From then on `read`, `wait`, `next` and `wait_on` look there; if the memory was not registered through
        this handle, they refuse. Taking the memory's key back by force moves the entry home.
        Source: fi_cxi(7), counter write-back.
        """
        self._check_open()
        local_piece(place)
        if place.length_bytes < registers.WRITE_BACK_BYTES:
            raise UsageError(f"a write-back entry takes {registers.WRITE_BACK_BYTES} bytes")
        self._nic.connection.request(
            "counter_publish", counter=self.index, address=place.address, key=place.key
        )
        self._published, self._place = place.key, self._nic.mapped(place)
        if self._place is not None:
            self._entry = self._place[0].address + self._place[1]

    def forget_key(self, key: int) -> None:
        """A key of this process was taken back: the NIC follows and publishes nothing in its memory."""
        for one in self._followed:
            one.closed |= one.key == key
        if self._published == key:
            self._publish_here()

    def close(self, force: bool = False) -> None:
        """Give the counter back.

        Raises: UsageError (EBUSY) if work is armed on it or aims at it, or a word or a queue pair feeds it,
        unless forced; then those are closed with it.
        """
        self._check_open()
        force = yes_or_no(force, "force")
        self._nic.connection.request("counter_close", counter=self.index, force=force)
        self.closed = True
        for one in self._followed:
            one.closed = True
        for queue in self._counted:
            queue.closed = True
        self._nic.forget_counter(self.index)


def _check_stream(stream: Stream) -> None:
    if not callable(getattr(stream, "store", None)) or not callable(getattr(stream, "wait_value", None)):
        cure = "CudaStream(stream) makes one of a CUDA stream, HostStream() is a thread"
        raise UsageError(f"{shown(stream)} is no stream (EINVAL); {cure}")
