# SPDX-License-Identifier: Apache-2.0
"""What finds a packet's table entry: structures in raw memory, which kernels and the control plane share.

A table is filled from Python and looked up in by hot functions, which are given its `state`, one address, and
the address of a key in 64-bit limbs, and give back the address of an entry and its head. What an entry is,
and how a reader knows that it has read a whole one, is in `entries`. The meaning of matching is that of
`nicemu.pipeline`'s tables, which tests hold these equal to.
Source: P4-16 Language Specification 1.2.5, "Match-Action Tables"; P4Runtime Specification 1.4, "Match
Format".
"""

from .ahead import NOTE_WORDS, begin_exact, begin_lpm, end_exact, end_lpm, step_exact, step_lpm
from .buckets import MAX_SIZE, Index, find, index_of, prefetch_bucket, prefetch_entry
from .entries import (
    BYTES,
    COUNT,
    HIT_NS,
    KEY,
    MISS,
    PACKETS,
    STRIDE,
    action_of,
    count_packet,
    hash_of,
    unchanged,
)
from .exact import BATCH, ExactTable, find_batch
from .lpm import LpmTable, find_lpm, find_lpm_batch
from .memory import LINE_BYTES, Memory
from .table import Entry, Table, limbs_of, pack_keys
from .ternary import Bounds, TernaryTable, find_ternary, find_ternary_batch
from .trie import strides_of
from .words import prefetch

__all__ = [
    "BATCH",
    "BYTES",
    "COUNT",
    "HIT_NS",
    "KEY",
    "LINE_BYTES",
    "MAX_SIZE",
    "MISS",
    "NOTE_WORDS",
    "PACKETS",
    "STRIDE",
    "Bounds",
    "Entry",
    "ExactTable",
    "Index",
    "LpmTable",
    "Memory",
    "Table",
    "TernaryTable",
    "action_of",
    "begin_exact",
    "begin_lpm",
    "count_packet",
    "end_exact",
    "end_lpm",
    "find",
    "find_batch",
    "find_lpm",
    "find_lpm_batch",
    "find_ternary",
    "find_ternary_batch",
    "hash_of",
    "index_of",
    "limbs_of",
    "pack_keys",
    "prefetch",
    "prefetch_bucket",
    "prefetch_entry",
    "step_exact",
    "step_lpm",
    "strides_of",
    "unchanged",
]
