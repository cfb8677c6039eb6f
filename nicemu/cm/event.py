# SPDX-License-Identifier: Apache-2.0
"""What happens to connections, as an application hears of it.

Source: rdma_get_cm_event(3), whose names these are.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .connection import Connection


class CmEventKind(enum.Enum):
    """What happened. After one of ENDS nothing more is heard of the connection."""

    CONNECT_REQUEST = "a peer asks for a connection: accept or reject it"
    CONNECT_RESPONSE = "the peer accepts: confirm or reject it"
    ESTABLISHED = "the connection is there"
    DISCONNECTED = "the connection is gone, by whoever's wish"
    TIMEWAIT_EXIT = "nothing of the connection is on its way any more"
    REJECTED = "the peer refuses, or gives up"
    UNREACHABLE = "the peer does not answer in time, or its request has made room for another one"


ENDS = frozenset({CmEventKind.TIMEWAIT_EXIT, CmEventKind.REJECTED, CmEventKind.UNREACHABLE})


@dataclass(frozen=True, slots=True)
class CmEvent:
    """Something that happened to a connection.

    `private_data` is the peer's, of a REQ, REP, REJ, RTU or DREQ, and as long as the message has room (zeros
    behind what the peer said); `reason` is that of a REJ, the peer's or ours.
    """

    kind: CmEventKind
    connection: Connection
    private_data: bytes = b""
    reason: int = 0
