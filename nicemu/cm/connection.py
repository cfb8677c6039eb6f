# SPDX-License-Identifier: Apache-2.0
"""One connection as its communication manager sees it: a state machine, sans-IO, the same for both sides.

A message that gets no answer is sent again, as often as the REQ says; then the connection ends, and the peer
is told. Every state but ESTABLISHED ends by itself. An established connection whose peer has gone ends when
it is next used: the peer answers a DREQ of a connection that it does not know, and work on the queue pair
fails.
Source: InfiniBand Architecture Specification Volume 1, "Communication Management", "State Transition
Diagrams", "Communication Establishment" and "Connection Release".
"""

from __future__ import annotations

from typing import Protocol

from nicemu.arguments import check_type, check_whole
from nicemu.errors import UsageError
from nicemu.wire import AnsweredMessage, CmMessage, Drep, Dreq, Mra, Rej, RejectReason, Rep, Req, Rtu

from .event import CmEvent, CmEventKind
from .state import LATEST_NS, TICK_NS, TRANSITIONS, CmAddress, CmState, QpOffer

LONGEST_EXPONENT = 21
"""At most 8.6 s are waited before a message is sent again, whatever the peer says."""
LONGEST_SERVICE_EXPONENT = 24
"""A peer that sends an MRA is given 69 s at most."""


_GONE = frozenset({RejectReason.TIMEOUT, RejectReason.INVALID_COMMUNICATION_ID})


class Outbox(Protocol):
    """Where a connection's messages and events go, and its deadlines are kept."""

    def send(self, connection: Connection, message: CmMessage) -> None:
        """Take a message for the connection's peer."""
        ...

    def tell(self, event: CmEvent) -> None:
        """Take an event for the application."""
        ...

    def wake(self, connection: Connection) -> None:
        """Keep the connection's new deadline, or forget the connection if it is closed."""
        ...


