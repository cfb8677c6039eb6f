# SPDX-License-Identifier: Apache-2.0
"""Namespace files: what may be opened, who may hold one, and what a failing disk turns into."""

import errno
import os
import select
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from nicemu.errors import NvmeStatus, ResourceError, UsageError
from nicemu.nvme import BlockIo, BlockIoKind
from nicemu.pcie import AddressSpace, Backing
from nicemu.run.block_io import FileBlockIo, create_namespace_file

PAGE = 4096
BASE = 0x10_0000


@pytest.fixture
def memory() -> AddressSpace:
    space = AddressSpace()
    space.add(BASE, "nic", Backing.memfd("blocks", 16 * PAGE))
    return space


@pytest.fixture
def path(tmp_path: Path) -> Path:
    create_namespace_file(tmp_path / "namespace", 16 * PAGE)
    return tmp_path / "namespace"


def perform(device: FileBlockIo, kind: BlockIoKind, *segments: tuple[int, int]) -> NvmeStatus:
    device.submit(BlockIo(1, kind, 1, 0, segments, 0))
    assert select.select([device], [], [], 10)[0], "an I/O never completed"
    ((_, status),) = device.take_completions()
    return status


def test_a_created_file_has_all_its_blocks_allocated(path: Path) -> None:
    found = path.stat()
    assert found.st_size == 16 * PAGE
    assert found.st_blocks * 512 >= found.st_size


def test_a_file_is_not_created_over_another(path: Path) -> None:
    path.write_bytes(b"precious")
    with pytest.raises(UsageError, match="exists; remove it"):
        create_namespace_file(path, PAGE)
    assert path.read_bytes() == b"precious"


@pytest.mark.parametrize("length_bytes", [0, -PAGE, PAGE + 1])
def test_a_file_of_an_odd_length_is_not_created(tmp_path: Path, length_bytes: int) -> None:
    with pytest.raises(UsageError, match="multiple of 4096"):
        create_namespace_file(tmp_path / "odd", length_bytes)
    assert not (tmp_path / "odd").exists()


