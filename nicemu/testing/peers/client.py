# SPDX-License-Identifier: Apache-2.0
"""What a client of a well-known program needs: connections that it asks for, and what happens on each."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from nicemu.cm import CmEventKind, Connection
from nicemu.errors import ProtocolError, ResourceError, VerbsStatus
from nicemu.fabric import RoceEndpoint
from nicemu.rdma import Arrival, ArrivalKind, Completion
from nicemu.wire import RejectReason

from .application import PD

_NAP_S = 0.01
_ASK_AGAIN_S = 0.1
_REASONS = {int(reason): reason.name for reason in RejectReason}


@dataclass(eq=False)
class Asked:
    """A connection that was asked for: its number, what its server has sent, and which work has ended."""

    connection: Connection
    qp_num: int
    sends: list[Arrival] = field(default_factory=list)
    completions: list[Completion] = field(default_factory=list)
    is_made: bool = False
    is_gone: bool = False
    refusal: str = ""


class Client:
    """The connections of one client on a NIC, to a server at `ip`. `limit_s` is for each wait.

    Raises: ResourceError if there is nobody at `ip`.
    """

    def __init__(self, endpoint: RoceEndpoint, ip: str, limit_s: float) -> None:
        self.endpoint = endpoint
        self._limit_s = limit_s
        self._peer = endpoint.resolve(ip, limit_s)
        self._asked: dict[int, Asked] = {}

    def connect(
        self,
        port: int,
        *,
        path_mtu: int = 1024,
        outstanding_reads: int = 16,
        first: Callable[[int], object] = lambda qp_num: None,
        is_patient: bool = False,
    ) -> Asked:
        """Return a new connection to a port; `first` is called with its queue pair, to post receives.

        `is_patient`: a server that does not listen yet is asked again.
        Raises: ResourceError if nobody answers in time; ProtocolError if the server refuses.
        """
        end = time.monotonic() + self._limit_s
        while True:
            now_ns = time.monotonic_ns()
            connection = self.endpoint.cm.connect(
                self._peer, port, PD, now_ns, path_mtu=path_mtu, outstanding_reads=outstanding_reads
            )
            assert connection.qp_num is not None
            asked = self._asked[connection.qp_num] = Asked(connection, connection.qp_num)
            first(asked.qp_num)
            if self._is_made(asked):
                return asked
            self._give_back(asked)
            listens_not = asked.refusal == RejectReason.INVALID_SERVICE_ID.name
            if not (is_patient and listens_not) or time.monotonic() > end:
                raise ProtocolError(f"port {port} of {self._peer.ip} makes no connection: {asked.refusal}")
            time.sleep(_ASK_AGAIN_S)

    def _is_made(self, asked: Asked) -> bool:
        self.wait(lambda: asked.is_made or asked.is_gone, f"{self._peer.ip} to answer")
        return asked.is_made

    def disconnect(self, asked: Asked) -> None:
        """End a connection, if the server has not, and wait until both know."""
        self.endpoint.cm.disconnect(asked.connection, time.monotonic_ns())
        self.wait(lambda: asked.is_gone, "the server to disconnect")
        self._give_back(asked)

    def wait(self, is_so: Callable[[], bool], what: str) -> None:
        """Move until something is so.

        Raises: ResourceError if it takes too long; ProtocolError if work fails meanwhile.
        """
        end = time.monotonic() + self._limit_s
        while not is_so():
            if time.monotonic() > end:
                raise ResourceError(f"waited {self._limit_s} s for {what}")
            self.endpoint.move(_NAP_S)
            self._take()

    def _take(self) -> None:
        for arrival in self.endpoint.take_arrivals():
            if arrival.kind is ArrivalKind.SEND and (asked := self._asked.get(arrival.qp_num)) is not None:
                asked.sends.append(arrival)
        failed = None
        for completion in self.endpoint.take_completions():
            if completion.status is VerbsStatus.WR_FLUSH_ERR:
                continue
            if completion.status is not VerbsStatus.SUCCESS:
                failed = f"{completion.opcode.name} ended with {completion.status.name}"
            elif (asked := self._asked.get(completion.qp_num)) is not None:
                asked.completions.append(completion)
        for event in self.endpoint.take_events():
            asked = next((one for one in self._asked.values() if one.connection is event.connection), None)
            if asked is None:
                continue
            if event.kind is CmEventKind.ESTABLISHED:
                asked.is_made = True
            else:
                asked.is_gone = True
                asked.refusal = _REASONS.get(event.reason, event.kind.value)
        if failed is not None:
            raise ProtocolError(failed)

    def _give_back(self, asked: Asked) -> None:
        del self._asked[asked.qp_num]
        self.endpoint.engine.destroy_qp(asked.qp_num)
