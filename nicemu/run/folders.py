# SPDX-License-Identifier: Apache-2.0
"""The folders of running topologies and of demos: who holds them, and what happens when nobody does any more.

Whoever changes which NICs of a topology run holds the lock beside its folder: `up` and `down` while they are
at work, a program that runs NICs of its own for as long as it lives. Each NIC process holds its settings file
from its start to its end. The kernel lets go of both when a process ends, however it ends.

Source: flock(2).
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from nicemu.errors import UsageError

ATTACHED = "attached"
"""A file in the folder of a topology that ends with the program that started it."""
STATE = "state"
"""The file in a topology's folder that says what has come up; see `state.py`."""
SCRATCH_PREFIX = "nicemu-demo-"


def runtime_root() -> Path:
    """Return the folder, readable by its owner alone, that holds a folder for each running topology."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(base) / "nicemu" if base else Path(tempfile.gettempdir()) / f"nicemu-{os.getuid()}"
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = root.stat()
    if found.st_uid != os.getuid() or found.st_mode & 0o077:
        raise UsageError(
            f"{root} belongs to somebody else or is open to others; remove it or set XDG_RUNTIME_DIR"
        )
    return root


def lock_of(folder: Path) -> Path:
    """Return the lock file of a topology's folder."""
    return folder.with_name(f"{folder.name}.lock")


def claim(folder: Path, patience_s: float = 0.0) -> int | None:
    """Return a descriptor that holds the lock of a topology's folder; None if somebody else goes on holding
    it.
    """
    path = lock_of(folder)
    deadline = time.monotonic() + patience_s
    while True:
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if _hold(lock):
            if _lies_at(lock, path):
                return lock
            os.close(lock)  # whoever held it took the file away with it
        elif time.monotonic() > deadline:
            return None
        else:
            time.sleep(0.01)


def discard(folder: Path, lock: int) -> None:
    """Remove a topology's folder and its lock, which the caller holds."""
    shutil.rmtree(folder, ignore_errors=True)
    lock_of(folder).unlink(missing_ok=True)
    os.close(lock)


def hold_settings(path: Path) -> int:
    """Return a descriptor that holds a NIC's settings file, for its process to inherit."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    fcntl.flock(fd, fcntl.LOCK_EX)  # waits for those alone who look whether somebody holds it
    return fd


def is_held(path: Path) -> bool:
    """Whether the process of the NIC with these settings runs."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def held_in(folder: Path) -> set[str]:
    """Return the names of a topology's NICs whose processes run."""
    return {path.stem for path in folder.glob("*.json") if is_held(path)}


def remove_abandoned() -> None:
    """Remove what programs that were killed have left: folders of their topologies, and of demos' data.

    What `up` has left in the background stays, even if its NICs have ended: their logs say why.
    """
    root = runtime_root()
    names = {path.name for path in root.iterdir() if path.is_dir()}
    for name in names | {path.stem for path in root.glob("*.lock")}:
        folder = root / name
        if (folder / STATE).exists() and not (folder / ATTACHED).exists():
            continue
        lock = claim(folder)
        if lock is None:
            continue
        if held_in(folder):  # they are about to end
            os.close(lock)
        else:
            discard(folder, lock)
    for path in Path(tempfile.gettempdir()).glob(f"{SCRATCH_PREFIX}*"):
        held = _hold_folder(path)
        if held is not None:
            shutil.rmtree(path, ignore_errors=True)
            os.close(held)


class ScratchFolder:
    """A folder in the temporary folder for a demo's data: removed at the end, or by the next demo or `down`
    if this process is killed.
    """

    def __init__(self) -> None:
        held = None
        while held is None:  # somebody may take a new folder for an abandoned one before it is held
            self.path = Path(tempfile.mkdtemp(prefix=SCRATCH_PREFIX))
            held = _hold_folder(self.path)
        self._held: int | None = held

    def remove(self) -> None:
        """Remove the folder and all that lies in it."""
        if self._held is not None:
            shutil.rmtree(self.path, ignore_errors=True)
            os.close(self._held)
            self._held = None


def _hold_folder(path: Path) -> int | None:
    """Return a descriptor that holds a folder of this user's; None if it is none, or somebody holds it."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if not _hold(fd):
        return None
    if os.fstat(fd).st_uid == os.getuid() and _lies_at(fd, path):
        return fd
    os.close(fd)
    return None


def _hold(fd: int) -> bool:
    """Lock a file; close it and return False if somebody else has."""
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return False
    return True


def _lies_at(fd: int, path: Path) -> bool:
    try:
        found = os.stat(path, follow_symlinks=False)
    except OSError:
        return False
    own = os.fstat(fd)
    return stat.S_IFMT(found.st_mode) == stat.S_IFMT(own.st_mode) and os.path.samestat(found, own)
