# SPDX-License-Identifier: Apache-2.0
"""P4Info: what a controller may know of a program.

Source: P4Runtime Specification 1.4, "P4Info Objects".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TypeVar

from nicemu.errors import ControlError, P4RuntimeCode

from . import ir
from .meters import METER_TYPES
from .selector_limits import NO_LIMITS, SelectorLimits

PACKAGE_FACTS = ("name", "version", "organization", "contact", "url")
"""What @pkginfo may say of a program; who compiles says the architecture."""
PLATFORM_PROPERTIES = (
    "multicast_group_table_size",
    "multicast_group_table_total_replicas",
    "multicast_group_table_max_replicas_per_entry",
)
"""What @platform_property may say that the switch must have room for."""


@dataclass(frozen=True, slots=True)
class KeyInfo:
    """One match field; `width` is in bits, `match_kind` one of exact, lpm, ternary, range, optional.

    `type_name` is that of a new type, "" for none. Where that is translated, `controller_bits` is what the
    controller sees, 0 for text; elsewhere it is None. `type` is the program's, None where only P4Info is
    known, which does not say it.
    """

    name: str
    id: int
    width: int
    match_kind: str
    type_name: str = ""
    controller_bits: int | None = None
    annotations: tuple[ir.Annotation, ...] = field(default=(), kw_only=True)
    type: ir.Type | None = field(default=None, compare=False, kw_only=True)

    @property
    def given_width(self) -> int:
        """Bits of the values that the controller gives, 0 for text."""
        return self.width if self.controller_bits is None else self.controller_bits


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """One parameter of an action, or one field of a controller's header; for the rest see `KeyInfo`."""

    name: str
    id: int
    width: int
    type_name: str = ""
    controller_bits: int | None = None
    annotations: tuple[ir.Annotation, ...] = field(default=(), kw_only=True)
    type: ir.Type | None = field(default=None, compare=False, kw_only=True)

    @property
    def given_width(self) -> int:
        """Bits of the values that the controller gives, 0 for text."""
        return self.width if self.controller_bits is None else self.controller_bits


