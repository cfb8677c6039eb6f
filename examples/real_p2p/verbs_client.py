# SPDX-License-Identifier: Apache-2.0
"""An ordinary verbs program, which `end_to_end.py` runs in a guest: fetches and stores chunks over rxe.

It imports pyverbs and nothing of nicemu: the other end of the wire is, for it, some RDMA peer. Lines of JSON
go both ways: it says where its region is, hears of the other queue pair, then tells each chunk with the
CRC-32 of what lies in its memory.
Usage: verbs_client.py DEVICE GID CHUNKS CHUNK_BYTES
Sources: rdma-core, pyverbs; ibv_modify_qp(3), ibv_post_send(3), ibv_poll_cq(3).
"""

from __future__ import annotations

import importlib.machinery
import importlib.util
import json
import random
import socket
import sys
import time
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any

DISTRIBUTION = "/usr/lib/python3/dist-packages"
IPV4_GID_INDEX, PHYSICAL_PORT = 1, 1
PATH_MTU_4096 = 5
FIRST_PSN = 0x1234
QUEUE_DEPTH = 256
STORE, FAILED, FIRE = 1 << 31, 1 << 30, 1 << 29
PATIENCE_S = 60.0
IDLE_S = 0.0005
COUNTED = ("rcvd_pkts", "sent_pkts", "duplicate_request", "out_of_seq_request", "retry_exceeded_err")
Handle = Any
"""An object of pyverbs, which has no types."""


def load_pyverbs() -> None:
    """Have pyverbs found where the distribution has it, and nothing else of there."""
    spec = importlib.machinery.PathFinder.find_spec("pyverbs", [DISTRIBUTION])
    if spec is None or spec.loader is None:
        raise SystemExit(f"no pyverbs in {DISTRIBUTION}")
    module = importlib.util.module_from_spec(spec)
    sys.modules["pyverbs"] = module
    spec.loader.exec_module(module)


def say(**said: object) -> None:
    """Tell the program that started this one."""
    print(json.dumps(said), flush=True)


