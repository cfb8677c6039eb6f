# SPDX-License-Identifier: Apache-2.0
"""Value sets: what a parser's select compares with, given by the control plane.

Source: P4-16 Language Specification 1.2.5, "Parser Value Sets"; P4Runtime Specification 1.4, "ValueSetEntry".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from nicemu.errors import ControlError, P4RuntimeCode

from . import ir
from .matches import MATCH_CLASS, Match, check_match, matches, width_of
from .p4info import KeyInfo


@dataclass(slots=True, eq=False)
class ValueSet:
    """The members of one value set: each has a match for every field. It is empty at first."""

    spec: ir.ValueSet
    members: list[tuple[Match, ...]] = field(default_factory=list)
    follower: Callable[[Sequence[tuple[Match, ...]]], None] | None = None
    """Is told what the value set holds now, whenever that changes: a kernel's copy of it."""

    @property
    def keys(self) -> tuple[KeyInfo, ...]:
        """The fields, as a table's keys are described."""
        return tuple(
            KeyInfo(
                part.name,
                place,
                width_of(part.type),
                part.match_kind.value,
                part.type_name,
                type=part.type,
            )
            for place, part in enumerate(self.spec.fields, start=1)
        )

    def replace(self, members: Sequence[tuple[Match, ...]]) -> None:
        """Hold these members from now on. Raises: ControlError, and nothing has changed."""
        name, fields = self.spec.name, self.spec.fields
        if len(members) > self.spec.size:
            raise ControlError(
                P4RuntimeCode.RESOURCE_EXHAUSTED,
                f"value set {name} has room for {self.spec.size} members; {len(members)} given",
            )
        for member in members:
            if len(member) != len(fields):
                raise ControlError(
                    P4RuntimeCode.INVALID_ARGUMENT,
                    f"value set {name}: {len(member)} matches given; it has {len(fields)} fields",
                )
            for match, part in zip(member, fields, strict=True):
                if type(match) is not MATCH_CLASS[part.match_kind]:
                    raise ControlError(
                        P4RuntimeCode.INVALID_ARGUMENT,
                        f"value set {name}: field {part.name} is {part.match_kind.value}; "
                        f"the match given is {type(match).__name__.lower()}",
                    )
                check_match(f"value set {name}", match, part.name, width_of(part.type))
        self.members = list(members)
        if self.follower is not None:
            self.follower(self.members)

    def holds(self, values: Sequence[int]) -> bool:
        """Return whether a member matches these values, one for each field."""
        widths = [width_of(part.type) for part in self.spec.fields]
        return any(all(map(matches, member, values, widths)) for member in self.members)
