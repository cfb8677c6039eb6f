# SPDX-License-Identifier: Apache-2.0
"""Entries are written while packets match them in compiled code: each sees an old one or a new one, whole."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from nicemu.control import P4RuntimeClient, P4RuntimeServer, Update
from nicemu.hot import JIT
from nicemu.pipeline import Exact, TableEntry
from nicemu.programs import load_module

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off"),
]
FLOWS = 512


def test_packets_see_an_entry_before_or_after_each_write(tmp_path: Path) -> None:
    bench = load_module(Path(__file__).parents[2] / "benchmarks" / "p4runtime.py")
    engine = bench.match_action.engine_of("h.kv.session: exact;", 4_096)
    chance = random.Random(1)
    flows = [chance.getrandbits(128) for _ in range(FLOWS)]
    (port, address), source = bench.VERSIONS[0], 2
    for flow in flows:
        engine.insert("t", TableEntry((Exact(flow),), "forward", (port, address, source)))
    sessions = np.array([[flow >> 64, flow & (1 << 64) - 1] for flow in flows], np.uint64)

    def updates(kind: str, keys: list[int], version: tuple[int, int]) -> list[Update]:
        data = {"port": version[0], "destination": version[1], "source": source}
        return [Update(kind, "t", {"session": key}, "forward", data) for key in keys]

    others = [chance.getrandbits(128) for _ in range(3_000)]
    traffic = bench.Traffic(engine, sessions)
    with (
        P4RuntimeServer({1: engine}, f"unix:{tmp_path}/nic.sock"),
        P4RuntimeClient(f"unix:{tmp_path}/nic.sock") as client,
    ):
        traffic.start()
        try:
            client.write(updates("insert", others, bench.VERSIONS[0]))
            for version in (*bench.VERSIONS[::-1], bench.VERSIONS[1]):
                client.write(updates("modify", flows, version))
            client.write([Update("delete", "t", {"session": key}) for key in others])
        finally:
            traffic.stop()
    assert (traffic.lost, traffic.wrong) == (0, 0)
    assert traffic.packets > 0
    port, address = bench.VERSIONS[1]
    assert {row.entry.parameters for row in engine.table("t").rows()} == {(port, address, source)}
    assert sum(row.hits for row in engine.table("t").rows()) <= traffic.packets
