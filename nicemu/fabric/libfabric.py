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
)
from nicemu.errors import ResourceError, UsageError

from .libfabric_counter import LibfabricCounter, LibfabricProgram
from .libfabric_domain import Domain, Endpoint, Region
from .libfabric_ledger import Ledger
from .libfabric_provider import Provider, provider_named
from .libfabric_queue import WorkQueue
from .libfabric_work import OPERATIONS, UNCOUNTED, UNCOUNTED_RECEIVES, QueuePair

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
    Raises: ResourceError, which says what to install, if the library or the provider is missing.
    """

    def __init__(
        self,
        provider: str = "sockets",
        node: str | None = None,
        domain: str | None = None,
        **narrower: int,
    ) -> None:
        self.provider: Provider = provider_named(provider)
        self.domain = Domain(provider, node or self.provider.node, domain)
        self.lock = threading.RLock()
        self._is_open = True
        self._counters: dict[int, LibfabricCounter] = {}
        self._queue_pairs: dict[int, QueuePair] = {}
        self._regions: dict[int, Region] = {}
        try:
            self.limits: Limits = _limits(self.provider.limits, self.domain, narrower)
        except BaseException:
            self.domain.close()
            raise
        self.capabilities = Capabilities(
            OPERATIONS,
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
        """Return zeroed memory."""
        array: np.ndarray[Any, Any] = np.zeros(shape, np.dtype(dtype))  # type: ignore[call-overload]
        return FabricMemory(array, int(array.ctypes.data))

    def register(
        self, memory: FabricMemory, counter: LibfabricCounter | None = None, qp_num: int | None = None
    ) -> Span:
        """Register all of `memory`; `counter` counts what peers write there.

        It is reached through the endpoint of `qp_num` (None: this target's), which matters where a provider
        binds memory to endpoints.
        """
        with self.exclusive() as ledger:
            endpoint = self._endpoint if qp_num is None else self._pair(qp_num).endpoint
            fid = None if counter is None else self._own(counter).fid
            length_bytes = int(memory.array.nbytes)
            if not length_bytes or not memory.array.flags.c_contiguous:
                raise UsageError("memory to register is one piece of at least a byte (EINVAL)")
            region = self.domain.register(memory.array, memory.address, length_bytes, endpoint, fid)
            if counter is not None:
                region.counter = counter.index
                ledger.peers_count_at(counter.index)
            self._regions[region.number] = region
        return Span(memory.address, length_bytes, region.number)

    def offer(self, span: Span) -> tuple[int, int]:
        """Return the address and the rkey by which a peer names registered memory, for its `RemoteSpan`."""
        region = self._region(span.key)
        return region.remote_address + span.address - region.address, region.rkey

    def remote(self, span: Span, qp_num: int) -> RemoteSpan:
        """Name memory that is registered here as a loopback peer's."""
        address, rkey = self.offer(span)
        return RemoteSpan(qp_num, address, span.length_bytes, rkey)

    def deregister(self, span: Span, force: bool = False) -> None:
        """Take a key back. Raises: UsageError (EBUSY) if armed work uses it, unless forced.

        Forced, the memory itself stays until that work has ended.
        """
        with self.exclusive():
            region = self._region(span.key)
            self._queue.look(kick=False)
            if region.uses and not force:
                raise UsageError(f"armed work uses key {span.key} (EBUSY); force it, or let it fire")
            self.domain.lib.check(self.domain.shut(region.fid), f"taking key {span.key} back")
            del self._regions[span.key]

    def _region(self, key: int) -> Region:
        if key not in self._regions:
            raise UsageError(f"key {key} names no memory of this target (EINVAL)")
        return self._regions[key]

    def _pair(self, qp_num: int) -> QueuePair:
        if qp_num not in self._queue_pairs:
            raise UsageError(f"there is no queue pair {qp_num} (EINVAL); `connect` returns one")
        return self._queue_pairs[qp_num]

    # Counters

    def counters(self, *names: str) -> list[LibfabricCounter]:
        """Allocate counters. Raises: ResourceError (ENOSPC) with none allocated if there are too few."""
        with self.exclusive():
            free = self.limits.counter_count + len(_OWN) - len(self._counters)
            if len(names) > free:
                raise ResourceError(
                    f"{len(names)} counters; {free} of {self.limits.counter_count} are free (ENOSPC)"
                )
            made: list[LibfabricCounter] = []
            index = 0  # number 0 is nobody's
            for name in names:
                index = next(number for number in range(index + 1, 65536) if number not in self._counters)
                made.append(LibfabricCounter(self, self.domain.counter(), index, name))
            self._counters.update((counter.index, counter) for counter in made)
            return made

    def _own(self, counter: TargetCounter) -> LibfabricCounter:
        found = self._counters.get(counter.index)
        if found is not counter or found is None:
            raise UsageError(f"counter {counter.name} is not one of this target's (EINVAL)")
        return found

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
                raise UsageError(
                    f"{len(concerned)} operations wait for counter {counter.name}, count at it or change it "
                    "(EBUSY)"
                )
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
        for item in work:
            if item.opcode not in self.capabilities.operations:
                rule = "R36" if item.opcode is Opcode.WRITE_BACK else "R15"
                raise Unsupported(rule, f"libfabric has no {item.opcode.name}; it is nicemu's own")
            if item.trigger in _OWN or item.completion in _OWN or item.target in _OWN:
                raise UsageError("a counter below 0 is the target's own (EINVAL); allocate with `counters`")
            if item.opcode in (Opcode.RECV, Opcode.TAGGED_RECV) and (
                self.limits.receives_at_zero and item.threshold
            ):
                raise UsageError(f"{self.provider.name} takes receives at threshold 0 only (EINVAL)")
        with self.exclusive():
            return self._queue.queue(work)

    def post(self, qp_num: int, *work: WorkRequest) -> None:
        """Carry work out as soon as possible, in order: it is deferred work whose threshold is 0."""
        with self.exclusive():
            self._queue.queue(
                [DeferredWork(UNCOUNTED, 0, request.opcode, request, qp_num) for request in work]
            )

    def cancel(self, handle: tuple[int, int]) -> bool:
        """Cancel one operation: True if it will never fire. Raises: Unsupported."""
        with self.exclusive():
            return self._queue.cancel(handle)

    def cancel_counter(self, counter: TargetCounter) -> int:
        """Cancel all that waits for a counter (`limits.domain_flush`: all there is); return how many."""
        with self.exclusive():
            return self._queue.flush(self._own(counter))

    def flush(self) -> int:
        """Cancel all work that waits; return how many operations. Raises: Unsupported."""
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


def _limits(known: Limits, domain: Domain, narrower: dict[str, int]) -> Limits:
    """Return a provider's limits as its domain has them, kept below `narrower`."""
    limits = replace(
        known,
        counter_count=min(domain.counter_count, 65536) - len(_OWN),
        local_pieces=min(known.local_pieces, domain.local_pieces),
        max_message_bytes=min(known.max_message_bytes, domain.max_message_bytes),
    )
    for name, value in narrower.items():
        most = getattr(limits, name) or limits.slot_count  # no service_slots: all of them
        if name not in _NARROWER or not 0 < value <= most:
            raise UsageError(f"{name}={value}; {', '.join(_NARROWER)} can be 1 to what the provider has")
    return replace(limits, **narrower)  # type: ignore[arg-type]


@atexit.register
def _close_all() -> None:
    for target in list(_open_targets):
        target.close()
