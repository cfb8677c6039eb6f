# SPDX-License-Identifier: Apache-2.0
"""Programs of deferred work on a libfabric provider: `sockets`, which runs everywhere, or `cxi`.

What one endpoint here and one of a peer have together is called a queue pair, as on our own NICs. `loopback`
opens a second endpoint in the same domain, which is then the peer.
Sources: fi_trigger(3), DEFERRED WORK QUEUES; fi_cntr(3); fi_cq(3).
"""

from __future__ import annotations

import atexit
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nicemu.abi import (
    Capabilities,
    DeferredWork,
    Limits,
    Opcode,
    RemoteSpan,
    Span,
    TargetCounter,
    Unsupported,
    WorkCompletion,
    WorkRequest,
    shown,
    text,
    whole,
    yes_or_no,
)
from nicemu.errors import ResourceError, UsageError, counted

from .checks import OPERATIONS, RECEIVES, U64_MAX, check_deferred, check_number
from .counter import LibfabricCounter, LibfabricProgram
from .domain import Domain, Endpoint, Region
from .ledger import Ledger
from .provider import Provider, provider_named
from .queue import WorkQueue
from .work import UNCOUNTED, UNCOUNTED_RECEIVES, QueuePair

_NARROWER = ("slot_count", "service_slots", "counter_count", "local_pieces", "max_message_bytes")
_OWN = {UNCOUNTED: "uncounted work", UNCOUNTED_RECEIVES: "uncounted receives"}
_LOOK_EVERY_NS = 1_000_000
_END_WITHIN_S = 1.0
_open_targets: set[LibfabricTarget] = set()
"""Targets that are not closed: the provider's thread uses their memory, also if nobody here does."""


@dataclass(frozen=True, slots=True)
class FabricMemory:
    """Memory for a libfabric domain: a NumPy array and its address."""

    array: np.ndarray[Any, Any]
    address: int


@dataclass(frozen=True, slots=True)
class Loopback:
    """The second endpoint of a domain. `qp_num` leads there, `peer_qp_num` from there back."""

    qp_num: int
    peer_qp_num: int


