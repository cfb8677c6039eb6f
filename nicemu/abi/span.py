# SPDX-License-Identifier: Apache-2.0
"""Memory that operations name: registered pieces of one's own, and a peer's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from nicemu.errors import UsageError, counted

from .operands import U32_MAX, U64_MAX, shown, whole
from .work import MAX_SGE, Sge


@dataclass(frozen=True, slots=True)
class Span:
    """Registered local memory: a bus address, a length, and the key that covers it.

    `span[start:stop]` is a piece of it; as in a sequence, negative positions count from its end.
    Raises: UsageError for what is no address, length or key, and for a piece that is empty or lies outside.
    """

    address: int
    length_bytes: int
    key: int

    def __post_init__(self) -> None:
        plain = type(self.address) is type(self.length_bytes) is type(self.key) is int
        if not (
            plain
            and 0 <= self.address <= U64_MAX
            and 0 <= self.length_bytes <= U64_MAX
            and 0 <= self.key <= U32_MAX
        ):
            _make_whole(self, "a span", address=U64_MAX, length_bytes=U64_MAX, key=U32_MAX)

    def __getitem__(self, part: slice) -> Span:
        start, stop = _bounds(part, self.length_bytes)
        return Span(self.address + start, stop - start, self.key)

    def sge(self) -> Sge:
        """The span as a scatter/gather element."""
        return Sge(self.address, self.length_bytes, self.key)


@dataclass(frozen=True, slots=True)
class RemoteSpan:
    """Memory of a peer, reached through queue pair `qp_num`: an iova, a length, and the rkey that covers
    it (32 bits; keys of libfabric have up to 64). Pieces of it and errors are as those of a `Span`.
    """

    qp_num: int
    address: int
    length_bytes: int
    rkey: int

    def __post_init__(self) -> None:
        plain = type(self.address) is type(self.length_bytes) is type(self.rkey) is type(self.qp_num) is int
        if not (
            plain
            and 0 <= self.address <= U64_MAX
            and 0 <= self.length_bytes <= U64_MAX
            and 0 <= self.rkey <= U64_MAX
            and 0 <= self.qp_num <= U32_MAX
        ):
            most = {"address": U64_MAX, "length_bytes": U64_MAX, "rkey": U64_MAX, "qp_num": U32_MAX}
            _make_whole(self, "a remote span", **most)

    def __getitem__(self, part: slice) -> RemoteSpan:
        start, stop = _bounds(part, self.length_bytes)
        return RemoteSpan(self.qp_num, self.address + start, stop - start, self.rkey)


Pieces: TypeAlias = Span | tuple[Span, ...]
"""Local memory of one operation: one piece, or two that are gathered or scattered."""


def _make_whole(span: object, of: str, **largest: int) -> None:
    """Make plain numbers of the fields of a span that is being made; refuse what is no such number."""
    for name, most in largest.items():
        object.__setattr__(span, name, whole(getattr(span, name), f"{name} of {of}", most=most))


def _bounds(part: slice, length_bytes: int) -> tuple[int, int]:
    """Return where a piece begins and ends; unlike a list's, it does not end where the memory does."""
    if not isinstance(part, slice):
        raise UsageError(f"a piece of memory is span[start:stop], in bytes, not span[{shown(part)}] (EINVAL)")
    start, stop = part.start, part.stop
    if part.step is None and type(start) is type(stop) is int and 0 <= start < stop <= length_bytes:
        return start, stop
    first = 0 if start is None else whole(start, "the start of a piece", -length_bytes, length_bytes)
    end = length_bytes if stop is None else whole(stop, "the stop of a piece", -length_bytes, length_bytes)
    first += length_bytes if first < 0 else 0
    end += length_bytes if end < 0 else 0
    if part.step not in (None, 1) or end <= first:
        step = "" if part.step is None else f":{part.step}"
        raise UsageError(
            f"bytes {start}:{stop}{step} of {length_bytes} are no piece of memory: it has a byte at least, "
            "and no gaps (EINVAL)"
        )
    return first, end


def local_pieces(local: object, remote: RemoteSpan | None = None) -> tuple[Sge, ...]:
    """Return the local pieces of an operation. With `remote`, they are as long as that.

    Raises: UsageError (EINVAL) for what is no registered memory here, and for lengths that differ.
    """
    spans = local if isinstance(local, (tuple, list)) else (local,)
    length_bytes = 0
    for span in spans:
        if not isinstance(span, Span):
            raise UsageError(f"{shown(span)} is no registered local memory (EINVAL); {_cure(span)}")
        length_bytes += span.length_bytes
    if len(spans) > MAX_SGE:
        raise UsageError(f"{len(spans)} local pieces; an operation takes at most {MAX_SGE} (EINVAL)")
    if remote is not None and length_bytes != check_remote(remote).length_bytes:
        raise UsageError(
            f"{counted(length_bytes, 'local byte')}, {counted(remote.length_bytes, 'remote byte')}; "
            "they must be equal (EINVAL)"
        )
    return tuple(span.sge() for span in spans)


def local_piece(local: object, length_bytes: int | None = None) -> Sge:
    """Return the one local piece of an operation. Raises: UsageError (EINVAL) as `local_pieces`."""
    if isinstance(local, (tuple, list)):
        raise UsageError(f"this operation takes one local piece, not {counted(len(local), 'piece')} (EINVAL)")
    (sge,) = local_pieces(local)
    if length_bytes is not None and sge.length != length_bytes:
        raise UsageError(f"the local piece takes {length_bytes} bytes; this one has {sge.length} (EINVAL)")
    return sge


def check_remote(remote: RemoteSpan, length_bytes: int | None = None) -> RemoteSpan:
    """Return a peer's memory. Raises: UsageError (EINVAL) for what is none, or has another length."""
    if not isinstance(remote, RemoteSpan):
        raise UsageError(f"{shown(remote)} is no memory of a peer (EINVAL); {_cure(remote)}")
    if length_bytes is not None and remote.length_bytes != length_bytes:
        raise UsageError(f"{length_bytes} remote bytes are changed; this has {remote.length_bytes} (EINVAL)")
    return remote


def _cure(given: object) -> str:
    """Say what to do where something else than the memory that is meant was given."""
    if isinstance(given, (Span, RemoteSpan)):
        return "local memory is named first, the peer's second"
    if hasattr(given, "array") or hasattr(given, "__array__"):
        return "register what nic.allocate() made: span = nic.register(memory)"
    return "nic.register(memory) returns local spans, peer.span(address, length_bytes, rkey) a peer's"
