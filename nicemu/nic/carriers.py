# SPDX-License-Identifier: Apache-2.0
"""What stands behind a queue pair's number: nothing where work is a copy, else a queue pair of a transport.

The NIC numbers its queue pairs and says who owns them; a carrier creates, connects and fails what carries
their work.
"""

from __future__ import annotations

from typing import Any, Protocol

from nicemu.errors import UsageError
from nicemu.rdma import OutsideTransport, QpState, RemoteQp, RoceEngine

from .config import NicConfig, mac_of


class Carrier(Protocol):
    """Creates and connects what carries the work of queue pairs. `OutsideTransport` is one."""

    def create(self, qp_num: int, pd: int, implicit_receives: bool) -> None:
        """Create it, in INIT. Raises: ResourceError."""
        ...

    def offer(self, qp_num: int) -> dict[str, Any]:
        """Return what a peer's carrier has to know, "psn" at least."""
        ...

    def connect(self, qp_num: int, offer: dict[str, Any]) -> None:
        """Bring it to ready-to-send. Raises: ProtocolError."""
        ...

    def fail(self, qp_num: int) -> None:
        """Move it to the error state, if it is not there."""
        ...

    def destroy(self, qp_num: int) -> None:
        """Remove it."""
        ...


def carrier_of(config: NicConfig, roce: RoceEngine, outside: OutsideTransport | None) -> Carrier:
    """Return what carries a NIC's work.

    Raises: UsageError unless there is a transport outside just where the config says "verbs".
    """
    if (outside is not None) != (config.transport == "verbs"):
        raise UsageError(f'{config.name}: transport "verbs" and an RDMA device go together')
    if outside is not None:
        return outside
    return RoceCarrier(roce, config) if config.transport == "port" else NoCarrier()


class NoCarrier:
    """For work that is a copy on this machine: the datapath needs no more than the NIC's own tables."""

    def create(self, qp_num: int, pd: int, implicit_receives: bool) -> None:
        """Do nothing."""

    def offer(self, qp_num: int) -> dict[str, Any]:
        """Return a first PSN that nobody uses."""
        return {"psn": 0}

    def connect(self, qp_num: int, offer: dict[str, Any]) -> None:
        """Do nothing."""

    def fail(self, qp_num: int) -> None:
        """Do nothing."""

    def destroy(self, qp_num: int) -> None:
        """Do nothing."""


class RoceCarrier:
    """Queue pairs of the RoCEv2 engine, which have the NIC's numbers."""

    def __init__(self, roce: RoceEngine, config: NicConfig) -> None:
        self._roce = roce
        self._config = config

    def create(self, qp_num: int, pd: int, implicit_receives: bool) -> None:
        """Create it, in INIT."""
        self._roce.create_qp(
            qp_num,
            pd,
            path_mtu=self._config.path_mtu,
            timeout_ns=self._config.ack_timeout_ns,
            implicit_receives=implicit_receives,
            selective_retransmission=self._config.selective_retransmission,
            congestion_control=self._config.congestion_control,
        )
        self._roce.modify(qp_num, QpState.INIT)

    def offer(self, qp_num: int) -> dict[str, Any]:
        """Return the first PSN."""
        return {"psn": self._roce.local(qp_num).psn}

    def connect(self, qp_num: int, offer: dict[str, Any]) -> None:
        """Bring it to ready-to-send; the peer's MAC address is made of its IP address."""
        ip = str(offer.get("ip"))
        ip = self._config.roce_ips.get(ip, ip)
        remote = RemoteQp(mac_of(ip), ip, offer["qp_num"], offer["psn"])
        self._roce.modify(qp_num, QpState.RTR, remote=remote)
        self._roce.modify(qp_num, QpState.RTS)

    def fail(self, qp_num: int) -> None:
        """Move it to the error state, if it is not there."""
        if self._roce.state(qp_num) is not QpState.ERR:
            self._roce.modify(qp_num, QpState.ERR)

    def destroy(self, qp_num: int) -> None:
        """Remove it."""
        self._roce.destroy_qp(qp_num)