class LibfabricTarget:
    """A libfabric domain that runs programs. Use it as a context manager.

    `provider`: "sockets", "cxi"; `node`: the own address to listen at, for a provider over IP; `domain`: the
    provider's domain, such as "cxi0"; `narrower`: limits that are to be kept below the provider's, of
    `slot_count`, `service_slots`, `counter_count`, `local_pieces` and `max_message_bytes`.
    Raises: ResourceError, which says what to install or which providers there are, if the library or the
    provider is missing; UsageError for limits that are not below the provider's.
    """

    def __init__(
        self,
        provider: str = "sockets",
        node: str | None = None,
        domain: str | None = None,
        **narrower: int,
    ) -> None:
        node = None if node is None else _named(node, "node")
        domain = None if domain is None else _named(domain, "domain")
        known = provider_named(_named(provider, "provider"))
        self.domain = Domain(provider, node or (known.node if domain is None else None), domain)
        self.provider: Provider = provider_named(self.domain.provider)
        self.lock = threading.RLock()
        self._is_open = True
        self._counters: dict[int, LibfabricCounter] = {}
        self._queue_pairs: dict[int, QueuePair] = {}
        self._regions: dict[int, Region] = {}
        try:
            self.limits: Limits = _limits(self.provider, self.domain, narrower)
        except BaseException:
            self.domain.close()
            raise
        self.capabilities = Capabilities(
            OPERATIONS - self.provider.lacks,
            self.provider.single_cancel,
            self.provider.flush,
            self.limits.order,
            doorbell=False,
            deviations=dict(self.provider.deviations),
        )
        self._queue = WorkQueue(
            self.provider, self.domain, self.limits, self._counters, self._queue_pairs, self._regions
        )
        try:
            self._endpoint: Endpoint = self.domain.endpoint()
            for index, name in _OWN.items():
                self._counters[index] = LibfabricCounter(self, self.domain.counter(), index, name)
        except BaseException:
            self.domain.close()
            raise
        _open_targets.add(self)

    def __enter__(self) -> LibfabricTarget:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    @property
    def address(self) -> bytes:
        """The endpoint's address, which a peer passes to `connect`."""
        return self._endpoint.address

    @contextmanager
    def exclusive(self) -> Iterator[Ledger]:
        """Let nobody else change anything meanwhile. Raises: UsageError if the target is closed."""
        with self.lock:
            if not self._is_open:
                raise UsageError("this target is closed; open another")
            yield self._queue.ledger

    # Peers and memory

    def connect(self, address: bytes) -> int:
        """Return a queue pair to the peer whose `address` this is. It connects when it is first used."""
        with self.exclusive():
            return self._queue_pair(self._endpoint, self.domain.insert(address))

    def loopback(self) -> Loopback:
        """Open a second endpoint in this domain, to be the peer."""
        with self.exclusive():
            second = self.domain.endpoint()
            there, back = self.domain.insert(second.address), self.domain.insert(self.address)
            return Loopback(self._queue_pair(self._endpoint, there), self._queue_pair(second, back))

    def _queue_pair(self, endpoint: Endpoint, peer: int) -> int:
        number = len(self._queue_pairs) + 1
        self._queue_pairs[number] = QueuePair(number, endpoint, peer)
        return number

    def allocate(self, shape: tuple[int, ...], dtype: object = np.uint8) -> FabricMemory:
        """Return zeroed memory. Raises: UsageError (EINVAL), ResourceError (ENOMEM)."""
        try:
            array: np.ndarray[Any, Any] = np.zeros(shape, np.dtype(dtype))  # type: ignore[call-overload]
        except (TypeError, ValueError) as error:
            raise UsageError(f"no memory of {shown(shape)} times {shown(dtype)} (EINVAL): {error}") from error
        except MemoryError as error:
            raise ResourceError(f"{error} (ENOMEM)") from error
        return FabricMemory(array, int(array.ctypes.data))

    def register(
        self, memory: FabricMemory, counter: LibfabricCounter | None = None, qp_num: int | None = None
    ) -> Span:
        """Register all of `memory`; `counter` counts what peers write there.

        It is reached through the endpoint of `qp_num` (None: this target's), which matters where a provider
        binds memory to endpoints. Raises: UsageError (EINVAL) for what is no memory, and for memory that a
        peer cannot write to: of objects, read-only, in several pieces, or without a byte.
        """
        with self.exclusive() as ledger:
            endpoint = self._endpoint if qp_num is None else self._pair(qp_num).endpoint
            fid = None if counter is None else self._own(counter).fid
            length_bytes = _length_of(memory)
            region = self.domain.register(memory.array, memory.address, length_bytes, endpoint, fid)
            if counter is not None:
                region.counter = counter.index
                ledger.peers_count_at(counter.index)
            self._regions[region.number] = region
        return Span(memory.address, length_bytes, region.number)

    def offer(self, span: Span) -> tuple[int, int]:
        """Return the address and the rkey by which a peer names registered memory, for its `RemoteSpan`.

        Raises: UsageError (EINVAL) for memory that is not registered here, or a span that is not within it.
        """
        with self.exclusive():
            region = self._region(span)
        if not region.covers(span.address, span.length_bytes):
            raise UsageError(f"{shown(span)} is not within the memory that its key covers (EINVAL)")
        return region.remote_address + span.address - region.address, region.rkey

    def remote(self, span: Span, qp_num: int) -> RemoteSpan:
        """Name memory that is registered here as a loopback peer's."""
        address, rkey = self.offer(span)
        with self.exclusive():
            qp_num = self._pair(qp_num).number
        return RemoteSpan(qp_num, address, span.length_bytes, rkey)

    def deregister(self, span: Span, force: bool = False) -> None:
        """Take a key back. Raises: UsageError (EBUSY) if armed work uses it, unless forced.

        Forced, the memory itself stays until that work has ended.
        """
        force = yes_or_no(force, "force")
        with self.exclusive():
            region = self._region(span)
            self._queue.look(kick=False)
            if region.uses and not force:
                raise UsageError(f"armed work uses key {span.key} (EBUSY); force it, or let it fire")
            self.domain.lib.check(self.domain.shut(region.fid), f"taking key {span.key} back")
            del self._regions[span.key]

    def _region(self, span: Span) -> Region:
        if not isinstance(span, Span):
            raise UsageError(f"{shown(span)} is no registered memory (EINVAL); `register` returns some")
        if span.key not in self._regions:
            raise UsageError(f"key {span.key} names no memory of this target (EINVAL)")
        return self._regions[span.key]

    def _pair(self, qp_num: int) -> QueuePair:
        number = whole(qp_num, "qp_num")
        if number not in self._queue_pairs:
            raise UsageError(f"there is no queue pair {number} (EINVAL); `connect` returns one")
        return self._queue_pairs[number]

    # Counters

    def counters(self, *names: str) -> list[LibfabricCounter]:
        """Allocate counters. Raises: ResourceError (ENOSPC) with none allocated if there are too few."""
        for name in names:
            text(name, "a counter's name")
        with self.exclusive():
            free = self.limits.counter_count + len(_OWN) - len(self._counters)
            if len(names) > free:
                asked = counted(len(names), "counter")
                raise ResourceError(f"{asked}; {free} of {self.limits.counter_count} are free (ENOSPC)")
            made: list[LibfabricCounter] = []
            index = 0  # number 0 is nobody's
            for name in names:
                index = next(number for number in range(index + 1, 65536) if number not in self._counters)
                try:
                    made.append(LibfabricCounter(self, self.domain.counter(), index, name))
                except BaseException:
                    for counter in made:
                        self.domain.shut(counter.fid)
                        counter.is_gone()
                    raise
            self._counters.update((counter.index, counter) for counter in made)
            return made

    def _own(self, counter: TargetCounter) -> LibfabricCounter:
        if not isinstance(counter, LibfabricCounter):
            raise UsageError(f"{shown(counter)} is no counter (EINVAL); `counters` returns some")
        if self._counters.get(counter.index) is not counter:
            raise UsageError(f"counter {counter.name} is not one of this target's, or closed (EINVAL)")
        return counter

    def close_counter(self, counter: LibfabricCounter, force: bool) -> None:
        """See `LibfabricCounter.close`."""
        with self.exclusive() as ledger:
            index = counter.index
            if any(region.counter == index for region in self._regions.values()):
                raise UsageError(f"peers count at counter {counter.name} (EBUSY); deregister the memory")
            self._queue.look(kick=True)
            concerned = ledger.concerning(index)
            if concerned and force:
                if not self.provider.flush:
                    raise Unsupported("R40", f"{self.provider.name} cannot cancel what concerns a counter")
                self._queue.flush(counter)
                concerned = ledger.concerning(index)
            if concerned:
                are = "operations wait for, count at or change"
                if len(concerned) == 1:
                    are = "operation waits for, counts at or changes"
                raise UsageError(f"{len(concerned)} {are} counter {counter.name} (EBUSY)")
            self.domain.lib.check(self.domain.shut(counter.fid), f"closing counter {counter.name}")
            ledger.forget_counter(index)
            del self._counters[index]

    # Programs

    @contextmanager
    def program(self, name: str) -> Iterator[LibfabricProgram]:
        """Write a program; arm it afterwards with `program.arm()`."""
        yield LibfabricProgram(name, self)

    def arm(self, work: list[DeferredWork]) -> list[tuple[int, int]]:
        """Arm a list of deferred work, all or nothing; return the handles for `cancel`.

        All of it is checked before the provider hears of any. Raises: TriggerTableFull (ENOSPC), UsageError
        (EINVAL), Unsupported (ENOSYS).
        """
        self._check(work)
        with self.exclusive():
            return self._queue.queue(work)

    def arm_window(self, work: list[DeferredWork], size: int) -> int:
        """Arm a window of `work`; return its number, for `cancel_windows`. See `LibfabricProgram.window`."""
        self._check(work)
        size = whole(size, "the size of a window", 1)
        with self.exclusive():
            return self._queue.open_window(work, size)

    def _check(self, work: list[DeferredWork]) -> None:
        """Refuse what this provider does not defer at all, and counters that are the target's own."""
        if not isinstance(work, (list, tuple)):
            raise UsageError(f"{shown(work)} is no list of deferred work (EINVAL)")
        for item in map(check_deferred, work):
            self._check_operation(item.opcode)
            if item.trigger in _OWN or item.completion in _OWN or item.target in _OWN:
                raise UsageError("a counter below 0 is the target's own (EINVAL); allocate with `counters`")
            if self.limits.receives_at_zero and item.opcode in RECEIVES and item.threshold:
                raise UsageError(f"{self.provider.name} takes receives at threshold 0 only (EINVAL)")

    def _check_operation(self, opcode: Opcode) -> None:
        if opcode in self.provider.lacks:
            raise Unsupported("R15", f"{self.provider.name} defers no {opcode.name}")
        if opcode not in OPERATIONS:
            rule = "R36" if opcode is Opcode.WRITE_BACK else "R15"
            raise Unsupported(rule, f"libfabric has no {opcode.name}; it is nicemu's own")

    def post(self, qp_num: int, *work: WorkRequest) -> None:
        """Carry work out as soon as possible, in order: it is deferred work whose threshold is 0.

        Raises: as `arm`.
        """
        for request in work:
            if not isinstance(request, WorkRequest):
                raise UsageError(f"{shown(request)} is no work request (EINVAL)")
        with self.exclusive():
            number = self._pair(qp_num).number
            deferred = [DeferredWork(UNCOUNTED, 0, request.opcode, request, number) for request in work]
            for item in map(check_deferred, deferred):
                self._check_operation(item.opcode)
            self._queue.queue(deferred)

    def cancel(self, handle: tuple[int, int]) -> bool:
        """Cancel one operation: True if it will never fire. Raises: Unsupported."""
        if not isinstance(handle, tuple) or [type(number) for number in handle] != [int, int]:
            raise UsageError(f"{shown(handle)} is no handle (EINVAL); `arm` returns some")
        with self.exclusive():
            return self._queue.cancel(handle)

    def cancel_windows(self, numbers: list[int]) -> int:
        """Cancel what of windows has not fired; return how many. See `LibfabricProgram.cancel`."""
        with self.exclusive():
            return self._queue.cancel_windows(numbers)

    def cancel_counter(self, counter: TargetCounter) -> int:
        """Cancel all that waits for a counter (`limits.domain_flush`: all there is); return how many."""
        with self.exclusive():
            return self._queue.flush(self._own(counter))

    def flush(self) -> int:
        """Cancel all work that waits; return how many operations. Raises: Unsupported.

        Windows arm nothing more, also where the provider cannot cancel what they have armed.
        """
        with self.exclusive():
            return self._queue.flush(None)

    def take_completions(self) -> list[WorkCompletion]:
        """Return the completion-queue entries that have come in, of both ends of a loopback."""
        with self.exclusive():
            return self._queue.take_completions()

    @property
    def progressed_ns(self) -> int:
        """When the provider was last looked at, by the monotonic clock."""
        return self._queue.looked_ns

    def progress(self) -> None:
        """Let the provider go on, at most once a millisecond; a call costs little otherwise."""
        is_soon = time.monotonic_ns() - self._queue.looked_ns < _LOOK_EVERY_NS
        if is_soon or not self.lock.acquire(blocking=False):
            return
        try:
            if self._is_open:
                self._queue.look(kick=True)
        finally:
            self.lock.release()

    def close(self) -> None:
        """Flush where the provider can, let what has fired end, and give everything back."""
        with self.lock:
            if not self._is_open:
                return
            self._queue.finish(_END_WITHIN_S)
            self._is_open = False
            for counter in self._counters.values():
                counter.is_gone()
            if self.domain.close():
                _open_targets.discard(self)