class Client:
    """One queue pair, with a region that holds all chunks."""

    def __init__(self, device: str, chunk_count: int, chunk_bytes: int) -> None:
        self.e = import_module("pyverbs.enums")
        self.wr = import_module("pyverbs.wr")
        self._qp = import_module("pyverbs.qp")
        self.chunk_count, self.chunk_bytes = chunk_count, chunk_bytes
        self._context = import_module("pyverbs.device").Context(name=device)
        domain = import_module("pyverbs.pd").PD(self._context)
        rights = self.e.IBV_ACCESS_LOCAL_WRITE | self.e.IBV_ACCESS_REMOTE_WRITE
        self.region = import_module("pyverbs.mr").MR(domain, chunk_count * chunk_bytes, rights)
        self.queue = import_module("pyverbs.cq").CQ(self._context, 2 * QUEUE_DEPTH)
        caps = self._qp.QPCap(QUEUE_DEPTH, QUEUE_DEPTH, 1, 1, 0)
        first = self._qp.QPInitAttr(qp_type=self.e.IBV_QPT_RC, scq=self.queue, rcq=self.queue, cap=caps)
        self.pair = self._qp.QP(domain, first)
        self.remote: dict[str, int] = {}

    def connect(self, gid: str, answer: dict[str, Any]) -> None:
        """Bring the queue pair to ready-to-send; the peer has granted places for what is to be stored."""
        self.remote = answer["private_data"]
        address = import_module("pyverbs.addr")
        wanted = self._qp.QPAttr(port_num=PHYSICAL_PORT)
        wanted.qp_access_flags = self.e.IBV_ACCESS_LOCAL_WRITE | self.e.IBV_ACCESS_REMOTE_WRITE
        wanted.dest_qp_num, wanted.rq_psn, wanted.sq_psn = answer["qp_num"], answer["psn"], FIRST_PSN
        wanted.path_mtu, wanted.min_rnr_timer, wanted.timeout = PATH_MTU_4096, 12, 18
        wanted.retry_cnt = wanted.rnr_retry = 7
        route = address.GlobalRoute(dgid=address.GID(gid), sgid_index=IPV4_GID_INDEX)
        wanted.ah_attr = address.AHAttr(gr=route, is_global=1, port_num=PHYSICAL_PORT)
        self.pair.to_rts(wanted)
        for _ in range(2 * self.remote["places"]):
            self.receive()

    def receive(self) -> None:
        """Post a receive, which the immediate of a write will take."""
        piece = self.wr.SGE(self.region.buf, 0, self.region.lkey)
        self.pair.post_recv(self.wr.RecvWR(num_sge=1, sg=[piece]))

    def write(self, immediate: int, offset: int = 0, length: int = 0, to: int = 0) -> None:
        """Write a piece of the region to the peer, with an immediate."""
        work = self.wr.SendWR(
            opcode=self.e.IBV_WR_RDMA_WRITE_WITH_IMM,
            num_sge=1,
            sg=[self.wr.SGE(self.region.buf + offset, length, self.region.lkey)],
            send_flags=self.e.IBV_SEND_SIGNALED,
            imm_data=socket.htonl(immediate),
        )
        work.set_wr_rdma(self.remote["rkey"], self.remote["address"] + to)
        self.pair.post_send(work)

    def wait(self) -> int:
        """Return the next immediate that has come. What fails ends the program."""
        end = time.monotonic() + PATIENCE_S
        while time.monotonic() < end:
            count, completions = self.queue.poll(1)
            if not count:
                time.sleep(IDLE_S)  # the processors here are the kernel's, too
                continue
            done = completions[0]
            if done.status:
                raise SystemExit(f"a completion with status {done.status}")
            if done.opcode == self.e.IBV_WC_RECV_RDMA_WITH_IMM:
                self.receive()
                immediate = socket.ntohl(done.imm_data & 0xFFFFFFFF)
                if immediate & FAILED:
                    raise SystemExit(f"the NIC could not serve chunk {immediate & (FIRE - 1)}")
                return immediate
        raise SystemExit(f"nothing came within {PATIENCE_S} s")

    def checksum(self, number: int) -> int:
        """Return the CRC-32 of a chunk as it lies in the region."""
        return zlib.crc32(self.region.read(self.chunk_bytes, number * self.chunk_bytes))

    def fetch(self, kind: int, name: str) -> None:
        """Zero the region, and have every chunk written into it, a few at a time."""
        for number in range(self.chunk_count):
            self.region.write(bytes(self.chunk_bytes), self.chunk_bytes, number * self.chunk_bytes)
        asked = 0
        for landed in range(self.chunk_count):
            while asked < min(landed + self.remote["places"], self.chunk_count):
                self.write(kind | asked)
                asked += 1
            number = self.wait() & ~kind
            say(leg=name, chunk=number, crc=self.checksum(number))

    def store(self) -> None:
        """Make new chunks, write each into its place of NIC memory, hear that it is durable."""
        places, written, durable = self.remote["places"], 0, set[int]()
        while len(durable) < self.chunk_count:
            while written < self.chunk_count and (written < places or written - places in durable):
                offset = written * self.chunk_bytes
                self.region.write(
                    random.Random(written).randbytes(self.chunk_bytes), self.chunk_bytes, offset
                )
                say(leg="made", chunk=written, crc=self.checksum(written))
                place = written % places * self.chunk_bytes
                self.write(STORE | written, offset, self.chunk_bytes, place)
                written += 1
            durable.add(number := self.wait() & ~STORE)
            say(leg="stored", chunk=number)


def main(device: str, gid: str, chunk_count: int, chunk_bytes: int) -> None:
    """Connect, fetch, store, and say what the kernel has counted."""
    load_pyverbs()
    client = Client(device, chunk_count, chunk_bytes)
    region = {"address": client.region.buf, "rkey": client.region.rkey}
    region |= {"chunk_count": chunk_count, "chunk_bytes": chunk_bytes}
    say(qp_num=client.pair.qp_num, psn=FIRST_PSN, private_data=region)
    client.connect(gid, json.loads(sys.stdin.readline()))
    client.fetch(0, "fetched")
    say(phase="fetched")
    client.fetch(FIRE, "fired")
    say(phase="fired")
    client.store()
    counters = Path(f"/sys/class/infiniband/{device}/ports/{PHYSICAL_PORT}/hw_counters")
    say(
        phase="stored",
        kernel={
            name: int((counters / name).read_text(encoding="utf-8"))
            for name in COUNTED
            if (counters / name).exists()
        },
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
