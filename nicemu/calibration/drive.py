# SPDX-License-Identifier: Apache-2.0
"""How long a drive takes to read and to write: a file in a folder on it, without the page cache.

Source: open(2), O_DIRECT: buffers, lengths and offsets are multiples of the block size.
"""

from __future__ import annotations

import mmap
import os
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from nicemu.errors import UsageError

from .curve import Curve, Work, measured

ALIGNMENT_BYTES = 4096
_OF_MEMORY = ("tmpfs", "ramfs")
"""File systems without a drive; some take O_DIRECT."""


@dataclass(frozen=True, slots=True)
class _File:
    descriptor: int
    buffer: mmap.mmap
    length_bytes: int


class DriveFolder:
    """A folder on a drive, and a file in it that is read and written; it has no name, and goes with us.

    Raises: UsageError if the folder cannot be written, has no room, or lies where there is no O_DIRECT or
    no drive.
    """

    def __init__(self, folder: Path, length_bytes: int) -> None:
        path = folder / f".nicemu-calibrate-{os.getpid()}"
        self._length_bytes = length_bytes
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            descriptor = os.open(path, flags | os.O_DIRECT, 0o600)
        except OSError as error:
            cure = "; give a folder on a drive with --disk" if error.errno == 22 else ""
            raise UsageError(f"{folder}: a file without the page cache: {error.strerror}{cure}") from error
        finally:
            with suppress(OSError):  # where O_DIRECT is refused, the file is made all the same
                path.unlink()
        self._file: _File | None = None
        try:
            system = _file_system_of(descriptor)
            if system in _OF_MEMORY:
                raise OSError(0, f"{system} is memory; give a folder on a drive with --disk")
            os.posix_fallocate(descriptor, 0, length_bytes)
            buffer = mmap.mmap(-1, length_bytes)
            self._file = _File(descriptor, buffer, length_bytes)
        except OSError as error:
            os.close(descriptor)
            raise UsageError(f"{folder}: {length_bytes:,} bytes: {error.strerror}") from error

    def __enter__(self) -> DriveFolder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._file is not None
        os.close(self._file.descriptor)
        self._file.buffer.close()

    @contextmanager
    def _view(self, size: int) -> Iterator[memoryview]:
        assert self._file is not None
        with memoryview(self._file.buffer) as whole, whole[:size] as view:
            yield view

    def fill(self) -> None:
        """Write the whole file once, so that what is read later was written."""
        assert self._file is not None
        piece = 1 << 20
        self._file.buffer[:piece] = os.urandom(piece)
        for offset in range(0, self._length_bytes, piece):
            self.write(min(piece, self._length_bytes - offset), offset)

    def read(self, size: int, offset: int) -> None:
        """Read so many bytes. Raises: OSError."""
        assert self._file is not None
        with self._view(size) as view:
            os.preadv(self._file.descriptor, [view], offset)

    def write(self, size: int, offset: int) -> None:
        """Write so many bytes; they are with the drive afterwards, in its cache perhaps. Raises: OSError."""
        assert self._file is not None
        with self._view(size) as view:
            os.pwritev(self._file.descriptor, [view], offset)


def _file_system_of(descriptor: int) -> str:
    """Return the type of the file system that a file lies on; "" if it is not known.

    Source: proc_pid_mountinfo(5).
    """
    device = os.fstat(descriptor).st_dev
    wanted = f"{os.major(device)}:{os.minor(device)}"
    for line in Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines():
        mount, _, system = line.partition(" - ")
        if mount.split()[2] == wanted:
            return system.split()[0]
    return ""


def measure_drive(
    drive: DriveFolder, length_bytes: int, sizes: Sequence[int], progress: Callable[[str], None]
) -> dict[str, Curve]:
    """Return curves by name: `write`, `read`, both one after another through the file, and `randread`.

    Raises: UsageError if the drive fails, or a size is not whole blocks of the file.
    """
    for size in sizes:
        if size % ALIGNMENT_BYTES or not 0 < size <= length_bytes:
            raise UsageError(
                f"{size:,} bytes of a drive: whole blocks of {ALIGNMENT_BYTES} bytes up to the file's "
                f"{length_bytes:,} were expected"
            )
    rng = random.Random(1)

    def in_order(act: Callable[[int, int], None]) -> Callable[[int], Work]:
        def prepare(size: int) -> Work:
            place = 0

            def step() -> None:
                nonlocal place
                act(size, place)
                place = (place + size) if place + 2 * size <= length_bytes else 0

            return Work(step)

        return prepare

    def at_random(size: int) -> Work:
        places = (length_bytes - size) // ALIGNMENT_BYTES
        return Work(lambda: drive.read(size, rng.randint(0, places) * ALIGNMENT_BYTES))

    work = {"write": in_order(drive.write), "read": in_order(drive.read), "randread": at_random}
    try:
        drive.fill()
        return {name: measured(f"drive {name}", sizes, prepare, progress) for name, prepare in work.items()}
    except OSError as error:
        raise UsageError(f"the drive: {error.strerror}") from error
