# SPDX-License-Identifier: Apache-2.0
"""One StreamChannel: arbitration messages in, notices out, until either side ends it.

Source: P4Runtime Specification 1.4, "P4Runtime Stream Messages" and "Stream Error Reporting".
"""

from __future__ import annotations

import logging
import queue
from collections.abc import Callable, Iterator

from nicemu.errors import ControlError, P4RuntimeCode

from .arbitration import Notice
from .messages import Message, messages, parse

MAX_WAITING_MESSAGES = 256
"""Messages that may wait for a client that does not read them; one more ends its stream."""


class Session:
    """The server's end of one stream: what waits to be sent, and why the stream is to end."""

    def __init__(self) -> None:
        self.device_id: int | None = None
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

    def finish(self, error: ControlError | None = None) -> None:
        """End the stream once everything queued is sent; the first reason given stays."""
        if self.end is None:
            self.end = error
        self._waiting.put(None)

    def outgoing(self) -> Iterator[Message]:
        """Yield the messages to send, waiting for each, until the stream is to end."""
        while (message := self._waiting.get()) is not None:
            yield message


Announce = Callable[[Session, Message], None]
"""Takes a MasterArbitrationUpdate. Raises: ControlError, which ends the stream."""


def serve_requests(session: Session, requests: Iterator[bytes], announce: Announce) -> None:
    """Take a client's messages until it ends the stream, then finish the session. Never raises."""
    while session.end is None:
        try:
            data = next(requests)
        except Exception:  # StopIteration at the client's end, an exception of gRPC's when the call is gone
            session.finish()
            return
        try:
            _serve_request(session, parse("StreamMessageRequest", data), announce)
        except ControlError as error:
            session.finish(error)
            return
        except Exception:
            logging.getLogger(__name__).exception("fault while serving a stream message")
            session.finish(ControlError(P4RuntimeCode.INTERNAL, "the server failed; its log has the reason"))
            return


def arbitration_message(device_id: int, notice: Notice) -> Message:
    """Return the StreamMessageResponse that carries a notice."""
    response = messages().StreamMessageResponse()
    update = response.arbitration
    update.device_id = device_id
    if notice.role:
        update.role.name = notice.role
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


def _serve_request(session: Session, request: Message, announce: Announce) -> None:
    form = request.WhichOneof("update")
    if form == "arbitration":
        announce(session, request.arbitration)
        return
    response = messages().StreamMessageResponse()
    error = response.error
    error.canonical_code = int(P4RuntimeCode.UNIMPLEMENTED)
    error.message = f"{form} messages are not implemented; the stream carries arbitration only"
    if form == "packet":
        error.packet_out.SetInParent()
    elif form == "digest_ack":
        error.digest_list_ack.digest_list_ack.CopyFrom(request.digest_ack)
    else:
        error.other.SetInParent()
        if form is None:
            error.canonical_code = int(P4RuntimeCode.INVALID_ARGUMENT)
            error.message = "the message has no `update`; arbitration was expected"
    session.send(response)
