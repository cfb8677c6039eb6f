# SPDX-License-Identifier: Apache-2.0
"""Capture files in the classic format, written.

Source: the libpcap project, pcap-savefile(5): classic format, magic of nanosecond time stamps,
LINKTYPE_ETHERNET.
"""

from __future__ import annotations

import struct

from .whole_records import Sink

_FILE_HEADER = struct.Struct("=IHHiIII")
_RECORD_HEADER = struct.Struct("=IIII")
_NANOSECOND_MAGIC = 0xA1B23C4D
_VERSION = (2, 4)
_LINKTYPE_ETHERNET = 1
_SNAP_BYTES = 1 << 18
"""As tcpdump says where nothing is cut; readers cut what is longer than a file says."""
_NS_PER_S = 1_000_000_000


class PcapWriter:
    """Writes frames to a binary file, which stays the caller's; each call writes a whole record."""

    def __init__(self, file: Sink) -> None:
        self._file = file
        file.write(_FILE_HEADER.pack(_NANOSECOND_MAGIC, *_VERSION, 0, 0, _SNAP_BYTES, _LINKTYPE_ETHERNET))

    def write(self, time_ns: int, frame: bytes) -> None:
        """Write a frame; the time is since 1970, and its seconds begin again in 2106 (32 bits)."""
        seconds, fraction = divmod(time_ns, _NS_PER_S)
        header = _RECORD_HEADER.pack(seconds & 0xFFFFFFFF, fraction, len(frame), len(frame))
        self._file.write(header + frame)
