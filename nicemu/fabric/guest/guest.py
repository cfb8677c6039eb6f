# SPDX-License-Identifier: Apache-2.0
"""A guest: a virtual machine with the distribution's kernel on a view of this machine's root, for rdma_rxe.

It boots in seconds, sees every file of this machine, and writes to none: what it writes is gone with it, but
for what it puts into the shared folder. One boot serves any number of commands.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from nicemu.errors import UsageError

from .channel import Channel, GuestProcess, GuestResult, Sink
from .initramfs import initramfs
from .kernel import Kernel, bootable, newest_kernel
from .machine import Descriptors, GuestLink, qemu_command, require_x86, virtiofsd, virtiofsd_command
from .packages import require_packages_to_boot
from .rxe import links_script, rxe_script

BOOT_TIME_LIMIT_S = 120.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SHOWN_BYTES = 2000
_GRACE_S = 5.0


class Guest:
    """A guest from `with` to the end of the block; however that comes, nothing is left of it.

    It belongs to the thread that made it. Commands run as root, in this process's folder, with this Python
    first on the path.
    """

    def __init__(
        self,
        *,
        memory_mib: int = 2048,
        cpus: int = 2,
        time_limit_s: float = 600.0,
        share: Path | None = None,
        links: Sequence[GuestLink] = (),
        devices: Sequence[str] = (),
        rxe: bool = True,
        accelerator: str = "tcg",
        kernel: Kernel | None = None,
        say: Callable[[str], object] | None = None,
    ) -> None:
        """Describe a guest; `with` boots it.

        `time_limit_s` is for all its life. `share`: a folder that the guest has at SHARE, to write to.
        `links`: its interfaces eth0, eth1 and so on. `devices`: further arguments of QEMU's. `rxe`: load
        rdma_rxe, with rxe0 on the loopback interface and rxe1 on eth0. `accelerator`: as QEMU names it; kvm
        is not tried unasked, for a machine may have /dev/kvm and boot nothing on it. `say` gets a line when
        the guest is up.
        Raises: UsageError for a share that is no folder.
        """
        if share is not None and not share.is_dir():
            raise UsageError(f"{share} is no folder that can be shared with a guest")
        self._memory_mib, self._cpus, self._time_limit_s = memory_mib, cpus, time_limit_s
        self._share, self._links, self._devices = share, tuple(links), tuple(devices)
        self._rxe, self._accelerator, self._kernel, self._say = rxe, accelerator, kernel, say
        self._stack = ExitStack()
        self._channel: Channel | None = None

    def __enter__(self) -> Self:
        """Boot.

        Raises: ResourceError, with what is missing and how to install it, or with what the guest said last.
        """
        try:
            self._boot()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Turn the guest off at once; nothing of it is left but what is in the share."""
        self._channel = None
        self._stack.close()

    def start(
        self,
        command: Sequence[str] | str,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        sink: Sink | None = None,
    ) -> GuestProcess:
        """Start a process; a text is for bash. `environment` comes on top of the guest's own.

        Raises: ResourceError if the guest has ended; UsageError outside of `with`.
        """
        if self._channel is None:
            raise UsageError("this guest does not run: use `with Guest(...) as guest`")
        words = ["bash", "-c", command] if isinstance(command, str) else command
        whole = guest_environment() | dict(environment or {})
        return self._channel.start(words, whole, folder or Path.cwd(), sink)

    def run(
        self,
        command: Sequence[str] | str,
        *,
        folder: Path | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_s: float | None = None,
        sink: Sink | None = None,
    ) -> GuestResult:
        """Run a command to its end, without input; return its exit status, 127 if there is no such command.

        Raises: GuestTimeoutError, the command is killed then; ResourceError if the guest has ended.
        """
        process = self.start(command, folder=folder, environment=environment, sink=sink)
        process.end_input()
        return process.wait(timeout_s)

    def _boot(self) -> None:
        begun = time.monotonic()
        require_x86()
        require_packages_to_boot()
        kernel = self._kernel or newest_kernel()
        server = virtiofsd()
        self._channel = self._power_on(kernel, server, begun + self._time_limit_s)
        self._channel.wait_until(
            lambda: self._channel is not None and self._channel.release is not None,
            BOOT_TIME_LIMIT_S,
            "the guest to boot",
        )
        script = links_script(self._links) + (rxe_script(len(self._links)) if self._rxe else "")
        if script:
            self.run(["sh", "-ec", script], folder=Path("/")).checked()
        if self._say is not None:
            speed = "emulated" if self._accelerator == "tcg" else self._accelerator
            root = "virtiofs" if server else "9p"
            seconds = time.monotonic() - begun
            self._say(
                f"guest is up after {seconds:.1f} s: Linux {self._channel.release}, {speed}, root by {root}"
            )

    def _power_on(self, kernel: Kernel, server: str | None, end_s: float) -> Channel:
        """Start QEMU, and the server of the root; they end with the stack, or with this process."""
        console, log = (self._file(name) for name in ("console", "log"))
        with ExitStack() as passed:
            image = self._file("kernel", bootable(kernel.image.read_bytes()), passed)
            archive = initramfs(
                kernel,
                Path(os.path.realpath(sys.executable)),
                virtiofs=server is not None,
                share=self._share is not None,
                links=bool(self._links),
            )
            memory = self._file("initramfs", archive, passed)
            ours, theirs = socket.socketpair()
            self._stack.enter_context(ours)
            passed.enter_context(theirs)
            root = self._serve_root(server, log, passed) if server else None
            descriptors = Descriptors(image, memory, console, theirs.fileno(), root)
            command = qemu_command(
                descriptors,
                memory_mib=self._memory_mib,
                cpus=self._cpus,
                accelerator=self._accelerator,
                share=self._share,
                links=self._links,
                devices=self._devices,
            )
            fds = [fd for fd in (image, memory, console, theirs.fileno(), root) if fd is not None]
            fds += [link.end.fileno() for link in self._links if isinstance(link.end, socket.socket)]
            self._stack.callback(self._unlink_links)
            self._spawn(command, fds, log, grace_s=0)
        return Channel(ours, end_s, lambda: _last_words(console, log))

    def _serve_root(self, server: str, log: int, passed: ExitStack) -> int:
        """Start the server of this machine's root; return QEMU's end of the connection to it."""
        listening = passed.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind("")  # a name that the kernel chooses, and that no file system has
        listening.listen(1)
        connected = passed.enter_context(socket.socket(socket.AF_UNIX))
        connected.connect(listening.getsockname())
        command = virtiofsd_command(server, listening.fileno())
        self._spawn(command, [listening.fileno()], log, grace_s=_GRACE_S)
        return connected.fileno()

    def _file(self, name: str, data: bytes = b"", stack: ExitStack | None = None) -> int:
        """Return the descriptor of a file in memory with `data`; it is closed with `stack`, or at the end."""
        fd = os.memfd_create(f"nicemu-guest-{name}")
        (stack or self._stack).callback(os.close, fd)
        with open(fd, "wb", closefd=False) as file:
            file.write(data)
        return fd

    def _spawn(self, command: list[str], fds: list[int], log: int, *, grace_s: float) -> None:
        """Start a program whose end is that of the stack; it may end by itself for `grace_s` first.

        It has a session of its own, or Ctrl-C would reach it before this process has turned it off.
        """
        process = subprocess.Popen(
            command, pass_fds=fds, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
        )
        self._stack.callback(_end, process, grace_s)

    def _unlink_links(self) -> None:
        for link in self._links:
            if not isinstance(link.end, socket.socket):
                link.end[0].unlink(missing_ok=True)


def guest_environment() -> dict[str, str]:
    """Return the environment of what runs in a guest: little of this process's, and no compiler."""
    folder = Path(sys.executable).parent
    environment = {
        "PATH": f"{folder}:{_PATH}",
        "HOME": "/root",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "NICEMU_JIT": "0",
        "NICEMU_PATIENCE": "20",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    if sys.prefix != sys.base_prefix:
        environment["VIRTUAL_ENV"] = sys.prefix
    return environment


def _end(process: subprocess.Popen[bytes], grace_s: float) -> None:
    with suppress(subprocess.TimeoutExpired):
        process.wait(grace_s)
    process.kill()
    process.wait()


def _last_words(console: int, log: int) -> str:
    """Return the end of what QEMU and the guest's kernel have said."""
    said = []
    for name, fd in (("QEMU", log), ("console", console)):
        size = os.fstat(fd).st_size
        text = os.pread(fd, _SHOWN_BYTES, max(size - _SHOWN_BYTES, 0)).decode(errors="replace").strip()
        if text:
            said.append(f"{name}: {text}")
    return "\n".join(said) or "neither QEMU nor its kernel said anything"
