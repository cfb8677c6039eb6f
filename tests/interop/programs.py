# SPDX-License-Identifier: Apache-2.0
"""Programs in the guest, while a NIC of ours serves them."""

from __future__ import annotations

import time

from nicemu.fabric import Guest, GuestResult
from nicemu.testing import PeerServer

LIMIT_S = 60.0
LINGER_S = 0.3


def serve_while(
    server: PeerServer, guest: Guest, *commands: str, limit_s: float = LIMIT_S
) -> list[GuestResult]:
    """Run commands in a guest, all at once, and serve until the last has ended."""
    processes = [guest.start(command) for command in commands]
    end = time.monotonic() + limit_s

    def are_over() -> bool:
        assert time.monotonic() < end, f"{commands} still run: {[one.output for one in processes]}"
        return all([process.poll() is not None for process in processes])

    server.run(are_over)
    lingers_until = time.monotonic() + LINGER_S
    server.run(lambda: time.monotonic() > lingers_until)
    return [process.wait() for process in processes]
