# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from collections.abc import Iterator

from nicemu.control.arbitration import Notice
from nicemu.control.messages import Message, messages, serialize
from nicemu.control.stream import (
    MAX_RETURNED_BYTES,
    MAX_WAITING_MESSAGES,
    MAX_WAITING_OFFERS,
    Session,
    arbitration_message,
    election_id_of,
    role_of,
    serve_requests,
    uint128,
)
from nicemu.errors import ControlError, P4RuntimeCode


class Recorder:
    """Takes every message, or refuses every one."""

    def __init__(self, refusal: Exception | None = None) -> None:
        self.taken: list[Message] = []
        self._refusal = refusal

    def announce(self, session: Session, update: Message) -> None:
        if self._refusal is not None:
            raise self._refusal
        self.taken.append(update)

    packet_out = acknowledge = announce


def serve(
    *requests: bytes | Message, refuse: Exception | None = None
) -> tuple[Session, list[Message], list[Message]]:
    """Return the session, what it would send, and the messages that it passed on."""
    session, receiver = Session(), Recorder(refuse)
    data = [item if isinstance(item, bytes) else serialize(item) for item in requests]
    serve_requests(session, iter(data), receiver)
    return session, list(session.outgoing()), receiver.taken


def test_arbitration_messages_are_passed_on_until_the_client_ends() -> None:
    request = messages().StreamMessageRequest(arbitration={"device_id": 1})
    session, sent, announced = serve(request, request)
    assert announced == [request.arbitration] * 2
    assert sent == []
    assert session.end is None


def test_a_refused_arbitration_ends_the_stream_with_its_reason() -> None:
    refusal = ControlError(P4RuntimeCode.NOT_FOUND, "no such device")
    session, _, _ = serve(messages().StreamMessageRequest(arbitration={}), refuse=refusal)
    assert session.end is refusal


def test_garbage_ends_the_stream_as_an_invalid_argument() -> None:
    session, _, _ = serve(b"\xff\xff\xff")
    assert session.end is not None
    assert session.end.code is P4RuntimeCode.INVALID_ARGUMENT


def test_a_fault_of_the_server_ends_the_stream_and_says_no_more() -> None:
    session, _, _ = serve(messages().StreamMessageRequest(arbitration={}), refuse=ZeroDivisionError("secret"))
    assert session.end is not None
    assert session.end.code is P4RuntimeCode.INTERNAL
    assert "secret" not in str(session.end)


def test_a_call_that_vanishes_ends_the_stream_quietly() -> None:
    def requests() -> Iterator[bytes]:
        yield b""
        raise ConnectionError

    session = Session()
    serve_requests(session, requests(), Recorder())
    (error,) = session.outgoing()
    assert error.error.canonical_code == P4RuntimeCode.INVALID_ARGUMENT
    assert session.end is None


def test_packets_and_acknowledgements_are_passed_on() -> None:
    packet = messages().StreamMessageRequest(packet={"payload": b"frame"})
    acknowledgement = messages().StreamMessageRequest(digest_ack={"digest_id": 3, "list_id": 4})
    session, sent, taken = serve(packet, acknowledgement)
    assert (taken, sent) == ([packet.packet, acknowledgement.digest_ack], [])
    assert session.end is None


def test_what_is_refused_is_answered_on_the_stream_which_goes_on() -> None:
    packet = messages().StreamMessageRequest(packet={"payload": b"frame"})
    acknowledgement = messages().StreamMessageRequest(digest_ack={"digest_id": 3, "list_id": 4})
    other = messages().StreamMessageRequest(other={"type_url": "x"})
    refusal = ControlError(P4RuntimeCode.NOT_FOUND, "no such digest")
    session, sent, _ = serve(packet, acknowledgement, other, b"", refuse=refusal)
    assert [message.error.WhichOneof("details") for message in sent] == [
        "packet_out",
        "digest_list_ack",
        "other",
        "other",
    ]
    assert [message.error.canonical_code for message in sent] == [5, 5, 12, 3]
    assert sent[0].error.packet_out.packet_out.payload == b"frame"
    assert sent[1].error.digest_list_ack.digest_list_ack.list_id == 4
    assert session.end is None


def test_a_role_goes_by_its_name_or_else_its_number() -> None:
    assert [role_of("stats", 3), role_of("", 3), role_of("", 0)] == ["stats", "3", ""]


def test_a_client_that_reads_nothing_loses_its_stream() -> None:
    unheard = serialize(messages().StreamMessageRequest(other={}))
    session, sent, _ = serve(*[unheard] * (MAX_WAITING_MESSAGES + 50))
    assert len(sent) == MAX_WAITING_MESSAGES
    assert session.end is not None
    assert session.end.code is P4RuntimeCode.RESOURCE_EXHAUSTED


def test_a_long_message_does_not_come_back_with_its_error() -> None:
    packet = serialize(messages().StreamMessageRequest(packet={"payload": bytes(MAX_RETURNED_BYTES)}))
    _, (sent,), _ = serve(packet, refuse=ControlError(P4RuntimeCode.NOT_FOUND, "no such port"))
    assert sent.error.WhichOneof("details") == "packet_out"
    assert sent.ByteSize() < 1_000


def test_a_notice_becomes_an_arbitration_update() -> None:
    session = Session()
    session.given_role = "stats", 0
    update = arbitration_message(
        4, Notice(session, "stats", 1 << 64 | 2, P4RuntimeCode.ALREADY_EXISTS, "why")
    ).arbitration
    assert (update.device_id, update.role.name, update.status.code, update.status.message) == (
        4,
        "stats",
        6,
        "why",
    )
    assert (update.election_id.high, update.election_id.low) == (1, 2)
    plain = arbitration_message(4, Notice("s", "", None, P4RuntimeCode.NOT_FOUND, "why")).arbitration
    assert not plain.HasField("role")
    assert not plain.HasField("election_id")


def test_an_election_id_that_is_zero_is_not_one_that_is_missing() -> None:
    assert election_id_of(messages().WriteRequest(election_id=uint128(0))) == 0
    assert election_id_of(messages().WriteRequest()) is None
    assert election_id_of(messages().WriteRequest(election_id=uint128(5 << 64 | 6))) == 5 << 64 | 6


def test_what_must_be_heard_is_sent_behind_a_flood_of_what_may_be_lost() -> None:
    session = Session()
    taken = [session.offer(messages().StreamMessageResponse()) for _ in range(MAX_WAITING_MESSAGES)]
    assert taken == [True] * MAX_WAITING_OFFERS + [False] * (MAX_WAITING_MESSAGES - MAX_WAITING_OFFERS)
    session.send(messages().StreamMessageResponse(arbitration={"device_id": 1}))
    session.finish()
    assert session.end is None
    assert len(list(session.outgoing())) == MAX_WAITING_OFFERS + 1
