# SPDX-License-Identifier: Apache-2.0
"""Streams: work in order, and a store into a doorbell when the work before it is done.

`HostStream` is a thread of this process, `ProcessStream` a process that stands in for the GPU. Both take the
same calls as the stepper's stream: kernels are methods of an object that a module makes, and the module is
loaded by path.
"""

from __future__ import annotations

import json
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from nicemu.abi import SharedMemory, Span
from nicemu.errors import NicemuError, UsageError
from nicemu.pcie import Backing, load_u64, store_u64
from nicemu.programs import find_program, load_module

from .forking import stay_behind
from .recording import tell_submitted, tell_synchronized

_LONGEST_NAP_S = 1e-3


class Stream(Protocol):
    """A queue of work that something other than the host's own thread carries out, in order.

    One that has `add_value(memory, offset_bytes, by)` too, an 8-byte add, rings doorbells with that: what a
    ring counts is settled when it is carried out then, and a ring that never is counts nothing.
    """

    def load(self, path: str | Path, memory: dict[str, Any], **settings: Any) -> None:  # noqa: ANN401
        """Load a kernel module: its `kernels(memory, **settings)` returns an object whose methods are the
        kernels.

        `memory` maps names to `nicemu.host.Memory`; the kernels see NumPy arrays.
        """
        ...

    def launch(
        self,
        kernel: str,
        *,
        reads: Iterable[Span] = (),
        writes: Iterable[Span] = (),
        **operands: Any,  # noqa: ANN401
    ) -> None:
        """Put a kernel into the stream; `reads` and `writes` declare what it touches, to find races."""
        ...

    def store(self, memory: SharedMemory, offset_bytes: int, value: int) -> None:
        """Put an 8-byte store into the stream."""
        ...

    def wait_value(self, memory: SharedMemory, offset_bytes: int, value: int) -> None:
        """Put a wait into the stream: it goes on when the 8 bytes are `value` or more."""
        ...

    def synchronize(self) -> list[Any]:
        """Wait until the stream is empty; return what the kernels since the last call returned."""
        ...

    def close(self) -> None:
        """End the stream."""
        ...


