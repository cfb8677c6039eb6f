# SPDX-License-Identifier: Apache-2.0
"""Two RC queue pairs on one device, by bare pyverbs: what a machine is tried with before anything of ours.

Sources: pyverbs of rdma-core 44; ibv_modify_qp(3); ibv_post_send(3).
"""

from __future__ import annotations

import time
from ipaddress import IPv6Address
from types import TracebackType
from typing import Any, Self

from nicemu.fabric import Pyverbs

REGION_BYTES = 1 << 20
POLL_TIME_LIMIT_S = 20.0
PORT, ROCE_V2 = 1, 2
Handle = Any
"""An object of pyverbs, which has no types."""


class Endpoint:
    """A queue pair with a memory region and a completion queue of its own."""

    def __init__(self, verbs: Pyverbs, context: Handle, domain: Handle) -> None:
        e = verbs.enums
        self._verbs = verbs
        self.access = (
            e.IBV_ACCESS_LOCAL_WRITE
            | e.IBV_ACCESS_REMOTE_WRITE
            | e.IBV_ACCESS_REMOTE_READ
            | e.IBV_ACCESS_REMOTE_ATOMIC
        )
        self.queue = verbs.cq.CQ(context, 256)
        self.region = verbs.mr.MR(domain, REGION_BYTES, self.access)
        caps = verbs.qp.QPCap(64, 64, 4, 4, 0)
        first = verbs.qp.QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.queue, rcq=self.queue, cap=caps)
        self.qp = verbs.qp.QP(domain, first)

    def connect(self, peer: Endpoint, gid: Handle, gid_index: int) -> None:
        """Bring the queue pair up to ready-to-send towards a peer at a GID, which is this end's own too."""
        v = self._verbs
        attr = v.qp.QPAttr(port_num=PORT)
        attr.qp_access_flags = self.access
        attr.dest_qp_num = peer.qp.qp_num
        attr.path_mtu = v.enums.IBV_MTU_4096
        attr.rq_psn = attr.sq_psn = 0
        attr.max_rd_atomic = attr.max_dest_rd_atomic = 16
        attr.min_rnr_timer, attr.timeout = 12, 14
        attr.retry_cnt = attr.rnr_retry = 7
        route = v.addr.GlobalRoute(dgid=gid, sgid_index=gid_index)
        attr.ah_attr = v.addr.AHAttr(gr=route, is_global=1, port_num=PORT)
        self.qp.to_rts(attr)

    def receive(self, offset: int, length: int) -> None:
        """Post a receive into the region."""
        v = self._verbs
        piece = v.wr.SGE(self.region.buf + offset, length, self.region.lkey)
        self.qp.post_recv(v.wr.RecvWR(wr_id=1, num_sge=1, sg=[piece]))

    def post(
        self,
        opcode: int,
        length: int,
        *,
        offset: int = 0,
        remote: tuple[int, int] | None = None,
        immediate: int = 0,
        atomic: tuple[int, int] | None = None,
    ) -> None:
        """Post a signalled work request on a piece of the region. `remote` is (rkey, address)."""
        v = self._verbs
        piece = v.wr.SGE(self.region.buf + offset, length, self.region.lkey)
        request = v.wr.SendWR(
            wr_id=2,
            opcode=opcode,
            num_sge=1,
            sg=[piece],
            send_flags=v.enums.IBV_SEND_SIGNALED,
            imm_data=immediate,
        )
        if atomic is not None and remote is not None:
            request.set_wr_atomic(*remote, *atomic)
        elif remote is not None:
            request.set_wr_rdma(*remote)
        self.qp.post_send(request)

    def completion(self) -> Handle:
        """Wait for the next completion and return it."""
        end = time.monotonic() + POLL_TIME_LIMIT_S
        while time.monotonic() < end:
            count, completions = self.queue.poll(1)
            if count:
                return completions[0]
        raise TimeoutError(f"no completion in {POLL_TIME_LIMIT_S} s")

    def remote(self, offset: int = 0) -> tuple[int, int]:
        """Return (rkey, address) of a place in the region, as a peer names it."""
        return self.region.rkey, self.region.buf + offset

    def read(self, length: int, offset: int = 0) -> bytes:
        """Return bytes of the region."""
        data: bytes = self.region.read(length, offset)
        return data

    def write(self, data: bytes, offset: int = 0) -> None:
        """Write bytes into the region."""
        self.region.write(data, len(data), offset)


class Pair:
    """Two endpoints of one device, connected; `here` and `there` of one process."""

    def __init__(self, verbs: Pyverbs, device_name: str) -> None:
        self._context = verbs.device.Context(name=device_name)
        self._domain = verbs.pd.PD(self._context)
        self.here = Endpoint(verbs, self._context, self._domain)
        self.there = Endpoint(verbs, self._context, self._domain)
        gid_index = _gid_index(self._context)
        gid = self._context.query_gid(PORT, gid_index)
        self.here.connect(self.there, gid, gid_index)
        self.there.connect(self.here, gid, gid_index)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._domain.close()  # closes queue pairs and regions too
        self._context.close()


def _gid_index(context: Handle) -> int:
    """Return the index of the port's first RoCEv2 address over IPv4; 0 where it has none."""
    table = context.query_gid_table(context.query_port(PORT).gid_tbl_len)
    fitting = [one for one in table if one.gid_type == ROCE_V2 and IPv6Address(one.gid_str()).ipv4_mapped]
    return min((one.gid_index for one in fitting), default=0)
