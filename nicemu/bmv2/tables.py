# SPDX-License-Identifier: Apache-2.0
"""Tables and the entries that the file gives them.

A table that p4c made for an action called in a control's body, or for a few of its statements, is none for
the control plane: it becomes what its action does.
Source: p4lang/behavioral-model, "BMv2 JSON input format", "pipelines" and "match-action entry format".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nicemu.errors import counted
from nicemu.pipeline import MAX_TABLE_SIZE, ir

from .actions import Actions, Use, branch
from .document import Json
from .graph import Statements, Step
from .primitives import Primitives
from .scope import Scope

HIT, MISS = "__HIT__", "__MISS__"
_KINDS = ("exact", "lpm", "ternary", "range", "valid")
_MADE_UP = "tbl_"


@dataclass(slots=True)
class _Table:
    """A table that was read: its actions in order with their names, and which are only for the default."""

    item: Json
    keys: tuple[ir.Key, ...]
    uses: list[Use]
    default: Use
    default_data: tuple[int, ...]
    only_default: bool


class Tables:
    """The tables of both pipelines."""

    def __init__(self, scope: Scope, actions: Actions) -> None:
        self._scope = scope
        self._actions = actions
        self._profiles: dict[str, tuple[str, tuple[ir.Expression, ...]]] = {}
        self._selectors: set[str] = set()
        self._tables: dict[str, _Table] = {}

    def profiles(self, pipeline: Json) -> None:
        """Declare the action profiles of a pipeline."""
        for item in pipeline.list("action_profiles"):
            name = item["name"].text()
            if name in self._profiles:
                raise item["name"].fault(f"is {name}, which stands there twice")
            self._profiles[name] = self._scope.profile(item)
            if item.get("selector") is not None:
                self._selectors.add(name)

    def read(self, item: Json) -> None:
        """Read a table, and with it what its actions do."""
        name = item["name"].text()
        if name in self._tables:
            raise item["name"].fault(f"is {name}, which stands there twice")
        actions = [self._called(item, place) for place, _ in enumerate(item["actions"].items())]
        before = self._before(name)
        uses = [self._actions.use(action, before) for action in actions]
        if len({use.name for use in uses}) != len(uses):
            raise item["actions"].fault("names an action twice")
        entry, only_default = item.get("default_entry"), False
        if entry is None:
            default, data = self._actions.no_action(), tuple[int, ...]()
            only_default = all(use.name != default.name for use in uses)
            if only_default:
                uses.append(default)
        else:
            default = self._listed(entry["action_id"], uses)
            data = self._data(entry, default)
        keys = tuple(self._key(key) for key in item["key"].items())
        for place, one in enumerate(keys):
            if any(other.name == one.name for other in keys[:place]):
                raise item["key"].items()[place].fault(f"is called {one.name}, as another key is")
        _refuse_ranked_prefixes(item, keys)
        self._tables[name] = _Table(item, keys, uses, default, data, only_default)

    def step(self, item: Json) -> Step:
        """Return a table's step in its pipeline."""
        name = item["name"].text()
        base = _name_of(item.get("base_default_next"))
        table = self._tables[name]
        known = {*map(self._actions.name_in_file, table.uses), HIT, MISS}
        ways = {}
        for label, target in item["next_tables"].members():
            if label not in known:
                raise target.fault(f"is for {label}, which is no action of the table")
            ways[label] = None if target.value is None else target.text()
        if HIT in ways or MISS in ways:
            hit, miss = ways.get(HIT, base), ways.get(MISS, base)
            applied = ir.TableApply(name)
            return Step(
                (hit, miss),
                lambda go_on: branch(applied, go_on(hit), go_on(miss)) or (ir.ApplyTable(name),),
            )
        targets: dict[str | None, list[str]] = {}
        for use in table.uses:
            targets.setdefault(ways.get(self._actions.name_in_file(use), base), []).append(use.name)
        return Step((*targets, base), lambda go_on: self._switch(name, targets, base, go_on))

    def translated(self) -> tuple[ir.Table, ...]:
        """Return the tables, once all have been read."""
        return tuple(self._table(name, table) for name, table in self._tables.items())

    def _switch(
        self,
        name: str,
        targets: dict[str | None, list[str]],
        base: str | None,
        go_on: Callable[[str | None], Statements],
    ) -> Statements:
        if len(targets) == 1 and base in targets:
            return (ir.ApplyTable(name), *go_on(base))
        cases = [
            ir.SwitchCase(tuple(names), go_on(target)) for target, names in targets.items() if target != base
        ]
        otherwise = ir.SwitchCase((), go_on(base))
        if all(not case.body for case in (*cases, otherwise)):
            return (ir.ApplyTable(name),)
        return (ir.SwitchAction(name, (*cases, otherwise)),)

    # Actions

    def _called(self, item: Json, place: int) -> Json:
        names = item["actions"].items()
        numbers = item.get("action_ids")
        if numbers is None:
            return self._actions.called(names[place])
        number = numbers.items(len(names))[place]
        action = self._actions.item(number)
        if action["name"].value != names[place].text():
            raise number.fault(
                f"is the id of {action['name'].value}; that of {names[place].value} was expected"
            )
        return action

    def _listed(self, number: Json, uses: list[Use]) -> Use:
        name = self._actions.item(number)["name"].text()
        for use in uses:
            if self._actions.name_in_file(use) == name:
                return use
        raise number.fault(f"is the id of {name}, which is no action of the table")

    def _data(self, entry: Json, use: Use) -> tuple[int, ...]:
        widths = self._actions.data_widths(use)
        given = entry.list("action_data")
        if len(given) != len(widths):
            raise entry.fault(f"has {len(given)} action_data; {use.name} takes {len(widths)}")
        return tuple(map(_cut, given, widths))

    def _before(self, name: str) -> Statements:
        """Return what every action of a table with a direct meter does first: it stores the colour."""
        meter = self._scope.direct_meters.get(name)
        if meter is None:
            return ()
        kind = ir.Bits(meter.target.width_bits)
        primitives = Primitives(self._scope, self._scope.plain)
        return primitives.read_into(
            meter.target, kind, lambda result: ir.CallMethod(meter.name, "read", (result,))
        )

    # Keys and entries

    def _key(self, item: Json) -> ir.Key:
        kind, target = item["match_type"].choice(_KINDS), item["target"]
        if kind == "valid":
            header = self._scope.places.header(target)
            name, compared = f"{target.text()}.$valid$", self._scope.places.validity(header)
            kind = "exact"
        else:
            names = target.items(2)
            name = f"{names[0].text()}.{names[1].text()}"
            compared = self._scope.matched(target)
            mask = item.get("mask")
            if mask is not None:
                assert isinstance(compared.type, ir.Bits)
                bits = mask.hexstr() & ((1 << compared.type.width) - 1)
                compared = ir.Binary("&", compared, ir.Constant(bits, compared.type), compared.type)
        given = item.get("name")
        return ir.Key(name if given is None else given.text(), compared, ir.MatchKind(kind))

    def _table(self, name: str, table: _Table) -> ir.Table:
        item = table.item
        entries = item.list("entries")
        entry = item.get("default_entry")
        consts = [entry.get(key) for key in ("action_const", "action_entry_const")] if entry else []
        meter = self._scope.direct_meters.get(name)
        bound = item.get("direct_meters")
        if bound and (meter is None or bound.text() != meter.name):
            raise bound.fault("is no direct meter that is bound to this table")
        profile, selector_keys = "", tuple[ir.Expression, ...]()
        kind = item["type"].choice(("simple", "indirect", "indirect_ws")) if item.get("type") else "simple"
        if kind != "simple":
            named = item["action_profile"]
            if named.text() not in self._profiles:
                raise named.fault(f"is {named.text()}, which is none of the pipeline's action_profiles")
            profile, selector_keys = self._profiles[named.text()]
            if kind == "indirect_ws" and named.text() not in self._selectors:
                raise named.fault(f"is {profile}, which has no selector; the table's type is indirect_ws")
            if entries:
                raise item["entries"].unsupported("entries in a table with an action profile")
        timeout = item.get("support_timeout")
        return ir.Table(
            name,
            table.keys,
            tuple(
                ir.ActionRef(
                    use.name,
                    self._actions.reference(use),
                    default_only=table.only_default and use is table.uses[-1],
                )
                for use in table.uses
            ),
            ir.ActionCall(table.default.name, table.default_data),
            max(item["max_size"].number(0, MAX_TABLE_SIZE), len(entries), 1),
            any(const is not None and const.flag() for const in consts),
            self._entries(table),
            bool(entries),
            profile=profile,
            selector_keys=selector_keys,
            counter=self._scope.direct_counters.get(name, ""),
            meter=meter.name if meter is not None else "",
            idle_timeout=timeout is not None and timeout.flag(),
        )

    def _entries(self, table: _Table) -> tuple[ir.Entry, ...]:
        """Return the entries that the file gives a table, without those that match nothing."""
        items = table.item.list("entries")
        priorities = [item["priority"].number() if item.get("priority") else 0 for item in items]
        has_priority = any(key.match_kind.has_priority for key in table.keys)
        largest = max(priorities, default=0)
        entries: dict[tuple[tuple[ir.Keyset, ...], int], tuple[int, ir.Entry]] = {}
        for place, (item, priority) in enumerate(zip(items, priorities, strict=True)):
            if any(map(_is_empty, item["match_key"].items())):
                continue
            entry = self._entry(item, table, largest + 1 - priority if has_priority else 0)
            first, _ = entries.setdefault((entry.keysets, entry.priority), (place, entry))
            if first != place:
                raise item.fault(f"matches just what entries[{first}] does")
        return tuple(entry for _, entry in entries.values())

    def _entry(self, item: Json, table: _Table, priority: int) -> ir.Entry:
        matches = item["match_key"].items(len(table.keys))
        keysets = tuple(_keyset(match, key) for match, key in zip(matches, table.keys, strict=True))
        action = item["action_entry"]
        use = self._listed(action["action_id"], table.uses)
        return ir.Entry(keysets, ir.ActionCall(use.name, self._data(action, use)), priority)


