# SPDX-License-Identifier: Apache-2.0
"""The communication manager of one NIC: services that are listened to, and connections, sans-IO.

MADs and time in; MADs and events out. What belongs to no connection is answered so that the peer learns of
it: a DREQ is agreed to, a REP or RTU is refused.
Source: InfiniBand Architecture Specification Volume 1, "Communication Management".
"""

from __future__ import annotations

import heapq
import random
from collections import Counter

from nicemu.arguments import check_type, check_whole
from nicemu.errors import ResourceError, UsageError
from nicemu.wire import (
    AnsweredMessage,
    CmMessage,
    Drep,
    Dreq,
    MalformedError,
    Mra,
    Rej,
    RejectReason,
    Rep,
    Req,
    Rtu,
    decode_cm_message,
    parse_ipv4,
)

from .connection import Connection
from .event import CmEvent, CmEventKind
from .half_open import HALF_OPEN, who_makes_room
from .state import LATEST_NS, CmAddress, CmState, QpOffer

MAX_CONNECTIONS = 1024
"""Connections that a manager keeps, with those that wait for the end of their TIMEWAIT."""
DEFAULT_BACKLOG = 128
RESPONSE_TIMEOUT = 18
"""The exponent that our REQs ask with: an answer is awaited for 1.1 s."""
RELIABLE_CONNECTION = 0
_PATH_MTUS = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
_MAPPED = 0xFFFF << 32


