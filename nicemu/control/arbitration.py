# SPDX-License-Identifier: Apache-2.0
"""Client arbitration: which of a device's sessions is primary for a role, and whom to tell when that changes.

No I/O: every call returns the notices to send, in order; the caller sends them and serialises the calls.
Source: P4Runtime Specification 1.4, "Client Arbitration and Controller Replication".
"""

from __future__ import annotations

import secrets
from collections.abc import Hashable
from dataclasses import dataclass, field

from nicemu.errors import ControlError, P4RuntimeCode

DEFAULT_ROLE = ""
MAX_ROLES = 64
"""Roles beside the default one that a device remembers, each with its highest election id. With one more,
that is forgotten which nobody has had for longest.
"""
_PASSING = "nicemu:"
"""What the names of passing roles begin with."""
_PASSING_BYTES = 8


def passing_role() -> str:
    """Return a role for one client that comes and goes: nobody has had it, so it takes nobody's place, and a
    device forgets it with its session, so it takes no room from roles that come again.
    """
    return _PASSING + secrets.token_hex(_PASSING_BYTES)


@dataclass(frozen=True, slots=True)
class Notice:
    """What one session is told: `status` is OK, ALREADY_EXISTS (another is) or NOT_FOUND (nobody is)."""

    session: Hashable
    role: str
    election_id: int | None
    status: P4RuntimeCode
    sentence: str


@dataclass(slots=True)
class _RoleState:
    highest: int | None = None
    primary: Hashable | None = None
    sessions: dict[Hashable, int | None] = field(default_factory=dict)


class Arbitration:
    """The sessions of one device, by role. Election ids are 128-bit integers; None never becomes primary."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id
        self._roles: dict[str, _RoleState] = {}
        self._role_of: dict[Hashable, str] = {}

    def announce(self, session: Hashable, role: str, election_id: int | None) -> list[Notice]:
        """Take a session's claim, its first or a later one, and return whom to tell what.

        Raises: ControlError, which ends the session's stream and changes nothing: INVALID_ARGUMENT for an
        election id that another live session has, FAILED_PRECONDITION for another role than before,
        RESOURCE_EXHAUSTED for one role too many.
        """
        known_role = self._role_of.get(session, role)
        if known_role != role:
            raise ControlError(
                P4RuntimeCode.FAILED_PRECONDITION,
                f"this stream has {_named(known_role)}; close it and open another to take {_named(role)}",
            )
        state = self._roles.get(role)
        if state is None:
            self._make_room(role)
            state = self._roles[role] = _RoleState()
        for other, other_id in state.sessions.items():
            if election_id is not None and other_id == election_id and other != session:
                raise ControlError(
                    P4RuntimeCode.INVALID_ARGUMENT,
                    f"election id {election_id} of {_named(role)} on device {self.device_id} belongs to "
                    "another live stream; choose one that nobody uses",
                )
        self._role_of[session] = role
        state.sessions[session] = election_id
        if election_id is not None and (state.highest is None or election_id >= state.highest):
            state.highest, state.primary = election_id, session
            return self._tell(role, [other for other in state.sessions if other != session] + [session])
        if state.primary == session:
            state.primary = None
            return self._tell(role, list(state.sessions))
        return self._tell(role, [session])

    def leave(self, session: Hashable) -> list[Notice]:
        """Forget a session whose stream has ended; return whom to tell what.

        Unknown sessions are no error.
        """
        role = self._role_of.pop(session, None)
        if role is None:
            return []
        state = self._roles[role] = self._roles.pop(role)  # the last that was left stands last
        del state.sessions[session]
        if role.startswith(_PASSING) and not state.sessions:
            del self._roles[role]
            return []
        if state.primary != session:
            return []
        state.primary = None
        return self._tell(role, list(state.sessions))

    def _make_room(self, role: str) -> None:
        """Have room for a role. Raises: ControlError if sessions have all that there may be."""
        others = [name for name in self._roles if name != DEFAULT_ROLE]
        if role == DEFAULT_ROLE or len(others) < MAX_ROLES:
            return
        free = next((name for name in others if not self._roles[name].sessions), None)
        if free is None:
            raise ControlError(
                P4RuntimeCode.RESOURCE_EXHAUSTED,
                f"device {self.device_id} has {MAX_ROLES} roles already: {self._known_roles()}; "
                "use one of them",
            )
        del self._roles[free]

    def primaries(self) -> list[Hashable]:
        """Return the primary session of every role that has one."""
        return [state.primary for state in self._roles.values() if state.primary is not None]

    def require_primary(self, role: str, election_id: int | None) -> None:
        """Return if a request with this role and election id comes from the role's primary.

        Raises: ControlError: NOT_FOUND for a role that nobody has taken yet, PERMISSION_DENIED otherwise.
        """
        state = self._roles.get(role)
        if state is None:
            if role == DEFAULT_ROLE:
                raise self._denied(
                    role, election_id, "nobody is; open a StreamChannel and send an arbitration first"
                )
            raise ControlError(
                P4RuntimeCode.NOT_FOUND,
                f"device {self.device_id} has no {_named(role)}; it has {self._known_roles() or 'none'}",
            )
        if state.primary is None:
            least = "" if state.highest is None else f" of at least {state.highest}"
            raise self._denied(role, election_id, f"nobody is; arbitrate with an id{least}")
        if election_id is None or election_id != state.highest:
            raise self._denied(role, election_id, f"election id {state.highest} is")

    def _known_roles(self) -> str:
        return ", ".join(map(_named, self._roles))

    def _denied(self, role: str, election_id: int | None, who: str) -> ControlError:
        shown = "a request without election id" if election_id is None else f"election id {election_id}"
        return ControlError(
            P4RuntimeCode.PERMISSION_DENIED,
            f"{shown} is not the primary of {_named(role)} on device {self.device_id}: {who}",
        )

    def _tell(self, role: str, sessions: list[Hashable]) -> list[Notice]:
        state = self._roles[role]
        notices = []
        for session in sessions:
            if session == state.primary:
                status, sentence = P4RuntimeCode.OK, "you are the primary"
            elif state.primary is not None:
                status, sentence = P4RuntimeCode.ALREADY_EXISTS, f"election id {state.highest} is the primary"
            else:
                status, sentence = P4RuntimeCode.NOT_FOUND, "there is no primary"
            notices.append(Notice(session, role, state.highest, status, sentence))
        return notices


def _named(role: str) -> str:
    return f"role {role!r}" if role else "the default role"
