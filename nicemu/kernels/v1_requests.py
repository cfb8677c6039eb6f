# SPDX-License-Identifier: Apache-2.0
"""What a v1model program may ask for a packet in a kernel: copies, another round, to be cut.

The last request of each kind counts, and the shortest truncation. Here they are only noted; the traffic
manager is `nicemu.pipeline`'s.
"""

from __future__ import annotations

from typing import Any

from nicemu.pipeline import Program, ir, nodes_of

from .externs import Call
from .paths import own_path
from .places import INDEX, Number, Place
from .shared_externs import SharedExterns
from .writes import targets_in

CLONES = ("clone_of_ingress", "clone_of_egress")
REQUESTS = (
    *(f"{name}{part}" for name in CLONES for part in ("", ".session", ".list")),
    *("resubmit", "resubmit.list", "recirculate", "recirculate.list", "truncate", "truncate.bytes"),
)
"""Numbers of 32 bits: whether there is a request, and what it says. A clone is asked for with or without a
list.
"""
ASKED, WITH_LIST = 1, 2
_STANDARD = ir.Named("standard_metadata_t")
_CALLS = (
    ir.CallFunction,
    ir.CallRoutine,
    ir.Call,
    ir.CallAction,
    ir.ApplyTable,
    ir.SwitchAction,
    ir.TableApply,
)
_AGAIN = ("clone", "clone_preserving_field_list", "resubmit_preserving_field_list")
RECIRCULATE = "recirculate_preserving_field_list"


class V1Requests(SharedExterns):
    """Notes requests."""

    def request_calls(self) -> dict[str, Call]:
        """Return what calls that ask for something make."""
        return {
            "clone": self._clone,
            "clone_preserving_field_list": self._clone,
            "resubmit_preserving_field_list": self._asks("resubmit", "resubmit.list"),
            RECIRCULATE: self._asks("recirculate", "recirculate.list"),
            "truncate": self._truncate,
        }

    def request(self, name: str) -> Any:  # noqa: ANN401
        """Return the address of one of `REQUESTS` (i32)."""
        return self.places.slot(Place(own_path(f"request.{name}"), ir.Bits(32)), self.builder)

    def asks(self, name: str) -> Number:
        """Return whether there is a request, as i1."""
        return self.builder.icmp_unsigned("!=", self.builder.load(self.request(name)), INDEX(0))

    def forget_requests(self) -> None:
        """Say that nothing was asked for."""
        for name in REQUESTS:
            self.builder.store(INDEX(0), self.request(name))

    def _asks(self, name: str, field: str) -> Call:
        def make(instance: str, arguments: tuple[ir.Expression, ...]) -> None:
            given = self.resized(self.value(arguments[0]), arguments[0].type, ir.Bits(32))
            self.builder.store(INDEX(ASKED), self.request(name))
            self.builder.store(given, self.request(field))

        return make

    def _truncate(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        given = self.resized(self.value(arguments[0]), arguments[0].type, ir.Bits(32))
        slot = self.request("truncate.bytes")
        before = self.builder.load(slot)
        is_shorter = self.builder.icmp_unsigned("<", before, given)
        stays = self.builder.and_(self.asks("truncate"), is_shorter)
        self.builder.store(self.builder.select(stays, before, given), slot)
        self.builder.store(INDEX(ASKED), self.request("truncate"))

    def _clone(self, instance: str, arguments: tuple[ir.Expression, ...]) -> None:
        kind, *given = (
            self.resized(self.value(argument), argument.type, ir.Bits(32)) for argument in arguments
        )
        session, kept = given if len(given) > 1 else (given[0], INDEX(0))
        asked = INDEX(WITH_LIST if len(given) > 1 else ASKED)
        for number, name in enumerate(CLONES):
            is_it = self.builder.icmp_unsigned("==", kind, kind.type(number))
            for part, value in (("", asked), (".session", session), (".list", kept)):
                slot = self.request(name + part)
                self.builder.store(self.builder.select(is_it, value, self.builder.load(slot)), slot)


def makes_copies(program: Program) -> bool:
    """Return whether a packet of a program may become several, or come again."""
    return sets_multicast_group(program) or _calls(program, program, (*_AGAIN, RECIRCULATE))


def recirculates_late(program: Program) -> bool:
    """Return whether a packet may be sent round again when egress has ended."""
    return any(_calls(program, control.body, (RECIRCULATE,)) for control in program.controls[3:])


def comes_again(program: Program) -> bool:
    """Return whether a packet of a program may come again."""
    return _calls(program, program, (_AGAIN[-1], RECIRCULATE))


def clones_behind_egress(program: Program) -> bool:
    """Return whether a packet of a program may be cloned when egress has ended, and its clone, too."""
    clones = (node for node in nodes_of(program, ir.CallFunction) if node.function in _AGAIN[:-1])
    of_ingress = ir.Constant(0, ir.Bits(32))
    return any(node.arguments[0] != of_ingress for node in clones)


def digests_at_first(program: Program) -> bool:
    """Return whether all digests of a packet are posted before the traffic manager has it."""
    if not _calls(program, program, ("digest",)):
        return True
    later = (program.parser, *(control.body for control in program.controls[2:]))
    return not any(_calls(program, part, ("digest",)) for part in later) and not comes_again(program)


def sets_multicast_group(program: Program) -> bool:
    """Return whether a program sets the multicast group itself, alone or with all that stands beside it."""
    made = nodes_of(program, ir.StructValue, ir.Lookahead, ir.ExternValue)
    given = (argument for call in nodes_of(program, ir.CallMethod) for argument in call.arguments)
    if any(node.type == _STANDARD for node in (*made, *given)):
        return True
    for target in targets_in(program):
        node = target
        while isinstance(node, ir.Member | ir.Slice):
            if isinstance(node, ir.Member) and node.field == "mcast_grp":
                return True
            node = node.base
    return False


def _calls(program: Program, start: object, names: tuple[str, ...]) -> bool:
    """Return whether a part of a program calls one of some functions of the architecture."""
    routines = {item.name: item.body for item in program.functions}
    actions = {item.name: item.body for item in program.actions}
    tables = {item.name: item for item in program.tables}
    seen: set[tuple[bool, str]] = set()  # a table may have the name of an action
    pending: list[object] = [start]
    while pending:
        for node in nodes_of(pending.pop(), *_CALLS):
            match node:
                case ir.CallFunction(name, _):
                    if name in names:
                        return True
                    continue
                case ir.CallRoutine(name, _) | ir.Call(name, _, _):
                    further: object = routines[name]
                case ir.CallAction(name, _):
                    further = actions[name]
                case ir.ApplyTable(name) | ir.SwitchAction(name, _) | ir.TableApply(name):
                    table = tables[name]
                    run = tuple((ref.arguments, actions[ref.action]) for ref in table.actions)
                    further = (table.keys, table.selector_keys, run)
            called = isinstance(node, ir.ApplyTable | ir.SwitchAction | ir.TableApply), name
            if called not in seen:
                seen.add(called)
                pending.append(further)
    return False
