# SPDX-License-Identifier: Apache-2.0
"""Memory under a window: shareable memory keeps its size, and what is no such memory is refused."""

from __future__ import annotations

import ctypes
import fcntl
import gc
import mmap
import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from nicemu.errors import UsageError
from nicemu.pcie import PAGE_BYTES, Backing, load_u64, store_u64


def memfd(length_bytes: int, seals: int) -> int:
    fd = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(fd, length_bytes)
    if seals:
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, seals)
    return fd


def is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


@pytest.fixture
def shared() -> Iterator[Backing]:
    backing = Backing.memfd("test", 10_000)
    yield backing
    backing.close()


@pytest.fixture(params=["anonymous", "memfd", "mapped file"])
def backing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Backing]:
    """10000 bytes of memory of every kind."""
    if request.param == "anonymous":
        made = Backing.anonymous(10_000)
    elif request.param == "memfd":
        made = Backing.memfd("test", 10_000)
    else:
        (tmp_path / "memory").write_bytes(bytes(20_000))
        made = Backing.mapped_file(tmp_path / "memory", 10_000)
    yield made
    made.close()


def test_memory_is_zeroed_and_has_the_length_that_was_asked_for(backing: Backing) -> None:
    assert len(backing.view) == backing.length_bytes == 10_000
    assert bytes(backing.view) == bytes(10_000)


def test_the_address_is_where_the_view_lies(backing: Backing) -> None:
    assert backing.address % PAGE_BYTES == 0
    store_u64(backing.address + 9992, 0x0102030405060708)
    assert bytes(backing.view[9992:]) == bytes(range(8, 0, -1))
    backing.view[0:8] = bytes(range(8))
    assert load_u64(backing.address) == 0x0706050403020100


def test_closing_twice_is_harmless(backing: Backing) -> None:
    backing.close()
    backing.close()
    assert backing.fd is None
    with pytest.raises(ValueError, match="released memoryview"):
        backing.view[0]


@pytest.mark.parametrize("length_bytes", [0, -1])
def test_memory_without_bytes_cannot_be_allocated(length_bytes: int, tmp_path: Path) -> None:
    for kind in (Backing.anonymous, lambda length: Backing.memfd("test", length)):
        with pytest.raises(UsageError, match=f"memory of {length_bytes} bytes cannot be allocated"):
            kind(length_bytes)


# Shareable memory.


def test_what_one_process_writes_another_mapping_sees(shared: Backing) -> None:
    assert shared.fd is not None
    other = Backing.from_fd(os.dup(shared.fd), 10_000)
    shared.view[5000:5005] = b"hello"
    assert bytes(other.view[5000:5005]) == b"hello"
    other.view[9999] = 7
    assert shared.view[9999] == 7
    other.close()


@pytest.mark.parametrize("length_bytes", [0, PAGE_BYTES, 1 << 20])
def test_a_peer_can_neither_shrink_nor_grow_it(shared: Backing, length_bytes: int) -> None:
    """A shrunk memfd under a mapping would be SIGBUS for whoever touches it."""
    assert shared.fd is not None
    peer = os.dup(shared.fd)
    with pytest.raises(PermissionError):
        os.ftruncate(peer, length_bytes)
    with pytest.raises(PermissionError):
        fcntl.fcntl(peer, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE)
    os.close(peer)
    shared.view[9999] = 1


def test_its_size_is_whole_pages(shared: Backing) -> None:
    assert shared.fd is not None
    assert os.fstat(shared.fd).st_size == 3 * PAGE_BYTES


def test_a_descriptor_that_is_no_memfd_is_refused_and_closed(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(PAGE_BYTES))
    fd = os.open(tmp_path / "file", os.O_RDWR)
    with pytest.raises(UsageError, match=r"memfd.*allocate memory with nic.allocate\(\)"):
        Backing.from_fd(fd, PAGE_BYTES)
    assert not is_open(fd)


