# SPDX-License-Identifier: Apache-2.0
"""Capture files as they are read: pcap in both byte orders and resolutions, and pcapng; gzipped or not.

Source: the libpcap project, pcap-savefile(5); IETF draft-ietf-opsawg-pcapng, "PCAP Next Generation (pcapng)
Capture File Format": "Section Header Block", "Interface Description Block", "Enhanced Packet Block", "Simple
Packet Block", "if_tsresol", "if_tsoffset".
"""

from __future__ import annotations

import struct
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import Final, Protocol, Self

from nicemu.errors import ProtocolError, UsageError

from .captured_frame import CapturedFrame
from .gunzipped import GZIP_MAGIC, Gunzipped
from .pcapng import LINKTYPE_ETHERNET

_PCAP_RESOLUTIONS = {0xA1B2C3D4: 1000, 0xA1B23C4D: 1}
SECTION_HEADER: Final = 0x0A0D0D0A
ENHANCED_PACKET: Final = 6
_INTERFACE, _PACKET, _SIMPLE = 1, 2, 3
"""`_PACKET` is obsolete: as an enhanced one, but that drops are counted in half of the interface's number."""
_MAGIC = 0x1A2B3C4D
_RESOLUTION, _OFFSET = 9, 14
_NS_PER_S = 1_000_000_000
LARGEST_BYTES: Final = 1 << 26
"""Longest record or block that is taken for one."""


def read_capture(path: Path) -> Generator[CapturedFrame, None, None]:
    """Yield the Ethernet frames of a capture file in the order of the file.

    Times are ns since 1970 and 0 where the file has none; which way a frame went is not told.
    Raises: UsageError if the file cannot be read or is no capture of Ethernet frames; ProtocolError where it
    ends in the middle of something, or has what no capture has.
    """
    with CaptureFile.opened(path) as opened:
        yield from opened.frames()


class Source(Protocol):
    """What bytes come from."""

    def read(self, length: int, /) -> bytes:
        """Return so many bytes, or fewer at the end."""


class CaptureFile:
    """A capture file that is being read: `read_bytes` of it have been. It may be a pipe."""

    def __init__(self, path: Path, file: BufferedReader, read_bytes: int) -> None:
        self.path, self.file, self.read_bytes = path, file, read_bytes
        self.source: Source = file
        """What it is read from: `file`, or what reads ahead of it."""
        self._order = "<"

    @staticmethod
    def opened(path: Path) -> CaptureFile:
        """Return a file of either format, with what stands before its first frame read. Raises: as
        `read_capture`.
        """
        try:
            file = open(path, "rb")  # noqa: SIM115 - the caller closes it
        except OSError as error:
            raise UsageError(f"{path} cannot be read: {error.strerror}") from error
        try:
            if file.peek(len(GZIP_MAGIC)).startswith(GZIP_MAGIC):
                file = BufferedReader(Gunzipped(path, file))
            return _recognised(path, file)
        except BaseException:
            file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.file.close()

    @property
    def is_big_endian(self) -> bool:
        """Whether its numbers have their most significant byte first, as far as it was read."""
        return self._order == ">"

    def frames(self) -> Iterator[CapturedFrame]:
        """Yield the frames."""
        raise NotImplementedError

    def _unpack(self, layout: str, data: bytes, at: int = 0) -> tuple[int, ...]:
        return struct.unpack_from(self._order + layout, data, at)

    def _some(self, length: int) -> bytes:
        """Return so many bytes, or fewer at the end."""
        data = self.source.read(length)
        self.read_bytes += len(data)
        return data

    def _read(self, length: int) -> bytes:
        if length > LARGEST_BYTES:
            raise self.too_long(length, self.read_bytes)
        data = self._some(length)
        if len(data) < length:
            raise self.cut(self.read_bytes)
        return data

    def too_long(self, length: int, at: int) -> ProtocolError:
        """Return the error of a record or block that cannot be one."""
        return ProtocolError(f"{self.path}: {length} bytes are said to follow byte {at}; that is no capture")

    def cut(self, at: int) -> ProtocolError:
        """Return the error of a file that ends in the middle of something."""
        return ProtocolError(
            f"{self.path} ends at byte {at}, in the middle of a header or record; it was cut"
        )

    def _require_ethernet(self, linktype: int) -> None:
        if linktype != LINKTYPE_ETHERNET:
            raise UsageError(f"{self.path} has frames of link type {linktype}; Ethernet, 1, was expected")


def _recognised(path: Path, file: BufferedReader) -> CaptureFile:
    start = file.read(4)
    for order in "<>":
        (magic,) = struct.unpack(f"{order}I", start) if len(start) == 4 else (0,)
        if magic in _PCAP_RESOLUTIONS:
            return PcapFile(path, file, order, _PCAP_RESOLUTIONS[magic])
    if start != struct.pack("<I", SECTION_HEADER):
        raise UsageError(
            f"{path} is no capture file; it begins with {start.hex(' ') or 'nothing'}, not as "
            "pcap or pcapng does"
        )
    return PcapngFile(path, file, 4)


