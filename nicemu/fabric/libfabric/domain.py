# SPDX-License-Identifier: Apache-2.0
"""A libfabric domain and what is opened in it: endpoints, counters, memory regions, one completion queue.

Sources: fi_getinfo(3), fi_domain(3), fi_endpoint(3), fi_av(3), fi_cq(3), fi_cntr(3), fi_mr(3).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from nicemu.abi import shown
from nicemu.errors import ResourceError, UsageError, counted

from . import abi as fi
from .abi import Libfabric, load_libfabric

_CAPABILITIES = fi.MSG | fi.TAGGED | fi.RMA | fi.ATOMIC | fi.TRIGGER | fi.RMA_EVENT
_MR_MODES = fi.MR_LOCAL | fi.MR_VIRT_ADDR | fi.MR_ALLOCATED | fi.MR_PROV_KEY | fi.MR_ENDPOINT
_ORDER = fi.ORDER_SAS | fi.ORDER_WAW | fi.ORDER_RMA_WAW | fi.ORDER_ATOMIC_WAW
"""Sends behind sends, writes and atomics behind writes: `cxi` orders only what is asked for."""
_ACCESS = fi.SEND | fi.RECV | fi.READ | fi.WRITE | fi.REMOTE_READ | fi.REMOTE_WRITE
_QUEUE_ENTRIES = 4096
_READ_AT_ONCE = 64
_NAME_BYTES = 256
_AGAIN, _NO_DATA, _AVAILABLE = -11, -61, -259


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An enabled endpoint and the address by which its peers know it."""

    fid: Any
    address: bytes


@dataclass(eq=False, slots=True)
class Region:
    """Registered memory. `memory` is kept as long as anything refers to the region.

    `remote_address`, `rkey`: what a peer names its first byte by.
    """

    number: int
    address: int
    length_bytes: int
    remote_address: int
    rkey: int
    descriptor: Any
    fid: Any
    memory: object
    uses: int = 0
    """Armed operations that use it."""
    counter: int | None = None
    """Counts what peers write to it."""

    def covers(self, address: int, length_bytes: int) -> bool:
        """Whether a piece of memory lies in the region."""
        return self.address <= address and address + length_bytes <= self.address + self.length_bytes


@dataclass(frozen=True, slots=True)
class QueueEntry:
    """An entry of the completion queue. `context` is the address that its operation carried; `error` an
    errno, 0 for none.
    """

    context: int
    flags: int
    length_bytes: int
    data: int
    error: int = 0


def trigger_providers() -> list[str]:
    """Return the names of this machine's providers with triggered operations.

    Raises: ResourceError, saying what to install, if libfabric is missing.
    """
    lib = load_libfabric()
    hints, found = lib.calls.fi_dupinfo(lib.ffi.NULL), lib.ffi.new("struct fi_info **")
    hints.caps, hints.mode = fi.TRIGGER, fi.CONTEXT | fi.CONTEXT2
    hints.domain_attr.mr_mode = _MR_MODES
    status = lib.calls.fi_getinfo(fi.API_VERSION, lib.ffi.NULL, lib.ffi.NULL, 0, hints, found)
    lib.calls.fi_freeinfo(hints)
    names = set()
    info = found[0]
    while status == 0 and info:
        names.add(lib.ffi.string(info.fabric_attr.prov_name).decode())
        info = info.next
    if status == 0:
        lib.calls.fi_freeinfo(found[0])
    return sorted(names)


def _what_there_is() -> str:
    names = trigger_providers()
    if not names:
        return "none here has any; the libfabric1 of Debian brings `sockets`"
    return f"there {'is' if len(names) == 1 else 'are'} {', '.join(names)}"


