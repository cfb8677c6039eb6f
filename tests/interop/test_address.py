# SPDX-License-Identifier: Apache-2.0
"""The kernel in the guest finds our address by ARP, and pings it."""

from __future__ import annotations

import pytest

from nicemu.fabric import GuestTimeoutError

from .conftest import Machine
from .world import OUR_IP, World

pytestmark = [pytest.mark.interop, pytest.mark.slow]


def test_the_guest_s_kernel_finds_and_pings_our_address(machine: Machine, world: World) -> None:
    ping = machine.guest.start(f"ip neighbour flush all; busybox ping -c 3 -i 0.1 -s 3000 {OUR_IP}")

    def ended() -> bool:
        try:
            ping.expect(r"(\d+)% packet loss", timeout_s=0)
        except GuestTimeoutError:
            return False
        return True

    world.run_until(ended, "the ping")
    assert " 0% packet loss" in ping.output
    assert machine.guest.run(f"ip neighbour show {OUR_IP}").output.split()[4] == world.mac.hex(":")
