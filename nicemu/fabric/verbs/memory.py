# SPDX-License-Identifier: Apache-2.0
"""Regions of a NIC as regions of an RDMA device: other keys, other addresses, the same rights.

The device knows memory by the addresses of this process, and chooses the keys; a peer is told both, with the
address that the NIC's own key starts at. Rights and ranges are checked by the device, in the protection
domain of the queue pair.

A plain write tells its target nothing. Where a counter counts the writes into a region, the peer adds 1 << 40
and the length to a word of the region's own, the ledger, behind each write: one atomic of the same queue
pair, which is carried out when the bytes are there.
Sources: ibv_alloc_pd(3), ibv_reg_mr(3); InfiniBand Architecture Specification, "Transaction Ordering".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nicemu.abi import Access
from nicemu.errors import ResourceError
from nicemu.pcie import PAGE_BYTES, Backing, load_u64
from nicemu.rdma import MemoryRegion

from .device import VerbsDevice
from .requests import Handle, Piece

LEDGER_SHIFT = 40
"""A ledger's word: writes in the upper 24 bits, their bytes in the lower 40."""
MAX_COUNTED = 1024
"""Writes into a region that are told at once; the others are told the next time."""
_KEY_INDEX_MASK = 0xFFF
_MASK_64 = (1 << 64) - 1
_PARTS = frozenset({"rkey", "address", "iova", "ledger"})


@dataclass(frozen=True, slots=True)
class Place:
    """Where a peer's region lies: the device's key, the address of its first byte, and what the NIC calls
    that; the key and address of its ledger's word, if its writes are counted.
    """

    rkey: int
    address: int
    iova: int
    ledger: tuple[int, int] | None

    @classmethod
    def of(cls, data: object) -> Place | None:
        """Return what a peer said of a region; None if it makes no sense."""
        if not isinstance(data, dict) or set(data) != _PARTS:
            return None
        numbers = [data["rkey"], data["address"], data["iova"]]
        ledger = data["ledger"]
        if isinstance(ledger, list) and len(ledger) == 2:
            numbers += ledger
        elif ledger is not None:
            return None
        if not all(isinstance(number, int) and 0 <= number <= _MASK_64 for number in numbers):
            return None
        if numbers[0] >> 32 or (ledger is not None and ledger[0] >> 32):
            return None
        return cls(numbers[0], numbers[1], numbers[2], None if ledger is None else (ledger[0], ledger[1]))

    def locate(self, remote_address: int) -> int:
        """Return the device's address of a place; outside the region it is outside for the device, too."""
        return (self.address + remote_address - self.iova) & _MASK_64


@dataclass(slots=True, eq=False)
class _Registered:
    """A region, with what is asked of it for each piece of work: looking that up costs time there."""

    handle: Handle
    address: int
    pd: int
    iova: int
    length_bytes: int
    lkey: int
    is_writable: bool


@dataclass(slots=True, eq=False)
class Domain:
    """A protection domain. Its scratch page takes what nobody wants, and refuses every peer."""

    handle: Handle
    scratch: Handle
    scratch_address: int
    ledger: Handle = None