class Connection:
    """A connection. `remote` is the peer's offer, from its REQ or REP; `req` is the active side's.

    `guid` is our NIC's. `qp_num` is our queue pair, once there is one.

    The application calls `accept`, `reject`, `delay`, `confirm`, `communication_established`, `disconnect`.
    """

    def __init__(
        self,
        outbox: Outbox,
        peer: CmAddress,
        local_id: int,
        transaction_id: int,
        req: Req,
        *,
        guid: int,
        is_active: bool,
        now_ns: int,
    ) -> None:
        self.peer = peer
        self.local_id = local_id
        self.transaction_id = transaction_id
        self.req = req
        self.is_active = is_active
        self.deadline_ns: int | None = None
        self.qp_num: int | None = req.local_qpn if is_active else None
        self.remote: QpOffer | None = None
        self._outbox = outbox
        self._guid = guid
        self._unanswered: CmMessage | None = None
        self._tries = 0
        if is_active:
            self.state = CmState.REQ_SENT
            self.remote_id = 0
            self._ask(req, now_ns)
        else:
            self.state = CmState.REQ_RCVD
            self.remote_id = req.local_communication_id
            self.remote = QpOffer(
                req.local_qpn,
                req.starting_psn,
                req.responder_resources,
                req.initiator_depth,
                req.rnr_retry_count,
            )
            self._wake_at(now_ns + self._patience_ns())

    @property
    def path_mtu(self) -> int:
        """Bytes of payload that a packet on the path has at most."""
        return 128 << self.req.path_mtu

    # The application's side

    def accept(self, offer: QpOffer, now_ns: int, private_data: bytes = b"") -> QpOffer:
        """Accept a request with a queue pair that is ready to receive; return what was offered.

        Nobody is offered more READs at a time than the other side has room for or asked for.
        Raises: UsageError unless the connection waits for this, or if the private data are over 196 bytes.
        """
        self._require(CmState.REQ_RCVD, "be accepted")
        check_type("offer", offer, QpOffer, "QpOffer(qp_num, starting_psn, ...)")
        check_whole("now_ns", now_ns, 0, LATEST_NS)
        assert self.remote is not None
        offered = QpOffer(
            offer.qp_num,
            offer.starting_psn,
            min(offer.responder_resources, self.remote.initiator_depth),
            min(offer.initiator_depth, self.remote.responder_resources),
            offer.rnr_retry_count,
        )
        rep = Rep(
            local_communication_id=self.local_id,
            remote_communication_id=self.remote_id,
            local_qpn=offered.qp_num,
            starting_psn=offered.starting_psn,
            responder_resources=offered.responder_resources,
            initiator_depth=offered.initiator_depth,
            rnr_retry_count=offered.rnr_retry_count,
            local_ca_guid=self._guid,
            private_data=private_data,
        )
        rep.encode(0)
        self.qp_num = offered.qp_num
        self._go(CmState.REP_SENT)
        self._ask(rep, now_ns)
        return offered

    def reject(self, private_data: bytes = b"", reason: int = RejectReason.CONSUMER) -> None:
        """Refuse a request, or a response.

        Raises: UsageError unless the connection waits for this, or if the private data are over 148 bytes.
        """
        if self.state is not CmState.REP_RCVD:
            self._require(CmState.REQ_RCVD, "be rejected")
        self._refuse(reason, private_data)

    def delay(self, service_timeout: int, now_ns: int) -> None:
        """Tell the peer of a request that the answer takes 4.096 us times 2 to the power `service_timeout`.

        Raises: UsageError unless the request is still to be answered, or for no number of 0 to 31.
        """
        self._require(CmState.REQ_RCVD, "be delayed")
        check_whole("now_ns", now_ns, 0, LATEST_NS)
        self._unanswered = self._mra(AnsweredMessage.REQ, service_timeout)
        self._outbox.send(self, self._unanswered)
        self._wake_at(now_ns + _span_ns(service_timeout, LONGEST_SERVICE_EXPONENT) + self._patience_ns())

    def confirm(self, private_data: bytes = b"") -> None:
        """Say that the queue pair is connected as the peer's response asks.

        Raises: UsageError unless there is a response.
        """
        self._require(CmState.REP_RCVD, "be confirmed")
        rtu = Rtu(
            local_communication_id=self.local_id,
            remote_communication_id=self.remote_id,
            private_data=private_data,
        )
        rtu.encode(0)
        self._unanswered = rtu
        self._outbox.send(self, rtu)
        self._go(CmState.ESTABLISHED)
        self._wake_at(None)
        self._tell(CmEventKind.ESTABLISHED)

    def communication_established(self) -> None:
        """Take it that the peer has confirmed: something arrived on the queue pair before the RTU."""
        if self.state is CmState.REP_SENT:
            self._establish(b"")

    def disconnect(self, now_ns: int, private_data: bytes = b"") -> None:
        """Ask for the end of the connection; nothing happens if it is ending already.

        Raises: UsageError if it was never made.
        """
        check_whole("now_ns", now_ns, 0, LATEST_NS)
        if self.state in (CmState.DREQ_SENT, CmState.TIMEWAIT, CmState.CLOSED):
            return
        if self.state not in (CmState.ESTABLISHED, CmState.REP_SENT):
            raise UsageError(
                f"connection {self.local_id:#x} is {self.state.value}; it cannot be disconnected"
            )
        assert self.remote is not None
        dreq = Dreq(
            local_communication_id=self.local_id,
            remote_communication_id=self.remote_id,
            remote_qpn=self.remote.qp_num,
            private_data=private_data,
        )
        dreq.encode(0)
        self._go(CmState.DREQ_SENT)
        self._ask(dreq, now_ns)

    # The peer's side

    def on_message(self, message: CmMessage, now_ns: int) -> bool:
        """Take a message of this connection's; False if it means nothing in this state."""
        match message:
            case Req():
                return self._on_req_again()
            case Rep():
                return self._on_rep(message, now_ns)
            case Rtu():
                return self._on_rtu(message)
            case Mra():
                return self._on_mra(message, now_ns)
            case Rej():
                return self._on_rej(message, now_ns)
            case Dreq():
                return self._on_dreq(message, now_ns)
            case Drep():
                return self._on_drep(now_ns)

    def make_room(self) -> None:
        """End a connection that a peer has asked for and not confirmed: another one needs its place."""
        self._refuse(RejectReason.NO_RESOURCES, event=CmEventKind.UNREACHABLE)

    def _on_req_again(self) -> bool:
        """Answer a REQ that came again as before."""
        if self.state not in (CmState.REQ_RCVD, CmState.REP_SENT) or self._unanswered is None:
            return False
        self._outbox.send(self, self._unanswered)
        return True

    def _on_rep(self, rep: Rep, now_ns: int) -> bool:
        if (
            self.state is CmState.ESTABLISHED
            and self.is_active
            and rep.local_communication_id == self.remote_id
        ):
            assert self._unanswered is not None
            self._outbox.send(self, self._unanswered)  # the RTU was lost
            return True
        if self.state is not CmState.REQ_SENT:
            return False
        self.remote_id = rep.local_communication_id
        self.remote = QpOffer(
            rep.local_qpn,
            rep.starting_psn,
            rep.responder_resources,
            rep.initiator_depth,
            rep.rnr_retry_count,
        )
        self._go(CmState.REP_RCVD)
        self._wake_at(now_ns + self._patience_ns())
        self._tell(CmEventKind.CONNECT_RESPONSE, rep.private_data)
        return True

    def _on_rtu(self, rtu: Rtu) -> bool:
        if self.state is CmState.REP_SENT:
            self._establish(rtu.private_data)
        # One that comes later was overtaken by work, or answers a REP that was sent again: nothing is amiss.
        return self.state is CmState.ESTABLISHED and not self.is_active

    def _on_mra(self, mra: Mra, now_ns: int) -> bool:
        awaited = {CmState.REQ_SENT: AnsweredMessage.REQ, CmState.REP_SENT: AnsweredMessage.REP}
        if awaited.get(self.state) != mra.answered_message:
            return False
        span_ns = _span_ns(mra.service_timeout, LONGEST_SERVICE_EXPONENT)
        self._wake_at(now_ns + span_ns + self._answer_time_ns())
        return True

    def _on_rej(self, rej: Rej, now_ns: int) -> bool:
        if self.state in (CmState.ESTABLISHED, CmState.DREQ_SENT):
            if rej.reason not in _GONE:
                return False
            self._end(now_ns)
            return True
        if self.state in (CmState.TIMEWAIT, CmState.CLOSED):
            return False
        self._close(CmEventKind.REJECTED, rej.private_data, rej.reason)
        return True

    def _on_dreq(self, dreq: Dreq, now_ns: int) -> bool:
        if dreq.remote_qpn != self.qp_num:
            return False
        if self.state in (CmState.ESTABLISHED, CmState.DREQ_SENT, CmState.REP_SENT):
            self._send_drep()
            self._end(now_ns, dreq.private_data)
            return True
        if self.state is CmState.TIMEWAIT:
            self._send_drep()  # the one before was lost
            return True
        return False

    def _on_drep(self, now_ns: int) -> bool:
        if self.state is not CmState.DREQ_SENT:
            return False
        self._end(now_ns)
        return True

    # Time

    def on_deadline(self, now_ns: int) -> None:
        """Send again what has no answer, or give up."""
        match self.state:
            case CmState.TIMEWAIT:
                self._close(CmEventKind.TIMEWAIT_EXIT)
            case CmState.REQ_RCVD | CmState.REP_RCVD:
                self._refuse(RejectReason.TIMEOUT, event=CmEventKind.UNREACHABLE)
            case CmState.REQ_SENT | CmState.REP_SENT | CmState.DREQ_SENT:
                assert self._unanswered is not None
                if self._tries <= self.req.max_cm_retries:
                    self._ask(self._unanswered, now_ns, again=True)
                elif self.state is CmState.DREQ_SENT:
                    self._end(now_ns)
                else:
                    self._refuse(RejectReason.TIMEOUT, event=CmEventKind.UNREACHABLE)

    def _answer_time_ns(self) -> int:
        """How long the peer may take to answer."""
        mine = self.is_active
        exponent = self.req.remote_cm_response_timeout if mine else self.req.local_cm_response_timeout
        return _span_ns(exponent, LONGEST_EXPONENT)

    def _patience_ns(self) -> int:
        """How long the peer sends its message again until it gives up, and so how long we may take."""
        theirs = not self.is_active
        exponent = self.req.remote_cm_response_timeout if theirs else self.req.local_cm_response_timeout
        return (self.req.max_cm_retries + 1) * _span_ns(exponent, LONGEST_EXPONENT)

    # Steps

    def _ask(self, message: CmMessage, now_ns: int, *, again: bool = False) -> None:
        self._tries = self._tries + 1 if again else 1
        self._unanswered = message
        self._outbox.send(self, message)
        self._wake_at(now_ns + self._answer_time_ns())

    def _establish(self, private_data: bytes) -> None:
        self._go(CmState.ESTABLISHED)
        self._wake_at(None)
        self._tell(CmEventKind.ESTABLISHED, private_data)

    def _send_drep(self) -> None:
        drep = Drep(local_communication_id=self.local_id, remote_communication_id=self.remote_id)
        self._outbox.send(self, drep)

    def _end(self, now_ns: int, private_data: bytes = b"") -> None:
        self._go(CmState.TIMEWAIT)
        self._unanswered = None
        self._wake_at(now_ns + _span_ns(self.req.local_ack_timeout, LONGEST_EXPONENT))
        self._tell(CmEventKind.DISCONNECTED, private_data)

    def _refuse(self, reason: int, private_data: bytes = b"", event: CmEventKind | None = None) -> None:
        answered = {CmState.REQ_RCVD: AnsweredMessage.REQ, CmState.REP_RCVD: AnsweredMessage.REP}
        says_who = reason == RejectReason.TIMEOUT
        rej = Rej(
            local_communication_id=self.local_id,
            remote_communication_id=self.remote_id,
            answered_message=answered.get(self.state, AnsweredMessage.NONE),
            reason=reason,
            information_length=8 if says_who else 0,
            information=self._guid << 512 if says_who else 0,
            private_data=private_data,
        )
        rej.encode(0)
        self._outbox.send(self, rej)
        self._close(event, reason=reason)

    def _close(self, event: CmEventKind | None, private_data: bytes = b"", reason: int = 0) -> None:
        self._go(CmState.CLOSED)
        self._wake_at(None)
        if event is not None:
            self._tell(event, private_data, reason)

    def _mra(self, answered: AnsweredMessage, service_timeout: int) -> Mra:
        mra = Mra(
            local_communication_id=self.local_id,
            remote_communication_id=self.remote_id,
            answered_message=answered,
            service_timeout=service_timeout,
        )
        mra.encode(0)
        return mra

    def _tell(self, kind: CmEventKind, private_data: bytes = b"", reason: int = 0) -> None:
        self._outbox.tell(CmEvent(kind, self, private_data, reason))

    def _wake_at(self, deadline_ns: int | None) -> None:
        self.deadline_ns = deadline_ns
        self._outbox.wake(self)

    def _go(self, state: CmState) -> None:
        assert state in TRANSITIONS[self.state], (self.state, state)
        self.state = state

    def _require(self, state: CmState, what: str) -> None:
        if self.state is not state:
            raise UsageError(
                f"connection {self.local_id:#x} can {what} when it is {state.value!r}; "
                f"it is {self.state.value!r}"
            )


def _span_ns(exponent: int, longest: int) -> int:
    return TICK_NS << min(exponent, longest)
