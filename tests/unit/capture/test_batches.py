# SPDX-License-Identifier: Apache-2.0
"""Captures read in batches: the frames, times and faults that reading them one by one gives."""

from __future__ import annotations

import io
import os
import struct
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nicemu.capture import PcapngWriter, PcapWriter, batches, read_batches, read_capture
from nicemu.errors import NicemuError

Told = tuple[list[tuple[int, int, bytes]], str]


def one_by_one(path: Path) -> Told:
    found: list[tuple[int, int, bytes]] = []
    try:
        found.extend((frame.time_ns, frame.original_bytes, frame.data) for frame in read_capture(path))
    except NicemuError as error:
        return found, str(error)
    return found, ""


def _in_batches(path: Path) -> Iterator[tuple[int, int, bytes]]:
    for batch in read_batches(path):
        for number, (offset, length) in enumerate(zip(batch.offsets, batch.lengths, strict=True)):
            data = batch.memory[offset : offset + length].tobytes()
            yield int(batch.times_ns[number]), int(batch.originals[number]), data


def in_batches(path: Path) -> Told:
    found: list[tuple[int, int, bytes]] = []
    try:
        found.extend(_in_batches(path))
    except NicemuError as error:
        return found, str(error)
    return found, ""


def pcap(order: str, magic: int, lengths: list[int]) -> bytes:
    data = struct.pack(f"{order}IHHiIII", magic, 2, 4, 0, 0, 65535, 1)
    for number, length in enumerate(lengths):
        data += (
            struct.pack(f"{order}IIII", 1_700_000_000 + number, 5, length, length) + bytes([number]) * length
        )
    return data


def pcapng(lengths: list[int]) -> bytes:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    writer.add_interface("port 0")
    for number, length in enumerate(lengths):
        writer.write(0, number, bytes([number]) * length, length, outbound=False)
    return file.getvalue()


def block(order: str, kind: int, body: bytes) -> bytes:
    length = struct.pack(f"{order}I", 12 + len(body))
    return struct.pack(f"{order}I", kind) + length + body + length


def every_kind(order: str) -> bytes:
    """Return a section: four interfaces whose times differ, packets of each, and blocks of other kinds."""
    data = block(order, 0x0A0D0D0A, struct.pack(f"{order}IHHq", 0x1A2B3C4D, 1, 0, -1))
    options = [
        b"",
        struct.pack(f"{order}HHB3x", 9, 1, 9),
        struct.pack(f"{order}HHB3x", 9, 1, 0x8A),
        struct.pack(f"{order}HHq", 14, 8, 1000),
    ]
    for number, item in enumerate(options):
        data += block(order, 1, struct.pack(f"{order}HHI", 1, 0, 40) + item)
        for packets in range(3):
            of = [packets % (number + 1), number, 0][packets]
            head = struct.pack(f"{order}IIIII", of, packets, 7, 5 + packets, 90)
            option = struct.pack(f"{order}HHIHH", 2, 4, 1, 0, 0) if packets == 1 else b""
            data += block(order, 6, head + bytes([number, packets, 1, 2, 3, 4, 5, 0]) + option)
    data += block(order, 3, struct.pack(f"{order}I", 6) + b"simple\0\0")
    data += block(order, 5, struct.pack(f"{order}III", 0, 0, 0)) + block(order, 77, b"")
    return data + block(order, 6, struct.pack(f"{order}IIIII", 1, 0, 9, 0, 0))


@pytest.fixture(params=[(4, 64), (batches.BATCH_FRAMES, batches.PIECE_BYTES)], ids=["small", "whole"])
def sizes(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read few frames and bytes at a time, and as many as ever."""
    frames, piece_bytes = request.param
    monkeypatch.setattr(batches, "BATCH_FRAMES", frames)
    monkeypatch.setattr(batches, "PIECE_BYTES", piece_bytes)


LENGTHS = [60, 0, 1, 14, 300, 60, 61, 62, 63, 64, 65]
FILES = {
    "little-endian": pcap("<", 0xA1B2C3D4, LENGTHS),
    "big-endian": pcap(">", 0xA1B2C3D4, LENGTHS),
    "nanoseconds": pcap(">", 0xA1B23C4D, LENGTHS),
    "empty": pcap("<", 0xA1B2C3D4, []),
    "pcapng": pcapng(LENGTHS),
    "sections": every_kind("<") + every_kind(">"),
}
COUNTS = {"empty": 0, "sections": 28}


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("name", FILES)
def test_batches_hold_what_is_read_one_by_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    assert in_batches(path) == one_by_one(path)
    assert len(in_batches(path)[0]) == COUNTS.get(name, len(LENGTHS))


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_was_cut_gives_what_is_whole_and_then_its_fault(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for length in range(0, len(FILES[name]), 7):
        path.write_bytes(FILES[name][:length])
        assert in_batches(path) == one_by_one(path), length


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("name", FILES)
def test_whatever_a_byte_becomes_both_ways_say_the_same(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    for place in range(len(FILES[name])):
        changed = bytearray(FILES[name])
        changed[place] ^= 0xFF
        path.write_bytes(changed)
        assert in_batches(path) == one_by_one(path), place


def test_a_time_that_no_64_bits_hold_is_cut_and_can_be_written(tmp_path: Path) -> None:
    file = io.BytesIO()
    writer = PcapngWriter(file)
    writer.add_interface("port 0")
    writer.write(0, (1 << 64) - 1, b"late", 4, outbound=False)
    data = file.getvalue().replace(struct.pack("=HHB3x", 9, 1, 9), struct.pack("=HHB3x", 9, 1, 0))
    path = tmp_path / "late.pcapng"
    path.write_bytes(data)
    assert in_batches(path) == one_by_one(path) == ([((1 << 64) - 1, 4, b"late")], "")
    with open(tmp_path / "late.pcap", "wb") as copy:
        PcapWriter(copy).write((1 << 64) - 1, b"late")
    ((time_ns, _, _),), _ = one_by_one(tmp_path / "late.pcap")
    assert time_ns == (1 << 64) - 1 - (((1 << 64) - 1) // 1_000_000_000 >> 32 << 32) * 1_000_000_000


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("told", [one_by_one, in_batches])
def test_a_capture_may_come_through_a_pipe(tmp_path: Path, name: str, told: Callable[[Path], Told]) -> None:
    path, pipe = tmp_path / name, tmp_path / "pipe"
    path.write_bytes(FILES[name])
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(FILES[name]))
    writer.start()
    assert told(pipe) == one_by_one(path)
    writer.join()
