# SPDX-License-Identifier: Apache-2.0
"""What nicemu asks of every machine: Python and its packages, shared memory, files, addresses, cores.

Each check tries the thing itself and cleans up behind itself.
Sources: memfd_create(2), fcntl(2) "File Sealing", open(2) "O_DIRECT", proc_pid_mountinfo(5).
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import mmap
import os
import platform
import re
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from .finding import Finding

PACKAGES = ("numpy", "numba", "grpcio", "protobuf", "click", "rich", "scapy", "cffi")
OLDEST_PYTHON = (3, 11)
BLOCK_BYTES = 4096
NICS_OF_THE_DEMO = 3

_CHILD = """
import mmap, socket, sys
link = socket.socket(fileno=int(sys.argv[1]))
_, fds, _, _ = socket.recv_fds(link, 1, 1)
memory = mmap.mmap(fds[0], 4096)
memory[:8] = bytes(reversed(memory[8:16]))
link.send(b"x")
"""


def python() -> Finding:
    """Return whether this Python is new enough."""
    found = f"{platform.python_implementation()} {platform.python_version()} at {sys.executable}"
    wanted = ".".join(map(str, OLDEST_PYTHON))
    ok = sys.version_info >= OLDEST_PYTHON and sys.implementation.name == "cpython"
    return Finding("Python", ok, found, "" if ok else f"install CPython {wanted} or newer", needed=True)


def packages() -> Finding:
    """Return whether every package that nicemu depends on is installed."""
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            missing.append(name)
    if missing:
        cure = f"{sys.executable} -m pip install {' '.join(missing)}"
        return Finding("Python packages", False, f"not installed: {', '.join(missing)}", cure, needed=True)
    return Finding("Python packages", True, ", ".join(found), needed=True)


def compiler() -> Finding:
    """Return whether numba compiles here, by compiling a function."""
    try:
        numba: Any = import_module("numba")
        answer = numba.njit(_double)(21)
    except Exception as error:
        cure = "reinstall numba: pip install --force-reinstall numba"
        return Finding("numba compiles", False, f"{type(error).__name__}: {error}", cure, needed=True)
    return Finding("numba compiles", answer == 42, f"numba {numba.__version__}", needed=True)


def _double(number: int) -> int:
    return number * 2


def compiled_datapath() -> Finding:
    """Return whether the datapath's compiled code is in the cache already."""
    from nicemu.hot import JIT, cache_folder

    folder = cache_folder()
    if not JIT:
        return Finding(
            "compiled datapath", False, "NICEMU_JIT=0: everything is interpreted", "unset NICEMU_JIT"
        )
    if not os.access(_existing(folder), os.W_OK):
        cure = "make it writable, or set XDG_CACHE_HOME to a folder that is"
        return Finding("compiled datapath", False, f"{folder} cannot be written", cure)
    count = sum(1 for _ in folder.rglob("*.nbi"))
    if not (folder / "complete").exists():
        cure = "nothing: the first nicemu up compiles it, in one to three minutes"
        return Finding("compiled datapath", False, f"{count} compiled functions in {folder}", cure)
    return Finding("compiled datapath", True, f"{count} compiled functions in {folder}")


