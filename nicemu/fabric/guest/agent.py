# SPDX-License-Identifier: Apache-2.0
"""The program that a guest runs instead of an init: it starts processes for the host and tells what they say.

It speaks frames over a virtio-serial port: payload bytes (32 bits, little endian), process (32), kind (8),
then the payload. It imports nothing of nicemu, and of Python what costs nothing, for every import is a tenth
of a second on an emulated processor. When the host's end is closed, it turns the guest off.
"""

import os
import select

PORT = "nicemu"
HEADER_BYTES = 9

READY = 0
"""To the host, first of all: the kernel's release."""
START = 1
"""To the guest: the number of words, the folder, the words, and variables as NAME=value, with NUL between."""
INPUT = 2
"""To the guest: what a process reads; nothing is the end of it."""
SIGNAL = 3
"""To the guest: the number of a signal, as text."""
OUTPUT = 4
"""To the host: what a process has written to its standard output."""
ERRORS = 5
"""To the host: what a process has written to its standard error."""
ENDED = 6
"""To the host: the exit status, as text; 128 and the signal for a process that a signal ended."""

_SIGPIPE = 13
_CHUNK_BYTES = 32 << 10
_BUSYBOX = "/run/nicemu/busybox"


def frame(kind: int, process: int, payload: bytes = b"") -> bytes:
    """Return a frame as it is sent."""
    return len(payload).to_bytes(4, "little") + process.to_bytes(4, "little") + bytes([kind]) + payload


def take_frame(received: bytearray) -> tuple[int, int, bytes] | None:
    """Take the first frame off what was received, as (kind, process, payload); None while it is not whole."""
    end = HEADER_BYTES + int.from_bytes(received[:4], "little")
    if len(received) < HEADER_BYTES or len(received) < end:
        return None
    process, kind = int.from_bytes(received[4:8], "little"), received[8]
    payload = bytes(received[HEADER_BYTES:end])
    del received[:end]
    return kind, process, payload


def packed_order(command: list[str], environment: dict[str, str], folder: str) -> bytes:
    """Return the payload of START."""
    words = [str(len(command)), folder, *command, *(f"{name}={value}" for name, value in environment.items())]
    return b"\0".join(map(os.fsencode, words))


def unpacked_order(payload: bytes) -> tuple[list[str], dict[str, str], str]:
    """Return command, environment and folder of a START."""
    count, folder, *words = map(os.fsdecode, payload.split(b"\0"))
    command, variables = words[: int(count)], words[int(count) :]
    return command, dict(variable.split("=", 1) for variable in variables), folder


