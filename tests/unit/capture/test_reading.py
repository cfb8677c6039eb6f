# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import io
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from scapy.layers.l2 import Ether
from scapy.utils import PcapNgWriter, wrpcap

from nicemu.capture import CapturedFrame, PcapngWriter, PcapWriter, read_capture
from nicemu.errors import NicemuError, ProtocolError, UsageError
from nicemu.pipeline import MAX_EMITTED_BYTES, MAX_FRAME_BYTES

Read = Callable[[bytes], list[CapturedFrame]]
TIME_NS = 1_700_000_000_123_456_789
FRAME = bytes(range(60))
ETHERNET = 1


def pcap(order: str, magic: int, fraction: int, linktype: int = ETHERNET) -> bytes:
    head = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, linktype)
    return head + struct.pack(f"{order}IIII", 1_700_000_000, fraction, 60, 90) + FRAME


def block(order: str, kind: int, body: bytes) -> bytes:
    length = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + length + body + length


def section(order: str) -> bytes:
    return block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))


def interface(order: str, options: bytes = b"", snap: int = 0) -> bytes:
    return block(order, 1, struct.pack(f"{order}HHI", ETHERNET, 0, snap) + options)


def packet(order: str, number: int, units: int, data: bytes = FRAME) -> bytes:
    head = struct.pack(f"{order}IIIII", number, units >> 32, units & 0xFFFFFFFF, len(data), 90)
    return block(order, 6, head + data + bytes(-len(data) % 4))


@pytest.fixture
def read(tmp_path: Path) -> Read:
    def frames(data: bytes) -> list[CapturedFrame]:
        path = tmp_path / "capture"
        path.write_bytes(data)
        return list(read_capture(path))

    return frames


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcap_is_read_in_both_byte_orders_and_resolutions(read: Read, order: str) -> None:
    (micro,) = read(pcap(order, 0xA1B2C3D4, 123_456))
    assert micro == CapturedFrame(1_700_000_000_123_456_000, False, FRAME, 90)
    (nano,) = read(pcap(order, 0xA1B23C4D, 123_456_789))
    assert nano == CapturedFrame(TIME_NS, False, FRAME, 90)


@pytest.mark.parametrize("order", ["<", ">"])
def test_pcapng_is_read_in_both_byte_orders_with_the_resolution_of_each_interface(
    read: Read, order: str
) -> None:
    nanoseconds = struct.pack(f"{order}HHB3xHH", 9, 1, 9, 0, 0)
    halves = struct.pack(f"{order}HHB3xHHqHH", 9, 1, 0x81, 14, 8, 5, 0, 0)
    data = section(order) + interface(order) + interface(order, nanoseconds) + interface(order, halves)
    data += (
        block(order, 5, bytes(12))
        + packet(order, 0, 7)
        + packet(order, 1, TIME_NS, b"odd")
        + packet(order, 2, 3)
    )
    found = read(data)
    assert [frame.time_ns for frame in found] == [7000, TIME_NS, 6_500_000_000]
    assert [frame.interface for frame in found] == [0, 1, 2]
    assert [frame.data for frame in found] == [FRAME, b"odd", FRAME]


def test_a_second_section_has_interfaces_and_a_byte_order_of_its_own(read: Read) -> None:
    data = (
        section("<") + interface("<") + packet("<", 0, 1) + section(">") + interface(">") + packet(">", 0, 2)
    )
    assert [frame.time_ns for frame in read(data)] == [1000, 2000]


def test_a_simple_packet_has_no_time_and_may_be_cut_at_the_snap_length(read: Read) -> None:
    simple = block("<", 3, struct.pack("<I", 60) + FRAME[:20])
    assert read(section("<") + interface("<", snap=20) + simple) == [CapturedFrame(0, False, FRAME[:20], 60)]


