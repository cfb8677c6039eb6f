# SPDX-License-Identifier: Apache-2.0
"""Queue pairs coming together: of host processes with a peer's firmware, and of peers with this NIC's."""

from __future__ import annotations

from contextlib import suppress
from ipaddress import IPv4Address
from typing import TYPE_CHECKING, Any

from nicemu.abi import registers
from nicemu.errors import NicemuError, UsageError, counted
from nicemu.firmware import Connection
from nicemu.rdma import FLAG_ARRIVAL_EVENTS, FLAG_IMPLICIT_RECEIVES

from .arena import FIRMWARE
from .card import SERVICE_PD
from .owner import Owner
from .windows import names_queue_pair

if TYPE_CHECKING:
    from .device import SmartNic


class Connections:
    """The connections of one NIC."""

    def __init__(self, device: SmartNic) -> None:
        self._device = device

    def begin(
        self, owner: Owner, peer_name: str, flags: int, private_data: dict[str, int]
    ) -> tuple[int, dict[str, Any]]:
        """Create a queue pair of a host process; return its number and what the peer has to know."""
        device = self._device
        peer = device.queue_pairs.peer(peer_name)
        first_queue = owner.number * registers.QUEUE_COUNT
        qp = device.queue_pairs.create(peer, owner.pd, owner.number, flags, first_queue)
        owner.queue_pairs.add(qp)
        return qp, device.queue_pairs.offer(qp, private_data)

    def end(self, owner: Owner, qp: int) -> None:
        """Take a queue pair of a host process back, which its peer refused."""
        device = self._device
        owner.queue_pairs.discard(qp)
        with device.rings.paused():
            device.queue_pairs.destroy(qp)

    def disconnect(self, owner: Owner, qp: int, force: bool = False) -> tuple[str, int | None]:
        """Destroy a queue pair of a host process; return its peer, and the number at the peer's end.

        `force` cancels the armed work that names it; what was posted or is on its way goes without a
        completion.
        Raises: UsageError if it is not the process's, or (EBUSY) while armed work names it, with `force` what
        is due and cannot go.
        """
        device = self._device
        if qp not in owner.queue_pairs:
            raise UsageError(f"queue pair {qp} is not one of this process (EINVAL)")
        peer, number = device.queue_pairs.numbers[qp], device.queue_pairs.remote_numbers.get(qp)
        with device.rings.paused():
            if force:
                device.windows.remove(owner, lambda work: names_queue_pair(work, qp))
                device.unit.cancel_queue_pair(qp)
            using = device.unit.armed_on_queue_pair(qp, force)
            using += device.windows.count(owner, lambda work: names_queue_pair(work, qp))
            if using:
                armed = counted(using, "armed operation")
                cure = "close the counters of what is due by force" if force else "cancel them, or use force"
                raise UsageError(f"queue pair {qp} is named by {armed} (EBUSY); {cure}")
            owner.queue_pairs.discard(qp)
            device.queue_pairs.destroy(qp)
        device.settle()
        return peer, number

    def accept(self, offer: dict[str, Any], now_ns: int) -> dict[str, Any]:
        """A peer connects to this NIC's firmware: create the other queue pair, ready to send, and answer.

        Raises: NicemuError if the firmware takes no connections or the offer makes no sense; nothing is kept.
        """
        device = self._device
        device.now_ns = now_ns
        if device.firmware.connect is None:
            raise NicemuError(
                f"the firmware of {device.config.name} takes no connections (it has no @on_connect)"
            )
        peer = device.queue_pairs.peer(str(offer.get("nic")), str(offer.get("ip")))
        flags = FLAG_IMPLICIT_RECEIVES | FLAG_ARRIVAL_EVENTS
        qp = device.queue_pairs.create(peer, SERVICE_PD, FIRMWARE, flags, -1)
        try:
            device.queue_pairs.connect(qp, offer)
            address = int(IPv4Address(peer.ip))
            connection = Connection(peer.name, address, qp, dict(offer["private_data"]))
            private = device.call_hook("on_connect", device.firmware.connect, connection)
            if not isinstance(private, dict) or not all(isinstance(word, int) for word in private.values()):
                raise NicemuError(f"@on_connect returned {private!r}; a dict of numbers was expected")
        except Exception:
            with device.rings.paused():
                device.queue_pairs.destroy(qp)
            raise
        device.settle()
        return device.queue_pairs.offer(qp, private)

    def lost(self, qp: int, now_ns: int) -> None:
        """The other end of a queue pair is gone: the firmware's goes too, a host process's is in error."""
        device = self._device
        device.now_ns = now_ns
        if qp not in device.queue_pairs.numbers:
            return
        if device.arena.rdma.queue_pairs[qp].owner != FIRMWARE:
            with device.rings.paused():
                device.queue_pairs.fail(qp)
            device.settle()
            return
        if device.firmware.disconnect is not None:
            with suppress(NicemuError):
                device.call_hook("on_disconnect", device.firmware.disconnect, qp)
        with device.rings.paused():
            device.queue_pairs.destroy(qp)
        device.settle()