class Domain:
    """One domain of one provider.

    `node`: the own address that a provider over IP listens at, or None; `name`: the domain, such as "cxi0".
    Raises: ResourceError if libfabric is missing, or the provider is, or has no deferred work.
    """

    def __init__(self, provider: str, node: str | None = None, name: str | None = None) -> None:
        self.lib: Libfabric = load_libfabric()
        self._keep: list[Any] = []
        self._open: list[Any] = []
        self._regions = 0
        self._found = self._find(provider, node, name)
        self.info = self._called(self._found, name)
        self._place = "".join(f" at {text}" for text in (name, node) if text)
        self.provider = self.lib.ffi.string(self.info.fabric_attr.prov_name).decode()
        try:
            self._set_up()
        except BaseException:
            self.close()
            raise

    def _find(self, provider: str, node: str | None, name: str | None) -> Any:
        ffi, calls = self.lib.ffi, self.lib.calls
        hints = calls.fi_dupinfo(ffi.NULL)
        names = ffi.new("char[]", provider.encode()), ffi.new("char[]", (name or "").encode())
        hints.caps, hints.mode = _CAPABILITIES, fi.CONTEXT | fi.CONTEXT2
        hints.ep_attr.type = fi.EP_RDM
        hints.domain_attr.mr_mode = _MR_MODES
        hints.domain_attr.threading = fi.THREAD_SAFE
        hints.tx_attr.msg_order = hints.rx_attr.msg_order = _ORDER
        hints.fabric_attr.prov_name = names[0]
        if name is not None:
            hints.domain_attr.name = names[1]
        found = ffi.new("struct fi_info **")
        own = (node or "").encode()
        status = calls.fi_getinfo(
            fi.API_VERSION, own or ffi.NULL, ffi.NULL, fi.SOURCE if own else 0, hints, found
        )
        hints.fabric_attr.prov_name = hints.domain_attr.name = ffi.NULL  # ours, not the library's to free
        calls.fi_freeinfo(hints)
        if status < 0 or not self._called(found[0], name):  # `cxi` finds nothing and says success
            where = "".join(f" at {text}" for text in (name, node) if text)
            version = ".".join(map(str, self.lib.version))
            if status == 0:
                calls.fi_freeinfo(found[0])
            raise ResourceError(
                f"libfabric {version} has no provider {provider!r} with triggered operations{where} "
                f"({self.lib.reason(status or _NO_DATA)}); {_what_there_is()}"
            )
        return found[0]

    def _called(self, info: Any, name: str | None) -> Any:
        """Return the first that was found of a domain (None: of any); `sockets` does not look at the hint."""
        while info and name is not None and self.lib.ffi.string(info.domain_attr.name).decode() != name:
            info = info.next
        return info

    def _set_up(self) -> None:
        ffi, lib = self.lib.ffi, self.lib
        null = ffi.NULL
        fabric = ffi.new("struct fid_fabric **")
        lib.check(lib.calls.fi_fabric(self.info.fabric_attr, fabric, null), "opening the fabric")
        self._fabric = self._opened(fabric[0])
        domain = ffi.new("struct fid_domain **")
        lib.check(
            self._fabric.ops.domain(self._fabric, self.info, domain, null),
            f"opening a domain of {self.provider}",
        )
        self._domain = self._opened(domain[0])
        self._domain_fid = ffi.addressof(self._domain.fid)
        queue_attr, owner = lib.padded("struct fi_cq_attr")
        self._keep.append(owner)
        queue_attr.size, queue_attr.format = _QUEUE_ENTRIES, fi.CQ_FORMAT_TAGGED
        queue = ffi.new("struct fid_cq **")
        lib.check(self._domain.ops.cq_open(self._domain, queue_attr, queue, null), "a completion queue")
        self._queue = self._opened(queue[0])
        vector_attr, owner = lib.padded("struct fi_av_attr")
        self._keep.append(owner)
        vector_attr.type = fi.AV_TABLE
        vector = ffi.new("struct fid_av **")
        lib.check(self._domain.ops.av_open(self._domain, vector_attr, vector, null), "an address vector")
        self._vector = self._opened(vector[0])
        self._entries = ffi.new("struct fi_cq_tagged_entry[]", _READ_AT_ONCE)

    def _opened(self, fid: Any) -> Any:
        self._open.append(fid)
        return fid

    @property
    def counter_count(self) -> int:
        """Counters that the domain has."""
        return int(self.info.domain_attr.cntr_cnt)

    @property
    def local_pieces(self) -> int:
        """Pieces of local memory that one operation may have."""
        return int(self.info.tx_attr.iov_limit)

    @property
    def max_message_bytes(self) -> int:
        """Bytes that one operation may move."""
        return int(self.info.ep_attr.max_msg_size)

    @property
    def max_tag(self) -> int:
        """The largest tag: `cxi` has 48 bits. Source: fi_endpoint(3), mem_tag_format."""
        return (1 << int(self.info.ep_attr.mem_tag_format).bit_length()) - 1

    def deferred_count(self) -> int | None:
        """Return how much deferred work all processes of this service have room for, where a provider says.

        Source: fi_cxi(7), CXI Domain Extensions, get_dwq_depth. The first word of operations is their size.
        """
        ffi, operations = self.lib.ffi, self._domain_fid.ops
        if self.provider != "cxi" or operations.size <= ffi.offsetof("struct fi_ops", "ops_open"):
            return None
        found, depth = ffi.new("void **"), ffi.new("size_t *")
        status = operations.ops_open(self._domain_fid, fi.CXI_DOMAIN_OPERATIONS, 0, found, ffi.NULL)
        if status or not found[0]:
            return None
        extension = ffi.cast("struct fi_cxi_dom_ops *", found[0])
        return None if extension.get_dwq_depth(self._domain_fid, depth) else int(depth[0]) or None

    def has_mode(self, mode: int) -> bool:
        """Whether the provider asks for a mode of memory registration."""
        return bool(self.info.domain_attr.mr_mode & mode)

    def endpoint(self) -> Endpoint:
        """Open an endpoint, bound to the completion queue and the address vector."""
        ffi, check = self.lib.ffi, self.lib.check
        opened = ffi.new("struct fid_ep **")
        check(
            self._domain.ops.endpoint(self._domain, self.info, opened, ffi.NULL),
            f"an endpoint of {self.provider}",
        )
        endpoint = self._opened(opened[0])
        fid = ffi.addressof(endpoint.fid)
        name, length = ffi.new("char[]", _NAME_BYTES), ffi.new("size_t *", _NAME_BYTES)
        with self._or_shut(endpoint):
            check(fid.ops.bind(fid, ffi.addressof(self._vector.fid), 0), "binding the address vector")
            flags = fi.SEND | fi.RECV | fi.SELECTIVE_COMPLETION
            check(fid.ops.bind(fid, ffi.addressof(self._queue.fid), flags), "binding the completion queue")
            check(fid.ops.control(fid, fi.ENABLE, ffi.NULL), f"enabling an endpoint{self._place}")
            check(endpoint.cm.getname(fid, name, length), "asking for the endpoint's address")
        return Endpoint(endpoint, bytes(ffi.buffer(name, length[0])))

    @contextmanager
    def _or_shut(self, fid: Any) -> Iterator[None]:
        """Close what has just been opened again if it cannot be set up."""
        try:
            yield
        except BaseException:
            self.shut(fid)
            raise

    def insert(self, address: bytes) -> int:
        """Return the number of a peer's address. Raises: UsageError for one that the provider cannot read."""
        ffi = self.lib.ffi
        if not isinstance(address, bytes) or not 0 < len(address) <= _NAME_BYTES:
            raise UsageError(
                f"{shown(address)} is no endpoint's address (EINVAL); a peer has its own, bytes, in `address`"
            )
        number = ffi.new("uint64_t *")
        padded = ffi.new("char[]", address + bytes(_NAME_BYTES - len(address)))
        taken = self._vector.ops.insert(self._vector, padded, 1, number, 0, ffi.NULL)
        if taken != 1:
            raise UsageError(f"{self.provider} does not take {address.hex()} for a peer's address")
        return int(number[0])

    def counter(self) -> Any:
        """Open a counter."""
        attributes, owner = self.lib.padded("struct fi_cntr_attr")
        attributes.wait_obj = fi.WAIT_NONE  # waits poll
        opened = self.lib.ffi.new("struct fid_cntr **")
        status = self._domain.ops.cntr_open(self._domain, attributes, opened, self.lib.ffi.NULL)
        self.lib.check(status, f"a counter of {self.provider}")
        del owner
        return self._opened(opened[0])

    def register(
        self, memory: object, address: int, length_bytes: int, endpoint: Endpoint, counter: Any = None
    ) -> Region:
        """Register memory for everything; `counter` counts what peers write to it."""
        ffi, check = self.lib.ffi, self.lib.check
        self._regions += 1
        opened = ffi.new("struct fid_mr **")
        flags = fi.RMA_EVENT if counter is not None else 0
        status = self._domain.mr.reg(
            ffi.addressof(self._domain.fid),
            ffi.cast("void *", address),
            length_bytes,
            _ACCESS,
            0,
            0 if self.has_mode(fi.MR_PROV_KEY) else self._regions,
            flags,
            opened,
            ffi.NULL,
        )
        check(status, f"registering {counted(length_bytes, 'byte')}")
        region = self._opened(opened[0])
        fid, counts = ffi.addressof(region.fid), fi.REMOTE_WRITE
        with self._or_shut(region):
            if self.has_mode(fi.MR_ENDPOINT):
                check(fid.ops.bind(fid, ffi.addressof(endpoint.fid.fid), 0), "binding memory to its endpoint")
            if counter is not None:
                check(fid.ops.bind(fid, ffi.addressof(counter.fid), counts), "binding memory's counter")
            if self.has_mode(fi.MR_ENDPOINT):
                check(fid.ops.control(fid, fi.ENABLE, ffi.NULL), "enabling memory")
        base = address if self.has_mode(fi.MR_VIRT_ADDR) else 0
        return Region(
            self._regions,
            address,
            length_bytes,
            base,
            int(region.key),
            region.mem_desc,
            region,
            memory,
        )

    def control(self, command: int, argument: Any) -> int:
        """Queue, cancel or flush deferred work; return libfabric's status."""
        return int(self._domain_fid.ops.control(self._domain_fid, command, argument))

    def read_queue(self) -> Iterator[QueueEntry]:
        """Yield what has come into the completion queue."""
        ffi, queue, entries = self.lib.ffi, self._queue, self._entries
        while True:
            count = queue.ops.read(queue, entries, _READ_AT_ONCE)
            for position in range(max(count, 0)):
                entry = entries[position]
                yield QueueEntry(_place(ffi, entry.op_context), entry.flags, entry.len, entry.data)
            if count == _AVAILABLE:
                yield from self._read_error()
            elif count < _READ_AT_ONCE:
                return

    def _read_error(self) -> Iterator[QueueEntry]:
        error, owner = self.lib.padded("struct fi_cq_err_entry")
        if self._queue.ops.readerr(self._queue, error, 0) == 1:
            place = _place(self.lib.ffi, error.op_context)
            yield QueueEntry(place, error.flags, error.len, error.data, int(error.err) or 5)
        del owner

    def shut(self, fid: Any) -> int:
        """Close one object; return libfabric's status."""
        base = self.lib.ffi.addressof(fid.fid)
        status = int(base.ops.close(base))
        if status == 0:
            self._open.remove(fid)
        return status

    def close(self) -> bool:
        """Close everything, in the order in which it depends on each other; return whether all was closed.

        Endpoints come first, so that nothing is under way to what follows; those that memory is bound to are
        busy, and are closed after it.
        """
        ffi = self.lib.ffi
        kinds = ("fid_ep", "fid_mr", "fid_ep", "fid_cntr", "fid_av", "fid_cq", "fid_domain", "fid_fabric")
        for kind in kinds:
            for fid in [fid for fid in self._open if ffi.typeof(fid) is ffi.typeof(f"struct {kind} *")]:
                self.shut(fid)
        if self._found is not None:
            self.lib.calls.fi_freeinfo(self._found)
            self._found = self.info = None
        return not self._open


def _place(ffi: Any, pointer: Any) -> int:
    return int(ffi.cast("uintptr_t", pointer))
