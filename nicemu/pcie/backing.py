# SPDX-License-Identifier: Apache-2.0
"""What lies under a window of bus addresses: process memory, a sealed memfd, a mapped file."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
from contextlib import suppress
from pathlib import Path

from nicemu.errors import UsageError

PAGE_BYTES = 4096


class Backing:
    """Writable memory with a raw address in this process.

    `view` is the memory as bytes; `address` its raw address, page-aligned; `fd` the descriptor that other
    processes map (None for private memory). The memory lives until `close`.
    """

    def __init__(self, memory: mmap.mmap, length_bytes: int, fd: int | None) -> None:
        self._memory: mmap.mmap | None = memory
        self.view = memoryview(memory)[:length_bytes]
        self.length_bytes = length_bytes
        self.fd = fd
        self.address = ctypes.addressof(ctypes.c_char.from_buffer(memory))

    @classmethod
    def anonymous(cls, length_bytes: int) -> Backing:
        """Private zeroed memory of this process."""
        return cls(mmap.mmap(-1, _whole_pages(length_bytes)), length_bytes, None)

    @classmethod
    def memfd(cls, name: str, length_bytes: int) -> Backing:
        """Zeroed memory that other processes can map through its descriptor.

        The size is sealed, so that no peer can shrink it under a mapping (which would be SIGBUS).
        """
        fd = os.memfd_create(name, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        try:
            os.ftruncate(fd, _whole_pages(length_bytes))
            fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            return cls(mmap.mmap(fd, _whole_pages(length_bytes)), length_bytes, fd)
        except BaseException:
            os.close(fd)
            raise

    @classmethod
    def from_fd(cls, fd: int, length_bytes: int) -> Backing:
        """Map another process's memfd; takes over the descriptor.

        Raises: UsageError if the descriptor is no memfd of sealed size, is smaller than `length_bytes`, or
        cannot be mapped for writing.
        """
        try:
            seals = fcntl.fcntl(fd, fcntl.F_GET_SEALS)
        except OSError as error:
            os.close(fd)
            raise UsageError("the descriptor is not a memfd; allocate memory with nic.allocate()") from error
        size_bytes = os.fstat(fd).st_size
        if not seals & fcntl.F_SEAL_SHRINK or length_bytes < 1 or size_bytes < length_bytes:
            os.close(fd)
            raise UsageError(
                f"a sealed memfd of at least {length_bytes} bytes is needed, this one has {size_bytes} bytes "
                f"and seals {seals:#x}; allocate memory with nic.allocate()"
            )
        try:
            return cls(mmap.mmap(fd, length_bytes), length_bytes, fd)
        except OSError as error:
            os.close(fd)
            raise UsageError(
                f"the memfd cannot be mapped for writing ({error}); seal its size alone"
            ) from error

    @classmethod
    def mapped_file(cls, path: Path, length_bytes: int) -> Backing:
        """Map a file of at least `length_bytes` bytes.

        Raises: UsageError if the file is smaller, or nothing would be mapped.
        """
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        try:
            size_bytes = os.fstat(fd).st_size
            if not 1 <= length_bytes <= size_bytes:
                raise UsageError(f"{path} has {size_bytes} bytes; {length_bytes} of them cannot be mapped")
            return cls(mmap.mmap(fd, length_bytes), length_bytes, fd)
        except BaseException:
            os.close(fd)
            raise

    def __del__(self) -> None:
        fd = getattr(self, "fd", None)
        if fd is not None:
            os.close(fd)

    def close(self) -> None:
        """Give the memory back. A mapping that somebody still views is unmapped when the last view goes."""
        memory, self._memory = self._memory, None
        if memory is None:
            return
        with suppress(BufferError):
            self.view.release()
        with suppress(BufferError):
            memory.close()
        if self.fd is not None:
            os.close(self.fd)
            self.fd = None


def _whole_pages(length_bytes: int) -> int:
    if length_bytes < 1:
        raise UsageError(f"memory of {length_bytes} bytes cannot be allocated")
    return -(-length_bytes // PAGE_BYTES) * PAGE_BYTES
