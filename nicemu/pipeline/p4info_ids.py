# SPDX-License-Identifier: Apache-2.0
"""Ids and aliases of what a controller sees, the same that p4c gives.

An id is prefix << 24 | 24 bits of Jenkins's one-at-a-time hash of the fully qualified name; a number already
taken is followed by the next free one, over names in sorted order; @id chooses the lower bits itself.
Source: P4Runtime Specification 1.4, "ID Allocation for P4Info Objects"; p4lang/p4c, control-plane ids.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Sequence


class Prefix(enum.IntEnum):
    """The upper 8 bits of an id. Source: p4info.proto, P4Ids.Prefix."""

    ACTION = 0x01
    TABLE = 0x02
    VALUE_SET = 0x03
    CONTROLLER_HEADER = 0x04
    ACTION_PROFILE = 0x11
    COUNTER = 0x12
    DIRECT_COUNTER = 0x13
    METER = 0x14
    DIRECT_METER = 0x15
    REGISTER = 0x16
    DIGEST = 0x17


PREFIXES = {
    "action_profile": Prefix.ACTION_PROFILE,
    "action_selector": Prefix.ACTION_PROFILE,
    "counter": Prefix.COUNTER,
    "direct_counter": Prefix.DIRECT_COUNTER,
    "meter": Prefix.METER,
    "direct_meter": Prefix.DIRECT_METER,
    "register": Prefix.REGISTER,
}
"""What the ids of extern objects begin with, by their types."""


def allocate_ids(prefix: int, chosen: dict[str, int]) -> dict[str, int]:
    """Return an id for each name; `chosen` maps names to the id that the program wants, or 0."""
    ids = {name: prefix << 24 | number & 0xFFFFFF for name, number in chosen.items() if number}
    taken = set(ids.values())
    for name in sorted(chosen):
        if name in ids:
            continue
        suffix = one_at_a_time(name.encode()) & 0xFFFFFF
        while prefix << 24 | suffix in taken or suffix == 0:
            suffix = (suffix + 1) & 0xFFFFFF
        ids[name] = prefix << 24 | suffix
        taken.add(ids[name])
    return ids


def numbers_of(chosen: Sequence[int]) -> list[int]:
    """Return a number for each place of a list: the one that the program has `chosen`, not 0, else the next
    one that is free, from 1 on; a place with a number of its own is counted, too, if none was free before it.
    """
    taken, found, following = set(chosen), [], 1
    for number in chosen:
        if number:
            following += 1
        else:
            while following in taken:
                following += 1
            taken.add(following)
        found.append(number or following)
    return found


def one_at_a_time(data: bytes) -> int:
    """Return Bob Jenkins's one-at-a-time hash, 32 bits. Source: Dr. Dobb's Journal, September 1997."""
    value = 0
    for byte in data:
        value = (value + byte) * 1025 & 0xFFFFFFFF  # itself, and itself shifted left by 10
        value ^= value >> 6
    value = value * 9 & 0xFFFFFFFF  # by 3
    value ^= value >> 11
    return value * 32769 & 0xFFFFFFFF  # by 15


def aliases_of(names: Iterable[str]) -> dict[str, str]:
    """Return for each dotted name its shortest suffix that no other name ends in."""
    everything = sorted(set(names))
    counts: dict[str, int] = {}
    for name in everything:
        for suffix in _suffixes(name):
            counts[suffix] = counts.get(suffix, 0) + 1
    return {
        name: next((suffix for suffix in _suffixes(name) if counts[suffix] == 1), name) for name in everything
    }


def _suffixes(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[start:]) for start in range(len(parts) - 1, -1, -1)]
