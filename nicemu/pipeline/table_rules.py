# SPDX-License-Identifier: Apache-2.0
"""What an entry of a table may be: its matches, its priority, its action and the action's data.

Source: P4Runtime Specification 1.4, "TableEntry"; P4-16 1.2.5, "Match-Action Tables".
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import rshift

from nicemu.errors import ControlError, P4RuntimeCode, counted

from . import ir
from .matches import MATCH_CLASS, Exact, Match, check_match, width_of
from .table_entry import TableEntry

MAX_PRIORITY = (1 << 64) - 1
"""The largest priority of an entry."""


class TableRules:
    """What the entries and the default action of one table may be.

    `actions` maps the names of the actions that entries may use to the widths of their action data in bits;
    `default_actions` likewise for the default action; `has_profile` says that its entries' actions lie in an
    action profile.
    """

    def __init__(
        self,
        spec: ir.Table,
        actions: dict[str, tuple[int, ...]],
        default_actions: dict[str, tuple[int, ...]],
        has_profile: bool,
    ) -> None:
        self._spec = spec
        self._actions, self._default_actions = actions, default_actions
        self._has_profile = has_profile
        self._widths = tuple(width_of(key.expression.type) for key in spec.keys)
        self._has_priority = any(key.match_kind.has_priority for key in spec.keys)
        self._all_exact = all(key.match_kind is ir.MatchKind.EXACT for key in spec.keys)

    def check(self, entry: TableEntry) -> None:
        """Refuse what is no legal entry. Raises: ControlError(INVALID_ARGUMENT, OUT_OF_RANGE)."""
        if not self._spec.keys:
            raise self._illegal("it has no keys, so a packet meets its default action alone, never an entry")
        self.check_matches(entry.matches, entry.priority)
        if entry.idle_timeout_ns and not self._spec.idle_timeout:
            raise self._illegal("an idle timeout given; the program does not set support_timeout")
        if self._has_profile is (entry.choice is None):
            wanted = "a member, group or set of its action profile" if self._has_profile else "an action"
            raise self._illegal(f"its entries need {wanted}")
        if entry.choice is None:
            self._check_call(entry.action, entry.parameters, self._actions)

    def check_matches(self, matches: tuple[Match, ...], priority: int) -> None:
        """Refuse what can be no entry's key. Raises: ControlError(INVALID_ARGUMENT, OUT_OF_RANGE)."""
        if self._all_exact and not priority and len(matches) == len(self._widths):
            for match, width in zip(matches, self._widths, strict=True):
                if type(match) is not Exact or match.value >> width:
                    break
            else:
                return
        keys = self._spec.keys
        if len(matches) != len(keys):
            named = ", ".join(f"{key.name} {key.match_kind.value}" for key in keys)
            raise self._illegal(f"{len(matches)} matches given; it has {len(keys)} keys ({named})")
        for match, key, width in zip(matches, keys, self._widths, strict=True):
            if type(match) is not MATCH_CLASS[key.match_kind]:
                raise self._illegal(
                    f"key {key.name} is {key.match_kind.value}; "
                    f"the match given is {type(match).__name__.lower()}"
                )
            check_match(f"table {self._spec.name}", match, key.name, width)
        if self._has_priority and priority <= 0:
            raise self._illegal(
                f"priority {priority} given; ternary, range and optional keys need one above 0, larger wins"
            )
        if priority > MAX_PRIORITY:
            raise self._illegal(f"a priority of {priority:#x} given; {MAX_PRIORITY:#x} is the largest")
        if not self._has_priority and priority != 0:
            raise self._illegal(f"priority {priority} given; exact and lpm keys take none (0)")

    def check_default(self, action: str, parameters: Sequence[int]) -> None:
        """Refuse what can be no default action. Raises: ControlError(INVALID_ARGUMENT, OUT_OF_RANGE)."""
        self._check_call(action, parameters, self._default_actions)

    def _check_call(
        self, action: str, parameters: Sequence[int], allowed: dict[str, tuple[int, ...]]
    ) -> None:
        fitting = allowed.get(action)
        if fitting and len(fitting) == len(parameters) and not any(map(rshift, parameters, fitting)):
            return
        if action not in allowed:
            marked = ""
            if action in self._actions or action in self._default_actions:
                marked = "@defaultonly, and " if allowed is self._actions else "@tableonly, and "
            raise self._illegal(
                f"action {action} is {marked}not one that may stand here: {', '.join(allowed) or 'none'}"
            )
        widths = allowed[action]
        if len(parameters) != len(widths):
            raise self._illegal(
                f"action {action} takes {counted(len(widths), 'parameter')}; {len(parameters)} given"
            )
        for position, (number, width) in enumerate(zip(parameters, widths, strict=True), start=1):
            if not 0 <= number < 1 << width:
                raise ControlError(
                    P4RuntimeCode.OUT_OF_RANGE,
                    f"table {self._spec.name}: parameter {position} of action {action} is bit<{width}>; "
                    f"{number:#x} does not fit",
                )

    def _illegal(self, sentence: str) -> ControlError:
        return ControlError(P4RuntimeCode.INVALID_ARGUMENT, f"table {self._spec.name}: {sentence}")
