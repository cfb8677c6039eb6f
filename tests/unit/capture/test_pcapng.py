# SPDX-License-Identifier: Apache-2.0
import io
import struct
from typing import Any

from scapy.utils import RawPcapNgReader

from nicemu.capture import PcapngWriter

TIME_NS = 1_700_000_000_123_456_789


def blocks(data: bytes) -> list[tuple[int, bytes]]:
    """Take a file apart: the kind and the body of each block; lengths agree at both ends."""
    found = []
    while data:
        kind, length = struct.unpack_from("=II", data)
        assert length % 4 == 0
        assert struct.unpack_from("=I", data, length - 4) == (length,)
        found.append((kind, data[8 : length - 4]))
        data = data[length:]
    return found


def options(data: bytes) -> dict[int, bytes]:
    """Take options apart; the list ends with its end."""
    found: dict[int, bytes] = {}
    while True:
        code, length = struct.unpack_from("=HH", data)
        if code == 0:
            assert data == bytes(4)
            return found
        found[code] = data[4 : 4 + length]
        data = data[4 + (length + 3 & ~3) :]


def test_blocks_are_those_of_the_specification() -> None:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    assert writer.add_interface("eth1") == 0
    assert writer.add_interface("tap:tap0", 100) == 1
    writer.write(1, TIME_NS, b"12345", 9, outbound=True)
    writer.write_statistics(1, TIME_NS, 7, 2)
    data = file.getvalue()
    assert writer.bytes_written == len(data)
    section, first, second, packet, statistics = blocks(data)
    assert (section[0], section[1][:16]) == (0x0A0D0D0A, struct.pack("=IHHq", 0x1A2B3C4D, 1, 0, -1))
    assert options(section[1][16:])[4].startswith(b"nicemu ")
    assert first[0] == second[0] == 1
    assert struct.unpack_from("=HHI", second[1]) == (1, 0, 100)
    assert options(first[1][8:]) == {2: b"eth1", 9: b"\x09"}
    assert packet[0] == 6
    assert struct.unpack_from("=IIIII", packet[1]) == (1, TIME_NS >> 32, TIME_NS & 0xFFFFFFFF, 5, 9)
    assert packet[1][20:28] == b"12345\0\0\0"
    assert options(packet[1][28:]) == {2: struct.pack("=I", 2)}
    assert statistics[0] == 5
    assert options(statistics[1][12:]) == {4: struct.pack("=Q", 7), 5: struct.pack("=Q", 2)}


def test_scapy_reads_frames_and_times() -> None:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    writer.add_interface("eth1")
    frames = [bytes([number]) * (14 + number) for number in range(9)]
    for number, frame in enumerate(frames):
        writer.write(0, TIME_NS + number, frame, len(frame), outbound=False)
    file.seek(0)
    reader: Any = RawPcapNgReader
    found = list(reader(file))
    assert [data for data, _ in found] == frames
    times = [((about.tshigh << 32) + about.tslow, about.tsresol) for _, about in found]
    assert times == [(TIME_NS + number, 10**9) for number in range(9)]
