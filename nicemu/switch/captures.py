# SPDX-License-Identifier: Apache-2.0
"""Captures through a program, to captures: the packets of each file come in on its port, by their time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

from nicemu.capture import CapturedFrame, PcapngWriter, PcapWriter, read_capture
from nicemu.errors import UsageError

from .forwarding import Forwarder, Summary

TELL_EVERY = 256
"""Packets after which the caller is told how far things are."""


def switch_captures(
    forwarder: Forwarder,
    inputs: Mapping[int, Path],
    outputs: Mapping[int | str | None, Path],
    go_on: Callable[[Summary], bool] = lambda summary: True,
) -> Summary:
    """Run the packets of files, by their ports, through a program, and write what leaves.

    `outputs` are files by the port, or "host", and at None the file of what has none of its own. A file whose
    name ends in .pcapng is in that format, with an interface for each port, others are pcap. A frame that
    leaves has the time of the packet that came. `go_on` is asked from time to time; where it says no, that
    is the end. All files are complete then.
    Raises: UsageError, ProtocolError for a file that is no capture.
    """
    taken = set(map(Path.absolute, inputs.values())) & set(map(Path.absolute, outputs.values()))
    if taken:
        raise UsageError(f"{taken.pop()} is read and written; write another file")
    with ExitStack() as stack:
        written: dict[Path, _Output] = {}
        for path in outputs.values():
            if path not in written:
                written[path] = _Output(path, stack)
        others = outputs.get(None)
        for count, (port, frame) in enumerate(_merged(inputs)):
            if count % TELL_EVERY == 0 and not go_on(forwarder.summary):
                break
            for to, data in forwarder.departures(frame.data, port, frame.time_ns):
                place = outputs.get(to, others)
                if place is not None:
                    written[place].write(to, frame.time_ns, data)
    return forwarder.summary


def _merged(inputs: Mapping[int, Path]) -> Iterator[tuple[int, CapturedFrame]]:
    """Yield the frames of all files by time; those of one file stay in its order."""
    streams = [_with_port(port, path) for port, path in inputs.items()]
    return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda item: item[1].time_ns)


def _with_port(port: int, path: Path) -> Iterator[tuple[int, CapturedFrame]]:
    for frame in read_capture(path):
        yield port, frame


class _Output:
    """One file that is written."""

    def __init__(self, path: Path, stack: ExitStack) -> None:
        try:
            self._file: BinaryIO = stack.enter_context(open(path, "wb"))  # noqa: SIM115 - the stack closes it
        except OSError as error:
            raise UsageError(f"{path} cannot be written: {error.strerror}") from error
        self._interfaces: dict[int | str, int] = {}
        self._pcapng = PcapngWriter(self._file) if path.suffix == ".pcapng" else None
        self._pcap = None if self._pcapng else PcapWriter(self._file)

    def write(self, to: int | str, time_ns: int, frame: bytes) -> None:
        """Write a frame that leaves to a port."""
        if self._pcap is not None:
            self._pcap.write(time_ns, frame)
        if self._pcapng is not None:
            if to not in self._interfaces:
                name = f"port {to}" if isinstance(to, int) else to
                self._interfaces[to] = self._pcapng.add_interface(name)
            self._pcapng.write(self._interfaces[to], time_ns, frame, len(frame), outbound=True)
