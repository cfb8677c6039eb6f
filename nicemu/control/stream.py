# SPDX-License-Identifier: Apache-2.0
"""One StreamChannel: a client's messages in, the server's out, until either side ends it.

Source: P4Runtime Specification 1.4, "P4Runtime Stream Messages" and "Stream Error Reporting".
"""

from __future__ import annotations

import queue
from collections.abc import Iterator
from typing import Protocol

from nicemu.errors import ControlError, P4RuntimeCode

from .arbitration import Notice
from .messages import Message, messages, parse
from .refusals import refusal

MAX_WAITING_MESSAGES = 512
"""Messages that may wait for a client that does not read them; one more ends its stream."""
MAX_WAITING_OFFERS = 256
"""As many may wait where another one that may be lost is lost: a flood of packets leaves room for answers."""

MAX_RETURNED_BYTES = 16 << 10
"""Longest message that comes back with the stream error that it caused; a client may leave many unread."""


class Session:
    """The server's end of one stream: what waits to be sent, and why the stream is to end."""

    def __init__(self) -> None:
        self.device_id: int | None = None
        self.given_role: tuple[str, int] = "", 0
        """The client's role as it has named it: by a name, or by the deprecated number."""
        self.closed = False
        self.end: ControlError | None = None
        self._waiting: queue.SimpleQueue[Message | None] = queue.SimpleQueue()

    def send(self, message: Message) -> None:
        """Queue a message; a client that leaves too many unread loses its stream."""
        if self._waiting.qsize() >= MAX_WAITING_MESSAGES:
            self.finish(
                ControlError(
                    P4RuntimeCode.RESOURCE_EXHAUSTED,
                    f"{MAX_WAITING_MESSAGES} messages wait for this client already; read the stream",
                )
            )
            return
        self._waiting.put(message)

    def offer(self, message: Message) -> bool:
        """Queue a message that may be lost; return False if too many are unread."""
        if self._waiting.qsize() >= MAX_WAITING_OFFERS:
            return False
        self._waiting.put(message)
        return True

    def finish(self, error: ControlError | None = None) -> None:
        """End the stream once everything queued is sent; the first reason given stays."""
        if self.end is None:
            self.end = error
        self._waiting.put(None)

    def outgoing(self) -> Iterator[Message]:
        """Yield the messages to send, waiting for each, until the stream is to end."""
        while (message := self._waiting.get()) is not None:
            yield message


class Receiver(Protocol):
    """Who takes a stream's messages. Each of them raises ControlError for what it refuses."""

    def announce(self, session: Session, update: Message) -> None:
        """Take a MasterArbitrationUpdate; refusing it ends the stream."""

    def packet_out(self, session: Session, packet: Message) -> None:
        """Take a PacketOut; refusing it is answered with a stream error."""

    def acknowledge(self, session: Session, acknowledgement: Message) -> None:
        """Take a DigestListAck, likewise."""


def serve_requests(session: Session, requests: Iterator[bytes], receiver: Receiver) -> None:
    """Take a client's messages until it ends the stream, then finish the session. Never raises."""
    while session.end is None:
        try:
            data = next(requests)
        except Exception:  # StopIteration at the client's end, an exception of gRPC's when the call is gone
            session.finish()
            return
        try:
            _serve_request(session, parse("StreamMessageRequest", data), receiver)
        except Exception as error:
            session.finish(refusal(error))
            return


def arbitration_message(device_id: int, notice: Notice) -> Message:
    """Return the StreamMessageResponse that carries a notice."""
    response = messages().StreamMessageResponse()
    update = response.arbitration
    update.device_id = device_id
    if notice.role:
        assert isinstance(notice.session, Session)
        update.role.name, update.role.id = notice.session.given_role
    if notice.election_id is not None:
        update.election_id.CopyFrom(uint128(notice.election_id))
    update.status.code = int(notice.status)
    update.status.message = notice.sentence
    return response


def uint128(value: int) -> Message:
    """Return a 128-bit integer as a Uint128 message."""
    return messages().Uint128(high=value >> 64, low=value & ((1 << 64) - 1))


def election_id_of(message: Message) -> int | None:
    """Return the election id of a request, or None where it has none."""
    if not message.HasField("election_id"):
        return None
    return int(message.election_id.high) << 64 | int(message.election_id.low)


def role_of(name: str, number: int) -> str:
    """Return the role that a message names; its deprecated number stands for a name where there is none."""
    return name or (str(number) if number else "")


def _serve_request(session: Session, request: Message, receiver: Receiver) -> None:
    form = request.WhichOneof("update")
    try:
        if form == "arbitration":
            receiver.announce(session, request.arbitration)
        elif form == "packet":
            receiver.packet_out(session, request.packet)
        elif form == "digest_ack":
            receiver.acknowledge(session, request.digest_ack)
        elif form is None:
            raise ControlError(
                P4RuntimeCode.INVALID_ARGUMENT, "the message has no `update`; arbitration was expected"
            )
        else:
            raise ControlError(P4RuntimeCode.UNIMPLEMENTED, f"{form} messages are not implemented")
    except ControlError as refusal:
        if form == "arbitration":
            raise
        session.send(_stream_error(form, request, refusal))


def _stream_error(form: str | None, request: Message, refusal: ControlError) -> Message:
    response = messages().StreamMessageResponse()
    error = response.error
    error.canonical_code, error.message = int(refusal.code), str(refusal)
    short = request.ByteSize() <= MAX_RETURNED_BYTES
    if form == "packet":
        error.packet_out.SetInParent()
        if short:
            error.packet_out.packet_out.CopyFrom(request.packet)
    elif form == "digest_ack":
        error.digest_list_ack.SetInParent()
        if short:
            error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
    else:
        error.other.SetInParent()
    return response
