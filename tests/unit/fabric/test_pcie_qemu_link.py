# SPDX-License-Identifier: Apache-2.0
"""The control socket of the PCIe fabric, against a peer that answers what the test says."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

from nicemu.errors import ProtocolError
from nicemu.fabric.pcie_qemu import link as pcie_qemu_link
from nicemu.fabric.pcie_qemu.link import QtestLink


class Peer:
    """The far end: `says` is there before it is asked."""

    def __init__(self) -> None:
        ours, self.channel = socket.socketpair()
        self.lost: list[str] = []
        self.link = QtestLink(ours, self._lose)

    def _lose(self, seen: str) -> ProtocolError:
        self.lost.append(seen)
        return ProtocolError(f"lost: {seen}")

    def says(self, data: bytes) -> None:
        self.channel.sendall(data)

    def heard(self) -> bytes:
        return self.channel.recv(1 << 16)


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.link.close()
    made.channel.close()


def test_each_access_is_a_line_and_its_answer(peer: Peer) -> None:
    peer.says(b"OK 0x00000000000000ff\nOK 0x10\nOK 0xcafe\nOK\nOK\nOK\n")
    assert (peer.link.read32(0x14), peer.link.read64(0x28), peer.link.in32(0xCFC)) == (255, 16, 0xCAFE)
    peer.link.write32(0x1000, 3)
    peer.link.write64(0x28, 1 << 40)
    peer.link.out32(0xCF8, 0x8000_0000)
    assert peer.heard().decode().split("\n") == [
        "readl 0x14",
        "readq 0x28",
        "inl 0xcfc",
        "writel 0x1000 0x3",
        "writeq 0x28 0x10000000000",
        "outl 0xcf8 0x80000000",
        "",
    ]


def test_answers_may_come_in_pieces_and_interrupt_lines_between_them(peer: Peer) -> None:
    peer.says(b"IRQ raise 4\nIRQ lower 4\nOK 0x0000000000")
    peer.says(b"000007\nOK 0x8\n")
    assert (peer.link.read32(0), peer.link.read32(4)) == (7, 8)


@pytest.mark.parametrize(
    ("said", "seen"),
    [(b"FAIL Unknown command\n", "answered 'FAIL Unknown command'"), (b"\n", "was answered ''")],
)
def test_a_wrong_answer_ends_the_link(peer: Peer, said: bytes, seen: str) -> None:
    peer.says(said)
    with pytest.raises(ProtocolError, match=seen):
        peer.link.write32(0, 1)
    with pytest.raises(ProtocolError, match=seen):
        peer.link.read32(0)
    assert len(peer.lost) == 1


def test_a_peer_that_hangs_up_ends_the_link(peer: Peer) -> None:
    peer.channel.close()
    with pytest.raises(ProtocolError, match="lost: 'readl 0x0'"):
        peer.link.read32(0)


def test_a_peer_that_says_nothing_is_waited_for_no_longer_than_its_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pcie_qemu_link, "ANSWER_TIMEOUT_S", 0.01)
    silent = Peer()
    with pytest.raises(ProtocolError, match="no answer to 'readl 0x1c'"):
        silent.link.read32(0x1C)
    silent.channel.close()


def test_a_closed_link_says_so(peer: Peer) -> None:
    peer.link.close()
    peer.link.close()
    with pytest.raises(ProtocolError, match="the PCIe fabric is closed"):
        peer.link.read32(0)
    assert peer.lost == []