def is_made_up(item: Json, actions: Actions) -> bool:
    """Return whether p4c made a table for what a control's body does itself."""
    entry = item.get("default_entry")
    const = entry.get("action_const") if entry is not None else None
    name = item["name"].text()
    return (
        name.startswith(_MADE_UP)
        and "." not in name
        and not item["key"].items()
        and len(item["actions"].items()) == 1
        and entry is not None
        and const is not None
        and const.flag()
        and not actions.item(entry["action_id"]).list("runtime_data")
    )


def _refuse_ranked_prefixes(item: Json, keys: Sequence[ir.Key]) -> None:
    """Refuse a table whose only key without one value is a prefix, and whose entries have priorities all the
    same: p4c never makes one, and here the longest prefix wins.
    """
    given, kinds = item.get("match_type"), [key.match_kind for key in keys]
    is_ranked = any(kind.has_priority for kind in kinds)
    if given is not None and given.value == "ternary" and ir.MatchKind.LPM in kinds and not is_ranked:
        raise given.unsupported("priorities of entries whose keys are lpm and exact")


def _name_of(item: Json | None) -> str | None:
    return None if item is None else item.text()


def _is_empty(item: Json) -> bool:
    """Return whether an entry's match is a range of no values."""
    is_range = item["match_type"].value == "range"
    return is_range and item["start"].unsigned_hexstr() > item["end"].unsigned_hexstr()


