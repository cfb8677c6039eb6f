# SPDX-License-Identifier: Apache-2.0
"""How a compute node leaves chunks with a storage NIC: a lease of slots, and a descriptor for each slot.

The storage NIC grants a lease when a queue pair connects. To store, the host writes the slot's descriptor,
and the chunk follows with an RDMA write with immediate whose immediate is the slot. When the chunk is durable
the storage NIC writes back an immediate that names the counter of the descriptor, with `STORE_FAILED` set if
it could not be stored.
"""

from __future__ import annotations

import struct
from dataclasses import asdict, dataclass

from nicemu.errors import ProtocolError, UsageError

from .chunk import CHUNK_KEY_BYTES, ChunkKey

DESCRIPTOR_BYTES = 64
STORE_FAILED = 1 << 31
"""Bit of the acknowledgement's immediate: count an error, not a success."""

_DESCRIPTOR = struct.Struct("<16sIII36x")


@dataclass(frozen=True, slots=True)
class StoreDescriptor:
    """What arrives in a slot: the chunk's key and length, and the peer's counter to bump when it is
    durable.
    """

    key: ChunkKey
    length_bytes: int
    durable_counter: int

    def encode(self) -> bytes:
        """Return the descriptor's 64 bytes. Raises: UsageError if a field does not fit."""
        if not 0 < self.length_bytes < 1 << 32 or not 0 <= self.durable_counter < STORE_FAILED:
            raise UsageError(f"{self} does not fit a store descriptor")
        key = self.key.to_bytes(CHUNK_KEY_BYTES, "big")
        return _DESCRIPTOR.pack(key, self.length_bytes, self.durable_counter, self._check(key))

    def _check(self, key: bytes) -> int:
        return (sum(key) * 31 + self.length_bytes * 7 + self.durable_counter) & 0xFFFFFFFF

    @classmethod
    def decode(cls, data: bytes) -> StoreDescriptor:
        """Return the descriptor. Raises: ProtocolError for one that was never written, or half."""
        if len(data) != DESCRIPTOR_BYTES:
            raise ProtocolError(f"a store descriptor has {DESCRIPTOR_BYTES} bytes, not {len(data)}")
        key, length_bytes, counter, check = _DESCRIPTOR.unpack(data)
        descriptor = cls(ChunkKey(int.from_bytes(key, "big")), length_bytes, counter)
        if length_bytes == 0 or counter >= STORE_FAILED or descriptor._check(key) != check:
            raise ProtocolError(f"no store descriptor: {data[:28].hex()}")
        return descriptor


@dataclass(frozen=True, slots=True)
class Lease:
    """Slots of a storage NIC's memory that one queue pair may fill; addresses and rkey are for RDMA."""

    descriptors: int
    slots: int
    slot_count: int
    slot_bytes: int
    rkey: int

    def as_data(self) -> dict[str, int]:
        """Return the lease as a connection's private data."""
        return asdict(self)

    @classmethod
    def of_data(cls, data: dict[str, int]) -> Lease:
        """Read a lease from private data. Raises: ProtocolError if it is none."""
        try:
            return cls(**{name: int(data[name]) for name in cls.__slots__})
        except (KeyError, TypeError, ValueError) as error:
            raise ProtocolError(f"the storage NIC granted no lease: {data!r}") from error