class HostStream:
    """A stream that a thread of this process carries out."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[tuple[Any, ...] | None] = queue.SimpleQueue()
        self._results: list[Any] = []
        self._error: BaseException | None = None
        self._kernels: Any = None
        self._closing = False
        self._ended = "is closed; nothing carries out its work any more"
        self._thread = threading.Thread(target=self._run, name="nicemu-stream", daemon=True)
        self._thread.start()
        stay_behind(self)

    def forked(self) -> None:
        """This process was forked from that of the stream, and has not its thread."""
        self._closing = True
        self._ended = "is of the process that this one was forked from; make one here"
        self._queue = queue.SimpleQueue()

    def _run(self) -> None:
        while (item := self._queue.get()) is not None:
            kind = item[0]
            if kind == "sync":
                item[1].set()
                continue
            if self._error is not None:
                continue
            try:
                if kind == "launch":
                    self._results.append(getattr(self._kernels, item[1])(**item[2]))
                elif kind == "call":
                    self._results.append(item[1]())
                elif kind == "wait":
                    self._wait(*item[1:])
                elif kind == "add":
                    store_u64(item[1], load_u64(item[1]) + item[2])
                else:
                    store_u64(item[1], item[2])
            except BaseException as error:
                self._error = error

    def _put(self, item: tuple[Any, ...]) -> None:
        if self._closing:
            raise UsageError(f"the stream {self._ended}")
        self._queue.put(item)

    def load(self, path: str | Path, memory: dict[str, Any], **settings: Any) -> None:  # noqa: ANN401
        """Load a kernel module; see `Stream.load`."""
        module = load_module(find_program(path))
        arrays = {name: piece.array for name, piece in memory.items()}
        self._kernels = module.kernels(arrays, **settings)

    def launch(
        self,
        kernel: str,
        *,
        reads: Iterable[Span] = (),
        writes: Iterable[Span] = (),
        **operands: Any,  # noqa: ANN401
    ) -> None:
        """Put a kernel into the stream."""
        tell_submitted(self, kernel, reads, writes)
        self._put(("launch", kernel, operands))

    def store(self, memory: SharedMemory, offset_bytes: int, value: int) -> None:
        """Put an 8-byte store into the stream."""
        self._put(("store", memory.address + offset_bytes, value))

    def add_value(self, memory: SharedMemory, offset_bytes: int, by: int) -> None:
        """Put an addition to 8 bytes, which nobody else writes, into the stream."""
        self._put(("add", memory.address + offset_bytes, by))

    def submit(
        self, work: Callable[[], Any], reads: Iterable[Span] = (), writes: Iterable[Span] = ()
    ) -> None:
        """Put a function into the stream; what it returns is a result as a kernel's.

        `reads` and `writes` declare what it touches, to find races.
        """
        tell_submitted(self, getattr(work, "__name__", "a function"), reads, writes)
        self._put(("call", work))

    def wait_value(self, memory: SharedMemory, offset_bytes: int, value: int) -> None:
        """Put a wait into the stream; it polls, with growing naps."""
        self._put(("wait", memory, offset_bytes, value))

    def _wait(self, memory: SharedMemory, offset_bytes: int, value: int) -> None:
        nap_s = 1e-6
        while load_u64(memory.address + offset_bytes) < value:
            if self._closing and nap_s == _LONGEST_NAP_S:
                raise NicemuError("the stream was closed while it waited")
            time.sleep(nap_s)
            nap_s = min(2 * nap_s, _LONGEST_NAP_S)

    def synchronize(self) -> list[Any]:
        """Wait until the stream is empty. Raises: NicemuError if a kernel failed."""
        done = threading.Event()
        self._put(("sync", done))
        done.wait()
        tell_synchronized(self)
        if self._error is not None:
            error, self._error = self._error, None
            raise NicemuError(f"a kernel failed: {type(error).__name__}: {error}") from error
        results, self._results = self._results, []
        return results

    def close(self) -> None:
        """End the thread after what is in the stream; a wait that is not met then drops what is behind it.

        Twice is once.
        """
        if self._thread.is_alive():
            self._closing = True
            self._queue.put(None)
            self._thread.join()


class ProcessStream:
    """A stream that a process of its own carries out: it stands in for the GPU.

    The process maps the memory that kernels use and the doorbells that stores go to; it goes on while this
    process is stopped, and ends when this process does.
    """

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "nicemu", "stream-process", str(theirs.fileno())],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
            )
        self._socket = ours
        self._maps: dict[int, int] = {}
        self._lock = threading.RLock()
        self._forked = False
        stay_behind(self)

    def forked(self) -> None:
        """This process was forked from that of the stream, which goes on with it."""
        self._forked = True
        self._lock = threading.RLock()
        self._socket.close()

    @property
    def pid(self) -> int:
        """Process id of the stand-in."""
        return self._process.pid

    def _send(self, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        if self._forked:
            raise UsageError("the stream is of the process that this one was forked from; make one here")
        data = json.dumps(message).encode()
        try:
            socket.send_fds(self._socket, [data], fds)
        except OSError as error:
            raise NicemuError(f"the stream's process is gone: {error}") from error

    def _map(self, memory: SharedMemory) -> int:
        with self._lock:
            return self._map_alone(memory)

    def _map_alone(self, memory: SharedMemory) -> int:
        key = memory.address
        if key not in self._maps:
            fd = getattr(memory, "fd", None)
            if fd is None:
                raise UsageError("the stream's process can only reach memory that nic.allocate() made")
            message = {"op": "map", "id": len(self._maps), "length_bytes": memory.length_bytes}
            self._send(message, (fd,))
            self._maps[key] = len(self._maps)
        return self._maps[key]

    def load(self, path: str | Path, memory: dict[str, Any], **settings: Any) -> None:  # noqa: ANN401
        """Load a kernel module in the process; see `Stream.load`."""
        arrays = {
            name: {
                "map": self._map(piece.shared),
                "dtype": piece.array.dtype.str,
                "shape": list(piece.array.shape),
            }
            for name, piece in memory.items()
        }
        message = {"op": "load", "path": str(find_program(path)), "memory": arrays, "settings": settings}
        self._send(message)
        self.synchronize()

    def launch(
        self,
        kernel: str,
        *,
        reads: Iterable[Span] = (),
        writes: Iterable[Span] = (),
        **operands: Any,  # noqa: ANN401
    ) -> None:
        """Put a kernel into the stream; operands are JSON-able."""
        tell_submitted(self, kernel, reads, writes)
        self._send({"op": "launch", "kernel": kernel, "operands": operands})

    def store(self, memory: SharedMemory, offset_bytes: int, value: int) -> None:
        """Put an 8-byte store into the stream."""
        self._send({"op": "store", "map": self._map(memory), "offset": offset_bytes, "value": value})

    def add_value(self, memory: SharedMemory, offset_bytes: int, by: int) -> None:
        """Put an addition to 8 bytes, which nobody else writes, into the stream."""
        self._send({"op": "add", "map": self._map(memory), "offset": offset_bytes, "value": by})

    def wait_value(self, memory: SharedMemory, offset_bytes: int, value: int) -> None:
        """Put a wait into the stream; the process polls, with growing naps."""
        self._send({"op": "wait", "map": self._map(memory), "offset": offset_bytes, "value": value})

    def synchronize(self) -> list[Any]:
        """Wait until the stream is empty. Raises: NicemuError if a kernel failed or the process is gone."""
        self._send({"op": "sync"})
        data = self._socket.recv(1 << 20)
        if not data:
            raise NicemuError("the stream's process has ended")
        tell_synchronized(self)
        reply = json.loads(data)
        if reply["error"]:
            raise NicemuError(f"a kernel failed: {reply['error']}")
        results: list[Any] = reply["results"]
        return results

    def close(self) -> None:
        """End the process."""
        if self._forked:
            return
        self._socket.close()
        try:
            self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def run_stream_process(fd: int) -> None:
    """Be the process of a ProcessStream: carry out what arrives on the socket until it closes."""
    link = socket.socket(fileno=fd)
    maps: dict[int, Backing] = {}
    kernels: Any = None
    results: list[Any] = []
    error = ""
    while True:
        data, fds, _, _ = socket.recv_fds(link, 1 << 20, 4)
        if not data:
            return
        message = json.loads(data)
        operation = message["op"]
        try:
            if operation == "map":
                maps[message["id"]] = Backing.from_fd(fds[0], message["length_bytes"])
            elif operation == "load":
                arrays = {
                    name: np.frombuffer(
                        maps[piece["map"]].view, piece["dtype"], int(np.prod(piece["shape"]))
                    ).reshape(piece["shape"])
                    for name, piece in message["memory"].items()
                }
                kernels = load_module(Path(message["path"])).kernels(arrays, **message["settings"])
            elif operation == "launch" and not error:
                results.append(getattr(kernels, message["kernel"])(**message["operands"]))
            elif operation == "wait" and not error:
                _wait_value(maps[message["map"]].address + message["offset"], message["value"], link)
            elif operation == "store" and not error:
                store_u64(maps[message["map"]].address + message["offset"], message["value"])
            elif operation == "add" and not error:
                address = maps[message["map"]].address + message["offset"]
                store_u64(address, load_u64(address) + message["value"])
        except Exception as failure:
            error = f"{message.get('kernel', operation)}: {type(failure).__name__}: {failure}"
        if operation == "sync":
            link.send(json.dumps({"results": results, "error": error}).encode())
            results, error = [], ""


def _wait_value(address: int, value: int, link: socket.socket) -> None:
    """Wait until the 8 bytes at `address` are `value` or more, or the stream is closed."""
    closed = select.poll()
    closed.register(link, 0)  # for the hang-up alone, which is told whatever still stands in the stream
    nap_s = 1e-6
    while load_u64(address) < value:
        time.sleep(nap_s)
        nap_s = min(2 * nap_s, _LONGEST_NAP_S)
        if nap_s == _LONGEST_NAP_S and closed.poll(0):
            raise NicemuError("the stream was closed while it waited")


def detach_from_terminal() -> None:
    """Leave the terminal's process group, so that Ctrl-C reaches the program that started this one alone."""
    os.setpgrp()