def _keyset(item: Json, key: ir.Key) -> ir.Keyset:
    """Return what an entry's match means."""
    kind = item["match_type"].choice(_KINDS)
    wanted = "exact" if kind == "valid" else kind
    if wanted != key.match_kind.value:
        raise item["match_type"].fault(f"is {kind}; key {key.name} is {key.match_kind.value}")
    width = key.expression.type.width if isinstance(key.expression.type, ir.Bits) else 1
    ones = (1 << width) - 1

    def number(part: str) -> int:
        value = item[part].unsigned_hexstr()
        if value > ones:
            raise item[part].fault(f"is {item[part].value}, which key {key.name} of {width} bits cannot be")
        return value

    match kind:
        case "valid":
            return ir.KeyMask(int(item["key"].flag()), 1)
        case "exact":
            return ir.KeyMask(number("key"), ones)
        case "lpm":
            prefix = item["prefix_length"].number(0, width)
            mask = ones ^ (ones >> prefix)
            return ir.KeyMask(number("key") & mask, mask)
        case "range":
            return ir.KeyRange(number("start"), number("end"))
    mask = number("mask")
    return ir.KeyMask(number("key") & mask, mask) if mask else ir.KeyAny()


def _cut(value: Json, width_bits: int) -> int:
    """Return a number of action data, that below 0 in two's complement. Raises: Bmv2Error."""
    number = value.hexstr()
    if not -(1 << width_bits) <= 2 * number < 1 << width_bits + 1:
        raise value.fault(f"is {value.value}, which is no number of {counted(width_bits, 'bit')}")
    return number & ((1 << width_bits) - 1)
