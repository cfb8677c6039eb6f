# SPDX-License-Identifier: Apache-2.0
"""What a kernel is given and gives back, as records in memory.

A packet is 64 bytes. Its frame must have `headroom` bytes before it that the kernel may write, because what
leaves may be longer than what came: it begins `out_offset` bytes behind `address`, or before it where that
is negative.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from nicemu.pipeline import Program

PACKET = np.dtype(
    {
        "names": [
            "address",
            "length",
            "port",
            "now_ns",
            "verdict",
            "reason",
            "out_port",
            "out_offset",
            "out_length",
            "effects_at",
            "effects_count",
            "state_at",
        ],
        "formats": ["u8", "u4", "u4", "u8", "u2", "u2", "u4", "i4", "u4", "u4", "u4", "u8"],
        "offsets": [0, 8, 12, 16, 24, 26, 28, 32, 36, 40, 44, 48],
        "itemsize": 64,
    }
)

DROPPED, TO_PORT, TO_HOST, HELD, AFTER_INGRESS, AFTER_EGRESS, TOLD, SPLIT = range(8)
"""Verdicts. After ingress or egress a packet of v1model may need the traffic manager: the state that it is in
begins at `state_at`. TOLD: an engine has said it otherwise. SPLIT: it has become others, which have records
of their own. `reason` says why a packet is dropped, or some of what it would have become, see `REASONS`.
"""
STUCK: Final = 0xFFFF
ASSERTION: Final = 0xFFFE
OVERSIZED: Final = 0xFFFD
TOO_MANY_EFFECTS: Final = 0xFFFC
NO_GROUP: Final = 0xFFFB
TOO_MANY_ROUNDS: Final = 0xFFFA
TOO_MANY_COPIES: Final = 0xFFF9
REASONS = {
    0: "pipeline.dropped",
    STUCK: "pipeline.too_many_turns",
    ASSERTION: "pipeline.assertion",
    OVERSIZED: "pipeline.oversized",
    TOO_MANY_EFFECTS: "pipeline.too_many_effects",
    NO_GROUP: "pipeline.no_multicast_group",
    TOO_MANY_ROUNDS: "pipeline.too_many_rounds",
    TOO_MANY_COPIES: "pipeline.too_many_copies",
}
"""Why packets are dropped; other numbers are 1 + an error of the parser."""

TABLE_WORDS: Final = 4
TABLE_STATE, TABLE_DEFAULT, TABLE_HITS, TABLE_MISSES = range(TABLE_WORDS)
"""Words of a table in the context: two addresses, two counts."""


def word_of_effects(program: Program) -> int:
    """Return which word of the context holds the address of the next effect."""
    return TABLE_WORDS * len(program.tables)


def word_of_object(program: Program, number: int) -> int:
    """Return which word of the context holds the address of an extern object's memory."""
    return word_of_effects(program) + 1 + number


def word_of_value_set(program: Program, number: int) -> int:
    """Return which word of the context holds the address of a value set's state."""
    return word_of_object(program, len(program.externs)) + number


def word_of_chance(program: Program) -> int:
    """Return which word of the context holds the address of the engine's chance."""
    return word_of_value_set(program, len(program.value_sets))


def word_of_states(program: Program) -> int:
    """Return which word of the context holds the address of the next packet's state."""
    return word_of_chance(program) + 1


def context_words(program: Program) -> int:
    """Return how many words a context has."""
    return word_of_states(program) + 1


def offset_of(name: str) -> int:
    """Return where a field of a packet lies."""
    fields = PACKET.fields
    assert fields is not None
    return int(fields[name][1])