class CmEndpoint:
    """The communication manager at address `ip` (text), of a NIC with the 64-bit `guid`.

    After every way in (`on_mad`, `on_timer`, and what is called of a connection) take MADs, then events.
    `drops` counts under a name each whatever was not accepted from the wire.
    """

    def __init__(self, ip: str, guid: int, rng: random.Random, drops: Counter[str]) -> None:
        self.drops = drops
        self._gid = gid_of(ip)
        self._guid = guid
        self._rng = rng
        self._backlogs: dict[int, int] = {}
        self._connections: dict[int, Connection] = {}
        self._asked: dict[tuple[str, int], Connection] = {}
        self._deadlines: list[tuple[int, int]] = []
        self._mads: list[tuple[CmAddress, bytes]] = []
        self._events: list[CmEvent] = []

    def listen(self, service_id: int, backlog: int = DEFAULT_BACKLOG) -> None:
        """Have requests for a service told to the application; `backlog` may be unanswered at a time.

        With more, the peer that has most of them is refused, or has its oldest one refused (UNREACHABLE).
        Raises: UsageError if the service is listened to already.
        """
        check_whole("service_id", service_id, 0, (1 << 64) - 1)
        check_whole("backlog", backlog, 1, (1 << 31) - 1)
        if service_id in self._backlogs:
            raise UsageError(f"service {service_id:#x} is listened to already")
        self._backlogs[service_id] = backlog

    def stop_listening(self, service_id: int) -> None:
        """Refuse requests for a service from here on."""
        self._backlogs.pop(service_id, None)

    def connect(
        self,
        peer: CmAddress,
        service_id: int,
        offer: QpOffer,
        now_ns: int,
        *,
        path_mtu: int = 1024,
        retry_count: int = 7,
        local_ack_timeout: int = 18,
        private_data: bytes = b"",
    ) -> Connection:
        """Ask a peer's service for a connection, which is returned; events say how it goes on.

        `path_mtu` in bytes; `local_ack_timeout` is an exponent: what the peer's queue pair waits for an
        acknowledgement, 4.096 us times 2 to the power; `private_data`: 92 bytes at most.
        Raises: UsageError for values that do not fit; ResourceError if there are too many connections.
        """
        check_type("peer", peer, CmAddress, "CmAddress(mac, ip)")
        check_type("offer", offer, QpOffer, "QpOffer(qp_num, starting_psn, ...)")
        check_whole("now_ns", now_ns, 0, LATEST_NS)
        if not isinstance(path_mtu, int) or path_mtu not in _PATH_MTUS:
            raise UsageError(f"path_mtu is {path_mtu!r}; allowed are {', '.join(map(str, _PATH_MTUS))}")
        local_id = self._new_id()
        req = Req(
            local_communication_id=local_id,
            service_id=service_id,
            local_ca_guid=self._guid,
            local_qpn=offer.qp_num,
            starting_psn=offer.starting_psn,
            responder_resources=offer.responder_resources,
            initiator_depth=offer.initiator_depth,
            rnr_retry_count=offer.rnr_retry_count,
            path_mtu=_PATH_MTUS[path_mtu],
            retry_count=retry_count,
            local_ack_timeout=local_ack_timeout,
            remote_cm_response_timeout=RESPONSE_TIMEOUT,
            local_cm_response_timeout=RESPONSE_TIMEOUT,
            local_gid=self._gid,
            remote_gid=gid_of(peer.ip),
            private_data=private_data,
        )
        req.encode(0)
        if self._is_full() and not self._makes_room(None, self._in_state(*HALF_OPEN)):
            raise ResourceError(f"{MAX_CONNECTIONS} connections are kept already; disconnect one")
        transaction_id = self._rng.getrandbits(64)
        return self._add(peer, local_id, transaction_id, req, is_active=True, now_ns=now_ns)

    def make_room(self, asker: CmAddress) -> bool:
        """Have the peer with most connections that we have accepted and it has not confirmed lose its oldest.

        False if `asker` has about as many: then that is not fair, and nothing is changed.
        """
        return self._makes_room(asker, self._in_state(CmState.REP_SENT))

    # MADs

    def on_mad(self, peer: CmAddress, data: bytes | memoryview, now_ns: int) -> None:
        """Take a MAD; nothing in it makes this raise."""
        try:
            transaction_id, message = decode_cm_message(data)
        except MalformedError as error:
            self.drops[error.reason] += 1
            return
        if isinstance(message, Req):
            self._on_req(peer, transaction_id, message, now_ns)
            return
        connection = self._connection_of(peer, message)
        if connection is None:
            self._on_stray(peer, transaction_id, message)
        elif connection.peer.ip != peer.ip:
            self.drops["cm.source"] += 1
        elif not _fits(connection, message):
            self.drops["cm.communication_id"] += 1
        elif not connection.on_message(message, now_ns):
            self.drops["cm.state"] += 1

    def take_mads(self) -> list[tuple[CmAddress, bytes]]:
        """Return MADs to send now, each with whom it is for."""
        taken, self._mads = self._mads, []
        return taken

    def take_events(self) -> list[CmEvent]:
        """Return what happened since the last call, oldest first."""
        taken, self._events = self._events, []
        return taken

    # Time

    def on_timer(self, now_ns: int) -> None:
        """Let every connection whose deadline has passed send again, or end."""
        while self._deadlines and self._deadlines[0][0] <= now_ns:
            deadline_ns, local_id = heapq.heappop(self._deadlines)
            connection = self._connections.get(local_id)
            if connection is not None and connection.deadline_ns == deadline_ns:
                connection.on_deadline(now_ns)

    def next_deadline_ns(self) -> int | None:
        """When `on_timer` wants to be called; None while nothing is waited for."""
        while self._deadlines:
            deadline_ns, local_id = self._deadlines[0]
            connection = self._connections.get(local_id)
            if connection is not None and connection.deadline_ns == deadline_ns:
                return deadline_ns
            heapq.heappop(self._deadlines)
        return None

    def connections(self) -> list[Connection]:
        """Return every connection that is not closed."""
        return list(self._connections.values())

    # What connections call

    def send(self, connection: Connection, message: CmMessage) -> None:
        """Take a message of a connection's."""
        self._mads.append((connection.peer, message.encode(connection.transaction_id)))

    def tell(self, event: CmEvent) -> None:
        """Take an event."""
        self._events.append(event)

    def wake(self, connection: Connection) -> None:
        """Keep a connection's deadline, or forget it if it is closed."""
        if connection.state is CmState.CLOSED:
            self._connections.pop(connection.local_id, None)
            self._asked.pop((connection.peer.ip, connection.remote_id), None)
        elif connection.deadline_ns is not None:
            heapq.heappush(self._deadlines, (connection.deadline_ns, connection.local_id))

    # Requests

    def _on_req(self, peer: CmAddress, transaction_id: int, req: Req, now_ns: int) -> None:
        known = self._asked.get((peer.ip, req.local_communication_id))
        if known is not None:
            if not known.on_message(req, now_ns):
                self.drops["cm.state"] += 1
            return
        reason = self._why_not(peer, req, now_ns)
        if reason is not None:
            self.drops[f"cm.refused.{reason.name.lower()}"] += 1
            rej = Rej(
                local_communication_id=0,
                remote_communication_id=req.local_communication_id,
                answered_message=AnsweredMessage.REQ,
                reason=reason,
            )
            self._mads.append((peer, rej.encode(transaction_id)))
            return
        connection = self._add(peer, self._new_id(), transaction_id, req, is_active=False, now_ns=now_ns)
        self._asked[(peer.ip, req.local_communication_id)] = connection
        self.tell(CmEvent(CmEventKind.CONNECT_REQUEST, connection, req.private_data))

    def _why_not(self, peer: CmAddress, req: Req, now_ns: int) -> RejectReason | None:
        """Return why a request is refused, if it is."""
        backlog = self._backlogs.get(req.service_id)
        if backlog is None:
            return RejectReason.INVALID_SERVICE_ID
        if req.remote_gid != self._gid or req.local_gid != gid_of(peer.ip):
            return RejectReason.INVALID_GID
        if req.transport_service_type != RELIABLE_CONNECTION:
            return RejectReason.INVALID_TRANSPORT_TYPE
        if req.path_mtu not in _PATH_MTUS.values():
            return RejectReason.INVALID_PATH_MTU
        stale = 0
        for other in self.connections():
            if other.peer.ip == peer.ip and other.remote is not None and other.remote.qp_num == req.local_qpn:
                stale += other.state is not CmState.TIMEWAIT
                if other.state is CmState.ESTABLISHED:
                    other.disconnect(now_ns)
        if stale:
            return RejectReason.STALE_CONNECTION
        waiting = [one for one in self._in_state(CmState.REQ_RCVD) if one.req.service_id == req.service_id]
        if len(waiting) >= backlog and not self._makes_room(peer, waiting):
            return RejectReason.NO_RESOURCES
        if self._is_full() and not self._makes_room(peer, self._in_state(*HALF_OPEN)):
            return RejectReason.NO_RESOURCES
        return None

    def _is_full(self) -> bool:
        return len(self._connections) >= MAX_CONNECTIONS

    def _in_state(self, *states: CmState) -> list[Connection]:
        """Return the connections in these states, oldest first."""
        return [connection for connection in self._connections.values() if connection.state in states]

    def _makes_room(self, asker: CmAddress | None, half_open: list[Connection]) -> bool:
        """End the oldest one of the peer that has most of these connections, if that is fair to it."""
        oldest = who_makes_room(half_open, None if asker is None else asker.ip)
        if oldest is None:
            return False
        self.drops["cm.made_room"] += 1
        oldest.make_room()
        return True

    def _connection_of(self, peer: CmAddress, message: CmMessage) -> Connection | None:
        assert not isinstance(message, Req)
        connection = self._connections.get(message.remote_communication_id)
        if connection is None and isinstance(message, Rej) and message.reason == RejectReason.TIMEOUT:
            return self._asked.get((peer.ip, message.local_communication_id))
        return connection

    def _on_stray(self, peer: CmAddress, transaction_id: int, message: CmMessage) -> None:
        """Answer a message whose connection is not known here."""
        self.drops["cm.unknown_connection"] += 1
        answer: CmMessage
        if isinstance(message, Dreq):
            answer = Drep(
                local_communication_id=message.remote_communication_id,
                remote_communication_id=message.local_communication_id,
            )
        elif isinstance(message, Rep | Rtu):
            answer = Rej(
                local_communication_id=message.remote_communication_id,
                remote_communication_id=message.local_communication_id,
                answered_message=AnsweredMessage.REP if isinstance(message, Rep) else AnsweredMessage.NONE,
                reason=RejectReason.INVALID_COMMUNICATION_ID,
            )
        else:
            return
        self._mads.append((peer, answer.encode(transaction_id)))

    def _add(
        self,
        peer: CmAddress,
        local_id: int,
        transaction_id: int,
        req: Req,
        *,
        is_active: bool,
        now_ns: int,
    ) -> Connection:
        connection = Connection(
            self, peer, local_id, transaction_id, req, guid=self._guid, is_active=is_active, now_ns=now_ns
        )
        self._connections[local_id] = connection
        return connection

    def _new_id(self) -> int:
        while True:
            local_id = self._rng.randrange(1, 1 << 32)
            if local_id not in self._connections:
                return local_id


def gid_of(ip: str) -> int:
    """Return the 128-bit GID of an IPv4 address.

    Source: Annex A17 "RoCEv2", "GID": an IPv4-mapped IPv6 address (RFC 4291).
    """
    return _MAPPED | int.from_bytes(parse_ipv4(ip), "big")


def _fits(connection: Connection, message: CmMessage) -> bool:
    """Return whether the peer's number of the connection is the one that we know, if we know one."""
    if isinstance(message, Rep | Rej | Mra) and not connection.remote_id:
        return True
    if isinstance(message, Rej) and not message.local_communication_id:
        return True
    return message.local_communication_id == connection.remote_id
