# SPDX-License-Identifier: Apache-2.0
"""A NIC with a host process and a scripted firmware, and a peer NIC whose firmware does what immediates
say.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nicemu.abi import Limits
from nicemu.fabric import FaultRates
from nicemu.firmware import load_firmware
from nicemu.host import Nic
from nicemu.kv import Request
from nicemu.nic import NicConfig, SmartNic
from nicemu.p4 import compile_program
from nicemu.programs import find_program
from nicemu.run import SimulatedConnection, Simulation
from nicemu.wire import ETHERTYPE_IPV4, Ethernet, encode_udp_frame

LIMITS = Limits(counter_count=48, slot_count=128)
SESSION = b"s" * 16
HOST_IP, PEER_IP, USER_IP = bytes((127, 0, 1, 1)), bytes((127, 0, 1, 2)), bytes((127, 0, 1, 9))

SERVICE = """
from nicemu.errors import NicemuError
from nicemu.firmware import Arrival, Connection, Nic, on_arrival, on_connect

buffers = {}

@on_connect
def grant(nic: Nic, connection: Connection) -> dict[str, int]:
    buffer = buffers[connection.qp_num] = nic.allocate(8192, remote=True)
    return {"address": buffer.address, "length_bytes": buffer.length_bytes, "rkey": buffer.key}

@on_arrival
async def echo(nic: Nic, arrival: Arrival) -> None:
    nic.count("echo")
    await nic.rdma_write(arrival.qp_num, buffers[arrival.qp_num], 0, 0, 0, 0, arrival.imm_data)
"""
"""Echoes every immediate, so that a test decides which counter of its own NIC a peer names."""


@cache
def kvmatch() -> Any:  # noqa: ANN401 - the compiled program
    return compile_program(find_program("p4/kvmatch.p4")).program


def request_frame(payload: bytes | None = None) -> bytes:
    """A user's request for SESSION as a frame, or any other payload from the same place."""
    ethernet = Ethernet(b"\x02\x00" + HOST_IP, b"\x02\x00" + USER_IP, ETHERTYPE_IPV4)
    data = Request(7, SESSION, b"And then?").encode() if payload is None else payload
    return encode_udp_frame(ethernet, USER_IP, HOST_IP, 5555, 19286, data)


class Bench:
    """NIC "here" (kvmatch; `SESSION` posts kv_follow_up) and NIC "there" (SERVICE), and a host process at
    "here".
    """

    def __init__(
        self,
        folder: Path,
        transport: str = "direct",
        *,
        compiled: bool = False,
        guard: Callable[[], Any] | None = None,
        depth: int = 256,
    ) -> None:
        self.folder = folder
        configs = [
            NicConfig(
                name,
                ".".join(map(str, ip)),
                number,
                1 << 20,
                limits=LIMITS,
                transport=transport,
                event_queue_depth=depth,
            )
            for number, (name, ip) in enumerate((("here", HOST_IP), ("there", PEER_IP)))
        ]
        self.simulation = Simulation(configs, compiled=compiled, faults=FaultRates() if guard else None)
        self.here: SmartNic = self.simulation.nics["here"]
        self.there: SmartNic = self.simulation.nics["there"]
        if guard is not None:
            self.here.scheduler.guard = guard
        self.here.pipeline.load(kvmatch())
        self.flash("there", SERVICE)
        self.connection, self.nic = self.open()

    def open(self) -> tuple[SimulatedConnection, Nic]:
        """Let a host process in at "here"."""
        connection = self.simulation.open_nic("here")
        return connection, Nic(connection)

    def flash(self, nic: str, source: str) -> None:
        """Load firmware from its source."""
        script = self.folder / f"{nic}.py"
        script.write_text(source)
        device = self.simulation.nics[nic]
        device.load_firmware(load_firmware(script), self.simulation.clock.now_ns())

    def handle_follow_ups(self, body: str) -> None:
        """Let SESSION's requests start a coroutine `(nic, event)` with this body; the host listens."""
        lines = "\n".join("    " + line for line in body.splitlines())
        self.flash("here", FOLLOW_UP.format(lines=lines))
        (hits,) = self.nic.counters("hits")
        self.connection.insert(
            "session",
            {"session": int.from_bytes(SESSION, "big")},
            "fetch_session",
            {"manifest_address": 0, "manifest_bytes": 0, "hits_counter": hits.index},
        )
        self.nic.listen()

    def arrive(self, *frames: bytes) -> None:
        """Let frames arrive at "here" now."""
        self.here.on_frames(frames, self.simulation.clock.now_ns())

    def offer_slot(self, index: int = 0) -> int:
        """Put a landing slot on the ring; return its key."""
        span = self.nic.register(self.nic.allocate((4096,), np.uint8))
        return self.nic.post_landing(index, span).key

    def drops(self, nic: str = "here") -> dict[str, int]:
        """What was counted under a name."""
        return {name: count for name, count in self.simulation.nics[nic].drops.items() if count}


FOLLOW_UP = """
from nicemu.firmware import Event, Mailbox, Nic, on_event

@on_event("kv_follow_up")
async def handler(nic: Nic, event: Event) -> None:
{lines}
"""


@pytest.fixture
def make_bench(tmp_path: Path) -> Callable[..., Bench]:
    def make(transport: str = "direct", **options: Any) -> Bench:  # noqa: ANN401
        return Bench(tmp_path, transport, **options)

    return make


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    return make_bench()