class VerbsMemory:
    """Protection domains and regions on one device."""

    def __init__(self, device: VerbsDevice) -> None:
        self._device = device
        self._domains: dict[int, Domain] = {}
        self._regions: dict[int, _Registered] = {}
        self._scratch = Backing.anonymous(PAGE_BYTES)
        self._ledger = Backing.anonymous((_KEY_INDEX_MASK + 1) * 8)
        self._seen: dict[int, int] = {}

    @property
    def counts(self) -> bool:
        """Whether there are ledgers to be looked at."""
        return bool(self._seen)

    def domain(self, pd: int) -> Domain:
        """Return the device's protection domain of that number, made when it is first asked for.

        Raises: ResourceError if the device cannot make it.
        """
        if pd not in self._domains:
            v = self._device.verbs
            try:
                handle = v.pd.PD(self._device.context)
                scratch = self._map(handle, self._scratch.address, PAGE_BYTES, Access.LOCAL_WRITE)
            except self._device.error as error:
                raise ResourceError(f"{self._device.name} makes no protection domain: {error}") from error
            self._domains[pd] = Domain(handle, scratch, self._scratch.address)
        return self._domains[pd]

    def _map(self, domain: Handle, address: int, length_bytes: int, access: Access) -> Handle:
        e = self._device.verbs.enums
        rights = e.IBV_ACCESS_LOCAL_WRITE if access & ~Access.REMOTE_READ else 0
        rights |= e.IBV_ACCESS_REMOTE_WRITE if access & Access.REMOTE_WRITE else 0
        rights |= e.IBV_ACCESS_REMOTE_READ if access & Access.REMOTE_READ else 0
        rights |= e.IBV_ACCESS_REMOTE_ATOMIC if access & Access.REMOTE_ATOMIC else 0
        return self._device.verbs.mr.MR(domain, length_bytes, rights, address)

    def register(self, region: MemoryRegion, address: int, counted: bool) -> None:
        """As `OutsideTransport.register`. Remote writes need the device's local right, too: ibv_reg_mr(3)."""
        domain = self.domain(region.pd)
        try:
            handle = self._map(domain.handle, address, region.length_bytes, region.access)
            if counted and domain.ledger is None:
                length_bytes = self._ledger.length_bytes
                domain.ledger = self._map(
                    domain.handle, self._ledger.address, length_bytes, Access.REMOTE_ATOMIC
                )
        except self._device.error as error:
            raise ResourceError(
                f"{self._device.name} does not register {region.length_bytes} bytes: {error}; "
                "memory is pinned, see `ulimit -l`"
            ) from error
        self._regions[region.key] = _Registered(
            handle,
            address,
            region.pd,
            region.iova,
            region.length_bytes,
            handle.lkey,
            bool(region.access & Access.LOCAL_WRITE),
        )
        if counted:
            self._seen[region.key] = load_u64(self._word(region.key))

    def deregister(self, key: int) -> None:
        """As `OutsideTransport.deregister`."""
        self._seen.pop(key, None)
        found = self._regions.pop(key, None)
        if found is not None:
            found.handle.close()

    def _word(self, key: int) -> int:
        return self._ledger.address + (key & _KEY_INDEX_MASK) * 8

    def describe(self, key: int) -> dict[str, Any]:
        """As `OutsideTransport.describe`. An unknown key is described as a page without rights for peers."""
        found = self._regions.get(key)
        if found is None:
            domain = next(iter(self._domains.values()), None)
            rkey = domain.scratch.rkey if domain is not None else 0
            return {"rkey": rkey, "address": self._scratch.address, "iova": 0, "ledger": None}
        ledger = None
        if key in self._seen:
            ledger = [self._domains[found.pd].ledger.rkey, self._word(key)]
        return {
            "rkey": found.handle.rkey,
            "address": found.address,
            "iova": found.iova,
            "ledger": ledger,
        }

    def piece(self, pd: int, key: int, address: int, length: int, write: bool) -> Piece | None:
        """Return the device's name of a local piece; None if the key does not cover it."""
        found = self._regions.get(key)
        if found is None or found.pd != pd:
            return None
        offset = address - found.iova
        if offset < 0 or offset + length > found.length_bytes or (write and not found.is_writable):
            return None
        return found.address + offset, length, found.lkey

    def take_counted(self) -> list[tuple[int, int, int]]:
        """Return (key, writes, bytes) of what ledgers tell since the last call."""
        counted = []
        for key, seen in self._seen.items():
            step = (load_u64(self._word(key)) - seen) & _MASK_64
            if step:
                writes = min(step >> LEDGER_SHIFT, MAX_COUNTED)
                length = step & ((1 << LEDGER_SHIFT) - 1)
                counted.append((key, writes, length))
                self._seen[key] = (seen + (writes << LEDGER_SHIFT) + length) & _MASK_64
        return counted

    def release(self) -> None:
        """Forget everything; the device has been closed."""
        self._regions.clear()
        self._domains.clear()
        self._seen.clear()
        self._scratch.close()
        self._ledger.close()
