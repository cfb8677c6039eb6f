# SPDX-License-Identifier: Apache-2.0
"""Storage NIC: keep chunks on NVMe and serve them, peer-to-peer between NVMe and NIC memory.

Storing: a chunk arrives in a slot, its blocks are written, then its record in the catalogue, and only when
both are durable the peer's counter is bumped. Records of chunks that arrive together share the two flushes.
Serving: the blocks are read into NIC memory, checked against the record's checksum, and written to the
landing addresses.
"""

from __future__ import annotations

from dataclasses import dataclass

from nicemu.errors import NicemuError
from nicemu.firmware import (
    Arrival,
    Buffer,
    CompletionError,
    Connection,
    Event,
    Mailbox,
    Nic,
    on_arrival,
    on_connect,
    on_disconnect,
    on_event,
    on_start,
)
from nicemu.kv import (
    DESCRIPTOR_BYTES,
    STORE_FAILED,
    Catalogue,
    ChunkKey,
    ChunkMissing,
    Lease,
    Record,
    StoreDescriptor,
)

NSID = 1
BLOCK_BYTES = 4096
BLOCKS_A_CATALOGUE_BLOCK = 128
READ_BLOCKS = 64
MAX_CHUNK_BYTES = 1 << 20
SERVE_BUFFERS = 8
MAX_SLOTS = 4096
REMEMBERED_REQUESTS = 65536


@dataclass(eq=False)
class Client:
    """A connected queue pair: where it may come from, its lease, and what it asked for lately."""

    ip: int
    lease: Lease
    buffer: Buffer
    answered: dict[int, bool]


@dataclass(eq=False)
class Stored:
    """A chunk whose blocks are written: `record` is not in the catalogue yet."""

    qp_num: int
    descriptor: StoreDescriptor
    record: Record
    crc32: int


clients: dict[int, Client] = {}
free_leases: list[Buffer] = []
written = Mailbox(depth=1 << 16)
serve_buffers = Mailbox(depth=SERVE_BUFFERS)
writing: dict[ChunkKey, list[tuple[int, StoreDescriptor]]] = {}
catalogue: list[Catalogue] = []
catalogue_buffer: list[Buffer] = []


