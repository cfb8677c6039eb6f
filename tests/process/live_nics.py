# SPDX-License-Identifier: Apache-2.0
"""Live NICs for a test, a host in the test's own process with made-up KV, and what must not be left
behind.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from nicemu.host import HostStream, Packet, open_nic
from nicemu.kv import KvLayout, Manifest, Request, chunks_of, decode
from nicemu.programs import find_program, load_module
from nicemu.run import Instance, RunningNic, ask

swap_out = load_module(find_program("host/kv_swap_out.py"))
resume = load_module(find_program("host/kv_resume.py"))

TOPOLOGY = "examples/two_storage_nodes.toml"
LAYOUT = KvLayout(2, 8, 16, 2, 32, np.dtype(np.float32))
"""16 chunks of two segments of 4096 bytes when all tokens are there."""
KV_PORT = 19286
POISON = 0xA5
_numbers = count()


def is_alive(pid: int) -> bool:
    """Whether a process runs (one that has ended and was not waited for does not).

    Files stay open, and locks held, until its last thread has ended, which is not always the first one.
    """
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            if stat.read_text().rpartition(")")[2].split()[0] not in "ZX":
                return True
    return False


def eventually(is_true: Callable[[], bool], timeout_s: float = 10.0) -> bool:
    """Wait until something is so; False if it does not come true in time."""
    deadline = time.monotonic() + timeout_s
    while not is_true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def statistics(nic: RunningNic) -> dict[str, int]:
    """The counts of a NIC."""
    found: dict[str, int] = ask(nic, "describe")["statistics"]
    return found


def unique_name(what: str) -> str:
    """A topology name that no other test, here or in another run, has."""
    return f"test-{os.getpid()}-{what}-{next(_numbers)}"


@contextmanager
def live_nics(what: str, data: Path, topology: str | Path = TOPOLOGY, **options: Any) -> Iterator[Instance]:  # noqa: ANN401
    """Start a topology, and see afterwards that it left no process, no folder and no shared memory."""
    shared = set(os.listdir("/dev/shm"))
    instance = Instance.start(topology, data=data, name=unique_name(what), **options)
    try:
        yield instance
    finally:
        instance.stop()
    assert not any(is_alive(process.pid) for process in instance.processes.values())
    assert not instance.folder.exists()
    assert not instance.folder.with_suffix(".lock").exists()
    left = {name for name in set(os.listdir("/dev/shm")) - shared if "nicemu" in name}
    assert not left


class LiveHost:
    """A host process's work at the compute NIC: leaves sessions, lets them land, plays the users too."""

    def __init__(
        self, instance: Instance, slots: int = 3, storage: tuple[str, ...] = ("storage0", "storage1")
    ) -> None:
        self.compute = instance.nics[0]
        self.nic = open_nic(self.compute.socket)
        self.stream = HostStream()
        self.user = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.user.bind(("127.0.0.1", 0))
        self.nic.listen()
        peers = [self.nic.connect(name, slot_count=64, slot_bytes=LAYOUT.chunk_bytes) for name in storage]
        self.store = swap_out.SwapOut(self.nic, peers)
        self.resume = resume.Resume(self.nic, LAYOUT, slots, session_count=16)
        self.random = np.random.default_rng(1)
        self._request_id = 0

    def __enter__(self) -> LiveHost:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stream.close()
        self.user.close()
        self.nic.close()

    def produce(self, token_count: int = 128) -> tuple[int, tuple[int, ...], bytes]:
        """Compute a session's KV in a fresh slot, its writes armed beforehand; return slot, tokens and
        bytes.
        """
        tokens = tuple(int(token) for token in self.random.integers(0, 1 << 16, token_count))
        slot = self.resume.take()
        array = self.resume.memory[slot].array
        array.view(np.uint8).fill(POISON)
        base = self.store.produced.success
        self.store.arm(
            self.resume.memory[slot],
            self.resume.spans[slot].key,
            chunks_of(LAYOUT, tokens, model="made up", salt=b"tests"),
            lambda chunk: base + chunk.layer + 1,
        )
        blocks = LAYOUT.blocks_of(token_count)
        for layer in range(LAYOUT.layers):
            shape = array[layer, :, :blocks].shape
            content = self.random.integers(0, 256, array[layer, :, :blocks].nbytes, np.uint8)
            array[layer, :, :blocks] = content.view(np.float32).reshape(shape)
            self.store.produced.trigger_after(self.stream)
        self.stream.synchronize()
        return slot, tokens, bytes(array.tobytes())

    def leave(self, session: bytes, token_count: int = 128) -> tuple[tuple[int, ...], bytes]:
        """Store a session, publish it, and give its slot up; return its tokens and bytes."""
        slot, tokens, data = self.produce(token_count)
        self.store.wait()
        self.publish(session, tokens)
        self.resume.drop(slot)
        return tokens, data

    def publish(self, session: bytes, tokens: tuple[int, ...]) -> None:
        """Let the NIC fetch a session that is stored."""
        chunks = chunks_of(LAYOUT, tokens, model="made up", salt=b"tests")
        placed = [(chunk, self.store.storage_number(chunk)) for chunk in chunks]
        self.resume.publish(Manifest.of(LAYOUT, session, len(tokens), placed))

    def ask(self, session: bytes, prompt: bytes = b"And then?") -> None:
        """The session's user sends a request."""
        self._request_id += 1
        request = Request(self._request_id, session, prompt)
        self.user.sendto(request.encode(), (self.compute.ip, KV_PORT))

    def receive(self, timeout_s: float = 10.0) -> Packet:
        """Return the next request."""
        packet = self.nic.receive(timeout_s)
        assert packet is not None, f"no request within {timeout_s} s: {statistics(self.compute)}"
        assert isinstance(decode(packet.payload), Request)
        return packet

    def fetch(self, session: bytes) -> bytes | None:
        """Have a session come back into a poisoned slot; return what landed, None for a miss."""
        if not self.resume.offered:
            self.resume.memory[self.resume.free[0]].array.view(np.uint8).fill(POISON)
            self.resume.offer()
        self.ask(session)
        slot = self.resume.landed(self.receive())
        if slot is None:
            return None
        self.resume.drop(slot)
        return bytes(self.resume.memory[slot].array.tobytes())