class PcapFile(CaptureFile):
    """The classic format; the magic is read. `unit_ns` is what the fraction of a second counts."""

    def __init__(self, path: Path, file: BufferedReader, order: str, unit_ns: int) -> None:
        super().__init__(path, file, 4)
        self._order, self.unit_ns = order, unit_ns
        (linktype,) = self._unpack("16xI", self._read(20))
        self._require_ethernet(linktype & 0xFFFF)

    def frames(self) -> Iterator[CapturedFrame]:
        """Yield the frames."""
        while first := self._some(1):
            seconds, fraction, length, original = self._unpack("IIII", first + self._read(15))
            time_ns = seconds * _NS_PER_S + fraction * self.unit_ns
            yield CapturedFrame(time_ns, False, self._read(length), original)


@dataclass(slots=True)
class Interface:
    """What a block says of an interface; times count from `offset_s`."""

    snap_bytes: int
    units_per_s: int = 1_000_000
    offset_s: int = 0

    def time_ns(self, units: int) -> int:
        """Return the time of so many units; what no 64 bits hold is cut to what they do."""
        found = self.offset_s * _NS_PER_S + units * _NS_PER_S // self.units_per_s
        return min(max(found, 0), (1 << 64) - 1)


class PcapngFile(CaptureFile):
    """Sections of blocks; the type of the first block is read."""

    def __init__(self, path: Path, file: BufferedReader, read_bytes: int) -> None:
        super().__init__(path, file, read_bytes)
        self.interfaces: list[Interface] = []
        """Those of the section so far."""

    def frames(self) -> Iterator[CapturedFrame]:
        """Yield the frames."""
        return (frame for frame in self.blocks() if frame is not None)

    def blocks(self) -> Iterator[CapturedFrame | None]:
        """Yield for each block its frame, or None; all up to its end has been read then."""
        kind = SECTION_HEADER
        while True:
            yield self._block(kind)
            first = self._some(1)
            if not first:
                return
            (kind,) = self._unpack("I", first + self._read(3))

    def _block(self, kind: int) -> CapturedFrame | None:
        """Read what comes behind a block's type; return the frame, if it has one."""
        if kind == SECTION_HEADER:
            self.interfaces = []
            self._section()
            return None
        body = self._body(self._read(4))
        if kind == ENHANCED_PACKET:
            return self._packet(body, self.interfaces)
        if kind == _PACKET:
            return self._packet(body, self.interfaces, "HH")
        if kind == _SIMPLE:
            return self._simple(body, self.interfaces)
        if kind == _INTERFACE:
            self.interfaces.append(self._interface(body))
        return None

    def _section(self) -> None:
        start = self._read(8)
        orders = [order for order in "<>" if struct.unpack_from(f"{order}I", start, 4)[0] == _MAGIC]
        if not orders:
            raise ProtocolError(
                f"{self.path}: a section begins with {start[4:].hex(' ')}, which is no byte order"
            )
        self._order = orders[0]
        self._body(start[:4], taken=4)

    def _body(self, length_bytes: bytes, taken: int = 0) -> bytes:
        (length,) = self._unpack("I", length_bytes)
        if length < 12 + taken or length % 4:
            raise ProtocolError(f"{self.path}: a block before byte {self.read_bytes} is {length} bytes long")
        body = self._read(length - 12 - taken)
        if self._read(4) != length_bytes:
            raise ProtocolError(f"{self.path}: the block that ends at byte {self.read_bytes} has two lengths")
        return body

    def _interface(self, body: bytes) -> Interface:
        self._fits(body, 8)
        linktype, _, snap_bytes = self._unpack("HHI", body)
        self._require_ethernet(linktype)
        found = Interface(snap_bytes)
        at = 8
        while at + 4 <= len(body):
            code, length = self._unpack("HH", body, at)
            value = body[at + 4 : at + 4 + length]
            if code == 0:
                break
            if code == _RESOLUTION and length == 1:
                power = value[0] & 0x7F
                found.units_per_s = 1 << power if value[0] & 0x80 else 10**power
            elif code == _OFFSET and length == 8:
                (found.offset_s,) = self._unpack("q", value)
            at += 4 + (length + 3 & ~3)
        return found

    def _packet(self, body: bytes, interfaces: list[Interface], first: str = "I") -> CapturedFrame:
        self._fits(body, 20)
        number, *_, high, low, length, original = self._unpack(f"{first}IIII", body)
        self._fits(body, 20 + length)
        if number >= len(interfaces):
            raise ProtocolError(f"{self.path}: a frame names interface {number}; there are {len(interfaces)}")
        time_ns = interfaces[number].time_ns(high << 32 | low)
        return CapturedFrame(time_ns, False, body[20 : 20 + length], original, number)

    def _simple(self, body: bytes, interfaces: list[Interface]) -> CapturedFrame:
        self._fits(body, 4)
        if not interfaces:
            raise ProtocolError(f"{self.path}: a frame comes before any interface")
        (original,) = self._unpack("I", body)
        length = min(original, interfaces[0].snap_bytes or original)
        self._fits(body, 4 + length)
        return CapturedFrame(0, False, body[4 : 4 + length], original)

    def _fits(self, body: bytes, length: int) -> None:
        if len(body) < length:
            raise ProtocolError(
                f"{self.path}: the block that ends at byte {self.read_bytes} has {len(body)} bytes; "
                f"{length} are said to be in it"
            )