@on_start
async def start(nic: Nic) -> None:
    """Read the catalogue, put every durable chunk into the match table, and begin to commit."""
    block_bytes, block_count = nic.namespaces[NSID]
    if block_bytes != BLOCK_BYTES:
        raise NicemuError(f"namespace {NSID} has blocks of {block_bytes} bytes; {BLOCK_BYTES} are needed")
    catalogue_blocks = max(1, block_count // BLOCKS_A_CATALOGUE_BLOCK)
    area = nic.allocate(READ_BLOCKS * BLOCK_BYTES)
    catalogue_buffer.append(area)
    blocks: list[bytes] = []
    while len(blocks) < catalogue_blocks:
        count = min(READ_BLOCKS, catalogue_blocks - len(blocks))
        await nic.nvme_read(NSID, len(blocks), count, area.address)
        blocks += [nic.read(area.address + BLOCK_BYTES * number, BLOCK_BYTES) for number in range(count)]
    loaded = Catalogue.load(blocks, block_count - catalogue_blocks)
    for fault in loaded.faults:
        nic.count(f"catalogue.{fault.reason}")
    for repair in loaded.repairs():
        nic.write(area.address, repair.data)
        await nic.nvme_write(NSID, repair.block_index, 1, area.address)
        await nic.nvme_flush(NSID)
        loaded.written(repair.block_index)
    catalogue.append(loaded)
    for record in loaded.committed():
        serve_from_table(nic, record)
    for _ in range(SERVE_BUFFERS):
        serve_buffers.put(nic.allocate(MAX_CHUNK_BYTES))
    nic.spawn("commit", commit(nic))


def serve_from_table(nic: Nic, record: Record) -> None:
    """Let requests for a durable chunk match."""
    parameters = (NSID, record.slba, record.nlb, record.payload_crc32)
    nic.table_insert("chunk", (record.chunk_key,), "serve", parameters)


@on_connect
def grant_lease(nic: Nic, connection: Connection) -> dict[str, int]:
    """Lease slots to a queue pair that connects."""
    slot_count = connection.private_data.get("slot_count", 64)
    slot_bytes = connection.private_data.get("slot_bytes", 64 << 10)
    if not 1 <= slot_count <= MAX_SLOTS or not 1 <= slot_bytes <= MAX_CHUNK_BYTES or slot_bytes % BLOCK_BYTES:
        raise NicemuError(
            f"{slot_count} slots of {slot_bytes} bytes; at most {MAX_SLOTS} of {MAX_CHUNK_BYTES} in blocks "
            f"of {BLOCK_BYTES}"
        )
    descriptors = -(-slot_count * DESCRIPTOR_BYTES // BLOCK_BYTES) * BLOCK_BYTES
    needed = descriptors + slot_count * slot_bytes
    fitting = [buffer for buffer in free_leases if buffer.length_bytes >= needed]
    if fitting:
        free_leases.remove(fitting[0])
        buffer = nic.renew_key(fitting[0])
    else:
        buffer = nic.allocate(needed, remote=True)
    lease = Lease(buffer.address, buffer.address + descriptors, slot_count, slot_bytes, buffer.key)
    clients[connection.qp_num] = Client(connection.ip, lease, buffer, {})
    return lease.as_data()


@on_disconnect
def take_lease_back(nic: Nic, qp_num: int) -> None:
    """The peer is gone: its slots are free again, under a new key."""
    client = clients.pop(qp_num, None)
    if client is not None:
        free_leases.append(nic.renew_key(client.buffer))


# Storing


@on_arrival
async def store(nic: Nic, arrival: Arrival) -> None:
    """A chunk stands in slot `imm_data`: write its blocks, then hand it to the committer."""
    client = clients.get(arrival.qp_num)
    if client is None or arrival.imm_data >= client.lease.slot_count:
        nic.count("store.bad_slot")
        return
    place = client.lease.descriptors + arrival.imm_data * DESCRIPTOR_BYTES
    descriptor = StoreDescriptor.decode(nic.read(place, DESCRIPTOR_BYTES))
    source = client.lease.slots + arrival.imm_data * client.lease.slot_bytes
    if descriptor.length_bytes > client.lease.slot_bytes or descriptor.length_bytes != arrival.byte_len:
        nic.count("store.bad_length")
        await acknowledge(nic, arrival.qp_num, descriptor, failed=True)
        return
    if descriptor.key in writing:  # somebody else is storing the very same chunk
        writing[descriptor.key].append((arrival.qp_num, descriptor))
        return
    durable = catalogue[0].find(descriptor.key)
    if durable is not None and catalogue[0].is_durable(descriptor.key):
        crc32 = nic.checksum(source, descriptor.length_bytes)
        same = durable.length_bytes == descriptor.length_bytes and durable.payload_crc32 == crc32
        if not same:
            nic.count("store.key_has_other_bytes")
        await acknowledge(nic, arrival.qp_num, descriptor, failed=not same)
        return
    writing[descriptor.key] = []
    record = None
    try:
        record = catalogue[0].place(descriptor.key, descriptor.length_bytes)
        crc32 = nic.checksum(source, descriptor.length_bytes)
        await nic.nvme_write(NSID, record.slba, record.nlb + 1, source)
        written.put(Stored(arrival.qp_num, descriptor, record, crc32))
    except NicemuError:
        nic.count("store.failed")
        if record is not None:
            catalogue[0].abandon(record)
        await acknowledge_all(nic, arrival.qp_num, descriptor, failed=True)


async def commit(nic: Nic) -> None:
    """Make chunks durable, all that wait at once: flush blocks, write records, flush records, acknowledge."""
    area = catalogue_buffer[0]
    while True:
        batch: list[Stored] = await written.get_all()
        failed = False
        try:
            await nic.nvme_flush(NSID)
            writes = [catalogue[0].commit(stored.record, stored.crc32) for stored in batch]
            latest = {write.block_index: write.data for write in writes}
            for block_index, data in latest.items():
                nic.write(area.address, data)
                await nic.nvme_write(NSID, block_index, 1, area.address)
            await nic.nvme_flush(NSID)
            for write in writes:
                catalogue[0].written(write.block_index)
        except CompletionError:
            nic.count("store.failed")
            failed = True
        for stored in batch:
            if not failed:
                record = catalogue[0].find(stored.descriptor.key)
                if record is not None:
                    serve_from_table(nic, record)
            await acknowledge_all(nic, stored.qp_num, stored.descriptor, failed)


async def acknowledge_all(nic: Nic, qp_num: int, descriptor: StoreDescriptor, failed: bool) -> None:
    """Tell everybody who left this chunk."""
    for waiting_qp, waiting in [(qp_num, descriptor), *writing.pop(descriptor.key, [])]:
        await acknowledge(nic, waiting_qp, waiting, failed)


async def acknowledge(nic: Nic, qp_num: int, descriptor: StoreDescriptor, failed: bool) -> None:
    """Bump the peer's counter: a success when the chunk is durable, an error when it could not be stored."""
    client = clients.get(qp_num)
    if client is None:
        return
    immediate = descriptor.durable_counter | (STORE_FAILED if failed else 0)
    try:
        await nic.rdma_write(qp_num, client.buffer, 0, 0, 0, 0, immediate)
    except CompletionError:
        nic.count("store.acknowledgement_failed")


# Serving


@on_event("kv_chunk_request")
async def serve(nic: Nic, request: Event) -> None:
    """Read a chunk and write it to where its requester wants it; each request is served once."""
    client = clients.get(request["requester"])
    if client is None or client.ip != request["source_address"]:
        nic.count("serve.unknown_requester")
        return
    if request["request_id"] in client.answered:
        nic.count("serve.asked_before")
        if not client.answered[request["request_id"]]:
            missing(nic, request)
        return
    client.answered[request["request_id"]] = True
    if len(client.answered) > REMEMBERED_REQUESTS:
        del client.answered[next(iter(client.answered))]
    segment_bytes = request["segment_bytes"]
    block_count = request["nlb"] + 1
    if not 0 < 2 * segment_bytes <= min(block_count * BLOCK_BYTES, MAX_CHUNK_BYTES):
        nic.count("serve.bad_length")
        client.answered[request["request_id"]] = False
        missing(nic, request)
        return
    buffer: Buffer = await serve_buffers.get()
    try:
        await nic.nvme_read(request["nsid"], request["slba"], block_count, buffer.address)
        if nic.checksum(buffer.address, 2 * segment_bytes) != request["crc"]:
            nic.count("serve.corrupt_chunk")
            client.answered[request["request_id"]] = False
            missing(nic, request)
            return
        rkey = request["rkey"]
        nic.post_write(request["requester"], buffer, 0, segment_bytes, request["landing_k"], rkey)
        await nic.rdma_write(
            request["requester"],
            buffer,
            segment_bytes,
            segment_bytes,
            request["landing_v"],
            rkey,
            request["arrival_counter"],
        )
    except CompletionError:
        nic.count("serve.failed")
        client.answered[request["request_id"]] = False
        missing(nic, request)
    finally:
        serve_buffers.put(buffer)


@on_event("kv_chunk_unknown")
async def unknown(nic: Nic, request: Event) -> None:
    """Nobody stored this chunk here."""
    nic.count("serve.unknown_chunk")
    missing(nic, request)


def missing(nic: Nic, request: Event) -> None:
    """Answer that the chunk cannot be had."""
    session = (request["session_high"] << 64 | request["session_low"]).to_bytes(16, "big")
    key = ChunkKey(request["key_high"] << 64 | request["key_low"])
    answer = ChunkMissing(request["request_id"], session, key).encode()
    nic.reply(request["source_address"], request["source_port"], answer)
