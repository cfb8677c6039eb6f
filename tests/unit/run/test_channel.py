# SPDX-License-Identifier: Apache-2.0
"""The TCP channel between NICs of two machines: proof of the key first, then whole messages or none."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

import pytest

from nicemu.errors import ProtocolError
from nicemu.run.channel import NONCE_BYTES, TcpChannel
from nicemu.run.messages import MESSAGE_BYTES

KEY = b"k" * 32


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def pair(listener: socket.socket, key: bytes = KEY) -> tuple[TcpChannel, TcpChannel]:
    caller = TcpChannel.call(listener.getsockname(), "127.0.0.1", key)
    return caller, TcpChannel(listener.accept()[0], KEY, calling=False)


def settle(*channels: TcpChannel) -> dict[TcpChannel, list[object]]:
    """Let each take what has come, until nothing comes any more."""
    found: dict[TcpChannel, list[object]] = {channel: [] for channel in channels}
    for _ in range(6):
        for channel in channels:
            found[channel] += [message for message, _ in channel.receive() or []]
    return found


def test_messages_pass_in_order_once_both_sides_have_proven_that_they_know_the_key(
    listener: socket.socket,
) -> None:
    caller, called = pair(listener)
    caller.send({"n": 1})
    called.send({"n": 2})
    caller.send({"n": 3})
    assert settle(caller, called) == {caller: [{"n": 2}], called: [{"n": 1}, {"n": 3}]}
    caller.close()
    assert called.receive() is None
    called.close()


def test_a_caller_that_does_not_know_the_key_is_refused_before_a_message_passes(
    listener: socket.socket,
) -> None:
    caller, called = pair(listener, key=b"w" * 32)
    caller.send({"op": "hello"})
    caller.receive()
    with pytest.raises(ProtocolError, match="does not know the topology's key"):
        called.receive()
    caller.close()
    called.close()


def test_a_listener_that_does_not_know_the_key_is_refused_and_hears_no_message(
    listener: socket.socket,
) -> None:
    caller = TcpChannel.call(listener.getsockname(), "127.0.0.1", KEY)
    caller.send({"secret": 1})
    link = listener.accept()[0]
    link.sendall(b"n" * NONCE_BYTES)
    caller.receive()
    heard = link.recv(4096)
    link.sendall(b"p" * 32)
    with pytest.raises(ProtocolError, match="does not know the topology's key"):
        caller.receive()
    caller.close()
    assert b"secret" not in heard
    assert link.recv(4096) == b""
    link.close()


def test_a_proof_sent_back_to_its_sender_proves_nothing(listener: socket.socket) -> None:
    """Reflection: whoever opens two connections cannot use one side's proof as the other side's."""
    caller = TcpChannel.call(listener.getsockname(), "127.0.0.1", KEY)
    link = listener.accept()[0]
    link.sendall(b"n" * NONCE_BYTES)
    caller.receive()
    link.sendall(link.recv(4096)[NONCE_BYTES:])
    with pytest.raises(ProtocolError, match="key"):
        caller.receive()
    caller.close()
    link.close()


def proven(listener: socket.socket) -> tuple[TcpChannel, TcpChannel]:
    caller, called = pair(listener)
    settle(caller, called)
    return caller, called


def raw(channel: TcpChannel, data: bytes) -> None:
    channel._link.sendall(data)


def test_a_message_that_comes_in_pieces_is_one_message(listener: socket.socket) -> None:
    caller, called = proven(listener)
    whole = struct.pack("!I", 9) + b'{"n": 42}'
    for position in range(len(whole)):
        assert called.receive() == []
        raw(caller, whole[position : position + 1])
    assert called.receive() == [({"n": 42}, [])]
    caller.close()
    called.close()


def receive_often(channel: TcpChannel) -> None:
    for _ in range(8):
        channel.receive()


def send_often(channel: TcpChannel) -> None:
    for _ in range(1000):
        channel.send({"text": "x" * 65536})


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (struct.pack("!I", MESSAGE_BYTES + 1), "at most 262144 are taken"),
        (struct.pack("!I", 2) + b"[]", "no JSON object"),
        (struct.pack("!I", 3) + b"{{{", "no JSON object"),
        (struct.pack("!I", 100_000) + b"[" * 100_000, "no JSON object"),
        (struct.pack("!I", 2) + b"\xff\xfe", "no JSON object"),
    ],
)
def test_what_is_no_message_is_refused(listener: socket.socket, data: bytes, sentence: str) -> None:
    caller, called = proven(listener)
    raw(caller, data)
    with pytest.raises(ProtocolError, match=sentence):
        receive_often(called)
    caller.close()
    called.close()


def test_a_peer_that_does_not_read_for_long_is_given_up(listener: socket.socket) -> None:
    caller, called = proven(listener)
    with pytest.raises(OSError, match=r"read|unavailable"):
        send_often(caller)
    caller.close()
    called.close()
