# SPDX-License-Identifier: Apache-2.0
"""rdma_cm for a NIC: listens on ports and connects to them, with queue pairs of the NIC's RoCEv2 engine.

It stands between the NIC's port and its engine: frames for the general services interface (queue pair 1) are
taken out on their way in, and its own are added on the way out. Queue pairs are made, moved and connected
here; memory regions, work and completions are the application's and the engine's.
Source: rdma_cm(7); InfiniBand Architecture Specification Volume 1, Annex A11 "RDMA IP CM Service".
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count

from nicemu.arguments import check_type, check_whole
from nicemu.errors import ResourceError, UsageError
from nicemu.rdma import MAX_RD_ATOMIC, QpState, RemoteQp, RoceEngine
from nicemu.wire import (
    GSI_Q_KEY,
    GSI_QP,
    IP_CM_HEADER_BYTES,
    PSN_BITS,
    SMI_QP,
    IpCmHeader,
    MalformedError,
    RejectReason,
    RoceFramer,
    UdFrame,
    check_mac,
    encode_gsi_frame,
    format_ipv4,
    is_for_gsi,
    parse_ipv4,
    port_of_service,
    service_id,
)

from .connection import Connection
from .endpoint import DEFAULT_BACKLOG, CmEndpoint
from .event import CmEvent, CmEventKind
from .state import LATEST_NS, TICK_NS, CmAddress, CmState, QpOffer

_FRAMERS_KEPT = 256


class RdmaCm:
    """rdma_cm of the NIC with address `mac` and `ip`, over its `engine`.

    After every way in (`take_in`, `on_timer`, `accept` and the like) take frames, then events. Whatever is
    not accepted from the wire is counted in the engine's drops. `numbers` are those for new queue pairs, each
    used once; without, they count up from a random one.
    """

    def __init__(
        self,
        engine: RoceEngine,
        mac: bytes,
        ip: str,
        rng: random.Random,
        *,
        numbers: Iterator[int] | None = None,
    ) -> None:
        check_type("engine", engine, RoceEngine, "the NIC's RoceEngine")
        check_mac(mac, is_own=True)
        self._engine = engine
        engine.reserve(SMI_QP, GSI_QP)
        self._mac, self._ip, self._address = mac, ip, parse_ipv4(ip)
        self._rng = rng
        self._numbers = numbers or count(rng.randrange(0x100, 1 << 20))
        self._endpoint = CmEndpoint(ip, eui64(mac), rng, engine.drops)
        self._by_qp: dict[int, Connection] = {}
        self._events: list[CmEvent] = []
        self._framers: dict[CmAddress, RoceFramer] = {}
        self._psn = 0

    # Listening

    def listen(self, port: int, backlog: int = DEFAULT_BACKLOG) -> None:
        """Have connections to a port of the TCP port space told as CONNECT_REQUEST.

        The event's private data are the application's, without the header of the IP CM service; accept or
        reject its connection. `backlog` may wait for that at a time.
        Raises: UsageError if it is no port, or is listened to already.
        """
        self.listen_service(service_id(port), backlog)

    def listen_service(self, identifier: int, backlog: int = DEFAULT_BACKLOG) -> None:
        """As `listen`, to a service that need not stand for a port; then private data have no header.

        Raises: UsageError if the service is listened to already.
        """
        self._endpoint.listen(identifier, backlog)

    def stop_listening(self, port: int) -> None:
        """Refuse connections to a port from here on."""
        self._endpoint.stop_listening(service_id(port))

    def accept(
        self,
        connection: Connection,
        pd: int,
        now_ns: int,
        private_data: bytes = b"",
        *,
        send_queue_depth: int = 128,
        receive_queue_depth: int = 128,
        outstanding_reads: int = MAX_RD_ATOMIC,
        implicit_receives: bool = False,
    ) -> int:
        """Accept a request with a new queue pair, whose number is returned; it is ready to receive and send.

        Post receives before frames are taken, so that what the peer sends at once finds them. Path MTU,
        retries and timeout are as the peer asks; `outstanding_reads` at a time are offered to it, or fewer if
        it asks for fewer. Private data have 196 bytes at most.
        Raises: UsageError if the connection does not wait for this (a peer may have taken its request back
        since; then it is not in REQ_RCVD any more), or for values that do not fit.
        """
        _check_connection(connection)
        check_whole("now_ns", now_ns, 0, LATEST_NS)
        remote = connection.remote
        if remote is None:
            raise UsageError(f"connection {connection.local_id:#x} is one that we asked for; wait for events")
        _check_reads(outstanding_reads)
        qp_num = self._create(
            connection,
            pd,
            connection.path_mtu,
            send_queue_depth=send_queue_depth,
            receive_queue_depth=receive_queue_depth,
            implicit_receives=implicit_receives,
        )
        offer = self._offer(qp_num, outstanding_reads)
        try:
            connection.accept(offer, now_ns, private_data)
        except UsageError:
            self._engine.destroy_qp(qp_num)
            raise
        self._by_qp[qp_num] = connection
        self._bring_up(qp_num, offer.starting_psn, connection.peer, remote)
        return qp_num

    def make_room(self, connection: Connection) -> bool:
        """Give up an older connection for a request that there is nothing left to accept with.

        That is one that its peer has not confirmed yet, of the peer that has most of them: its end
        (UNREACHABLE) is among the events. False if the asking peer has about as many; then reject.
        """
        _check_connection(connection)
        is_made = self._endpoint.make_room(connection.peer)
        self._handle_events()
        return is_made

    def reject(
        self, connection: Connection, private_data: bytes = b"", reason: int = RejectReason.CONSUMER
    ) -> None:
        """Refuse a request. Private data have 148 bytes at most.

        Raises: UsageError if the connection does not wait for this.
        """
        _check_connection(connection)
        connection.reject(private_data, reason)

    # Connecting

    def connect(
        self,
        peer: CmAddress,
        port: int,
        pd: int,
        now_ns: int,
        private_data: bytes = b"",
        *,
        path_mtu: int = 1024,
        send_queue_depth: int = 128,
        receive_queue_depth: int = 128,
        outstanding_reads: int = MAX_RD_ATOMIC,
        implicit_receives: bool = False,
    ) -> Connection:
        """Ask a peer's port for a connection, with a new queue pair, `qp_num` of what is returned.

        ESTABLISHED, REJECTED or UNREACHABLE tells the end. Receives may be posted before. Private data have
        56 bytes at most.
        Raises: UsageError for values that do not fit; ResourceError if there are too many connections.
        """
        check_type("peer", peer, CmAddress, "CmAddress(mac, ip), such as resolve() of an endpoint returns")
        check_type("private_data", private_data, bytes, "bytes")
        check_whole("now_ns", now_ns, 0, LATEST_NS)
        service = service_id(port)
        _check_reads(outstanding_reads)
        header = IpCmHeader(self._rng.randrange(0x8000, 0xFFFF), self._address, parse_ipv4(peer.ip)).encode()
        qp_num = self._next_number()
        self._engine.create_qp(
            qp_num,
            pd,
            path_mtu=path_mtu,
            send_queue_depth=send_queue_depth,
            receive_queue_depth=receive_queue_depth,
            implicit_receives=implicit_receives,
            timeout_ns=TICK_NS << 18,
        )
        self._engine.modify(qp_num, QpState.INIT)
        offer = self._offer(qp_num, outstanding_reads)
        try:
            connection = self._endpoint.connect(
                peer, service, offer, now_ns, path_mtu=path_mtu, private_data=header + private_data
            )
        except Exception:
            self._engine.destroy_qp(qp_num)
            raise
        self._by_qp[qp_num] = connection
        return connection

    def disconnect(self, connection: Connection, now_ns: int) -> None:
        """End a connection: its queue pair goes to ERR, its work is flushed, and the peer is told.

        Raises: UsageError if it was never made.
        """
        _check_connection(connection)
        connection.disconnect(now_ns)
        self._flush(connection)

    def connections(self) -> list[Connection]:
        """Return every connection that is not closed, those in TIMEWAIT too."""
        return self._endpoint.connections()

    def connection_of(self, qp_num: int) -> Connection | None:
        """Return the connection of a queue pair; None if it has none, or none any more."""
        return self._by_qp.get(qp_num)

    def communication_established(self, qp_num: int) -> None:
        """Say that something arrived on a queue pair, which stands for an RTU that was lost."""
        connection = self._by_qp.get(qp_num)
        if connection is not None and connection.state is CmState.REP_SENT:
            connection.communication_established()
            self._handle_events()

    # Frames, time, events

    def take_in(self, frames: Sequence[bytes], now_ns: int) -> list[bytes]:
        """Take the frames that are for us; return the others, which are the engine's, in order."""
        check_whole("now_ns", now_ns, 0, LATEST_NS)
        others: list[bytes] = []
        for frame in frames:
            if is_for_gsi(frame):
                self._on_gsi_frame(frame, now_ns)
            else:
                others.append(frame)
        return others

    def take_frames(self) -> list[bytes]:
        """Return frames to send now."""
        frames = []
        for peer, mad in self._endpoint.take_mads():
            frames.append(encode_gsi_frame(self._framer(peer), self._psn, mad))
            self._psn += 1
        return frames

    def on_timer(self, now_ns: int) -> None:
        """Let messages be sent again, and connections end, whose deadline has passed."""
        check_whole("now_ns", now_ns, 0, LATEST_NS)
        self._endpoint.on_timer(now_ns)
        self._handle_events()

    def next_deadline_ns(self) -> int | None:
        """When `on_timer` wants to be called; None while nothing is waited for."""
        return self._endpoint.next_deadline_ns()

    def take_events(self) -> list[CmEvent]:
        """Return what happened since the last call, oldest first; CONNECT_RESPONSE is answered here.

        When a connection is DISCONNECTED, REJECTED or UNREACHABLE its queue pair is in ERR; destroy it when
        its completions have been taken.
        """
        self._handle_events()
        taken, self._events = self._events, []
        return taken

    def _on_gsi_frame(self, frame: bytes, now_ns: int) -> None:
        drops = self._engine.drops
        try:
            read = UdFrame.decode(frame)
        except MalformedError as error:
            drops[error.reason] += 1
            return
        ip = read.outer.ip
        if ip.destination != self._address:
            drops["ip.destination"] += 1
        elif read.deth.q_key != GSI_Q_KEY:
            drops["gsi.q_key"] += 1
        else:
            peer = CmAddress(read.outer.ethernet.source, format_ipv4(ip.source))
            self._endpoint.on_mad(peer, read.payload, now_ns)
            self._handle_events()

    def _handle_events(self) -> None:
        for event in self._endpoint.take_events():
            told = self._handled(event)
            if told is not None:
                self._events.append(told)

    def _handled(self, event: CmEvent) -> CmEvent | None:
        """Do what an event asks of queue pairs; return what the application is told."""
        connection = event.connection
        match event.kind:
            case CmEventKind.CONNECT_REQUEST:
                return self._request(event)
            case CmEventKind.CONNECT_RESPONSE:
                assert connection.qp_num is not None
                assert connection.remote is not None
                psn = connection.req.starting_psn
                self._bring_up(connection.qp_num, psn, connection.peer, connection.remote)
                connection.confirm()
                return None
            case CmEventKind.DISCONNECTED | CmEventKind.REJECTED | CmEventKind.UNREACHABLE:
                self._flush(connection)
        return event

    def _request(self, event: CmEvent) -> CmEvent | None:
        """Return a request without the header that its private data begin with, if its service has one."""
        if port_of_service(event.connection.req.service_id) is None:
            return event
        try:
            header = IpCmHeader.decode(event.private_data)
        except MalformedError as error:
            self._engine.drops[error.reason] += 1
            event.connection.reject(reason=RejectReason.UNSUPPORTED_REQUEST)
            return None
        if (
            header.destination_ip != self._address
            or format_ipv4(header.source_ip) != event.connection.peer.ip
        ):
            self._engine.drops["ip_cm.address"] += 1
            event.connection.reject(reason=RejectReason.INVALID_GID)
            return None
        return replace(event, private_data=event.private_data[IP_CM_HEADER_BYTES:])

    # Queue pairs

    def _create(self, connection: Connection, pd: int, path_mtu: int, **attributes: int) -> int:
        req = connection.req
        qp_num = self._next_number()
        self._engine.create_qp(
            qp_num,
            pd,
            path_mtu=path_mtu,
            retry_count=req.retry_count,
            timeout_ns=TICK_NS << req.local_ack_timeout if req.local_ack_timeout else 0,
            **attributes,  # type: ignore[arg-type]
        )
        self._engine.modify(qp_num, QpState.INIT)
        return qp_num

    def _next_number(self) -> int:
        for qp_num in self._numbers:
            return qp_num
        raise ResourceError("there are no numbers left for queue pairs; pass an iterator of more")

    def _offer(self, qp_num: int, outstanding_reads: int) -> QpOffer:
        return QpOffer(qp_num, self._rng.getrandbits(PSN_BITS), outstanding_reads, outstanding_reads)

    def _bring_up(self, qp_num: int, psn: int, peer: CmAddress, remote: QpOffer) -> None:
        """Connect a queue pair; each side begins with the PSN, and retries as often, as the other says."""
        target = RemoteQp(peer.mac, peer.ip, remote.qp_num, psn)
        self._engine.modify(qp_num, QpState.RTR, remote=target)
        self._engine.modify(qp_num, QpState.RTS, sq_psn=remote.starting_psn, rnr_retry=remote.rnr_retry_count)

    def _flush(self, connection: Connection) -> None:
        """Let the queue pair of a connection that is gone work no more, if it is still there."""
        if connection.qp_num is None or self._by_qp.pop(connection.qp_num, None) is None:
            return
        try:
            self._engine.modify(connection.qp_num, QpState.ERR)
        except UsageError:
            return  # the application has destroyed it already

    def _framer(self, peer: CmAddress) -> RoceFramer:
        framer = self._framers.get(peer)
        if framer is None:
            if len(self._framers) >= _FRAMERS_KEPT:
                self._framers.clear()
            framer = RoceFramer(self._mac, peer.mac, self._address, parse_ipv4(peer.ip))
            self._framers[peer] = framer
        return framer


def _check_connection(connection: object) -> None:
    check_type("connection", connection, Connection, "one of connect() or of an event")


def _check_reads(outstanding_reads: object) -> None:
    if not isinstance(outstanding_reads, int) or not 0 <= outstanding_reads <= MAX_RD_ATOMIC:
        raise UsageError(f"{outstanding_reads!r} READs at a time; the engine answers 0 to {MAX_RD_ATOMIC}")


def eui64(mac: bytes) -> int:
    """Return the 64-bit GUID of a NIC with this MAC address.

    Source: RFC 4291, "Creating Modified EUI-64 Format Interface Identifiers".
    """
    return int.from_bytes(bytes([mac[0] ^ 2]) + mac[1:3] + b"\xff\xfe" + mac[3:], "big")
