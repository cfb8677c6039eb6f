# SPDX-License-Identifier: Apache-2.0
"""Messages on the control channels of NIC processes: one JSON object each, with descriptors beside it."""

from __future__ import annotations

import json
import os
import socket
from typing import Any

from nicemu.errors import ProtocolError

MESSAGE_BYTES = 1 << 18
MAX_FDS = 250


def send(link: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    """Send one message. Raises: OSError if the other side is gone."""
    socket.send_fds(link, [json.dumps(message).encode()], fds)


def receive(link: socket.socket) -> tuple[dict[str, Any], list[int]] | None:
    """Return the next message and its descriptors; None when the other side has closed.

    Raises: ProtocolError for anything that is no JSON object.
    """
    data, fds, _, _ = socket.recv_fds(link, MESSAGE_BYTES, MAX_FDS)
    if not data:
        return None
    try:
        message = json.loads(data)
    except (ValueError, RecursionError) as error:
        message = error
    if not isinstance(message, dict):
        for fd in fds:
            os.close(fd)
        raise ProtocolError(f"a control message is no JSON object: {data[:80]!r}")
    return message, fds
