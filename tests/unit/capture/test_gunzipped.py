# SPDX-License-Identifier: Apache-2.0
"""A gzipped capture has the frames of the capture, and a damaged one is told."""

from __future__ import annotations

import gzip
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.capture.test_batches import Told, in_batches, one_by_one, pcap, pcapng

LENGTHS = [60, 0, 1514, 9000] * 60
CAPTURES = {
    "pcap": pcap("<", 0xA1B23C4D, LENGTHS),
    "big-endian pcap": pcap(">", 0xA1B2C3D4, LENGTHS),
    "pcapng": pcapng(LENGTHS),
}
WAYS = pytest.mark.parametrize("read", [one_by_one, in_batches])


@WAYS
@pytest.mark.parametrize("name", CAPTURES)
def test_a_gzipped_capture_has_the_same_frames(
    read: Callable[[Path], Told], name: str, tmp_path: Path
) -> None:
    plain, zipped = tmp_path / "plain", tmp_path / "zipped"
    plain.write_bytes(CAPTURES[name])
    zipped.write_bytes(gzip.compress(CAPTURES[name]))
    assert read(zipped) == read(plain)
    assert len(read(zipped)[0]) == len(LENGTHS)


@WAYS
def test_a_capture_that_was_gzipped_in_parts_is_one(read: Callable[[Path], Told], tmp_path: Path) -> None:
    data, path = CAPTURES["pcap"], tmp_path / "zipped"
    path.write_bytes(gzip.compress(data[:5000]) + gzip.compress(data[5000:]))
    assert len(read(path)[0]) == len(LENGTHS)


@WAYS
def test_a_gzipped_capture_that_was_cut_says_so_behind_what_is_whole(
    read: Callable[[Path], Told], tmp_path: Path
) -> None:
    path, zipped = tmp_path / "zipped", gzip.compress(CAPTURES["pcap"], mtime=0)
    path.write_bytes(zipped[: len(zipped) * 3 // 4])
    frames, fault = read(path)
    assert fault == f"{path} ends in the middle of what was gzipped; it was cut"
    assert 0 < len(frames) < len(LENGTHS)


@WAYS
@pytest.mark.parametrize("place", range(2, 60, 7))
def test_a_damaged_gzipped_capture_is_told_or_has_its_frames(
    read: Callable[[Path], Told], place: int, tmp_path: Path
) -> None:
    path, zipped = tmp_path / "zipped", bytearray(gzip.compress(CAPTURES["pcap"], mtime=0))
    zipped[place] ^= 0xFF
    path.write_bytes(zipped)
    frames, fault = read(path)
    assert fault.startswith(str(path)) or len(frames) == len(LENGTHS)


@WAYS
def test_a_gzipped_capture_may_come_through_a_pipe(read: Callable[[Path], Told], tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    zipped = gzip.compress(CAPTURES["pcap"])
    writer = threading.Thread(target=pipe.write_bytes, args=(zipped,))
    writer.start()
    frames, fault = read(pipe)
    writer.join()
    assert (len(frames), fault) == (len(LENGTHS), "")
