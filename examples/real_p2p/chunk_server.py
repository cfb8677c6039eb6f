# SPDX-License-Identifier: Apache-2.0
"""Firmware of a storage NIC: fetches and stores chunks for any RDMA peer, by writes with immediate alone.

An immediate is a chunk's number. A peer asks for a chunk by a write of nothing, and gets it by a write to its
region; under `FIRE` that write has been armed before the chunk is read, and the completion of the NVMe
command itself fires it. To store one it writes it into a place of NIC memory, under `STORE`; when the chunk
is flushed it is told by a write of nothing with the same immediate. `FAILED` marks what did not work. Data go
between the namespace and NIC memory, and between NIC memory and the wire; no host takes part.
"""

from __future__ import annotations

from dataclasses import dataclass

from nicemu.errors import NicemuError
from nicemu.firmware import (
    Arrival,
    Buffer,
    Connection,
    CountedQueue,
    Mailbox,
    Nic,
    NicCounter,
    on_arrival,
    on_connect,
)

NSID = 1
PLACES = 8
STORE, FAILED, FIRE = 1 << 31, 1 << 30, 1 << 29
"""Bits of an immediate; the others number a chunk."""


@dataclass
class Reads:
    """NVMe reads that count at `completed`; of the writes that wait there, `sent` counts the ends."""

    queue: CountedQueue
    completed: NicCounter
    sent: NicCounter
    armed: int = 0


@dataclass
class Client:
    """A connected peer: its region, where it puts what is to be stored, and free places to send from."""

    address: int
    rkey: int
    chunk_count: int
    chunk_bytes: int
    inbound: Buffer
    outbound: Buffer
    free: Mailbox
    reads: Reads


clients: dict[int, Client] = {}


@on_connect
def serve(nic: Nic, connection: Connection) -> dict[str, int]:
    """Give a peer places of its own. It says where its region is, and what chunks that holds."""
    told = connection.private_data
    chunk_bytes, (block_bytes, _) = told["chunk_bytes"], nic.namespaces[NSID]
    if chunk_bytes < 1 or chunk_bytes % block_bytes:
        raise NicemuError(f"chunks of {chunk_bytes} bytes are no whole blocks of {block_bytes}")
    inbound = nic.allocate(PLACES * chunk_bytes, remote=True)
    outbound = nic.allocate(PLACES * chunk_bytes)
    free = Mailbox(PLACES)
    for place in range(PLACES):
        free.put(place)
    completed = nic.allocate_counter()
    reads = Reads(nic.count_completions(completed), completed, nic.allocate_counter())
    clients[connection.qp_num] = Client(
        told["address"], told["rkey"], told["chunk_count"], chunk_bytes, inbound, outbound, free, reads
    )
    return {"address": inbound.address, "rkey": inbound.key, "places": PLACES}


@on_arrival
async def act(nic: Nic, arrival: Arrival) -> None:
    """Fetch or store the chunk that an immediate names."""
    client = clients[arrival.qp_num]
    number = arrival.imm_data & ~(STORE | FAILED | FIRE)
    try:
        if number >= client.chunk_count:
            raise NicemuError(f"chunk {number}; the peer's region holds {client.chunk_count}")
        if arrival.imm_data & STORE:
            await store(nic, arrival, client, number)
        elif arrival.imm_data & FIRE:
            await fire(nic, arrival.qp_num, client, number)
        else:
            await fetch(nic, arrival.qp_num, client, number)
    except NicemuError:
        nic.count("chunk_server.failed")
        await nic.rdma_write(arrival.qp_num, client.inbound, 0, 0, 0, 0, imm_data=arrival.imm_data | FAILED)


def block_count(nic: Nic, client: Client) -> int:
    """Blocks of a chunk."""
    return client.chunk_bytes // nic.namespaces[NSID][0]


async def fetch(nic: Nic, qp_num: int, client: Client, number: int) -> None:
    """Namespace, NIC memory, the peer's region."""
    blocks, length = block_count(nic, client), client.chunk_bytes
    place = await client.free.get()
    try:
        await nic.nvme_read(NSID, number * blocks, blocks, client.outbound.address + place * length)
        to = client.address + number * length
        await nic.rdma_write(qp_num, client.outbound, place * length, length, to, client.rkey, number)
    finally:
        client.free.put(place)


async def fire(nic: Nic, qp_num: int, client: Client, number: int) -> None:
    """The same, but the write is armed first: when the chunk has been read, its completion fires it."""
    blocks, length, reads = block_count(nic, client), client.chunk_bytes, client.reads
    place = await client.free.get()
    try:
        reads.armed += 1
        mine, offset = reads.armed, place * length
        to = client.address + number * length
        buffer, immediate = client.outbound, FIRE | number
        nic.arm_write(
            reads.completed, mine, qp_num, buffer, offset, length, to, client.rkey, immediate, reads.sent
        )
        await reads.queue.nvme_read(NSID, number * blocks, blocks, buffer.address + offset)
        await reads.sent.reaches(mine)
    finally:
        client.free.put(place)


async def store(nic: Nic, arrival: Arrival, client: Client, number: int) -> None:
    """NIC memory, namespace; then the peer hears that the chunk is durable. Stored ones lie behind others."""
    if arrival.byte_len != client.chunk_bytes:
        raise NicemuError(f"{arrival.byte_len} bytes are no chunk")
    blocks, place = block_count(nic, client), number % PLACES
    source = client.inbound.address + place * client.chunk_bytes
    await nic.nvme_write(NSID, (client.chunk_count + number) * blocks, blocks, source)
    await nic.nvme_flush(NSID)
    await nic.rdma_write(arrival.qp_num, client.inbound, 0, 0, 0, 0, imm_data=STORE | number)
