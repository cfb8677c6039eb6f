# SPDX-License-Identifier: Apache-2.0
"""Writes through P4Runtime into the table of a program that takes a million packets a second meanwhile.

The server and a thread with packets are one process, the client another, joined by a socket file. The thread
takes batches through the kernel at the pace of a million packets a second, and looks at every packet: one
that does not leave is lost; one that leaves by the port of one version of its entry with the address of the
other is wrong. First 100 k entries of 128-bit keys and 14 bytes of action data are inserted, then every
entry that packets match is modified, then the 100 k are deleted. Figures are CPU time of the server's
process less that of the thread with packets. Prints `name value unit` lines.
Run: python benchmarks/p4runtime.py [--json]
"""

from __future__ import annotations

import pickle
import random
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

import numpy as np

from nicemu.control import P4RuntimeServer
from nicemu.kernels import TO_PORT, CompiledEngine
from nicemu.pipeline import Exact, TableEntry
from nicemu.programs import load_module

reports = load_module(Path(__file__).with_name("rig") / "report.py")
match_action = load_module(Path(__file__).with_name("match_action.py"))
requests = load_module(Path(__file__).with_name("rig") / "p4runtime_requests.py")

ENTRIES: Final = 100_000
FLOWS: Final = 1 << 13
"""Entries that packets match."""
UPDATES_PER_REQUEST: Final = 10_000
PACKETS_PER_S: Final = 1_000_000
INSERT_GOAL_S: Final = 0.5
ROUNDS: Final = 3
VERSIONS: Final = ((1, 0x02000000AA01), (2, 0x02000000BB02))
"""Port and destination address of either version of a flow's entry."""
_SOURCE: Final = 0x020000000012


class Traffic(threading.Thread):
    """Packets for every flow, batch after batch, until it is told to stop."""

    def __init__(self, engine: CompiledEngine, sessions: np.ndarray[Any, Any]) -> None:
        super().__init__()
        self._engine = engine
        self._ring = match_action.Ring(np.zeros(len(sessions), np.uint32), sessions)
        self._stopping = threading.Event()
        self.packets = self.lost = self.wrong = 0
        self.cpu_s = self.longest_s = 0.0

    def run(self) -> None:
        """Take batches through the kernel, each when it is due."""
        kernel, packets = self._engine.kernel, self._ring.packets
        assert kernel is not None
        interval_s = len(packets) / PACKETS_PER_S
        due_s = time.monotonic()
        while not self._stopping.wait(max(0.0, due_s - time.monotonic())):
            due_s += interval_s
            packets["verdict"] = 9
            begun_s = time.monotonic()
            kernel.run(packets)
            self.longest_s = max(self.longest_s, time.monotonic() - begun_s)
            self._look()
            self.cpu_s = time.thread_time()

    def stop(self) -> None:
        """Stop after the batch that is under way."""
        self._stopping.set()
        self.join()

    def _look(self) -> None:
        packets = self._ring.packets
        left = packets["verdict"] == TO_PORT
        addresses = self._ring.destinations()
        right = np.zeros(len(packets), bool)
        for port, address in VERSIONS:
            right |= (packets["out_port"] == port) & (addresses == address)
        self.packets += len(packets)
        self.lost += int((~left).sum())
        self.wrong += int((left & ~right).sum())


def requests_for(engine: CompiledEngine, flows: list[int]) -> dict[str, list[bytes]]:
    """Return the requests of each phase by its name."""
    assert engine.p4info is not None
    (table,) = engine.p4info.tables
    (action,) = [action for action in engine.p4info.actions if action.params]
    chance = random.Random(2)
    sessions = [chance.getrandbits(127) << 1 for _ in range(ENTRIES)]

    def made(kind: int, keys: list[int], version: tuple[int, int]) -> list[bytes]:
        data = [requests.canonical(number) for number in (*version, _SOURCE)]
        params = [(param.id, value) for param, value in zip(action.params, data, strict=True)]
        updates = [
            requests.update_of(
                kind, table.id, [(table.keys[0].id, requests.canonical(key))], action.id, params
            )
            for key in keys
        ]
        starts = range(0, len(updates), UPDATES_PER_REQUEST)
        return [requests.request_of(updates[start : start + UPDATES_PER_REQUEST]) for start in starts]

    return {
        "insert": made(requests.INSERT, sessions, VERSIONS[0]),
        "modify": made(requests.MODIFY, flows, VERSIONS[1]) + made(requests.MODIFY, flows, VERSIONS[0]),
        "delete": made(requests.DELETE, sessions, VERSIONS[0]),
    }


def main() -> None:
    """Measure and print."""
    report = reports.Report("p4runtime")
    engine: CompiledEngine = match_action.engine_of("h.kv.session: exact;", 1 << 17)
    chance = random.Random(1)
    flows = [chance.getrandbits(127) << 1 | 1 for _ in range(FLOWS)]
    port, address = VERSIONS[0]
    for flow in flows:
        engine.insert("t", TableEntry((Exact(flow),), "forward", (port, address, _SOURCE)))
    sessions = np.array([[flow >> 64, flow & (1 << 64) - 1] for flow in flows], np.uint64)
    samples: dict[str, list[float]] = {"insert": [], "modify": [], "delete": []}
    traffic = Traffic(engine, sessions)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "requests"
        file.write_bytes(pickle.dumps(requests_for(engine, flows)))
        with P4RuntimeServer({1: engine}, f"unix:{folder}/nic.sock"):
            client = subprocess.Popen(
                [sys.executable, requests.__file__, f"unix:{folder}/nic.sock", str(file)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdout.readline()
            traffic.start()
            for _ in range(ROUNDS):
                for phase, found in samples.items():
                    before_s = time.process_time() - traffic.cpu_s
                    client.stdin.write(phase + "\n")
                    client.stdin.flush()
                    if client.stdout.readline().strip() != "done":
                        raise SystemExit(f"the client failed at {phase}")
                    found.append(time.process_time() - traffic.cpu_s - before_s)
            traffic.stop()
            client.communicate()
    report.add_goal("insert_100k", min(samples["insert"]), "s", INSERT_GOAL_S, at_most=True)
    for phase, found in samples.items():
        updates = 2 * FLOWS if phase == "modify" else ENTRIES
        report.add_rounds(f"{phase}_each", [value / updates * 1e6 for value in found], "us")
    report.add("packets", traffic.packets, "packets")
    report.add_goal("packets_lost", traffic.lost, "packets", 0, at_most=True)
    report.add_goal("packets_wrong", traffic.wrong, "packets", 0, at_most=True)
    report.add("longest_batch", traffic.longest_s * 1e3, "ms")
    report.write()


if __name__ == "__main__":
    main()