@pytest.mark.parametrize("order", ["<", ">"])
def test_an_obsolete_packet_block_is_read(read: Read, order: str) -> None:
    """Source: draft-ietf-opsawg-pcapng, "Packet Block (obsolete!)"."""
    body = struct.pack(f"{order}HHIIII", 1, 7, 0, 5, 3, 60) + FRAME[:3] + b"\0"
    data = section(order) + interface(order) * 2 + block(order, 2, body) + packet(order, 0, 9)
    assert [(frame.time_ns, frame.data[:3], frame.interface) for frame in read(data)] == [
        (5000, FRAME[:3], 1),
        (9000, FRAME[:3], 0),
    ]


def test_what_scapy_and_our_writers_write_is_read(tmp_path: Path) -> None:
    frames = [bytes(Ether() / bytes([number] * 50)) for number in range(3)]
    wrpcap(str(tmp_path / "scapy.pcap"), [Ether(frame) for frame in frames])
    with PcapNgWriter(str(tmp_path / "scapy.pcapng")) as writer:
        writer.write([Ether(frame) for frame in frames])
    with open(tmp_path / "own.pcap", "wb") as file:
        own = PcapWriter(file)
        for frame in frames:
            own.write(TIME_NS, frame)
    with open(tmp_path / "own.pcapng", "wb") as file:
        new = PcapngWriter(file)
        new.add_interface("port 0")
        for frame in frames:
            new.write(0, TIME_NS, frame, len(frame), outbound=True)
    for path in sorted(tmp_path.iterdir()):
        assert [frame.data for frame in read_capture(path)] == frames, path
    for name in ("own.pcap", "own.pcapng"):
        assert {frame.time_ns for frame in read_capture(tmp_path / name)} == {TIME_NS}


@pytest.mark.parametrize(
    ("data", "error", "told"),
    [
        (b"", UsageError, "begins with nothing"),
        (b"GIF89a", UsageError, "47 49 46 38"),
        (pcap("<", 0xA1B2C3D4, 0, linktype=113), UsageError, "link type 113"),
        (pcap("<", 0xA1B2C3D4, 0)[:-1], ProtocolError, "ends at byte 99"),
        (pcap("<", 0xA1B2C3D4, 0)[:30], ProtocolError, "ends at byte 30"),
        (section("<") + packet("<", 0, 1), ProtocolError, "names interface 0; there are 0"),
        (section("<") + struct.pack("<II", 6, 13), ProtocolError, "13 bytes long"),
        (section("<") + interface("<")[:-4] + bytes(4), ProtocolError, "has two lengths"),
        (
            section("<") + interface("<") + block("<", 6, struct.pack("<IIIII", 0, 0, 0, 99, 99)),
            ProtocolError,
            "119",
        ),
        (section("<")[:8] + bytes(20), ProtocolError, "no byte order"),
        (section("<") + struct.pack("<II", 6, 0xFFFFFFFC), ProtocolError, "no capture"),
    ],
)
def test_what_is_no_capture_is_refused_with_the_place(
    read: Read, data: bytes, error: type, told: str
) -> None:
    with pytest.raises(error, match=told):
        read(data)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"nowhere\.pcap cannot be read: No such file"):
        next(read_capture(tmp_path / "nowhere.pcap"))


def test_no_bytes_make_the_reader_raise_anything_else(read: Read) -> None:
    whole = section("<") + interface("<") + packet("<", 0, 1) + packet(">", 0, 1)
    for data in (pcap("<", 0xA1B2C3D4, 0), whole):
        for place in range(4, len(data)):
            changed = io.BytesIO(data)
            changed.seek(place)
            changed.write(b"\xff")
            try:
                read(changed.getvalue())
            except NicemuError:
                continue


def test_no_reader_cuts_a_frame_that_headers_made_longer_than_any_that_came(tmp_path: Path) -> None:
    with open(tmp_path / "out.pcap", "wb") as file:
        PcapWriter(file).write(0, bytes(MAX_FRAME_BYTES + MAX_EMITTED_BYTES))
    (snap_bytes,) = struct.unpack_from("=I", (tmp_path / "out.pcap").read_bytes(), 16)
    assert snap_bytes >= MAX_FRAME_BYTES + MAX_EMITTED_BYTES
