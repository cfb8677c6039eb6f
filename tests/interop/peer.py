# SPDX-License-Identifier: Apache-2.0
"""The other end of the interoperability tests: verbs on the kernel's rxe, ordered about by lines of JSON.

It runs in a guest, as a program of its own, on an emulated processor: it imports pyverbs and nothing of
nicemu. Each line of its input is an order, {"do": NAME, ...}; each gets one line back, {"result": ...} or
{"error": ...}, in order. Regions are filled from seeds and told by digests, so that lines stay short.
Usage: peer.py DEVICE GID
Sources: rdma-core, pyverbs; ibv_modify_qp(3), ibv_post_send(3), ibv_poll_cq(3).
"""

from __future__ import annotations

import hashlib
import importlib.machinery
import importlib.util
import json
import random
import socket
import sys
import time
from importlib import import_module
from typing import Any

DISTRIBUTION = "/usr/lib/python3/dist-packages"
IPV4_GID_INDEX = 1
QUEUE_DEPTH = 512
PHYSICAL_PORT = 1
FIRST_DATAGRAM_PSN = 0xFFFFFE
ATTRIBUTES = (
    "dest_qp_num",
    "path_mtu",
    "rq_psn",
    "sq_psn",
    "min_rnr_timer",
    "timeout",
    "retry_cnt",
    "rnr_retry",
)
Handle = Any
"""An object of pyverbs, which has no types."""
Order = dict[str, Any]
Answer = Any
"""What JSON can say."""


