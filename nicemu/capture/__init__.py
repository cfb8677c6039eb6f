# SPDX-License-Identifier: Apache-2.0
"""Capture files: pcap and pcapng, written and read, a frame at a time.

Specifications: the libpcap project, pcap-savefile(5); IETF draft-ietf-opsawg-pcapng.
"""

from .captured_frame import CapturedFrame
from .pcap import PcapWriter
from .pcapng import PcapngWriter
from .reading import read_capture

__all__ = ["CapturedFrame", "PcapWriter", "PcapngWriter", "read_capture"]
