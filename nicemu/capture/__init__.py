# SPDX-License-Identifier: Apache-2.0
"""Capture files: pcap and pcapng, written and read, a frame at a time or in batches.

Specifications: the libpcap project, pcap-savefile(5); IETF draft-ietf-opsawg-pcapng.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .captured_frame import CapturedFrame
from .pcap import PcapWriter
from .pcapng import OUTBOUND_OPTIONS, PACKET_BLOCK, PcapngWriter
from .reading import CaptureFile, PcapFile, read_capture
from .whole_records import WholeRecords

if TYPE_CHECKING:
    from .batches import CapturedBatch, batches_of, read_batches
    from .pieces import PcapPieces
    from .records import NOT_WHOLE, RECORD_HEADER_BYTES, read_record, walk_records

_HOMES = {
    "NOT_WHOLE": "records",
    "RECORD_HEADER_BYTES": "records",
    "CapturedBatch": "batches",
    "PcapPieces": "pieces",
    "batches_of": "batches",
    "read_batches": "batches",
    "read_record": "records",
    "walk_records": "records",
}

__all__ = [
    "NOT_WHOLE",
    "OUTBOUND_OPTIONS",
    "PACKET_BLOCK",
    "RECORD_HEADER_BYTES",
    "CaptureFile",
    "CapturedBatch",
    "CapturedFrame",
    "PcapFile",
    "PcapPieces",
    "PcapWriter",
    "PcapngWriter",
    "WholeRecords",
    "batches_of",
    "read_batches",
    "read_capture",
    "read_record",
    "walk_records",
]


def __getattr__(name: str) -> object:
    """Load what is compiled when it is used: the compiler takes long to import."""
    if name not in _HOMES:
        raise AttributeError(f"nicemu.capture has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
