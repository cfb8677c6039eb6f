# SPDX-License-Identifier: Apache-2.0
"""A port over a UNIX datagram socket: one datagram is one Ethernet frame, as at a guest's link.

Sources: unix(7), "SOCK_DGRAM"; qemu(1), "-netdev dgram".
"""

from __future__ import annotations

import errno
import os
import shlex
import socket
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

from nicemu.arguments import check_whole
from nicemu.errors import UsageError
from nicemu.wire import FrameBatch

from .frame_messages import FrameMessages, drop_misfits
from .port import BatchPort, check_batch, closed

BUFFER_BYTES = 4 << 20
# Not in Python's socket module. Source: Linux, include/uapi/asm-generic/socket.h.
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_LONGEST_PATH_BYTES = 107
"""Source: unix(7), `sun_path`: 108 bytes with the 0 at its end."""
_FAMILY = int(socket.AF_UNIX).to_bytes(2, sys.byteorder)


class DatagramPort(BatchPort):
    """Carries frames to whoever has the other end of a UNIX datagram socket: a guest, or a port like this.

    `end` is a connected socket, which the port takes over, or two paths: where it receives (made here, and
    removed when the port is closed) and where it sends. Frames to a path where nobody listens are counted as
    datagram.nobody and lost, as on a cable that is not plugged in. `buffer_bytes` of frames (the kernel
    counts its own overhead, too) may be under way; between paths the receiver's kernel also limits their
    number (net.unix.max_dgram_qlen).
    """

    def __init__(self, end: socket.socket | tuple[Path, Path], buffer_bytes: int = BUFFER_BYTES) -> None:
        """Open the port.

        Raises: UsageError for a socket of another kind, a path that cannot be bound, or one path twice.
        """
        super().__init__()
        check_whole("buffer_bytes", buffer_bytes, 1, (1 << 31) - 1)
        self.drops: Counter[str] = Counter()
        self._bound: Path | None = None
        destination = b""
        if isinstance(end, socket.socket):
            if end.family != socket.AF_UNIX or end.type != socket.SOCK_DGRAM or end.fileno() < 0:
                raise UsageError("a datagram port needs an open socket of AF_UNIX and SOCK_DGRAM")
            opened = end
            self._address = f"datagram:{os.fstat(end.fileno()).st_ino}"
        else:
            here, there = _two_paths(end)
            if here.absolute() == there.absolute():
                raise UsageError(f"{here} is both ends; frames are received at one path and sent to another")
            destination = _FAMILY + os.fsencode(there) + b"\0"
            opened = _bound_to(here)
            self._bound = here
            self._address = f"datagram:{here},{there}"
        opened.setblocking(False)
        enlarge_buffers(opened, buffer_bytes)
        self._socket: socket.socket | None = opened
        self._messages = FrameMessages(destination)

    @property
    def address(self) -> str:
        """Both paths, or the socket's inode number."""
        return self._address

    def send_batch(self, batch: FrameBatch, first: int = 0) -> int:
        """Send frames in order until the receiver's buffer is full."""
        fd = self._open_socket().fileno()
        check_batch(batch, first)
        reached = first
        while reached < batch.count:
            try:
                reached = self._messages.send(fd, batch, reached)
            except BlockingIOError:
                break
            except OSError:
                self.drops["datagram.nobody"] += 1
                reached += 1
        return reached - first

    def receive_batch(self, batch: FrameBatch, limit: int | None = None) -> int:
        """Receive frames that have arrived; a datagram that is no frame is counted and dropped."""
        fd = self._open_socket().fileno()
        was_reset = False
        while True:
            try:
                came = self._messages.receive(fd, batch, limit)
            except BlockingIOError:
                return 0
            except OSError:  # the other end was closed; this is told once, before what it sent
                if was_reset:
                    return 0
                was_reset = True
                continue
            if wrong := drop_misfits(batch):
                self.drops["datagram.length"] += wrong
            if batch.count or not came:
                return batch.count

    def fileno(self) -> int | None:
        """The socket's descriptor."""
        return self._open_socket().fileno()

    def close(self) -> None:
        """Close the socket, and remove its path."""
        opened, self._socket = self._socket, None
        if opened is not None:
            opened.close()
            if self._bound is not None:
                self._bound.unlink(missing_ok=True)

    def _open_socket(self) -> socket.socket:
        if self._socket is None:
            raise closed(self._address)
        return self._socket


def enlarge_buffers(opened: socket.socket, buffer_bytes: int) -> None:
    """Give a socket large buffers: beyond the system's limit where this process may, else up to it."""
    for forced, plain in ((_SO_SNDBUFFORCE, socket.SO_SNDBUF), (_SO_RCVBUFFORCE, socket.SO_RCVBUF)):
        try:
            opened.setsockopt(socket.SOL_SOCKET, forced, buffer_bytes)
        except PermissionError:
            with suppress(OSError):
                opened.setsockopt(socket.SOL_SOCKET, plain, buffer_bytes)


def _two_paths(end: object) -> tuple[Path, Path]:
    """Return where a port receives and where it sends; raise UsageError unless both can be."""
    paths = end if isinstance(end, tuple | list) else ()
    if len(paths) != 2 or not all(isinstance(path, str | Path) for path in paths):
        raise UsageError(f"a datagram port is at {end!r}; pass a socket, or two paths: (receives, sends)")
    for path in paths:
        encoded = os.fsencode(path)
        if not encoded or b"\0" in encoded or len(encoded) > _LONGEST_PATH_BYTES:
            raise UsageError(
                f"{str(path)!r} is no path of a socket, of 1 to {_LONGEST_PATH_BYTES} bytes, none 0"
            )
    return Path(paths[0]), Path(paths[1])


def _bound_to(path: Path) -> socket.socket:
    opened = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        opened.bind(str(path))
    except OSError as error:
        opened.close()
        what = error.strerror or str(error)
        cure = _cure(path) if error.errno == errno.EADDRINUSE else ""
        raise UsageError(f"a datagram port cannot receive at {path}: {what}{cure}") from error
    return opened


def _cure(path: Path) -> str:
    """Say what to do about a path that is in use."""
    if not path.is_socket():
        return "; it is no socket, so take another path"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(str(path))
        except ConnectionRefusedError:
            return f"; whoever made it has ended without removing it: rm {shlex.quote(str(path))}"
        except OSError:
            pass
    return "; another program receives there, so end that, or take another path"
