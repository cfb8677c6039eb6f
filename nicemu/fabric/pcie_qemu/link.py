# SPDX-License-Identifier: Apache-2.0
"""QEMU's qtest protocol: reads and writes of the machine's ports and memory as lines of text.

Source: QEMU 7.2, softmmu/qtest.c, "QTest Protocol".
"""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Final

from nicemu.errors import ProtocolError

ANSWER_TIMEOUT_S: Final = 5.0
_CHUNK_BYTES: Final = 65536


class QtestLink:
    """One end of a socket to QEMU; each access is a round trip of some 15 us.

    `lost` is called once when QEMU does not answer any more, with what was seen; it returns the error to
    raise, here and for every access that follows.
    """

    def __init__(self, channel: socket.socket, lost: Callable[[str], ProtocolError]) -> None:
        self._channel = channel
        self._channel.settimeout(ANSWER_TIMEOUT_S)
        self._lost = lost
        self._received = b""
        self._error: ProtocolError | None = None

    def read32(self, address: int) -> int:
        """Read 32 bits of memory. Raises: ProtocolError if QEMU does not answer."""
        return int(self._ask(f"readl {address:#x}"), 16)

    def read64(self, address: int) -> int:
        """Read 64 bits of memory. Raises: ProtocolError if QEMU does not answer."""
        return int(self._ask(f"readq {address:#x}"), 16)

    def write32(self, address: int, value: int) -> None:
        """Write 32 bits of memory. Raises: ProtocolError if QEMU does not answer."""
        self._ask(f"writel {address:#x} {value:#x}")

    def write64(self, address: int, value: int) -> None:
        """Write 64 bits of memory. Raises: ProtocolError if QEMU does not answer."""
        self._ask(f"writeq {address:#x} {value:#x}")

    def in32(self, port: int) -> int:
        """Read 32 bits of a port. Raises: ProtocolError if QEMU does not answer."""
        return int(self._ask(f"inl {port:#x}"), 16)

    def out32(self, port: int, value: int) -> None:
        """Write 32 bits of a port. Raises: ProtocolError if QEMU does not answer."""
        self._ask(f"outl {port:#x} {value:#x}")

    def close(self) -> None:
        """Close the socket; every access from here on is refused."""
        self._channel.close()
        if self._error is None:
            self._error = ProtocolError("the PCIe fabric is closed; open another")

    def _ask(self, command: str) -> str:
        """Send a command and return its value, "" if it has none."""
        if self._error is not None:
            raise self._error
        try:
            self._channel.sendall(command.encode() + b"\n")
            line = self._take_line()
            while line.startswith("IRQ "):  # news of an interrupt line, which nobody has asked for
                line = self._take_line()
        except TimeoutError:
            raise self._give_up(f"no answer to {command!r} within {ANSWER_TIMEOUT_S:.0f} s") from None
        except OSError as error:
            raise self._give_up(f"{command!r}: {error.strerror}") from error
        status, _, value = line.partition(" ")
        if status != "OK":
            raise self._give_up(f"{command!r} was answered {line!r}")
        return value

    def _take_line(self) -> str:
        while b"\n" not in self._received:
            data = self._channel.recv(_CHUNK_BYTES)
            if not data:
                raise ConnectionError(0, "the socket was closed")
            self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line.decode("ascii", "replace").strip()

    def _give_up(self, seen: str) -> ProtocolError:
        self._channel.close()
        self._error = self._lost(seen)
        return self._error
