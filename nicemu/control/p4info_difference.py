# SPDX-License-Identifier: Apache-2.0
"""Whether a client's P4Info says of a program what the program is.

Source: P4Runtime Specification 1.4, "SetForwardingPipelineConfig RPC".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from nicemu.pipeline import P4Info, P4InfoObject

_COMPARED = {
    "action profile": ("profiles", ("id", "with_selector")),
    "counter": ("counters", ("id", "size")),
    "direct meter": ("direct_meters", ("id",)),
    "meter": ("meters", ("id", "size", "unit")),
    "register": ("registers", ("id", "size")),
    "value set": ("value_sets", ("id",)),
}
"""Where things stand in a P4Info, and what must be the same of them on both sides."""
_COMPARED_IN_ALL = _COMPARED | {
    "counter": ("counters", ("id", "size", "unit")),
    "direct counter": ("direct_counters", ("id", "unit", "table_id")),
    "direct meter": ("direct_meters", ("id", "unit", "type", "table_id")),
    "meter": ("meters", ("id", "size", "unit", "type")),
    "value set": ("value_sets", ("id", "size")),
    "digest": ("digests", ("id",)),
}
"""The same of a program that says all."""


def difference(given: P4Info, own: P4Info, *, in_all: bool = False) -> str | None:
    """Return one sentence on the first point where a client's P4Info contradicts the program's, or None.

    Names of keys and parameters, sizes of tables, aliases and the like do not change what a request means,
    and may differ. `in_all` compares units, types, constant entries and more, too: a program in IR says them,
    one in BMv2 JSON leaves them to its P4Info.
    """
    if given.architecture and given.architecture != own.architecture:
        return f"architecture {given.architecture} in p4info and {own.architecture} in the program"
    sides = [
        ("table", _table_facts(given, in_all), _table_facts(own, in_all)),
        ("action", _action_facts(given), _action_facts(own)),
    ]
    sides += [
        (kind, _facts(getattr(given, place), facts), _facts(getattr(own, place), facts))
        for kind, (place, facts) in (_COMPARED_IN_ALL if in_all else _COMPARED).items()
    ]
    if in_all:
        sides += [
            ("register", _register_facts(given), _register_facts(own)),
            ("header", _header_facts(given), _header_facts(own)),
        ]
    for kind, theirs, ours in sides:
        for name in sorted(theirs.keys() | ours.keys()):
            if name not in ours or name not in theirs:
                return f"{kind} {name} is in {'p4info' if name in theirs else 'the program'} only"
            for fact, value in theirs[name].items():
                found = ours[name][fact]
                if value != found and None not in (value, found):
                    return f"{kind} {name} has {fact} {value} in p4info and {found} in the program"
    return None


def _table_facts(p4info: P4Info, in_all: bool) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {
        table.name: {
            "id": table.id,
            "keys (id, bits, kind)": [(key.id, key.given_width, key.match_kind) for key in table.keys],
            "actions": sorted(action.name for action in table.actions),
        }
        for table in p4info.tables
    }
    for table in p4info.tables if in_all else ():
        found[table.name] |= {
            "const entries": table.const_entries,
            "const default action": table.const_default_action_id,
            "idle timeouts": table.idle_timeout,
        }
    return found


def _action_facts(p4info: P4Info) -> dict[str, dict[str, object]]:
    return {
        action.name: {
            "id": action.id,
            "parameters (id, bits)": [(item.id, item.given_width) for item in action.params],
        }
        for action in p4info.actions
    }


def _register_facts(p4info: P4Info) -> dict[str, dict[str, object]]:
    return {item.name: {"type": None if item.type_name else str(item.type)} for item in p4info.registers}


def _header_facts(p4info: P4Info) -> dict[str, dict[str, object]]:
    return {
        header.name: {"fields (id, bits)": [(item.id, item.given_width) for item in header.metadata]}
        for header in p4info.packet_metadata
    }


def _facts(items: Iterable[P4InfoObject], facts: Sequence[str]) -> dict[str, dict[str, object]]:
    return {item.name: {fact: getattr(item, fact) for fact in facts} for item in items}
