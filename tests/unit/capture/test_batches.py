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

Told = tuple[list[tuple[int, bytes]], str]


def one_by_one(path: Path) -> Told:
    found: list[tuple[int, bytes]] = []
    try:
        found.extend((frame.time_ns, frame.data) for frame in read_capture(path))
    except NicemuError as error:
        return found, str(error)
    return found, ""


def _in_batches(path: Path) -> Iterator[tuple[int, bytes]]:
    for batch in read_batches(path):
        for number, (offset, length) in enumerate(zip(batch.offsets, batch.lengths, strict=True)):
            yield int(batch.times_ns[number]), batch.memory[offset : offset + length].tobytes()


def in_batches(path: Path) -> Told:
    found: list[tuple[int, bytes]] = []
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
}


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("name", FILES)
def test_batches_hold_what_is_read_one_by_one(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_bytes(FILES[name])
    assert in_batches(path) == one_by_one(path)
    assert len(in_batches(path)[0]) == (len(LENGTHS) if name != "empty" else 0)


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
    assert in_batches(path) == one_by_one(path) == ([((1 << 64) - 1, b"late")], "")
    with open(tmp_path / "late.pcap", "wb") as copy:
        PcapWriter(copy).write((1 << 64) - 1, b"late")
    ((time_ns, _),), _ = one_by_one(tmp_path / "late.pcap")
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