@dataclass(frozen=True, slots=True)
class P4InfoObject:
    """What has a preamble, with an id. `alias` is the shortest end of the name that nothing else has."""

    name: str
    alias: str
    id: int
    annotations: tuple[ir.Annotation, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class ActionInfo(P4InfoObject):
    """An action and its action data."""

    params: tuple[ParameterInfo, ...]


@dataclass(frozen=True, slots=True)
class ActionRefInfo:
    """An action of a table: `scope` is "both", "table_only" or "default_only"."""

    name: str
    id: int
    scope: str = "both"
    annotations: tuple[ir.Annotation, ...] = field(default=(), kw_only=True)


@dataclass(frozen=True, slots=True)
class ArgumentInfo:
    """The value of an action's parameter, by its id."""

    id: int
    value: int


@dataclass(frozen=True, slots=True)
class ActionCallInfo:
    """An action by its id, with its data."""

    action_id: int
    arguments: tuple[ArgumentInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class TableInfo(P4InfoObject):
    """A table as the controller sees it. `implementation_id` is its action profile's, 0 without one;
    `initial_default` is what a miss runs at first.
    """

    size: int
    keys: tuple[KeyInfo, ...]
    actions: tuple[ActionRefInfo, ...]
    const_entries: bool = False
    const_default_action_id: int = 0
    implementation_id: int = 0
    direct_resource_ids: tuple[int, ...] = ()
    idle_timeout: bool = False
    initial_entries: bool = False
    initial_default: ActionCallInfo | None = field(default=None, kw_only=True)


@dataclass(frozen=True, slots=True)
class ProfileInfo(P4InfoObject):
    """An action profile, or selector; groups have `size` together at most, as `limits` counts."""

    table_ids: tuple[int, ...]
    with_selector: bool
    size: int
    limits: SelectorLimits = NO_LIMITS


@dataclass(frozen=True, slots=True)
class CounterInfo(P4InfoObject):
    """An array of counters; `unit` is packets, bytes or both, `index_type_name` that of a new type."""

    unit: str
    size: int
    index_type_name: str = ""


@dataclass(frozen=True, slots=True)
class DirectCounterInfo(P4InfoObject):
    """The counters of a table's entries."""

    unit: str
    table_id: int


@dataclass(frozen=True, slots=True)
class MeterInfo(P4InfoObject):
    """An array of meters; `unit` is packets or bytes, `type` one of METER_TYPES."""

    unit: str
    size: int
    index_type_name: str = ""
    type: str = field(default=METER_TYPES[0], kw_only=True)


@dataclass(frozen=True, slots=True)
class DirectMeterInfo(P4InfoObject):
    """The meters of a table's entries."""

    unit: str
    table_id: int
    type: str = field(default=METER_TYPES[0], kw_only=True)


@dataclass(frozen=True, slots=True)
class RegisterInfo(P4InfoObject):
    """An array of values of a type, which may have the name of a new type."""

    size: int
    type: ir.Type
    type_name: str = ""
    index_type_name: str = ""


@dataclass(frozen=True, slots=True)
class DigestInfo(P4InfoObject):
    """What the program sends to the controller under this name."""

    type: ir.Type


@dataclass(frozen=True, slots=True)
class ValueSetInfo(P4InfoObject):
    """What a parser's select compares with: members of a match for every key, `size` at most."""

    keys: tuple[KeyInfo, ...]
    size: int


@dataclass(frozen=True, slots=True)
class PacketMetadataInfo(P4InfoObject):
    """The header that packets to ("packet_in") or from ("packet_out") a controller begin with."""

    metadata: tuple[ParameterInfo, ...]


@dataclass(frozen=True, slots=True)
class P4Info:
    """What a program has, each kind by name in sorted order; `types` are what `registers` and `digests`
    name, `new_types` and `enums` those that something of all this has, `errors` all errors where one may be
    among the data; `annotations` are those of main, `package` is what its @pkginfo and @platform_property
    say.
    """

    program: str
    architecture: str
    tables: tuple[TableInfo, ...] = ()
    actions: tuple[ActionInfo, ...] = ()
    profiles: tuple[ProfileInfo, ...] = ()
    counters: tuple[CounterInfo, ...] = ()
    direct_counters: tuple[DirectCounterInfo, ...] = ()
    meters: tuple[MeterInfo, ...] = ()
    direct_meters: tuple[DirectMeterInfo, ...] = ()
    registers: tuple[RegisterInfo, ...] = ()
    digests: tuple[DigestInfo, ...] = ()
    value_sets: tuple[ValueSetInfo, ...] = ()
    packet_metadata: tuple[PacketMetadataInfo, ...] = ()
    types: tuple[ir.Layout, ...] = ()
    new_types: tuple[ir.NewType, ...] = ()
    enums: tuple[ir.EnumType, ...] = ()
    errors: tuple[str, ...] = ()
    annotations: tuple[ir.Annotation, ...] = field(default=(), kw_only=True)
    package: tuple[ir.Annotation, ...] = field(default=(), kw_only=True)

    def table(self, table_id: int) -> TableInfo:
        """Return the table with an id. Raises: ControlError(NOT_FOUND)."""
        return self._of_id(self.tables, table_id, "table")

    def action(self, action_id: int) -> ActionInfo:
        """Return the action with an id. Raises: ControlError(NOT_FOUND)."""
        return self._of_id(self.actions, action_id, "action")

    def _of_id(self, items: tuple[_Item, ...], number: int, noun: str) -> _Item:
        for item in items:
            if item.id == number:
                return item
        raise ControlError(
            P4RuntimeCode.NOT_FOUND, f"program {self.program} has no {noun} with id {number:#010x}"
        )


_Item = TypeVar("_Item", bound=P4InfoObject)
