# SPDX-License-Identifier: Apache-2.0
"""How large a selector and its groups may be, as annotations of the selector say.

Source: P4Runtime Specification 1.4, "ActionProfile".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .ir import Annotation

SEMANTICS = ("sum_of_weights", "sum_of_members")
"""What the sizes of a selector count."""


@dataclass(frozen=True, slots=True)
class SelectorLimits:
    """What a group may be at most, 0 for no limit; sizes count members where `by_members`, else weights."""

    max_group_size: int = 0
    by_members: bool = False
    max_member_weight: int = 0

    def size_of(self, weights: Sequence[int]) -> int:
        """Return the size of a group whose members have these weights."""
        return len(weights) if self.by_members else sum(weights)


NO_LIMITS = SelectorLimits()


def limits_of(annotations: Iterable[Annotation]) -> SelectorLimits:
    """Return what the annotations of a selector say; what is not theirs to say counts as not said."""
    said = {item.name: item.body for item in annotations}
    by_members = said.get("selector_size_semantics", "").strip('"') == SEMANTICS[1]
    max_group_size, max_weight = (
        literal_value(said.get(name, "")) or 0 for name in ("max_group_size", "max_member_weight")
    )
    return SelectorLimits(max_group_size, by_members, max_weight if by_members else 0)


def literal_value(literal: str, bits: int = 31) -> int | None:
    """Return the number that a literal of P4 is, with or without a width; None if it is none of `bits`."""
    digits = literal.rpartition("w")[2].replace("_", "").lower().removeprefix("0d")
    try:
        number = int(digits, 10 if digits.isdecimal() else 0)
    except ValueError:
        return None
    return number if 0 <= number < 1 << bits else None
