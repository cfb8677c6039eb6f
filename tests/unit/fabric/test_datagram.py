# SPDX-License-Identifier: Apache-2.0
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.fabric import MAX_FRAME_BYTES, DatagramPort

FRAME = bytes(range(60))


@pytest.fixture
def ends() -> Iterator[tuple[DatagramPort, socket.socket]]:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    port = DatagramPort(ours)
    yield port, theirs
    port.close()
    theirs.close()


def test_one_datagram_is_one_frame(ends: tuple[DatagramPort, socket.socket]) -> None:
    port, other = ends
    port.send([FRAME, FRAME[:14]])
    assert [other.recv(9999), other.recv(9999)] == [FRAME, FRAME[:14]]
    other.send(FRAME)
    assert port.receive() == [FRAME]


def closed_socket() -> socket.socket:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.close()
    theirs.close()
    return ours


@pytest.mark.parametrize(
    ("end", "words"),
    [
        ("/tmp/a,/tmp/b", r"is at '/tmp/a,/tmp/b'; pass a socket, or two paths"),
        (None, "is at None"),
        (7, "is at 7"),
        ((Path("a"),), "two paths"),
        ((Path("a"), 5), "two paths"),
        ((Path("a"), ""), "'' is no path of a socket"),
        ((Path("a"), "b\0"), "is no path of a socket"),
        ((Path("a"), "b" * 108), "1 to 107 bytes"),
        (closed_socket(), "needs an open socket"),
    ],
)
def test_what_is_no_end_of_a_datagram_socket_is_refused_and_leaves_no_path(
    end: Any,  # noqa: ANN401
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match=words):
        DatagramPort(end)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("buffer_bytes", [0, -1, 1 << 31, "4M", 1.5])
def test_a_buffer_has_a_size(buffer_bytes: Any, tmp_path: Path) -> None:  # noqa: ANN401
    with pytest.raises(UsageError, match="buffer_bytes is "):
        DatagramPort((tmp_path / "a", tmp_path / "b"), buffer_bytes)
    assert not list(tmp_path.iterdir())


def test_a_datagram_that_is_no_frame_is_counted_and_dropped(
    ends: tuple[DatagramPort, socket.socket],
) -> None:
    port, other = ends
    for length in (0, 13, MAX_FRAME_BYTES + 1, MAX_FRAME_BYTES):
        other.send(bytes(length))
    assert port.receive() == [bytes(MAX_FRAME_BYTES)]
    assert port.drops == {"datagram.length": 3}


def test_four_megabytes_of_frames_may_be_under_way(ends: tuple[DatagramPort, socket.socket]) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has buffers beyond net.core.wmem_max")
    port, _ = ends
    assert port.send([bytes(4200)] * 500) == 500


def test_frames_to_somebody_who_has_gone_are_counted(ends: tuple[DatagramPort, socket.socket]) -> None:
    port, other = ends
    other.send(FRAME)
    other.close()
    assert port.receive() == [FRAME]
    assert port.send([FRAME, FRAME]) == 2
    assert port.drops == {"datagram.nobody": 2}
    assert port.receive() == []


def test_frames_to_a_path_where_nobody_listens_are_lost_until_somebody_does(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    port = DatagramPort((a, b))
    assert port.send([FRAME]) == 1
    assert port.drops == {"datagram.nobody": 1}
    other = DatagramPort((b, a))
    port.send([FRAME])
    other.send([FRAME[::-1]])
    assert other.receive() == [FRAME]
    assert port.receive() == [FRAME[::-1]]
    port.close()
    other.close()
    assert not a.exists()
    assert not b.exists()


def test_a_path_is_not_taken_from_somebody_else(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("mine")
    with pytest.raises(UsageError, match=r"cannot receive at .*/a: Address already in use"):
        DatagramPort((tmp_path / "a", tmp_path / "b"))
    assert (tmp_path / "a").read_text() == "mine"


def test_only_datagram_sockets_of_this_machine_will_do() -> None:
    with socket.socket(socket.AF_UNIX) as stream, pytest.raises(UsageError, match="AF_UNIX and SOCK_DGRAM"):
        DatagramPort(stream)


def test_a_path_that_is_in_use_is_refused_with_what_to_do(tmp_path: Path) -> None:
    taken, other = tmp_path / "taken", tmp_path / "other"
    port = DatagramPort((taken, other))
    with pytest.raises(
        UsageError, match="Address already in use; another program receives there, so end that"
    ):
        DatagramPort((taken, other))
    port.close()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as killed:
        killed.bind(str(taken))
    with pytest.raises(UsageError, match=f"has ended without removing it: rm {taken}$"):
        DatagramPort((taken, other))
    assert taken.is_socket()
    other.touch()
    with pytest.raises(UsageError, match="it is no socket, so take another path"):
        DatagramPort((other, taken))


def test_the_two_ends_are_two_paths(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is both ends; frames are received at one path and sent to another"):
        DatagramPort((tmp_path / "a", tmp_path / "a"))
    assert not (tmp_path / "a").exists()
