# SPDX-License-Identifier: Apache-2.0
"""`nicemu wire`: what passes on an interface, or on a cable between two ports, as a file for Wireshark.

`nicemu wire serve` is in wire_serve.
"""

from __future__ import annotations

import errno
import select
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from io import BufferedWriter, FileIO
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from nicemu.errors import ResourceError, UsageError

from .interruption import until_interrupted
from .opened_port import opened_port
from .progress import is_terminal
from .seconds import Seconds
from .show import JSON_OPTION, print_json
from .wire_serve import serve

if TYPE_CHECKING:
    from nicemu.capture import CapturedFrame, PcapngWriter
    from nicemu.fabric import Cable, PacketCapture

PROGRESS_S = 1.0
RETRY_S = 0.001


@click.group()
def wire() -> None:
    """Look at frames on their way, or be who answers them."""


wire.add_command(serve)


@wire.command()
@click.argument("first", metavar="INTERFACE|PORT")
@click.argument("second", metavar="[PORT]", required=False)
@click.option("--out", type=click.Path(path_type=Path, allow_dash=True), help="A pcapng file; - is stdout.")
@click.option("--print", "prints", is_flag=True, help="One line a RoCEv2 packet.")
@click.option("--for", "seconds", type=Seconds(), help="How many seconds.")
@click.option("--count", type=click.IntRange(min=1), help="How many frames.")
@JSON_OPTION
def capture(
    first: str,
    second: str | None,
    out: Path | None,
    prints: bool,
    seconds: float | None,
    count: int | None,
    as_json: bool,
) -> None:
    """Capture what passes, until --for, --count or Ctrl-C.

    \b
    nicemu wire capture eth1 --out eth1.pcapng
    nicemu wire capture lo --print --count 20
    nicemu wire capture eth1 --out - | wireshark -k -i -

    Of an INTERFACE every frame is seen, in and out (as root). Two PORTs are joined by a cable, which is
    captured; a PORT is tap:NAME, packet:INTERFACE, xdp:INTERFACE, or two paths LOCAL,REMOTE of UNIX datagram
    sockets, as `nicemu vm run --link` has them.
    """
    to_stdout = out is not None and str(out) == "-"
    if out is None and not prints:
        raise UsageError("nothing to do with what is captured: --out FILE, --print, or both")
    if to_stdout and (prints or as_json):
        raise UsageError("the capture goes to stdout, so nothing else can be printed there")
    unwritten: ResourceError | None = None
    with ExitStack() as stack, until_interrupted() as interrupted:
        source = _source(first, second)
        stack.callback(source.close)
        run = _Run(source, prints, count, stack, out)
        click.echo(f"capturing {' = '.join(source.interfaces)}", err=True)
        try:
            run.until(interrupted, seconds)
        except ResourceError as error:
            unwritten = error
    run.tell(out, as_json)
    if unwritten is not None:
        raise unwritten
    if source.ended:
        sys.exit(1)