def _named(name: object, what: str) -> str:
    """Return a name that C can take. Raises: UsageError (EINVAL)."""
    if "\0" in text(name, what) or not str(name).isascii():
        raise UsageError(f"{what} {shown(name)} is no name of libfabric's (EINVAL)")
    return str(name)


def _length_of(memory: FabricMemory) -> int:
    """Return the bytes of memory that peers may write to. Raises: UsageError (EINVAL)."""
    array = getattr(memory, "array", None)
    if not isinstance(memory, FabricMemory) or not isinstance(array, np.ndarray):
        raise UsageError(f"{shown(memory)} is no memory to register (EINVAL); `allocate` returns some")
    if not array.nbytes or not array.flags.c_contiguous or not array.flags.writeable or array.dtype.hasobject:
        raise UsageError("memory to register is one writable piece, of a byte at least, no objects (EINVAL)")
    if check_number(memory.address, U64_MAX, "address of memory") != int(array.ctypes.data):
        raise UsageError(f"memory at {memory.address:#x} is not where its array begins (EINVAL)")
    return int(array.nbytes)


def _limits(provider: Provider, domain: Domain, narrower: dict[str, int]) -> Limits:
    """Return a provider's limits as its domain has them, kept below `narrower`."""
    known, slots = provider.limits, domain.deferred_count()
    counter_count = known.counter_count if provider.counters_are_more else min(domain.counter_count, 65536)
    limits = replace(
        known,
        counter_count=counter_count - len(_OWN),
        service_slots=known.service_slots if slots is None else min(slots, known.slot_count),
        local_pieces=min(known.local_pieces, domain.local_pieces),
        max_message_bytes=min(known.max_message_bytes, domain.max_message_bytes),
    )
    for name, value in narrower.items():
        if name not in _NARROWER:
            raise UsageError(f"no limit {name} can be narrower (EINVAL); {', '.join(_NARROWER)} can")
        whole(value, name, 1, getattr(limits, name) or limits.slot_count)  # no service_slots: all of them
    return replace(limits, **narrower)  # type: ignore[arg-type]


@atexit.register
def _close_all() -> None:
    for target in list(_open_targets):
        target.close()
