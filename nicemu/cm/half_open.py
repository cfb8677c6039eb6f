# SPDX-License-Identifier: Apache-2.0
"""Requests that are not through yet: who makes room where there are too many of them.

A peer takes room from those alone that have more than it would have, so that one that floods us with requests
is refused itself, or loses its oldest one to a peer that asks for its first.
Source: Bertsekas and Gallager, "Data Networks", "Max-Min Flow Control".
"""

from __future__ import annotations

from collections.abc import Iterable

from .connection import Connection
from .state import CmState

HALF_OPEN = frozenset({CmState.REQ_RCVD, CmState.REP_SENT})
"""A peer has asked, and has not confirmed our answer."""


def who_makes_room(half_open: Iterable[Connection], asker_ip: str | None) -> Connection | None:
    """Return the oldest of the connections of the peer that has the most of them, oldest first.

    None if whoever asks (we ourselves: None) would then have as many as that peer, or more.
    """
    of_peers: dict[str, list[Connection]] = {}
    for connection in half_open:
        of_peers.setdefault(connection.peer.ip, []).append(connection)
    most = max(of_peers.values(), key=len, default=[])
    would_have = 1 + (0 if asker_ip is None else len(of_peers.get(asker_ip, ())))
    return most[0] if len(most) > would_have else None
