# SPDX-License-Identifier: Apache-2.0
"""Traces of requests: Mooncake's JSON lines, Azure's and BurstGPT's CSV, and synthetic ones.

All are read and made request by request, so that a trace of any length takes the same memory.
"""

from .block_lru import BlockLru
from .reader import FORMATS, TraceFile, format_of
from .request import BLOCK_TOKENS, Request, blocks_in
from .statistics import Lengths, TraceStatistics, statistics_of
from .synthesis import CONVERSATIONS, Conversations, synthetic_trace, write_trace

__all__ = [
    "BLOCK_TOKENS",
    "CONVERSATIONS",
    "FORMATS",
    "BlockLru",
    "Conversations",
    "Lengths",
    "Request",
    "TraceFile",
    "TraceStatistics",
    "blocks_in",
    "format_of",
    "statistics_of",
    "synthetic_trace",
    "write_trace",
]