def sealed_memory() -> Finding:
    """Return whether a memfd can be sealed, so that no peer can shrink memory that another has mapped."""
    check = "sealed shared memory"
    try:
        fd = os.memfd_create("nicemu-doctor", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    except OSError as error:
        return Finding(check, False, f"memfd_create: {error.strerror}", "a Linux 3.17 or newer", needed=True)
    try:
        os.ftruncate(fd, BLOCK_BYTES)
        fcntl.fcntl(fd, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
        os.ftruncate(fd, 0)
    except PermissionError:
        return Finding(check, True, "memfd with a sealed size", needed=True)
    except OSError as error:
        return Finding(check, False, f"sealing: {error.strerror}", "a kernel with file sealing", needed=True)
    finally:
        os.close(fd)
    return Finding(check, False, "a sealed memfd was shrunk all the same", "another kernel", needed=True)


def memory_between_processes() -> Finding:
    """Return whether another process sees memory whose descriptor it was sent over a UNIX socket."""
    check, cure = "memory between processes", "allow UNIX sockets and memfd in this sandbox"
    ours, theirs = socket.socketpair()
    fd = os.memfd_create("nicemu-doctor", os.MFD_CLOEXEC)
    with ours, theirs:
        try:
            os.ftruncate(fd, BLOCK_BYTES)
            with mmap.mmap(fd, BLOCK_BYTES) as memory:
                memory[8:16] = b"12345678"
                command = [sys.executable, "-I", "-S", "-c", _CHILD, str(theirs.fileno())]
                child = subprocess.Popen(
                    command, pass_fds=(theirs.fileno(),), stderr=subprocess.PIPE, text=True
                )
                socket.send_fds(ours, [b"x"], [fd])
                _, errors = child.communicate(timeout=30)
                ok = memory[:8] == b"87654321"
        finally:
            os.close(fd)
    reason = (
        "a second process mapped and wrote it" if ok else f"a second process did not: {errors[-200:].strip()}"
    )
    return Finding(check, ok, reason, "" if ok else cure, needed=True)


def runtime_folder() -> Finding:
    """Return whether sockets can be made in the folder where running NICs are found."""
    base, check = _runtime_base(), "runtime folder"
    try:
        with (
            tempfile.TemporaryDirectory(prefix="nicemu-", dir=base) as folder,
            socket.socket(socket.AF_UNIX) as link,
        ):
            link.bind(f"{folder}/doctor.sock")
    except OSError as error:
        cure = "set XDG_RUNTIME_DIR to a folder of yours, of at most about 60 letters"
        return Finding(check, False, f"no socket in {base}: {error.strerror or error}", cure, needed=True)
    return Finding(check, True, str(base), needed=True)


def direct_io() -> Finding:
    """Return whether the file system of the namespace files takes I/O past the page cache."""
    return direct_io_in(_existing(_data_base()))


def direct_io_in(folder: Path) -> Finding:
    """Return whether a file in `folder` takes direct writes and reads of one block."""
    check = "direct I/O"
    system = file_system_of(folder)
    cure = "nothing: the page cache is used; or name files on another file system in the topology file"
    try:
        with (
            tempfile.NamedTemporaryFile(prefix="nicemu-doctor-", dir=folder) as file,
            mmap.mmap(-1, BLOCK_BYTES) as block,
        ):
            block[:] = b"\xa5" * BLOCK_BYTES
            fd = os.open(file.name, os.O_RDWR | os.O_DIRECT)
            try:
                written = os.pwrite(fd, block, 0)
                block[:] = bytes(BLOCK_BYTES)
                read = os.preadv(fd, [block], 0)
            finally:
                os.close(fd)
            ok = written == read == BLOCK_BYTES and block[:] == b"\xa5" * BLOCK_BYTES
    except OSError as error:
        return Finding(check, False, f"{folder} ({system}): {error.strerror}", cure)
    return Finding(check, ok, f"{folder} ({system}), blocks of {BLOCK_BYTES} bytes", "" if ok else cure)


def loopback_addresses() -> Finding:
    """Return whether each NIC can have a loopback address of its own with the ports that NICs listen on."""
    from nicemu.kv import KV_PORT
    from nicemu.wire import ROCEV2_PORT

    check, address = "loopback addresses", "127.19.86.1"
    for port, use in ((ROCEV2_PORT, "RoCEv2"), (KV_PORT, "requests")):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as link:
            try:
                link.bind((address, port))
            except OSError as error:
                cure = "give the loopback interface all of 127.0.0.0/8, and end what uses the port"
                reason = f"{address} port {port}/udp ({use}): {error.strerror}"
                return Finding(check, False, reason, cure, needed=True)
    return Finding(
        check, True, f"{address}, UDP ports {ROCEV2_PORT} (RoCEv2) and {KV_PORT} (requests)", needed=True
    )


def spare_cores() -> Finding:
    """Return whether there is a core for the host besides one for each NIC of the demo."""
    count = len(os.sched_getaffinity(0))
    reason = f"{count} core{'' if count == 1 else 's'} for this process, load {os.getloadavg()[0]:.1f}"
    if count > NICS_OF_THE_DEMO:
        return Finding("spare cores", True, reason)
    cure = f"nothing: NICs nap when idle; {NICS_OF_THE_DEMO + 1} cores let three NICs poll beside the host"
    return Finding("spare cores", False, reason, cure)


def file_system_of(path: Path, mountinfo: str | None = None) -> str:
    """Return the type of the file system that `path` is on, as mountinfo names it."""
    text = Path("/proc/self/mountinfo").read_text(encoding="utf-8") if mountinfo is None else mountinfo
    best, system = -1, "unknown"
    for line in text.splitlines():
        left, _, right = line.partition(" - ")
        place = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), left.split()[4])
        inside = path == Path(place) or Path(place) in path.parents
        if inside and len(place) >= best:
            best, system = len(place), right.split()[0]
    return system


def _runtime_base() -> Path:
    return Path(os.environ.get("XDG_RUNTIME_DIR") or tempfile.gettempdir())


def _data_base() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share").absolute()


def _existing(path: Path) -> Path:
    """Return the folder, or the nearest one above it that exists."""
    return path if path.is_dir() else _existing(path.parent)


MACHINE_CHECKS: tuple[Callable[[], Finding], ...] = (
    python,
    packages,
    compiler,
    compiled_datapath,
    sealed_memory,
    memory_between_processes,
    runtime_folder,
    direct_io,
    loopback_addresses,
    spare_cores,
)
