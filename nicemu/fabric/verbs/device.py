# SPDX-License-Identifier: Apache-2.0
"""An RDMA device as verbs show it: its context, one completion queue, its events, its address.

Sources: ibv_open_device(3), ibv_create_comp_channel(3), ibv_get_cq_event(3), ibv_get_async_event(3),
ibv_query_gid(3); pyverbs of rdma-core 44 ("documentation/pyverbs.md").
"""

from __future__ import annotations

import os
import select
import weakref
from ipaddress import IPv6Address

from nicemu.abi import Opcode
from nicemu.errors import ResourceError

from .library import Pyverbs, load_pyverbs, require_rdma_device
from .requests import Handle, Requests

PORT = 1
MAX_COMPLETIONS = 32767
"""Entries of the completion queue: what SoftRoCE has at most."""
POLL_BATCH = 64
_ROCE_V2, _ETHERNET = 2, 2
"""Source: rdma-core, `enum ibv_gid_type` and IBV_LINK_LAYER_ETHERNET."""
_EVENT_LINK = "infinibandevent"
_OPCODES = {
    Opcode.RDMA_WRITE: "IBV_WR_RDMA_WRITE",
    Opcode.RDMA_WRITE_WITH_IMM: "IBV_WR_RDMA_WRITE_WITH_IMM",
    Opcode.RDMA_READ: "IBV_WR_RDMA_READ",
    Opcode.SEND: "IBV_WR_SEND",
    Opcode.SEND_WITH_IMM: "IBV_WR_SEND_WITH_IMM",
    Opcode.COMPARE_SWAP: "IBV_WR_ATOMIC_CMP_AND_SWP",
    Opcode.FETCH_ADD: "IBV_WR_ATOMIC_FETCH_AND_ADD",
}


class VerbsDevice:
    """One RDMA device, opened. `ip` chooses among its addresses, where one of them is that.

    Raises: ResourceError where pyverbs or the device is missing, or cannot be opened.
    """

    def __init__(self, name: str, ip: str = "") -> None:
        self.verbs: Pyverbs = load_pyverbs()
        names = require_rdma_device()
        if name not in names:
            raise ResourceError(f"there is no RDMA device {name!r}; this machine has {', '.join(names)}")
        self.name = name
        self.opcodes = {opcode: getattr(self.verbs.enums, text) for opcode, text in _OPCODES.items()}
        self.requests = Requests(self.verbs)
        self.error: type[Exception] = self.verbs.pyverbs_error.PyverbsError
        v = self.verbs
        known = _event_descriptors()
        try:
            self.context: Handle = v.device.Context(name=name)
            self._async_fd = self._new_descriptor(known)
            self._channel: Handle = v.cq.CompChannel(self.context)
            self._channel_fd = self._new_descriptor(known)
            limits = self.context.query_device()
            self.depth: int = min(MAX_COMPLETIONS, limits.max_cqe)
            self.queue: Handle = v.cq.CQ(self.context, self.depth, None, self._channel, 0)
            port = self.context.query_port(PORT)
        except self.error as error:
            raise ResourceError(f"RDMA device {name}: {error}") from error
        self._close = weakref.finalize(self, self.context.close)  # before the interpreter is gone, too
        self.mtu = 128 << port.active_mtu
        self.lid: int = port.lid
        self.max_message_bytes: int = port.max_msg_sz
        self.max_reads: int = max(1, min(16, limits.max_qp_rd_atom, limits.max_qp_init_rd_atom))
        self.is_ethernet = port.link_layer == _ETHERNET
        self.gid_index, self.gid = self._address(ip, port.gid_tbl_len)
        self._is_armed = False
        self._channel_poll, self._async_poll = select.poll(), select.poll()
        self._channel_poll.register(self._channel_fd, select.POLLIN)
        self._async_poll.register(self._async_fd, select.POLLIN)

    def _new_descriptor(self, known: set[int]) -> int:
        """Return the descriptor that verbs has just made, which pyverbs keeps to itself; nothing waits in
        it.
        """
        (new,) = _event_descriptors() - known
        known.add(new)
        os.set_blocking(new, False)
        return new

    def _address(self, ip: str, count: int) -> tuple[int, str]:
        """Return index and text of the GID to be reached by: that of `ip`, else RoCEv2 over IPv4, else any.

        Source: ibv_query_gid_table(3).
        """
        wanted = IPv6Address(f"::ffff:{ip}") if ip else None
        found: list[tuple[int, int, str]] = []
        for entry in self.context.query_gid_table(count):
            if entry.port_num != PORT:
                continue
            text = entry.gid_str()
            address = IPv6Address(text)
            is_v2 = entry.gid_type == _ROCE_V2
            rank = 0 if is_v2 and address == wanted else 1 if is_v2 and address.ipv4_mapped else 2
            found.append((rank if is_v2 or not self.is_ethernet else 3, entry.gid_index, text))
        if not found:
            raise ResourceError(f"RDMA device {self.name} has no address; is its port up (rdma link)?")
        _, index, text = min(found)
        return index, text

    @property
    def descriptors(self) -> list[int]:
        """What is readable when there are completions or events."""
        return [self._channel_fd, self._async_fd]

    def poll(self) -> list[Handle]:
        """Return completions, at most `POLL_BATCH`. Raises: ResourceError if the queue is broken."""
        try:
            count, completions = self.queue.poll(POLL_BATCH)
        except self.error as error:
            raise ResourceError(f"the completion queue of {self.name} cannot be read: {error}") from error
        return completions if count else []

    def arm(self) -> None:
        """Let the channel tell of the next completion; look once more before waiting for that."""
        if not self._is_armed:
            self.queue.req_notify(False)
            self._is_armed = True

    def acknowledge(self) -> None:
        """Take the channel's event, if there is one."""
        if self._is_armed and self._channel_poll.poll(0):
            self._channel.get_cq_event(self.queue)
            self.queue.ack_events(1)
            self._is_armed = False

    def events(self) -> list[str]:
        """Return the names of asynchronous events that have come, such as "qp_fatal"."""
        names = []
        while self._async_poll.poll(0):
            try:
                event = self.context.get_async_event()
            except self.error:
                break
            names.append(self._event_name(event.event_type))
            event.ack()
        return names

    def _event_name(self, kind: int) -> str:
        for name in dir(self.verbs.enums):
            if name.startswith("IBV_EVENT_") and getattr(self.verbs.enums, name) == kind:
                return name.removeprefix("IBV_EVENT_").lower()
        return f"event_{kind}"

    def close(self) -> None:
        """Close the device with all that was made on it."""
        self._close()


def _event_descriptors() -> set[int]:
    """Return the descriptors of this process that tell of an RDMA device's events."""
    found = set()
    for entry in os.listdir("/proc/self/fd"):
        try:
            if _EVENT_LINK in os.readlink(f"/proc/self/fd/{entry}"):
                found.add(int(entry))
        except OSError:  # the one that listed them
            continue
    return found