def test_a_file_where_no_directory_is_is_not_created(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be created: No such file"):
        create_namespace_file(tmp_path / "nowhere" / "namespace", PAGE)


def test_a_file_that_the_disk_has_no_room_for_is_not_left_behind(tmp_path: Path) -> None:
    with pytest.raises(ResourceError, match="choose another disk"):
        create_namespace_file(tmp_path / "huge", 1 << 55)
    assert not (tmp_path / "huge").exists()


def test_what_is_written_is_in_the_file(path: Path, memory: AddressSpace) -> None:
    memory.write(BASE, b"n" * 2 * PAGE)
    device = FileBlockIo(path, PAGE, 16, memory)
    assert perform(device, BlockIoKind.WRITE, (BASE, 2 * PAGE)) is NvmeStatus.SUCCESS
    assert perform(device, BlockIoKind.FLUSH) is NvmeStatus.SUCCESS
    device.close()
    assert path.read_bytes() == b"n" * 2 * PAGE + bytes(14 * PAGE)


def refusal(path: Path, memory: AddressSpace, block_count: int = 16) -> str:
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(UsageError) as caught:
        FileBlockIo(path, PAGE, block_count, memory)
    assert len(os.listdir("/proc/self/fd")) <= before
    return str(caught.value)


def test_a_missing_file_is_refused(tmp_path: Path, memory: AddressSpace) -> None:
    assert "does not exist; create it" in refusal(tmp_path / "missing", memory)


def test_a_directory_is_refused(tmp_path: Path, memory: AddressSpace) -> None:
    assert "is a directory" in refusal(tmp_path, memory)


def test_a_pipe_is_refused(tmp_path: Path, memory: AddressSpace) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert "neither a regular file nor a block device" in refusal(tmp_path / "pipe", memory)


def test_a_file_that_is_too_small_is_refused(path: Path, memory: AddressSpace) -> None:
    assert f"has {16 * PAGE} bytes, the namespace needs {17 * PAGE}" in refusal(path, memory, block_count=17)


def test_a_file_that_cannot_be_written_is_refused(
    path: Path, memory: AddressSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.chmod(0o444)
    if os.geteuid() == 0:  # root may write it all the same, so the system's answer is played
        open_file = os.open

        def refuse(name: Path | str, flags: int, mode: int = 0o777) -> int:
            if name == path and flags & os.O_RDWR:
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
            return open_file(name, flags, mode)

        monkeypatch.setattr(os, "open", refuse)
    assert "cannot be opened for reading and writing: Permission denied" in refusal(path, memory)


def test_a_file_in_use_by_this_process_is_refused_until_it_is_closed(
    path: Path, memory: AddressSpace
) -> None:
    device = FileBlockIo(path, PAGE, 16, memory)
    assert "in use by another namespace" in refusal(path, memory)
    device.close()
    FileBlockIo(path, PAGE, 16, memory).close()


@pytest.mark.process
def test_a_file_in_use_by_another_process_is_refused_until_that_one_ends(
    path: Path, memory: AddressSpace
) -> None:
    hold = (
        "import fcntl, sys; f = open(sys.argv[1]); fcntl.flock(f, fcntl.LOCK_EX); print(flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", hold, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        assert "in use by another namespace" in refusal(path, memory)
        holder.communicate(b"\n", timeout=10)
    FileBlockIo(path, PAGE, 16, memory).close()


def test_a_file_that_was_cut_short_gives_unrecovered_read_error(path: Path, memory: AddressSpace) -> None:
    device = FileBlockIo(path, PAGE, 16, memory)
    os.truncate(path, PAGE)
    assert perform(device, BlockIoKind.READ, (BASE, 2 * PAGE)) is NvmeStatus.UNRECOVERED_READ_ERROR
    assert perform(device, BlockIoKind.READ, (BASE, PAGE)) is NvmeStatus.SUCCESS
    device.close()


def failing(code: int) -> Callable[..., int]:
    def fail(*_: object) -> int:
        raise OSError(code, os.strerror(code))

    return fail


def test_a_failing_disk_gives_the_fault_of_the_direction(
    path: Path, memory: AddressSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = FileBlockIo(path, PAGE, 16, memory)
    monkeypatch.setattr(os, "preadv", failing(errno.EIO))
    monkeypatch.setattr(os, "pwritev", failing(errno.EIO))
    assert perform(device, BlockIoKind.READ, (BASE, PAGE)) is NvmeStatus.UNRECOVERED_READ_ERROR
    assert perform(device, BlockIoKind.WRITE, (BASE, PAGE)) is NvmeStatus.WRITE_FAULT
    monkeypatch.setattr(os, "fdatasync", failing(errno.EIO))
    assert perform(device, BlockIoKind.FLUSH) is NvmeStatus.WRITE_FAULT
    monkeypatch.undo()
    assert perform(device, BlockIoKind.READ, (BASE, PAGE)) is NvmeStatus.SUCCESS
    device.close()


def test_a_disk_that_moves_less_than_asked_is_asked_again(
    path: Path, memory: AddressSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    path.write_bytes(bytes(range(256)) * 16 * 16)
    preadv = os.preadv
    monkeypatch.setattr(os, "preadv", lambda fd, views, offset: preadv(fd, [views[0][:1024]], offset))
    device = FileBlockIo(path, PAGE, 16, memory)
    assert perform(device, BlockIoKind.READ, (BASE, PAGE), (BASE + 2 * PAGE, PAGE)) is NvmeStatus.SUCCESS
    assert memory.read(BASE, PAGE) + memory.read(BASE + 2 * PAGE, PAGE) == path.read_bytes()[: 2 * PAGE]
    device.close()


def test_a_defect_on_a_thread_still_completes_the_command(
    path: Path, memory: AddressSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defect(*_: object) -> int:
        raise RuntimeError("defect")

    device = FileBlockIo(path, PAGE, 16, memory, depth=1)
    monkeypatch.setattr(os, "preadv", defect)
    assert perform(device, BlockIoKind.READ, (BASE, PAGE)) is NvmeStatus.INTERNAL_ERROR
    monkeypatch.undo()
    assert perform(device, BlockIoKind.READ, (BASE, PAGE)) is NvmeStatus.SUCCESS
    device.close()


def test_direct_io_goes_to_the_direct_descriptor_only_if_memory_is_aligned(
    path: Path, memory: AddressSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = FileBlockIo(path, PAGE, 16, memory)
    if not device.direct:
        device.close()
        pytest.skip(f"the file system of {path} has no O_DIRECT")
    used = []
    preadv = os.preadv

    def watch(fd: int, views: list[memoryview], offset: int) -> int:
        used.append(fd)
        return preadv(fd, views, offset)

    monkeypatch.setattr(os, "preadv", watch)
    assert perform(device, BlockIoKind.READ, (BASE, PAGE)) is NvmeStatus.SUCCESS
    assert perform(device, BlockIoKind.READ, (BASE + 4, PAGE)) is NvmeStatus.SUCCESS
    assert used == [device._direct_fd, device._buffered_fd]
    device.close()


def test_only_a_write_with_force_unit_access_waits_for_the_medium(
    path: Path, memory: AddressSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    used = []
    pwritev = os.pwritev

    def watch(fd: int, views: list[memoryview], offset: int, flags: int) -> int:
        used.append(flags)
        return pwritev(fd, views, offset, flags)

    monkeypatch.setattr(os, "pwritev", watch)
    device = FileBlockIo(path, PAGE, 16, memory, depth=1)
    for fua in (False, True):
        device.submit(BlockIo(1, BlockIoKind.WRITE, 1, 0, ((BASE, PAGE),), 0, fua))
    device.close()
    assert device.take_completions() == [(1, NvmeStatus.SUCCESS)] * 2
    assert used == [0, os.RWF_DSYNC]


def test_a_file_system_without_direct_io_is_served_through_the_page_cache(
    path: Path, memory: AddressSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_file = os.open

    def refuse_direct(name: Path | str, flags: int, mode: int = 0o777) -> int:
        if flags & os.O_DIRECT:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return open_file(name, flags, mode)

    monkeypatch.setattr(os, "open", refuse_direct)
    device = FileBlockIo(path, PAGE, 16, memory)
    assert not device.direct
    assert perform(device, BlockIoKind.WRITE, (BASE, PAGE)) is NvmeStatus.SUCCESS
    device.close()


@pytest.mark.parametrize(("depth", "block_count"), [(0, 16), (1, 0)])
def test_no_threads_or_no_blocks_are_refused(
    path: Path, memory: AddressSpace, depth: int, block_count: int
) -> None:
    with pytest.raises(UsageError, match="each is at least 1"):
        FileBlockIo(path, PAGE, block_count, memory, depth)