class Agent:
    """The processes that the host has started, by the host's numbers, and the pipes to and from them."""

    def __init__(self, port_fd: int) -> None:
        self._port_fd = port_fd
        self._received = bytearray()
        self._pids: dict[int, int] = {}
        self._inputs: dict[int, int] = {}
        self._pipes: dict[int, tuple[int, int]] = {}
        self._ends: dict[int, int] = {}
        self._poll = select.poll()
        self._poll.register(port_fd, select.POLLIN)

    def serve(self) -> None:
        """Do what the host says until it has closed its end."""
        self._send(READY, 0, os.uname().release.encode())
        while True:
            for fd, _ in self._poll.poll():
                if fd == self._port_fd:
                    data = os.read(fd, _CHUNK_BYTES)
                    if not data:
                        return
                    self._received += data
                    while (taken := take_frame(self._received)) is not None:
                        self._obey(*taken)
                elif fd in self._pipes:
                    self._forward(fd)
                elif fd in self._ends:
                    self._bury(fd)
            self._bury_orphans()

    def _obey(self, kind: int, number: int, payload: bytes) -> None:
        if kind == START:
            self._start(number, *unpacked_order(payload))
        elif number not in self._pids:
            pass  # it has ended, and the host does not know it yet
        elif kind == SIGNAL:
            os.killpg(self._pids[number], int(payload))
        elif payload:
            self._write(self._inputs.get(number, -1), payload)
        else:
            self._end_input(number)

    def _start(self, number: int, command: list[str], environment: dict[str, str], folder: str) -> None:
        """Start a process that leads a session; one that cannot be started ends with 127, as in a shell."""
        pipes = [os.pipe() for _ in range(3)]
        theirs = (pipes[0][0], pipes[1][1], pipes[2][1])
        actions = [(os.POSIX_SPAWN_DUP2, fd, standard) for standard, fd in enumerate(theirs)]
        try:
            os.environ["PATH"] = environment.get("PATH", os.defpath)
            os.chdir(folder)
            pid = os.posix_spawnp(
                command[0], command, environment, file_actions=actions, setsid=True, setsigdef=[_SIGPIPE]
            )
        except OSError as error:
            for pipe in pipes:
                for fd in pipe:
                    os.close(fd)
            self._send(ERRORS, number, f"{os.fsdecode(error.filename)}: {error.strerror}\n".encode())
            self._send(ENDED, number, b"127")
            return
        for fd in theirs:
            os.close(fd)
        self._pids[number], self._inputs[number] = pid, pipes[0][1]
        for (fd, _), kind in zip(pipes[1:], (OUTPUT, ERRORS), strict=True):
            os.set_blocking(fd, False)
            self._pipes[fd] = number, kind
            self._poll.register(fd, select.POLLIN)
        end = os.pidfd_open(pid)
        self._ends[end] = number
        self._poll.register(end, select.POLLIN)

    def _bury(self, end: int) -> None:
        """Tell of a process that has ended, after all that it had said."""
        number = self._ends.pop(end)
        self._poll.unregister(end)
        os.close(end)
        for fd in [fd for fd, (whose, _) in self._pipes.items() if whose == number]:
            while self._forward(fd):
                pass
        self._end_input(number)
        _, status = os.waitpid(self._pids.pop(number), 0)
        code = os.waitstatus_to_exitcode(status)
        self._send(ENDED, number, str(code if code >= 0 else 128 - code).encode())

    def _bury_orphans(self) -> None:
        """Wait for processes that outlived those that had started them; not for ours, which are told of."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None or ended.si_pid in self._pids.values():
                return
            os.waitpid(ended.si_pid, 0)

    def _forward(self, fd: int) -> bool:
        """Send what a pipe holds, a chunk at most; return whether there may be more."""
        number, kind = self._pipes[fd]
        try:
            data = os.read(fd, _CHUNK_BYTES)
        except BlockingIOError:
            return False
        if data:
            self._send(kind, number, data)
            return True
        self._poll.unregister(fd)
        del self._pipes[fd]
        os.close(fd)
        return False

    def _end_input(self, number: int) -> None:
        fd = self._inputs.pop(number, -1)
        if fd >= 0:
            os.close(fd)

    def _send(self, kind: int, process: int, payload: bytes) -> None:
        self._write(self._port_fd, frame(kind, process, payload))

    def _write(self, fd: int, data: bytes) -> None:
        while data and fd >= 0:
            try:
                data = data[os.write(fd, data[:_CHUNK_BYTES]) :]
            except BrokenPipeError:
                return  # a process that does not read its input to the end


def _port_fd() -> int:
    """Open the port that the host has given our name. Source: Linux drivers/char/virtio_console.c, "name"."""
    ports = "/sys/class/virtio-ports"
    for port in os.listdir(ports):
        with open(f"{ports}/{port}/name", encoding="utf-8") as file:
            if file.read().strip() == PORT:
                return os.open(f"/dev/{port}", os.O_RDWR | os.O_CLOEXEC)
    raise FileNotFoundError(f"no port {PORT} below {ports}")


def main() -> None:
    """Serve the host, then turn the guest off."""
    try:
        Agent(_port_fd()).serve()
    finally:
        os.execv(_BUSYBOX, ["busybox", "poweroff", "-f"])


if __name__ == "__main__":
    main()
