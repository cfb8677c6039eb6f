# SPDX-License-Identifier: Apache-2.0
"""Capture files: pcap and pcapng, written and read, a frame at a time or in batches.

Specifications: the libpcap project, pcap-savefile(5); IETF draft-ietf-opsawg-pcapng.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .captured_frame import CapturedFrame
from .pcap import PcapWriter
from .pcapng import PcapngWriter
from .reading import read_capture

if TYPE_CHECKING:
    from .batches import CapturedBatch, read_batches

__all__ = ["CapturedBatch", "CapturedFrame", "PcapWriter", "PcapngWriter", "read_batches", "read_capture"]


def __getattr__(name: str) -> object:
    """Load what is compiled when it is used: the compiler takes long to import."""
    if name not in ("CapturedBatch", "read_batches"):
        raise AttributeError(f"nicemu.capture has no {name!r}; it has {', '.join(__all__)}")
    return getattr(import_module(".batches", __name__), name)
