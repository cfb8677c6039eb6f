# SPDX-License-Identifier: Apache-2.0
"""Clone sessions, multicast groups and their nodes, as a script makes them step by step.

The engine takes the whole of each; a session that sends to a group follows every change of the group.
Source: p4lang/behavioral-model, `runtime_CLI`, commands mirroring_ and mc_.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from nicemu.p4 import Location
from nicemu.pipeline import DROP_PORT, CloneSession, Objects, Replica

from .commands import (
    GroupCreate,
    MirrorAdd,
    MirrorDelete,
    MirrorRead,
    NodeAssociate,
    NodeCreate,
    NodeUpdate,
)
from .line_reader import fault

_LAST_PORT = DROP_PORT
"""Ports have 9 bits. Source: v1model.p4, PortId_t."""
_LAST_NUMBER = 0xFFFF


@dataclass(slots=True, eq=False)
class _Node:
    rid: int
    ports: tuple[int, ...]


@dataclass(slots=True, eq=False)
class Replication:
    """What a script has made so far; every change reaches `objects` at once."""

    objects: Objects
    _nodes: list[_Node] = field(default_factory=list)
    _groups: dict[int, list[int]] = field(default_factory=dict)
    _sessions: dict[int, MirrorAdd] = field(default_factory=dict)

    def change(
        self, command: MirrorAdd | MirrorDelete | GroupCreate | NodeCreate | NodeAssociate | NodeUpdate
    ) -> None:
        """Do what one command says.

        Raises: ScriptError if a group, node or session is not there, or can never be.
        """
        match command:
            case MirrorAdd():
                _require(command.location, "session", command.session, 0, _LAST_NUMBER)
                what, last = ("multicast group", _LAST_NUMBER) if command.is_group else ("port", _LAST_PORT)
                _require(command.location, what, command.target, int(command.is_group), last)
                self._sessions[command.session] = command
            case MirrorDelete():
                del self._sessions[self._known_session(command)]
            case GroupCreate():
                _require(command.location, "multicast group", command.group, 1, _LAST_NUMBER)
                if command.group in self._groups:
                    raise fault(command.location, f"multicast group {command.group} is there already")
                self._groups[command.group] = []
            case NodeCreate():
                _require(command.location, "rid", command.rid, 0, _LAST_NUMBER)
                _require_ports(command)
                self._nodes.append(_Node(command.rid, _each_once(command.ports)))
            case NodeAssociate():
                if command.group not in self._groups:
                    raise fault(
                        command.location,
                        f"there is no multicast group {command.group}",
                        f"write mc_mgrp_create {command.group} before",
                    )
                if self._known_node(command) not in self._groups[command.group]:
                    self._groups[command.group].append(command.node)
            case NodeUpdate():
                _require_ports(command)
                self._nodes[self._known_node(command)].ports = _each_once(command.ports)
        self._publish()

    def told(self, command: MirrorRead) -> str:
        """Say where a session sends. Raises: ScriptError if there is none."""
        session = self._sessions[self._known_session(command)]
        return f"{'multicast group' if session.is_group else 'port'} {session.target}"

    def _known_session(self, command: MirrorDelete | MirrorRead) -> int:
        if command.session not in self._sessions:
            raise fault(command.location, f"there is no session {command.session}")
        return command.session

    def _known_node(self, command: NodeAssociate | NodeUpdate) -> int:
        if not 0 <= command.node < len(self._nodes):
            raise fault(
                command.location,
                f"there is no node {command.node}; {len(self._nodes)} were created, numbered from 0",
            )
        return command.node

    def _publish(self) -> None:
        groups = {
            group: tuple(
                Replica(port, self._nodes[node].rid) for node in nodes for port in self._nodes[node].ports
            )
            for group, nodes in self._groups.items()
        }
        sessions = {
            number: CloneSession(
                groups.get(session.target, ()) if session.is_group else (Replica(session.target),)
            )
            for number, session in self._sessions.items()
        }
        for number in self.objects.multicast_groups.keys() | groups.keys():
            self.objects.hold_group(number, groups.get(number))
        for number in self.objects.clone_sessions.keys() | sessions.keys():
            self.objects.hold_session(number, sessions.get(number))


def _require(location: Location, what: str, number: int, least: int, most: int) -> None:
    """Raises: ScriptError for a number out of bounds."""
    if not least <= number <= most:
        raise fault(location, f"there can be no {what} {number}; {least} to {most} was expected")


def _each_once(ports: tuple[int, ...]) -> tuple[int, ...]:
    """Return ports without those that stand there again: a node sends one copy by each."""
    return tuple(dict.fromkeys(ports))


def _require_ports(command: NodeCreate | NodeUpdate) -> None:
    for port in command.ports:
        _require(command.location, "port", port, 0, _LAST_PORT)
