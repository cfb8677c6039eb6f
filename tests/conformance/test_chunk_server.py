# SPDX-License-Identifier: Apache-2.0
"""The firmware of examples/real_p2p between two NICs of ours: what a peer asks for, and what it must not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from nicemu.abi import Opcode, Sge, Span, WorkRequest
from nicemu.errors import NicemuError
from nicemu.host import Memory, Nic, Peer
from nicemu.nic import NamespaceConfig, NicConfig
from nicemu.run import Simulation

SCRIPT = "examples/real_p2p/chunk_server.py"
BLOCK, BLOCKS, CHUNK, CHUNKS = 4096, 256, 8192, 3
STORE, FIRE = 1 << 31, 1 << 29


@dataclass
class World:
    """A host with a region of `CHUNKS` chunks, connected to a storage NIC that runs the script."""

    simulation: Simulation
    nic: Nic
    region: Memory
    span: Span
    peer: Peer

    def ask(self, immediate: int, length: int = 0) -> None:
        """Write the first bytes of the region to the first place, with an immediate."""
        told = self.peer.private_data
        pieces = (Sge(self.span.address, length, self.span.key),) if length else ()
        work = WorkRequest(
            Opcode.RDMA_WRITE_WITH_IMM, pieces, told["address"], told["rkey"], imm_data=immediate
        )
        self.nic.post(self.peer.qp_num, work)
        self.simulation.run_until_idle()

    @property
    def blocks(self) -> memoryview:
        """What lies on the namespace."""
        return self.simulation.disks["storage0"].view

    @property
    def failed(self) -> int:
        """Requests that the script could not serve."""
        return self.simulation.nics["storage0"].drops["chunk_server.failed"]


@pytest.fixture(params=["direct", "port"])
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    spaces = (NamespaceConfig(1, BLOCKS),)
    simulation = Simulation(
        [
            NicConfig("compute0", "127.0.1.1", 1, 16 << 20, transport=request.param),
            NicConfig("storage0", "127.0.1.2", 2, 16 << 20, namespaces=spaces, transport=request.param),
        ]
    )
    simulation.load_firmware("storage0", SCRIPT)
    with Nic(simulation.open_nic("compute0")) as nic:
        region = nic.allocate((CHUNKS * CHUNK,))
        span = nic.register(region)
        words = {"address": span.address, "rkey": span.key, "chunk_count": CHUNKS, "chunk_bytes": CHUNK}
        yield World(simulation, nic, region, span, nic.connect("storage0", **words))


def some_bytes(seed: int) -> bytes:
    return np.random.default_rng(seed).bytes(CHUNK)


@pytest.mark.parametrize("kind", [0, FIRE])
def test_a_chunk_that_is_asked_for_lands_at_its_place_in_the_region(world: World, kind: int) -> None:
    world.blocks[2 * CHUNK : 3 * CHUNK] = some_bytes(1)
    world.ask(kind | 2)
    assert world.region.array.tobytes() == bytes(2 * CHUNK) + some_bytes(1)
    assert world.failed == 0


def test_a_chunk_that_is_stored_lies_behind_those_that_were_there(world: World) -> None:
    world.region.array[:CHUNK] = np.frombuffer(some_bytes(2), np.uint8)
    world.ask(STORE, CHUNK)
    assert bytes(world.blocks[CHUNKS * CHUNK : (CHUNKS + 1) * CHUNK]) == some_bytes(2)
    assert world.failed == 0


@pytest.mark.parametrize(
    ("immediate", "length"),
    [(CHUNKS, 0), (FIRE | CHUNKS, 0), (STORE | CHUNKS, CHUNK), (STORE, 0), (STORE, CHUNK - 4)],
)
def test_what_is_no_chunk_is_refused_and_nothing_is_touched(
    world: World, immediate: int, length: int
) -> None:
    world.region.array[:] = 7
    before = bytes(world.blocks)
    world.ask(immediate, length)
    assert world.failed == 1
    assert bytes(world.blocks) == before
    assert (world.region.array == 7).all()


def test_chunks_that_are_no_whole_blocks_are_refused(world: World) -> None:
    words = {"address": 0, "rkey": 0, "chunk_count": 1, "chunk_bytes": 100}
    with pytest.raises(NicemuError, match="chunks of 100 bytes are no whole blocks of 4096"):
        world.nic.connect("storage0", **words)