@pytest.mark.parametrize("seals", [0, fcntl.F_SEAL_GROW])
def test_a_memfd_that_can_be_shrunk_is_refused_and_closed(seals: int) -> None:
    fd = memfd(PAGE_BYTES, seals)
    with pytest.raises(UsageError, match="a sealed memfd of at least 4096 bytes is needed"):
        Backing.from_fd(fd, PAGE_BYTES)
    assert not is_open(fd)


@pytest.mark.parametrize(
    ("size", "wanted"), [(PAGE_BYTES, PAGE_BYTES + 1), (PAGE_BYTES, 0), (5000, 5001), (0, 1)]
)
def test_a_memfd_of_fewer_bytes_is_refused_and_closed(size: int, wanted: int) -> None:
    fd = memfd(size, fcntl.F_SEAL_SHRINK)
    with pytest.raises(UsageError, match=f"at least {wanted} bytes is needed, this one has {size} bytes"):
        Backing.from_fd(fd, wanted)
    assert not is_open(fd)


def test_a_memfd_that_ends_inside_a_page_can_be_mapped() -> None:
    backing = Backing.from_fd(memfd(5000, fcntl.F_SEAL_SHRINK), 4500)
    backing.view[4499] = 1
    assert len(backing.view) == 4500
    backing.close()


def test_a_memfd_that_is_sealed_against_writing_is_refused_and_closed() -> None:
    fd = memfd(PAGE_BYTES, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE)
    with pytest.raises(UsageError, match="cannot be mapped for writing"):
        Backing.from_fd(fd, PAGE_BYTES)
    assert not is_open(fd)


def test_a_file_of_fewer_bytes_cannot_be_mapped(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    for wanted in (101, 0):
        with pytest.raises(UsageError, match=f"has 100 bytes; {wanted} of them cannot be mapped"):
            Backing.mapped_file(tmp_path / "file", wanted)


def test_writes_to_a_mapped_file_reach_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(100))
    backing = Backing.mapped_file(tmp_path / "file", 50)
    backing.view[49] = 9
    backing.close()
    assert (tmp_path / "file").read_bytes() == bytes(49) + b"\x09" + bytes(50)


# Closing.


def test_memory_that_is_still_viewed_can_be_closed_and_stays_readable(shared: Backing) -> None:
    view = shared.view[100:200]
    view[0] = 5
    fd = shared.fd
    shared.close()
    assert (view[0], shared.fd) == (5, None)
    assert fd is not None
    assert not is_open(fd)


def test_memory_that_an_array_lies_in_can_be_closed_and_stays_readable(shared: Backing) -> None:
    array = np.frombuffer(shared.view, np.uint8)
    array[3] = 8
    fd = shared.fd
    shared.close()
    assert (array[3], shared.fd) == (8, None)
    assert fd is not None
    assert not is_open(fd)


def test_memory_that_a_c_object_lies_in_can_be_closed() -> None:
    backing = Backing.anonymous(PAGE_BYTES)
    cell = ctypes.c_uint64.from_buffer(backing.view, 8)
    cell.value = 4
    backing.close()
    assert cell.value == 4


def test_closing_gives_the_mapping_back(shared: Backing) -> None:
    """The last view keeps the pages; when it goes, so do they."""
    start = f"{shared.address:x}-"
    view = shared.view[0:1]
    shared.close()
    assert start in Path("/proc/self/maps").read_text(encoding="utf-8")
    del view
    gc.collect()
    assert start not in Path("/proc/self/maps").read_text(encoding="utf-8")


def test_a_backing_that_cannot_be_made_leaves_no_descriptor(monkeypatch: pytest.MonkeyPatch) -> None:
    before = len(os.listdir("/proc/self/fd"))

    def refuse(*operands: object) -> None:
        raise OSError("no memory")

    monkeypatch.setattr(mmap, "mmap", refuse)
    with pytest.raises(OSError, match="no memory"):
        Backing.memfd("test", PAGE_BYTES)
    assert len(os.listdir("/proc/self/fd")) <= before
