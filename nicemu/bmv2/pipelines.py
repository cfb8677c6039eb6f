# SPDX-License-Identifier: Apache-2.0
"""Pipelines: graphs of tables, conditionals and calls of actions.

Source: p4lang/behavioral-model, "BMv2 JSON input format", "pipelines".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from nicemu.pipeline import ir

from .actions import Actions, Use, branch
from .document import Json
from .graph import COUNTED, Statements, Step, statements_of
from .scope import Scope
from .tables import MISS, Tables, is_made_up

ROLES = ("ingress", "egress")


class Pipelines:
    """Translates both pipelines, and with them all tables and actions."""

    def __init__(self, document: Json, scope: Scope) -> None:
        self._scope = scope
        self._actions = Actions(document, scope)
        self._tables = Tables(scope, self._actions)
        listed = document["pipelines"].items()
        found = {item["name"].choice(ROLES): item for item in listed}
        if len(found) != len(ROLES) or len(listed) != len(ROLES):
            raise document["pipelines"].fault("was expected to hold an ingress and an egress")
        self._pipelines = [found[role] for role in ROLES]
        made_up = [
            table for item in listed for table in item.list("tables") if is_made_up(table, self._actions)
        ]
        self._made_up = {table.path for table in made_up}
        self._listed: set[str] = set()
        self._unseen = self._unseen_actions(listed)
        self._calls: dict[str, Use] = {}
        for item in self._pipelines:
            self._tables.profiles(item)
            for table in item.list("tables"):
                if table.path not in self._made_up:
                    self._tables.read(table)
        for item in self._pipelines:
            for table in item.list("tables"):
                if table.path in self._made_up:
                    self._call(table["default_entry"]["action_id"])
            for call in item.list("action_calls"):
                self._call(call["action_id"])
        used = {use.name for use in self._calls.values()} | self._listed
        for action in self._actions.items():
            if action.path not in self._unseen and action["name"].text() not in used:
                self._actions.use(action)  # nothing runs it, and the control plane sees it all the same

    @property
    def actions(self) -> tuple[ir.Action, ...]:
        """The actions that the control plane sees."""
        return self._actions.translated()

    @property
    def tables(self) -> tuple[ir.Table, ...]:
        """The tables that the control plane sees."""
        return self._tables.translated()

    def controls(self) -> tuple[Statements, Statements]:
        """Return what ingress and egress do."""
        ingress, egress = self._pipelines
        return self._body(ingress), self._body(egress)

    def _body(self, item: Json) -> Statements:
        steps: dict[str, Step] = {}
        places: list[tuple[Json, Callable[[Json], Step]]] = [
            *((table, self._table_step) for table in item.list("tables")),
            *((conditional, self._conditional) for conditional in item.list("conditionals")),
            *((call, self._action_call) for call in item.list("action_calls")),
        ]
        for node, step in places:
            name = node["name"].text()
            if name in steps:
                raise node["name"].fault(f"is {name}, which stands there twice")
            steps[name] = step(node)
        for node, _ in places:
            for successor in steps[node["name"].text()].successors:
                if successor is not None and successor not in steps:
                    raise node.fault(f"leads to {successor}, which is nothing in {item['name'].value}")
        first = item.get("init_table")
        if first is not None and first.text() not in steps:
            raise first.fault(f"is {first.text()}, which is nothing in {item['name'].value}")
        upcoming = self._scope.variable(f"{item['name'].text()}.$next", COUNTED)
        return statements_of(steps, None if first is None else first.text(), upcoming)

    # Steps

    def _table_step(self, item: Json) -> Step:
        if item.path not in self._made_up:
            return self._tables.step(item)
        ways = dict(item["next_tables"].members())
        base = Json(item.value.get("base_default_next"), f"{item.path}.base_default_next", item.name)
        way = ways.get(MISS, ways.get(item["actions"].items()[0].text(), base))
        following = None if way.value is None else way.text()
        own = self._called(item["default_entry"]["action_id"])
        return Step((following,), lambda go_on: (*own, *go_on(following)))

    def _conditional(self, item: Json) -> Step:
        condition = self._scope.plain.truth(item["expression"])
        ways = [item.get(key) for key in ("true_next", "false_next")]
        yes, no = (None if way is None else way.text() for way in ways)
        return Step((yes, no), lambda go_on: branch(condition, go_on(yes), go_on(no)))

    def _action_call(self, item: Json) -> Step:
        way = item.get("next_node")
        following = None if way is None else way.text()
        own = self._called(item["action_id"])
        return Step((following,), lambda go_on: (*own, *go_on(following)))

    # Actions called by no table of the program

    def _call(self, number: Json) -> None:
        action = self._actions.item(number)
        if action.list("runtime_data"):
            raise number.fault(f"is the id of {action['name'].value}, which takes action data")
        if action.path not in self._unseen:
            self._calls[action.path] = self._actions.use(action)

    def _called(self, number: Json) -> Statements:
        action = self._actions.item(number)
        if action.path in self._unseen:
            return self._actions.body(action)
        use = self._calls[action.path]
        return (ir.CallAction(use.name, self._actions.reference(use)),)

    def _unseen_actions(self, pipelines: list[Json]) -> set[str]:
        """Return the actions that p4c made up: each is that of one made-up table, and its name in no
        control.
        """
        made: Counter[str] = Counter()
        for item in pipelines:
            for table in item.list("tables"):
                if table.path in self._made_up:
                    made[self._actions.item(table["default_entry"]["action_id"]).path] += 1
                else:
                    self._listed |= {name.text() for name in table["actions"].items()}
            for call in item.list("action_calls"):
                self._listed.add(self._actions.item(call["action_id"])["name"].text())
        return {
            action.path
            for action in self._actions.items()
            if made[action.path] == 1
            and "." not in action["name"].text()
            and action["name"].text() not in self._listed
        }