def load_pyverbs() -> None:
    """Have pyverbs found where the distribution has it, and nothing else of there."""
    spec = importlib.machinery.PathFinder.find_spec("pyverbs", [DISTRIBUTION])
    if spec is None or spec.loader is None:
        raise SystemExit(f"no pyverbs in {DISTRIBUTION}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["pyverbs"] = module
    spec.loader.exec_module(module)


class QueuePair:
    """A queue pair with a completion queue and a memory region of its own."""

    def __init__(
        self,
        context: Handle,
        domain: Handle,
        region_bytes: int,
        rights: int | None,
        q_key: int | None = None,
    ) -> None:
        self.e = import_module("pyverbs.enums")
        self.wr = import_module("pyverbs.wr")
        self._qp = import_module("pyverbs.qp")
        self._addr = import_module("pyverbs.addr")
        self.rights = (
            self.e.IBV_ACCESS_LOCAL_WRITE
            | self.e.IBV_ACCESS_REMOTE_WRITE
            | self.e.IBV_ACCESS_REMOTE_READ
            | self.e.IBV_ACCESS_REMOTE_ATOMIC
        )
        self.queue = import_module("pyverbs.cq").CQ(context, 2 * QUEUE_DEPTH)
        granted = self.rights if rights is None else rights
        self.region = import_module("pyverbs.mr").MR(domain, region_bytes, granted)
        caps = self._qp.QPCap(QUEUE_DEPTH, QUEUE_DEPTH, 4, 4, 0)
        kind = self.e.IBV_QPT_RC if q_key is None else self.e.IBV_QPT_UD
        first = self._qp.QPInitAttr(qp_type=kind, scq=self.queue, rcq=self.queue, cap=caps)
        self._domain = domain
        if q_key is None:
            self.qp = self._qp.QP(domain, first)
            return
        attributes = self._qp.QPAttr(port_num=PHYSICAL_PORT)
        attributes.qkey, attributes.sq_psn = q_key, FIRST_DATAGRAM_PSN
        self.qp = self._qp.QP(domain, first, attributes)  # ready to send, with that

    def path(self, gid: str) -> Handle:
        """Return an address handle of a host behind the other end of the link."""
        route = self._addr.GlobalRoute(dgid=self._addr.GID(gid), sgid_index=IPV4_GID_INDEX)
        return self._addr.AH(
            self._domain, attr=self._addr.AHAttr(gr=route, is_global=1, port_num=PHYSICAL_PORT)
        )

    def connect(self, gid: str, order: Order) -> None:
        """Bring the queue pair up to ready-to-send; `order` has the attributes by their verbs names."""
        attributes = self._qp.QPAttr(port_num=PHYSICAL_PORT)
        attributes.qp_access_flags = self.rights
        attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 16
        for name in ATTRIBUTES:
            setattr(attributes, name, order[name])
        route = self._addr.GlobalRoute(dgid=self._addr.GID(gid), sgid_index=IPV4_GID_INDEX)
        attributes.ah_attr = self._addr.AHAttr(gr=route, is_global=1, port_num=PHYSICAL_PORT)
        self.qp.to_rts(attributes)

    def pieces(self, order: Order) -> list[Handle]:
        """Return the piece of the region that an order names."""
        return [self.wr.SGE(self.region.buf + order["offset"], order["length"], self.region.lkey)]

    def close(self) -> None:
        """Give everything back, in the order that verbs want."""
        self.qp.close()
        self.region.close()
        self.queue.close()


class Peer:
    """Carries out orders on one device."""

    def __init__(self, device: str, gid: str) -> None:
        self._context = import_module("pyverbs.device").Context(name=device)
        self._domain = import_module("pyverbs.pd").PD(self._context)
        self._gid = gid
        self._pairs: dict[int, QueuePair] = {}
        self._paths: list[Handle] = []

    def open(self, order: Order) -> Answer:
        """Make a queue pair; its number, key, and the region's address."""
        rights, q_key = order.get("rights"), order.get("q_key")
        pair = QueuePair(self._context, self._domain, order["region_bytes"], rights, q_key)
        self._pairs[pair.qp.qp_num] = pair
        return {"qp": pair.qp.qp_num, "rkey": pair.region.rkey, "address": pair.region.buf}

    def connect(self, order: Order) -> Answer:
        """Connect a queue pair to one behind the other end of the link."""
        self._pairs[order["qp"]].connect(self._gid, order)

    def fill(self, order: Order) -> Answer:
        """Fill a piece of the region: from `seed`, or with the bytes `hex`."""
        data = bytes.fromhex(order["hex"]) if "hex" in order else None
        if data is None:
            data = random.Random(order["seed"]).randbytes(order["length"])
        self._pairs[order["qp"]].region.write(data, len(data), order["offset"])

    def digest(self, order: Order) -> Answer:
        """Return the SHA-256 of a piece of the region."""
        data = self._pairs[order["qp"]].region.read(order["length"], order["offset"])
        return hashlib.sha256(data).hexdigest()

    def read(self, order: Order) -> Answer:
        """Return a piece of the region in hexadecimal."""
        return self._pairs[order["qp"]].region.read(order["length"], order["offset"]).hex()

    def receive(self, order: Order) -> Answer:
        """Post `count` receives into the same piece."""
        pair = self._pairs[order["qp"]]
        for number in range(order["count"]):
            request = pair.wr.RecvWR(wr_id=order["id"] + number, num_sge=1, sg=pair.pieces(order))
            pair.qp.post_recv(request)

    def post(self, order: Order) -> Answer:
        """Post work, signalled."""
        pair = self._pairs[order["qp"]]
        request = pair.wr.SendWR(
            wr_id=order["id"],
            opcode=getattr(pair.e, f"IBV_WR_{order['op']}"),
            num_sge=1,
            sg=pair.pieces(order),
            send_flags=pair.e.IBV_SEND_SIGNALED,
            imm_data=socket.htonl(order.get("imm", 0)),
        )
        if "compare_add" in order:
            request.set_wr_atomic(order["rkey"], order["address"], order["compare_add"], order["swap"])
        elif "remote_q_key" in order:
            self._paths.append(pair.path(self._gid))
            request.set_wr_ud(self._paths[-1], order["remote_qp"], order["remote_q_key"])
        elif "rkey" in order:
            request.set_wr_rdma(order["rkey"], order["address"])
        pair.qp.post_send(request)

    def poll(self, order: Order) -> Answer:
        """Return `count` completions, or those that came within `time_limit_s`."""
        pair = self._pairs[order["qp"]]
        found: list[dict[str, int]] = []
        end = time.monotonic() + order["time_limit_s"]
        while len(found) < order["count"] and time.monotonic() < end:
            count, completions = pair.queue.poll(order["count"] - len(found))
            if not count:
                time.sleep(0.0005)  # the processors here are the kernel's, too
                continue
            found += [
                {
                    "id": one.wr_id,
                    "status": one.status,
                    "opcode": one.opcode,
                    "bytes": one.byte_len,
                    "imm": socket.ntohl(one.imm_data & 0xFFFFFFFF),
                    "source_qp": one.src_qp,
                    "flags": one.wc_flags,
                }
                for one in completions
            ]
        return found

    def state(self, order: Order) -> Answer:
        """Return the state of a queue pair, as enum ibv_qp_state has it."""
        pair = self._pairs[order["qp"]]
        attributes, _ = pair.qp.query(pair.e.IBV_QP_STATE)
        return attributes.qp_state

    def close(self, order: Order) -> Answer:
        """Destroy a queue pair and its region."""
        self._pairs.pop(order["qp"]).close()


def main(device: str, gid: str) -> None:
    """Say that the peer is ready, then take orders until the input ends."""
    load_pyverbs()
    peer = Peer(device, gid)
    print(json.dumps({"result": "ready"}), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        try:
            answer = {"result": getattr(peer, order["do"])(order)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
