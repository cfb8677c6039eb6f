# SPDX-License-Identifier: Apache-2.0
"""Files that grow no more, as on a full disk: a limit of the process is kept likewise."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.capture import PcapngWriter, PcapWriter, WholeRecords, read_capture

FRAMES = [bytes([number]) * (14 + 37 * number) for number in range(30)]


@contextmanager
def files_of_at_most(length: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (length, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


class _Frames(Protocol):
    def write(self, frame: bytes) -> None: ...


class _Pcap:
    def __init__(self, file: WholeRecords) -> None:
        self._writer = PcapWriter(file)

    def write(self, frame: bytes) -> None:
        self._writer.write(7, frame)


class _Pcapng:
    def __init__(self, file: WholeRecords) -> None:
        self._writer = PcapngWriter(file)
        self._interface = self._writer.add_interface("port 1")

    def write(self, frame: bytes) -> None:
        self._writer.write(self._interface, 7, frame, len(frame), outbound=True)


Kind = Callable[[WholeRecords], _Frames]


def written(path: Path, kind: Kind, limit: int, at_once: int, frames: int) -> bool:
    """Write frames, flushing behind so many; return whether there was room."""
    try:
        with files_of_at_most(limit):
            file = WholeRecords(path, has_blocks=kind is _Pcapng)
            try:
                writer = kind(file)
                for number in range(frames):
                    writer.write(FRAMES[number % len(FRAMES)])
                    if number % at_once == at_once - 1:
                        file.flush()
            finally:
                file.close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("kind", [_Pcap, _Pcapng])
@given(limit=st.integers(0, 25_000), at_once=st.sampled_from((1, 4, 100)))
def test_a_file_that_has_no_more_room_ends_behind_a_whole_frame(
    tmp_path_factory: pytest.TempPathFactory, kind: Kind, limit: int, at_once: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "full"
    had_room = written(path, kind, limit, at_once, len(FRAMES))
    length = path.stat().st_size
    assert length <= limit
    found = [frame.data for frame in read_capture(path)] if length else []
    assert found == FRAMES[: len(found)]
    assert had_room == (len(found) == len(FRAMES))
    if length and not had_room:
        assert limit - length < 60 + len(FRAMES[len(found)])


@pytest.mark.parametrize("kind", [_Pcap, _Pcapng])
def test_what_is_as_long_as_many_frames_is_cut_likewise(tmp_path: Path, kind: Kind) -> None:
    path, whole = tmp_path / "out", tmp_path / "whole"
    assert written(whole, kind, resource.RLIM_INFINITY, 1000, 1000)
    data = whole.read_bytes()
    with files_of_at_most(len(data) - 1):
        file = WholeRecords(path, has_blocks=kind is _Pcapng)
        with pytest.raises(OSError, match="large"):
            file.write(memoryview(data))
        file.close()
    assert [frame.data for frame in read_capture(path)] == [FRAMES[n % 30] for n in range(999)]


def test_a_write_that_is_interrupted_leaves_whole_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out"
    file = WholeRecords(path, has_blocks=False)
    writer = _Pcap(file)
    for data in FRAMES:
        writer.write(data)
    real = file._file

    class Interrupted:
        """Writes some of what it is given, and is then interrupted."""

        def __init__(self) -> None:
            self.seek, self.truncate, self.close = real.seek, real.truncate, real.close
            self._calls = 0

        def write(self, data: memoryview) -> int:
            self._calls += 1
            if self._calls == 2:
                real.write(data[:100])
                raise KeyboardInterrupt
            return real.write(data[:1000])

    monkeypatch.setattr(file, "_file", Interrupted())
    with pytest.raises(KeyboardInterrupt):
        file.flush()
    file.close()
    found = [frame.data for frame in read_capture(path)]
    assert found
    assert found == FRAMES[: len(found)]
