# SPDX-License-Identifier: Apache-2.0
"""CPU time of the host while a session's KV comes back: fetched by the NICs, against fetched by host code.

The demo's topology, serving host and model, with a longer prompt. By the NICs: the user's request makes them
fetch; the host is blocked in its wait for the packet (its CPU time is that of the wait and of waking up), or
stopped (SIGSTOP) until everything has landed. By host code: the least that a CPU-centric host could do, one
preadv(2) a chunk from the same namespace files through the page cache straight to where K and V belong, and
the checksum that the storage NICs verify too; a real one would pay for its network besides. All sides
alternate; each fetch lands in a poisoned slot and must bring the same bytes. Prints `name value unit` lines;
the goals are 0 while stopped and at most 1 ms while waiting.
Run: python benchmarks/fetch_cpu.py [--json]
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zlib
from pathlib import Path
from statistics import median
from typing import Any, Final

from nicemu.host import ProcessStream, open_nic
from nicemu.kv import BLOCK_BYTES, Catalogue, Record, Request, decode
from nicemu.programs import find_program, load_module
from nicemu.run import Instance, RunningNic, ask, find_nic

reports = load_module(Path(__file__).with_name("rig") / "report.py")
serving = load_module(find_program("examples/serving.py"))

TOPOLOGY: Final = "examples/two_storage_nodes.toml"
STORAGE: Final = ["storage0", "storage1"]
NAMESPACE_BYTES: Final = 64 << 20
CATALOGUE_BLOCKS: Final = NAMESPACE_BYTES // BLOCK_BYTES // 128
BLOCKS: Final = 64
PROMPT: Final = b"A session whose KV cache is long enough to be worth fetching. " * 7
SESSION: Final = b"1" * 16
ROUNDS: Final = 10
PATIENCE_S: Final = 20.0
POISON: Final = 0xFE
WAITING_GOAL_US: Final = 1000.0


class HostCode:
    """Fetches chunks without NICs: reads the namespace files itself."""

    def __init__(self, folder: Path) -> None:
        self._files = [os.open(folder / f"{name}.nvme", os.O_RDONLY | os.O_CLOEXEC) for name in STORAGE]
        self._catalogues = [self._load(fd) for fd in self._files]

    @staticmethod
    def _load(fd: int) -> Catalogue:
        data = os.pread(fd, CATALOGUE_BLOCKS * BLOCK_BYTES, 0)
        blocks = [data[at : at + BLOCK_BYTES] for at in range(0, len(data), BLOCK_BYTES)]
        return Catalogue.load(blocks, NAMESPACE_BYTES // BLOCK_BYTES - CATALOGUE_BLOCKS)

    def plan(self, chunks: list[Any], memory: memoryview) -> list[tuple[int, int, Record, list[memoryview]]]:
        """Return each chunk's file, offset and record, and where K and V go: what a host would keep."""
        steps = []
        for chunk in chunks:
            place = chunk.key % len(self._files)
            record = self._catalogues[place].find(chunk.key)
            if record is None:
                raise SystemExit(f"chunk {chunk.key:#x} is not in the namespace of {STORAGE[place]}")
            targets = [memory[at : at + chunk.segment_bytes] for at in (chunk.k_offset, chunk.v_offset)]
            steps.append((self._files[place], record.slba * BLOCK_BYTES, record, targets))
        return steps

    @staticmethod
    def fetch(steps: list[tuple[int, int, Record, list[memoryview]]]) -> None:
        """Read and check every chunk."""
        for fd, offset, record, targets in steps:
            if os.preadv(fd, targets, offset) != record.length_bytes:
                raise SystemExit("a short read")
            if zlib.crc32(targets[1], zlib.crc32(targets[0])) != record.payload_crc32:
                raise SystemExit("a chunk came back with other bytes")

    def close(self) -> None:
        """Close the files."""
        for fd in self._files:
            os.close(fd)


