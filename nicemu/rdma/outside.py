# SPDX-License-Identifier: Apache-2.0
"""A transport that is not ours: an RDMA device of this machine, with memory keys and queue pairs of its own.

The NIC names queue pairs, keys and addresses as it always does; the device has other numbers for them. Those
of queue pairs are exchanged when they connect. Those of a region a NIC learns when it first names the key:
the transport says which keys it does not know (`take_unknown`), somebody asks the peer, whose transport says
where the region lies (`describe`), and `learn` lets the work go on that waited.
Source: ibv_reg_mr(3), ibv_create_qp(3), ibv_post_send(3), ibv_poll_cq(3).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from nicemu.abi import Sge, WorkRequest

from .memory_region import MemoryRegion
from .queue_pair import Arrival, Completion


class OutsideTransport(Protocol):
    """Carries work between queue pairs; what an operation means, and each status, is as everywhere here.

    Nothing that arrives, and nothing that a peer says, makes it raise, but `connect`.
    """

    # Memory

    def register(self, region: MemoryRegion, address: int, counted: bool) -> None:
        """Register memory at raw `address` for the device; `counted`: peers' writes are arrivals.

        Raises: ResourceError if the device cannot take it.
        """
        ...

    def deregister(self, key: int) -> None:
        """Take a key back: from here on the device refuses it."""
        ...

    def describe(self, key: int) -> dict[str, Any]:
        """Return where a region lies for the device, as JSON-able data for a peer's `learn`.

        An unknown key is described too, by what the device will refuse.
        """
        ...

    def take_unknown(self) -> list[tuple[int, int]]:
        """Return (queue pair, peer's key) of work that waits to learn where a region lies, each once."""
        ...

    def learn(self, qp_num: int, key: int, place: object) -> None:
        """Hear what the peer of a queue pair said of a key; None: it was taken back, and is to be asked for
        again.
        """
        ...

    # Queue pairs

    def create(self, qp_num: int, pd: int, implicit_receives: bool) -> None:
        """Create what stands for a queue pair. Raises: ResourceError if the device cannot."""
        ...

    def offer(self, qp_num: int) -> dict[str, Any]:
        """Return what a peer has to know to connect to it, as JSON-able data."""
        ...

    def connect(self, qp_num: int, offer: dict[str, Any]) -> None:
        """Bring it to ready-to-send with what the peer offered.

        Raises: ProtocolError if that makes no sense, or the device refuses it.
        """
        ...

    def fail(self, qp_num: int) -> None:
        """Move it to the error state; work that has not ended is flushed."""
        ...

    def destroy(self, qp_num: int) -> None:
        """Remove it; its work goes without completions."""
        ...

    # Work

    def post_send(self, qp_num: int, work: WorkRequest, context: int) -> None:
        """Take work; it is kept while the device cannot take it."""
        ...

    def post_receive(self, qp_num: int, wr_id: int, sges: Sequence[Sge]) -> None:
        """Take a receive."""
        ...

    def run(self) -> int:
        """Look at the device's queues, and post what can be posted; return how much was found there."""
        ...

    def take_completions(self) -> list[Completion]:
        """Return the ends of posted work since the last call, oldest first."""
        ...

    def take_arrivals(self) -> list[Arrival]:
        """Return what peers did since the last call."""
        ...

    def take_failed(self) -> list[int]:
        """Return the queue pairs that the device has moved to the error state by itself."""
        ...

    def take_events(self) -> list[str]:
        """Return the names of the device's asynchronous events. Source: ibv_get_async_event(3)."""
        ...

    # Waiting

    def prepare_sleep(self) -> bool:
        """Let the descriptors tell of what comes from here on; False: there is something now, do not wait."""
        ...

    @property
    def descriptors(self) -> list[int]:
        """What is readable after `prepare_sleep` when `run` has something to do."""
        ...

    @property
    def busy(self) -> bool:
        """Whether work is under way."""
        ...

    @property
    def watches(self) -> bool:
        """Whether something must be looked at of which no descriptor tells."""
        ...

    def close(self) -> None:
        """Give everything back to the device."""
        ...
