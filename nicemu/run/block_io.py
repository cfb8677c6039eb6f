# SPDX-License-Identifier: Apache-2.0
"""Performs the block I/O of NVMe namespaces: on a file, off the calling thread, or in memory, at once.

Bytes move straight between the file and the windows' memory (preadv(2), pwritev(2), O_DIRECT where the file
system allows it); nothing is copied in between.

Source: open(2), preadv(2), posix_fallocate(3), flock(2), eventfd(2).
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Protocol

from nicemu.errors import NvmeStatus, ResourceError, UsageError
from nicemu.nvme import BlockIo, BlockIoKind
from nicemu.pcie import PAGE_BYTES, AddressSpace, Backing

DIRECT_ALIGNMENT_BYTES: Final = 512
"""Memory, lengths and offsets that O_DIRECT takes are multiples of this; EINVAL tells where it needs more."""

_IOV_MAX: Final = 1024
_FAULT_OF: Final = {
    BlockIoKind.READ: NvmeStatus.UNRECOVERED_READ_ERROR,
    BlockIoKind.WRITE: NvmeStatus.WRITE_FAULT,
    BlockIoKind.FLUSH: NvmeStatus.WRITE_FAULT,
}

Completion = tuple[int, NvmeStatus]
"""Tag and status of a finished `BlockIo`."""


class BlockDevice(Protocol):
    """Something that performs `BlockIo`: every one submitted completes once, with a status."""

    block_bytes: int
    block_count: int

    def submit(self, io: BlockIo) -> None:
        """Begin an I/O; never waits for it.

        Raises: UsageError after `close`.
        """
        ...

    def take_completions(self) -> list[Completion]:
        """Take what has finished, in the order of finishing; empties the descriptor."""
        ...

    def fileno(self) -> int:
        """Return a descriptor that is readable while completions wait."""
        ...

    def close(self) -> None:
        """Wait for what was submitted, then give everything back; completions can still be taken."""
        ...


class _Completions:
    """Finished I/O, appended by any thread, with an eventfd that says that there is some."""

    def __init__(self) -> None:
        self._finished: deque[Completion] = deque()
        self._eventfd = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._is_signalled = False

    def add(self, tag: int, status: NvmeStatus) -> None:
        """Append, and signal unless a signal is on its way that the taker has not seen."""
        self._finished.append((tag, status))
        if not self._is_signalled:
            self._is_signalled = True
            os.eventfd_write(self._eventfd, 1)

    def take(self) -> list[Completion]:
        """Take all; the mark goes down between emptying the descriptor and looking, so none is missed."""
        if self._eventfd >= 0:
            with contextlib.suppress(BlockingIOError):
                os.eventfd_read(self._eventfd)
        self._is_signalled = False
        taken = []
        while self._finished:
            taken.append(self._finished.popleft())
        return taken

    def fileno(self) -> int:
        return self._eventfd

    def close(self) -> None:
        if self._eventfd >= 0:
            os.close(self._eventfd)
            self._eventfd = -1


class FileBlockIo:
    """Blocks in a file of this process alone, read and written by `depth` threads.

    `direct` tells whether the page cache is bypassed; I/O whose memory is not aligned to
    `DIRECT_ALIGNMENT_BYTES` goes through the page cache in any case. FLUSH is fdatasync(2). Traffic counts
    under `initiator`. An I/O that is out of bounds completes with LBA_OUT_OF_RANGE, one whose memory is not
    mapped with DATA_TRANSFER_ERROR.
    Raises: UsageError if the file is missing, no regular file, too small, not writable, or in use.
    """

    def __init__(
        self,
        path: Path,
        block_bytes: int,
        block_count: int,
        memory: AddressSpace,
        depth: int = 8,
        *,
        initiator: str = "nvme",
    ) -> None:
        if depth < 1 or block_bytes < 1 or block_count < 1:
            raise UsageError(
                f"depth {depth}, {block_count} blocks of {block_bytes} bytes: each is at least 1"
            )
        self.block_bytes = block_bytes
        self.block_count = block_count
        self._memory = memory
        self._initiator = initiator
        self._buffered_fd = _open_namespace(path, block_bytes * block_count)
        self._direct_fd = _open_direct(self._buffered_fd)
        self.direct = self._direct_fd is not None
        self._completions = _Completions()
        self._work: SimpleQueue[tuple[BlockIo, list[memoryview], bool] | None] = SimpleQueue()
        self._is_closed = False
        self._threads = [
            threading.Thread(target=self._perform_all, name=f"block-io-{path.name}-{index}", daemon=True)
            for index in range(depth)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, io: BlockIo) -> None:
        """Hand an I/O to the threads.

        Raises: UsageError after `close`.
        """
        if self._is_closed:
            raise UsageError(f"I/O tag {io.tag} comes after close")
        try:
            views, is_aligned = self._views(io)
        except UsageError:
            self._completions.add(io.tag, NvmeStatus.DATA_TRANSFER_ERROR)
            return
        if io.offset_bytes < 0 or io.offset_bytes + io.length_bytes > self.block_bytes * self.block_count:
            self._completions.add(io.tag, NvmeStatus.LBA_OUT_OF_RANGE)
            return
        self._work.put((io, views, is_aligned))

    def take_completions(self) -> list[Completion]:
        """Take what has finished, in the order of finishing; empties the descriptor."""
        return self._completions.take()

    def fileno(self) -> int:
        """Return a descriptor that is readable while completions wait; -1 after `close`."""
        return self._completions.fileno()

    def close(self) -> None:
        """Wait for what was submitted, store it durably, unlock the file; completions can still be taken."""
        if self._is_closed:
            return
        self._is_closed = True
        for _ in self._threads:
            self._work.put(None)
        for thread in self._threads:
            thread.join()
        try:
            os.fdatasync(self._buffered_fd)
        finally:
            os.close(self._buffered_fd)
            if self._direct_fd is not None:
                os.close(self._direct_fd)
            self._completions.close()

    def _views(self, io: BlockIo) -> tuple[list[memoryview], bool]:
        """Return the memory of an I/O, and whether all of it suits O_DIRECT; counts the traffic."""
        views = []
        places = io.offset_bytes
        for address, length_bytes in io.segments:
            window = self._memory.find(address, length_bytes)
            places |= length_bytes | (window.backing.address + address - window.bus_address)
        for address, length_bytes in io.segments:
            views.append(self._memory.view(address, length_bytes, self._initiator))
        return views, places % DIRECT_ALIGNMENT_BYTES == 0

    def _perform_all(self) -> None:
        while work := self._work.get():
            io, views, is_aligned = work
            try:
                status = self._perform(io, views, is_aligned)
            except Exception:  # whatever it was, the command still completes
                status = NvmeStatus.INTERNAL_ERROR
            del work, views
            self._completions.add(io.tag, status)

    def _perform(self, io: BlockIo, views: list[memoryview], is_aligned: bool) -> NvmeStatus:
        try:
            if io.kind is BlockIoKind.FLUSH:
                os.fdatasync(self._buffered_fd)
            elif self._direct_fd is None or not is_aligned:
                _transfer(self._buffered_fd, io, views)
            else:
                self._transfer_directly(self._direct_fd, io, views)
        except OSError:
            return _FAULT_OF[io.kind]
        return NvmeStatus.SUCCESS

    def _transfer_directly(self, fd: int, io: BlockIo, views: list[memoryview]) -> None:
        try:
            _transfer(fd, io, views)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            _transfer(self._buffered_fd, io, views)


class MemoryBlockIo:
    """Blocks in memory of this process; an I/O is done when `submit` returns, so a stepped run is
    deterministic.

    Statuses are those of `FileBlockIo`.
    Raises: UsageError if there would be no blocks.
    """

    def __init__(
        self, block_bytes: int, block_count: int, memory: AddressSpace, *, initiator: str = "nvme"
    ) -> None:
        if block_bytes < 1 or block_count < 1:
            raise UsageError(f"{block_count} blocks of {block_bytes} bytes: each is at least 1")
        self.block_bytes = block_bytes
        self.block_count = block_count
        self._memory = memory
        self._initiator = initiator
        self._blocks = Backing.anonymous(block_bytes * block_count)
        self._completions = _Completions()
        self._is_closed = False

    @property
    def view(self) -> memoryview:
        """The blocks themselves."""
        return self._blocks.view

    def submit(self, io: BlockIo) -> None:
        """Perform an I/O at once.

        Raises: UsageError after `close`.
        """
        if self._is_closed:
            raise UsageError(f"I/O tag {io.tag} comes after close")
        self._completions.add(io.tag, self._perform(io))

    def take_completions(self) -> list[Completion]:
        """Take what has finished, in the order of finishing; empties the descriptor."""
        return self._completions.take()

    def fileno(self) -> int:
        """Return a descriptor that is readable while completions wait; -1 after `close`."""
        return self._completions.fileno()

    def close(self) -> None:
        """Give the blocks back; completions can still be taken."""
        if not self._is_closed:
            self._is_closed = True
            self._blocks.close()
            self._completions.close()

    def _perform(self, io: BlockIo) -> NvmeStatus:
        place = io.offset_bytes
        if place < 0 or place + io.length_bytes > self._blocks.length_bytes:
            return NvmeStatus.LBA_OUT_OF_RANGE
        try:
            for segment in io.segments:
                self._memory.find(*segment)
        except UsageError:
            return NvmeStatus.DATA_TRANSFER_ERROR
        for address, length_bytes in io.segments:
            view = self._memory.view(address, length_bytes, self._initiator)
            blocks = self._blocks.view[place : place + length_bytes]
            if io.kind is BlockIoKind.READ:
                view[:] = blocks
            else:
                blocks[:] = view
            place += length_bytes
        return NvmeStatus.SUCCESS


def create_namespace_file(path: Path, length_bytes: int) -> None:
    """Create a file whose blocks are all allocated, so that no later write finds the disk full.

    Raises: UsageError if the file exists or cannot be created there, or the length is no multiple of 4096
    bytes; ResourceError if the disk has no room (nothing is left behind).
    """
    if length_bytes < 1 or length_bytes % PAGE_BYTES:
        raise UsageError(f"a namespace file of {length_bytes} bytes; a multiple of {PAGE_BYTES} is needed")
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    except FileExistsError as error:
        raise UsageError(f"{path} exists; remove it, or use it as it is") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be created: {error.strerror}; choose another place") from error
    try:
        os.posix_fallocate(fd, 0, length_bytes)
    except OSError as error:
        os.unlink(path)
        raise ResourceError(
            f"{length_bytes} bytes for {path}: {error.strerror}; choose another disk"
        ) from error
    finally:
        os.close(fd)


def _open_namespace(path: Path, needed_bytes: int) -> int:
    """Return a locked descriptor of a file that holds at least `needed_bytes` bytes."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError as error:
        raise UsageError(
            f"{path} does not exist; create it: with `create = true` in the topology file, or"
            " create_namespace_file() in Python"
        ) from error
    except IsADirectoryError as error:
        raise UsageError(
            f"{path} is a directory; a namespace needs a regular file or a block device"
        ) from error
    except OSError as error:
        raise UsageError(f"{path} cannot be opened for reading and writing: {error.strerror}") from error
    try:
        mode = os.fstat(fd).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISBLK(mode)):
            raise UsageError(f"{path} is neither a regular file nor a block device; a namespace needs one")
        found_bytes = os.lseek(fd, 0, os.SEEK_END)
        if found_bytes < needed_bytes:
            raise UsageError(
                f"{path} has {found_bytes} bytes, the namespace needs {needed_bytes}; make the file larger "
                "or the namespace smaller"
            )
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UsageError(
                f"{path} is in use by another namespace (flock); stop that one or use another file"
            ) from error
    except BaseException:
        os.close(fd)
        raise
    return fd


def _open_direct(fd: int) -> int | None:
    """Return another descriptor of the file, one that bypasses the page cache; None where none can be had."""
    try:
        return os.open(f"/proc/self/fd/{fd}", os.O_RDWR | os.O_CLOEXEC | os.O_DIRECT)
    except OSError:
        return None


def _transfer(fd: int, io: BlockIo, views: Sequence[memoryview]) -> None:
    """Read or write all of `views`, however many calls that takes.

    Raises: OSError if the system does, or the file ends before the views do.
    """
    offset = io.offset_bytes
    flags = os.RWF_DSYNC if io.fua else 0
    left = deque(views)
    while left:
        batch = [left[index] for index in range(min(len(left), _IOV_MAX))]
        if io.kind is BlockIoKind.READ:
            moved_bytes = os.preadv(fd, batch, offset)
        else:
            moved_bytes = os.pwritev(fd, batch, offset, flags)
        if moved_bytes == 0:
            raise OSError(errno.EIO, f"the file ends at {offset}")
        offset += moved_bytes
        while moved_bytes:
            first = left.popleft()
            if moved_bytes < len(first):
                left.appendleft(first[moved_bytes:])
                break
            moved_bytes -= len(first)