class _Run:
    """A capture: frames go to the file and the lines, and are counted."""

    def __init__(
        self,
        source: PacketCapture | Cable,
        prints: bool,
        count: int | None,
        stack: ExitStack,
        out: Path | None,
    ) -> None:
        self._source, self._prints, self._limit, self._out = source, prints, count, out
        self._counts = {"frames": 0, "rocev2": 0, "wrong_icrc": 0, "bytes": 0}
        self._dropped = 0
        self._file: BinaryIO | None = None
        self._writer: PcapngWriter | None = None
        self._shows_progress = is_terminal(sys.stderr) and not prints
        if out is not None:
            self._file = _opened(out, stack)
            self._writer = _writer(self._file)
            for name in source.interfaces:
                self._writer.add_interface(name)

    def until(self, interrupted: int, seconds: float | None) -> None:
        """Capture until the descriptor is readable, the time is over or there are enough frames.

        Raises: ResourceError if the file takes no more.
        """
        try:
            self._follow(interrupted, seconds)
        finally:
            statistics = self._source.statistics()
            self._dropped = sum(dropped for _, dropped in statistics)
        if self._writer is not None and self._file is not None:
            with self._writing():
                for number, (received, dropped) in enumerate(statistics):
                    self._writer.write_statistics(number, time.time_ns(), received, dropped)
                self._file.flush()

    def _follow(self, interrupted: int, seconds: float | None) -> None:
        end = None if seconds is None else time.monotonic() + seconds
        told = time.monotonic()
        while not self._has_enough():
            now = time.monotonic()
            if end is not None and now >= end:
                break
            timeouts = [PROGRESS_S, *([RETRY_S] if self._source.waits else [])]
            timeouts += [] if end is None else [end - now]
            ready, _, _ = select.select([interrupted, *self._source.filenos()], [], [], min(timeouts))
            self._take(self._source.receive())
            for sentence in self._source.news():
                click.echo(sentence, err=True)
            if interrupted in ready or self._source.ended:
                break
            if self._shows_progress and now - told >= PROGRESS_S:
                told = now
                click.echo(f"\r{self._summary()}", err=True, nl=False)
        if self._shows_progress:
            click.echo("\r", err=True, nl=False)

    def tell(self, out: Path | None, as_json: bool) -> None:
        """Say what was captured."""
        if as_json:
            told = {"file": str(out) if out else None, **self._counts}
            print_json({**told, "unsplit": self._source.unsplit, "dropped": self._dropped})
        else:
            unsplit = f", {self._source.unsplit:,} not yet split" if self._source.unsplit else ""
            said = f"{f'{out}: ' if out else ''}{self._summary()}{unsplit}, {self._dropped:,} lost"
            click.echo(said, err=True)

    def _has_enough(self) -> bool:
        return self._limit is not None and self._counts["frames"] >= self._limit

    def _take(self, frames: list[CapturedFrame]) -> None:
        from .packet_line import packet_line

        for frame in frames:
            if self._has_enough():
                break
            self._counts["frames"] += 1
            self._counts["bytes"] += frame.original_bytes
            if self._writer is not None:
                about = frame.interface, frame.time_ns, frame.data, frame.original_bytes
                with self._writing():
                    self._writer.write(*about, outbound=frame.outbound)
            found = packet_line(frame.data, frame.time_ns)
            if found is not None:
                self._counts["rocev2"] += 1
                self._counts["wrong_icrc"] += not found[1]
                if self._prints:
                    click.echo(found[0])
        if frames and self._file is not None:
            with self._writing():
                self._file.flush()

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            name = "stdout" if str(self._out) == "-" else self._out
            cure = "; make room, and start it again" if error.errno == errno.ENOSPC else ""
            said = f"{name} cannot be written any more ({error.strerror}), so the capture has ended{cure}"
            raise ResourceError(said) from error

    def _summary(self) -> str:
        counts = self._counts
        wrong = f" ({counts['wrong_icrc']:,} with a wrong ICRC)" if counts["wrong_icrc"] else ""
        frames = f"{counts['frames']:,} frame{'' if counts['frames'] == 1 else 's'}"
        return f"{frames}, {counts['bytes']:,} bytes, {counts['rocev2']:,} RoCEv2{wrong}"


def _source(first: str, second: str | None) -> PacketCapture | Cable:
    from nicemu.fabric import Cable, PacketCapture

    if first == second:
        raise UsageError(f"{first} is both ends of the cable; name the port at the other end, too")
    if second is not None:
        with ExitStack() as stack:
            ends = []
            for text in (first, second):
                ends.append(opened_port(text))
                stack.callback(ends[-1].close)
            stack.pop_all()
            return Cable(*ends)
    kind, _, name = first.rpartition(":")
    if "," in first or kind not in ("", "packet"):
        raise UsageError(f"{first} is a port: name the port that its cable leads to, too")
    return PacketCapture(name)


def _opened(out: Path, stack: ExitStack) -> BinaryIO:
    try:
        to_stdout = str(out) == "-"
        raw = FileIO(sys.stdout.fileno() if to_stdout else out, "wb", closefd=not to_stdout)
    except OSError as error:
        raise UsageError(f"{out} cannot be written: {error.strerror}") from error
    file = BufferedWriter(raw)
    stack.callback(_close, file)
    return file


def _close(file: BinaryIO) -> None:
    with suppress(OSError):  # what was not written was said when it was flushed
        file.close()


def _writer(file: BinaryIO) -> PcapngWriter:
    from nicemu.capture import PcapngWriter

    return PcapngWriter(file)
