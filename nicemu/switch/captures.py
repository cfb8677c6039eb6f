# SPDX-License-Identifier: Apache-2.0
"""Captures through a program, to captures: the packets of each file come in on its port, by their time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from nicemu.capture import CapturedFrame, CaptureFile, PcapFile, batches_of, read_capture
from nicemu.errors import UsageError
from nicemu.pipeline import Engine

from .forwarding import Forwarder, Hear, Summary
from .outputs import Output

if TYPE_CHECKING:
    from nicemu.kernels import CompiledEngine

    from .batches import Array, Frames

Until: TypeAlias = Callable[[Iterator[Any]], Iterator[Any]]
"""Yields what an iterator does, or less: who wants to end a run says so here."""
TELL_EVERY = 256
"""Packets after which the caller is told how far things are; compiled programs tell after more."""


def switch_captures(
    engine: Engine,
    inputs: Mapping[int, Path],
    outputs: Mapping[int | str | None, Path],
    until: Until = lambda arriving: arriving,
    tell: Callable[[Summary], None] = lambda summary: None,
    summary: Summary | None = None,
    hear: Hear | None = None,
) -> Summary:
    """Run the packets of files, by their ports, through an engine's program, and write what leaves.

    `outputs` are files by the port, or "host", and at None the file of what has none of its own. A file whose
    name ends in .pcapng is in that format, with an interface for each port, others are pcap. A frame that
    leaves has the time of the packet that came. What arrives is taken as long as `until` yields it, which is
    given the iterator over it; all files are complete then. `tell` hears from time to time. What has passed
    is added to `summary`, and stands there too where a capture is damaged behind it. An engine with a kernel
    is given thousands of packets at a time, unless `hear` is to be told what the program logs. The host gets
    what would be a controller's.
    Raises: UsageError, ProtocolError for a file that is no capture.
    """
    for path in inputs.values():
        require_readable(path)
        for other in outputs.values():
            if _is_one_file(path, other):
                raise UsageError(f"{other} is read and written; write another file")
    with ExitStack() as stack:
        written: dict[Path, Output] = {}
        for path in outputs.values():
            if path.resolve() in written:
                continue
            for output in until(_created(path)):
                written[path.resolve()] = stack.enter_context(output)
            if path.resolve() not in written:
                return Summary() if summary is None else summary
        to = {port: written[path.resolve()] for port, path in outputs.items()}
        stack.enter_context(engine.without_controllers())
        if hear is not None or getattr(engine, "kernel", None) is None:
            return _one_by_one(Forwarder(engine, summary, hear), until(_merged(inputs)), to, tell)
        return _compiled(engine, inputs, to, until, tell, summary)  # type: ignore[arg-type]


def require_readable(path: Path) -> None:
    """Read as far as the first frame, so that nothing is overwritten for a file that is no capture."""
    if not path.is_fifo():  # which can be read once
        with closing(read_capture(path)) as frames:
            next(frames, None)


def _is_one_file(path: Path, other: Path) -> bool:
    """Return whether both are one file, through links too."""
    return path.is_file() and other.exists() and path.samefile(other)


def _one_by_one(
    forwarder: Forwarder,
    arriving: Iterator[tuple[int, CapturedFrame]],
    outputs: Mapping[int | str | None, Output],
    tell: Callable[[Summary], None],
) -> Summary:
    others = outputs.get(None)
    for count, (port, frame) in enumerate(arriving):
        if count % TELL_EVERY == 0:
            tell(forwarder.summary)
        forwarder.summary.cut += frame.original_bytes > len(frame.data)
        for to, data in forwarder.departures(frame.data, port, frame.time_ns):
            place = outputs.get(to, others)
            if place is not None:
                place.write(to, frame.time_ns, data)
    return forwarder.summary


def _compiled(
    engine: CompiledEngine,
    inputs: Mapping[int, Path],
    outputs: Mapping[int | str | None, Output],
    until: Until,
    tell: Callable[[Summary], None],
    summary: Summary | None,
) -> Summary:
    from .in_place import fits
    from .merging import coming_in, merged

    files = list(dict.fromkeys(outputs.values()))
    if len(inputs) != 1 or len(files) != 1 or not files[0].takes_records or not fits(engine):
        return _in_batches(engine, until(merged(inputs)), outputs, tell, summary)
    ((port, path),) = inputs.items()
    for opened in until(_opened(path)):
        with opened:
            if isinstance(opened, PcapFile):
                return _in_place(engine, opened, port, outputs, until, tell, summary)
            return _in_batches(engine, until(coming_in(batches_of(opened), port)), outputs, tell, summary)
    return Summary() if summary is None else summary


def _created(path: Path) -> Iterator[Output]:
    """Yield a file that is opened to be written now: one that is a pipe waits for whoever reads it."""
    yield Output(path)


def _opened(path: Path) -> Iterator[CaptureFile]:
    """Yield a file that is opened now: one that is a pipe may wait for whoever writes it."""
    yield CaptureFile.opened(path)


def _in_place(
    engine: CompiledEngine,
    opened: PcapFile,
    port: int,
    outputs: Mapping[int | str | None, Output],
    until: Until,
    tell: Callable[[Summary], None],
    summary: Summary | None,
) -> Summary:
    from .in_place import InPlace, read_pieces

    (output,) = set(outputs.values())
    ways = InPlace(engine, summary)
    wanted = _wanted(outputs, output)
    try:
        for pieces in until(read_pieces(opened)):
            tell(ways.summary)
            ways.run(pieces, port, wanted, output)
    finally:
        ways.close()
    return ways.summary


def _in_batches(
    engine: CompiledEngine,
    arriving: Iterator[Frames],
    outputs: Mapping[int | str | None, Output],
    tell: Callable[[Summary], None],
    summary: Summary | None,
) -> Summary:
    from .batches import BatchForwarder
    from .packing import PacketsWriter

    forwarder = BatchForwarder(engine, summary)
    writers = [PacketsWriter(output, _wanted(outputs, output)) for output in dict.fromkeys(outputs.values())]
    try:
        for frames in arriving:
            tell(forwarder.summary)
            for packets, told in forwarder.run(frames):
                for writer in writers:
                    writer.write(packets, told)
    finally:
        forwarder.close()
    return forwarder.summary


def _wanted(outputs: Mapping[int | str | None, Output], output: Output) -> Array:
    """Return of which places one of some outputs takes what leaves, uint8[PLACES]."""
    from .packing import wanted_places

    named = [port for port in outputs if port is not None]
    own = [port for port in named if outputs[port] is output]
    return wanted_places(own, outputs.get(None) is output, named)


def _merged(inputs: Mapping[int, Path]) -> Iterator[tuple[int, CapturedFrame]]:
    """Yield the frames of all files by time; those of one file stay in its order."""
    streams = [_with_port(port, path) for port, path in inputs.items()]
    return streams[0] if len(streams) == 1 else heapq.merge(*streams, key=lambda item: item[1].time_ns)


def _with_port(port: int, path: Path) -> Iterator[tuple[int, CapturedFrame]]:
    for frame in read_capture(path):
        yield port, frame