class User:
    """The user, as a process of its own: it also stops the host and lets it go on."""

    def __init__(self, nic: RunningNic) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--user", nic.name, nic.ip],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.hear()

    def tell(self, prompt: bytes, *, stop: bool = False, later_s: float = 0.0) -> None:
        """Let the user ask something, after a while; `stop` stops this process until it has landed."""
        assert self._process.stdin is not None
        message = {"prompt": prompt.hex(), "stop": os.getpid() if stop else 0, "later_s": later_s}
        self._process.stdin.write(json.dumps(message) + "\n")
        self._process.stdin.flush()

    def hear(self) -> int:
        """Wait until the user has done so; return the host's CPU nanoseconds while it was stopped."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the user's process has ended")
        return int(line)

    def close(self) -> None:
        """End the process."""
        self._process.communicate(timeout=10)


def cpu_ns(pid: int) -> int:
    """CPU time of a process over all its threads, from the scheduler's own count."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return sum(int((thread / "schedstat").read_text(encoding="utf-8").split()[0]) for thread in threads)


def is_stopped(pid: int) -> bool:
    """Whether every thread of a process is stopped."""
    threads = Path(f"/proc/{pid}/task").iterdir()
    return all(
        (thread / "stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] == "T"
        for thread in threads
    )


def run_user(nic_name: str, ip: str) -> None:
    """Be the user."""
    nic = find_nic(nic_name)
    link = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    link.bind(("127.0.0.1", 0))
    print(0, flush=True)
    for number, line in enumerate(sys.stdin, start=1):
        message = json.loads(line)
        time.sleep(message["later_s"])
        request = Request(number, SESSION, bytes.fromhex(message["prompt"])).encode()
        pid, used_ns = message["stop"], 0
        if pid:
            landed = _landed(nic)
            os.kill(pid, signal.SIGSTOP)
            try:
                while not is_stopped(pid):
                    time.sleep(0.001)
                before_ns = cpu_ns(pid)
                link.sendto(request, (ip, 19286))
                deadline = time.monotonic() + PATIENCE_S
                while _landed(nic) == landed and time.monotonic() < deadline:
                    time.sleep(0.002)
                used_ns = cpu_ns(pid) - before_ns
            finally:
                os.kill(pid, signal.SIGCONT)
        else:
            link.sendto(request, (ip, 19286))
        print(used_ns, flush=True)


def _landed(nic: RunningNic) -> int:
    return int(ask(nic, "describe")["statistics"].get("kv.sessions_landed", 0))


class Host:
    """The serving host, with one session that is stored and dropped."""

    def __init__(self, instance: Instance, folder: Path) -> None:
        self._nic = open_nic(instance.nics[0].socket)
        self._stream = ProcessStream()
        self._server = serving.Server(self._nic, self._stream, STORAGE, config={"blocks": BLOCKS})
        self.user = User(instance.nics[0])
        self.user.tell(PROMPT)
        packet = self._nic.receive(PATIENCE_S)
        self.user.hear()
        if packet is None or not isinstance(decode(packet.payload), Request):
            raise SystemExit("the first request did not arrive")
        turn = self._server.handle(packet)
        self._server.make_durable(SESSION)
        self._chunks = list(self._server.sessions[SESSION].stored.values())
        self.chunk_count, self.chunk_bytes = turn.chunks_armed, self._server.layout.chunk_bytes
        slot = self._server.sessions[SESSION].slot
        self._pieces = sorted(
            (at, at + chunk.segment_bytes)
            for chunk in self._chunks
            for at in (chunk.k_offset, chunk.v_offset)
        )
        self._expected = self._contents(slot)
        self._server.drop(SESSION)
        self._code = HostCode(folder)

    def _memory(self, slot: int) -> memoryview:
        view: memoryview = self._server.resume.memory[slot].shared.view
        return view

    def _contents(self, slot: int) -> list[bytes]:
        view = self._memory(slot)
        return [bytes(view[start:stop]) for start, stop in self._pieces]

    def _check(self, slot: int) -> None:
        if self._contents(slot) != self._expected:
            raise SystemExit("other bytes came back than were stored")
        self._server.resume.drop(slot)

    def _poison(self, slot: int) -> None:
        self._server.resume.memory[slot].array.view("u1")[:] = POISON

    def fetch_by_nics(self, *, stopped: bool) -> tuple[int, int]:
        """Return CPU nanoseconds of the host from request to landing, and how long that took."""
        self._poison(self._server.resume.free[0])
        slot = self._server.resume.offer()
        if stopped:
            started_ns = time.monotonic_ns()
            self.user.tell(b" And then?", stop=True)
            used_ns = self.user.hear()
            took_ns = time.monotonic_ns() - started_ns
            packet = self._nic.receive(PATIENCE_S)
        else:
            self.user.tell(b" And then?", later_s=0.02)
            used_ns, started_ns = time.process_time_ns(), time.monotonic_ns()
            packet = self._nic.receive(PATIENCE_S)
            used_ns = time.process_time_ns() - used_ns
            took_ns = time.monotonic_ns() - started_ns - 20_000_000
            self.user.hear()
        if packet is None:
            raise SystemExit(f"the request did not reach the host in {PATIENCE_S:.0f} s")
        if self._server.resume.landed(packet) != slot:
            raise SystemExit(f"the NICs gave up the fetch (info {packet.info}); is the machine overloaded?")
        self._check(slot)
        return used_ns, took_ns

    def fetch_by_host(self) -> tuple[int, int]:
        """Return CPU nanoseconds of the host code, and how long it took."""
        slot = self._server.resume.take()
        self._poison(slot)
        steps = self._code.plan(self._chunks, self._memory(slot))
        used_ns, started_ns = time.process_time_ns(), time.monotonic_ns()
        self._code.fetch(steps)
        used_ns, took_ns = time.process_time_ns() - used_ns, time.monotonic_ns() - started_ns
        self._check(slot)
        return used_ns, took_ns

    def close(self) -> None:
        """End everything."""
        self._code.close()
        self.user.close()
        self._stream.close()
        self._nic.close()


def main() -> None:
    """Measure and print."""
    report = reports.Report("fetch_cpu")
    used: dict[str, list[float]] = {"stopped": [], "waiting": [], "host_code": []}
    took: dict[str, list[float]] = {"stopped": [], "waiting": [], "host_code": []}
    with tempfile.TemporaryDirectory() as scratch:
        os.environ["XDG_RUNTIME_DIR"] = scratch  # so that the user finds this run's NICs, and no others
        with Instance.start(TOPOLOGY, data=Path(scratch), name="fetch") as instance:
            host = Host(instance, Path(scratch))
            host.fetch_by_nics(stopped=False), host.fetch_by_host()
            for _ in range(ROUNDS):
                for side, (cpu, wall) in {
                    "waiting": host.fetch_by_nics(stopped=False),
                    "host_code": host.fetch_by_host(),
                    "stopped": host.fetch_by_nics(stopped=True),
                }.items():
                    used[side].append(cpu / 1e3)
                    took[side].append(wall / 1e6)
            host.close()
    report.add("chunks", host.chunk_count, "count")
    report.add("bytes", host.chunk_count * host.chunk_bytes, "bytes")
    report.add_goal("host_cpu_stopped_highest", max(used["stopped"]), "us", 0.0, at_most=True)
    report.add_goal("host_cpu_waiting_highest", max(used["waiting"]), "us", WAITING_GOAL_US, at_most=True)
    report.add("host_cpu_waiting", median(used["waiting"]), "us")
    report.add_rounds("host_cpu_host_code", used["host_code"], "us")
    ratios = [mine / theirs for mine, theirs in zip(used["waiting"], used["host_code"], strict=True)]
    report.add("host_cpu_waiting_against_host_code", median(ratios), "ratio")
    report.add_rounds("wall_waiting", took["waiting"], "ms")
    report.add_rounds("wall_host_code", took["host_code"], "ms")
    report.write()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--user"]:
        run_user(sys.argv[2], sys.argv[3])
    else:
        main()
