# SPDX-License-Identifier: Apache-2.0
"""A kernel on a real GPU writes KV, bumps a counter, and the NIC moves what it wrote, with no CPU between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nicemu.host import CudaStream, Memory, Nic, open_nic
from nicemu.kv import Lease
from nicemu.testing import PeerMemory
from tests.process.live_nics import live_nics

cupy = pytest.importorskip("cupy", reason="the kernels of these tests are CuPy's")

pytestmark = pytest.mark.gpu

ROUNDS, CHUNK = 64, 4096


def on_gpu(gpu: CudaStream, memory: Memory) -> Any:  # noqa: ANN401 - cupy has no types
    """Return an array of the GPU that is memory of the NIC."""
    return cupy.asarray(gpu.device_array(memory))


def fill(gpu: CudaStream, place: Any, value: int) -> None:  # noqa: ANN401
    """Put a kernel into the stream that fills an array."""

    def launch(handle: int) -> None:
        assert handle == gpu.handle
        with cupy.cuda.Stream.from_external(gpu):
            place.fill(value)

    gpu.submit(launch)


def test_what_a_kernel_wrote_is_what_the_peer_gets(nic: Nic, peer: PeerMemory, gpu: CudaStream) -> None:
    ready, landed = nic.counters("ready", "landed")
    memory = nic.allocate((2, CHUNK))
    span, kv = nic.register(memory), on_gpu(gpu, memory)
    with nic.program("two chunks") as program:
        program.when(ready >= 1).write(span[:CHUNK], peer.span[:CHUNK], then=landed)
        program.when(ready >= 2).write(span[CHUNK:], peer.span[CHUNK : 2 * CHUNK], then=landed)
    program.arm()
    fill(gpu, kv[0], 7)
    ready.trigger_after(gpu)
    fill(gpu, kv[1], 9)
    ready.trigger_after(gpu)
    gpu.synchronize()
    nic.connection.notify()
    landed.wait(2)
    assert peer.bytes[: 2 * CHUNK] == bytes([7]) * CHUNK + bytes([9]) * CHUNK


def test_kv_of_each_kernel_reaches_a_live_storage_node(gpu: CudaStream, tmp_path: Path) -> None:
    """The stream waits for each round's delivery before the next kernel writes over it."""
    with live_nics("kernel", tmp_path) as instance, open_nic(instance.nics[0].socket) as nic:
        memory, seen = nic.allocate(CHUNK), nic.allocate((ROUNDS, CHUNK))
        span, back = nic.register(memory), nic.register(seen)
        produced, stored, read = nic.counters("produced", "stored", "read")
        storage = nic.connect("storage0", slot_count=1, slot_bytes=CHUNK)
        lease = Lease.of_data(storage.private_data)
        slot = storage.span(lease.slots, CHUNK, lease.rkey)
        kv = on_gpu(gpu, memory)
        for number in range(ROUNDS):
            with nic.program(f"round {number}") as program:
                program.when(produced >= number + 1).write(span, slot, then=stored)
                program.when(stored >= number + 1).read(
                    back[number * CHUNK : (number + 1) * CHUNK], slot, then=read
                )
            program.arm()
            fill(gpu, kv, number + 1)
            produced.trigger_after(gpu)
            read.wait_on(gpu, number + 1)
        gpu.synchronize()
        read.wait(ROUNDS)
        assert np.array_equal(
            seen.array, np.repeat(np.arange(1, ROUNDS + 1, dtype=np.uint8), CHUNK).reshape(ROUNDS, CHUNK)
        )
