# SPDX-License-Identifier: Apache-2.0
"""Applications on a NIC, each listening on a port: who hears of which connection, and what they moved."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nicemu.abi import Sge, WorkRequest
from nicemu.cm import ENDS, CmEvent, CmEventKind, CmState, Connection
from nicemu.errors import ResourceError, VerbsStatus
from nicemu.fabric import RegisteredRegion, RoceEndpoint
from nicemu.rdma import Arrival, Completion
from nicemu.wire import RejectReason, port_of_service

PD = 1
_NAP_S = 0.01


@dataclass
class Totals:
    """What was moved: operations and bytes of the data that were wanted, not of what was said about them.

    `clients`: how many are through. `problems`: what should not have been, in words.
    """

    clients: int = 0
    operations: int = 0
    moved_bytes: int = 0
    problems: list[str] = field(default_factory=list)


class Application(ABC):
    """A program that serves clients on a port of a NIC; `report` gets a line when one is through."""

    def __init__(
        self, endpoint: RoceEndpoint, port: int, report: Callable[[str], object] | None = None
    ) -> None:
        self.port = port
        self._report = report
        self.totals = Totals()
        self._endpoint = endpoint
        endpoint.cm.listen(port)

    @abstractmethod
    def on_request(self, connection: Connection) -> None:
        """Accept or reject a connection.

        Raises: ResourceError if there is no room for it; then it is rejected.
        """

    @abstractmethod
    def on_arrival(self, connection: Connection, arrival: Arrival) -> None:
        """Take what a peer did on a queue pair that was accepted."""

    @abstractmethod
    def on_completion(self, connection: Connection, completion: Completion) -> None:
        """Take the end of work that went well."""

    @abstractmethod
    def on_disconnect(self, connection: Connection) -> None:
        """Take the end of a connection that was accepted."""

    def count(self, client: Totals, moved_bytes: int) -> None:
        """Count an operation of a client's."""
        client.operations += 1
        client.moved_bytes += moved_bytes
        self.totals.operations += 1
        self.totals.moved_bytes += moved_bytes

    def is_through(self, connection: Connection, client: Totals, program: str) -> None:
        """Count a client that is through, and report it."""
        self.totals.clients += 1
        if self._report is not None:
            done = f"{client.operations:,} operations, {client.moved_bytes:,} bytes"
            self._report(f"{connection.peer.ip} {program}: {done}")

    def owns(self, connection: Connection) -> bool:
        """Return whether a connection is one to this application's port."""
        found = port_of_service(connection.req.service_id)
        return found is not None and found[1] == self.port

    def post(self, connection: Connection, work: WorkRequest) -> None:
        """Post work on a connection's queue pair."""
        assert connection.qp_num is not None
        if not self._endpoint.engine.post_send(connection.qp_num, work, work.wr_id, time.monotonic_ns()):
            self.totals.problems.append(f"the send queue of queue pair {connection.qp_num:#x} is full")

    def post_receive(
        self, connection: Connection, region: RegisteredRegion, length: int, offset: int = 0
    ) -> None:
        """Post a receive into a piece of a region."""
        assert connection.qp_num is not None
        piece = Sge(region.address + offset, length, region.key)
        if not self._endpoint.engine.post_receive(connection.qp_num, offset, (piece,)):
            self.totals.problems.append(f"the receive queue of queue pair {connection.qp_num:#x} is full")


class PeerServer:
    """Lets a NIC serve the clients of its applications: what happens is handed to whom it concerns."""

    def __init__(self, endpoint: RoceEndpoint, applications: Sequence[Application]) -> None:
        self._endpoint = endpoint
        self._applications = applications
        self._accepted: dict[int, tuple[Application, Connection]] = {}
        self._made: set[int] = set()

    def run(self, is_over: Callable[[], bool]) -> None:
        """Serve until it is over."""
        while not is_over():
            self.step(_NAP_S)

    def step(self, wait_s: float = 0.0) -> bool:
        """Move once, as `RoceEndpoint.move` does, and hand out events, completions and arrivals."""
        endpoint = self._endpoint
        moved = endpoint.move(wait_s)
        for arrival in endpoint.take_arrivals():
            if (known := self._accepted.get(arrival.qp_num)) is not None:
                known[0].on_arrival(known[1], arrival)
        for completion in endpoint.take_completions():
            if (known := self._accepted.get(completion.qp_num)) is None:
                continue
            if completion.status is VerbsStatus.SUCCESS:
                known[0].on_completion(known[1], completion)
            elif completion.status is not VerbsStatus.WR_FLUSH_ERR:
                problem = f"{completion.opcode.name} ended with {completion.status.name}"
                known[0].totals.problems.append(f"queue pair {completion.qp_num:#x}: {problem}")
                endpoint.cm.disconnect(known[1], time.monotonic_ns())
        for event in endpoint.take_events():  # last, for what arrived before a connection ended counts
            self._on_event(event)
        return moved

    def _on_event(self, event: CmEvent) -> None:
        connection = event.connection
        application = next((one for one in self._applications if one.owns(connection)), None)
        if application is None:
            return
        if event.kind is CmEventKind.CONNECT_REQUEST:
            if connection.state is not CmState.REQ_RCVD:
                return  # the client has taken it back meanwhile
            self._begin(application, connection)
            if connection.qp_num is not None:
                self._accepted[connection.qp_num] = application, connection
                self._made.add(connection.qp_num)
            return
        qp_num = connection.qp_num
        if qp_num is None or event.kind is CmEventKind.ESTABLISHED:
            return
        if self._accepted.pop(qp_num, None) is not None:
            application.on_disconnect(connection)
        if event.kind in ENDS and qp_num in self._made:
            self._made.discard(qp_num)
            self._endpoint.engine.destroy_qp(qp_num)

    def _begin(self, application: Application, connection: Connection) -> None:
        """Have a request accepted; where there is nothing left for it, an older one may have to make room."""
        cm = self._endpoint.cm
        while True:
            try:
                application.on_request(connection)
                return
            except ResourceError:
                if not cm.make_room(connection):
                    cm.reject(connection, reason=RejectReason.NO_RESOURCES)
                    return
            for event in cm.take_events():
                self._on_event(event)
