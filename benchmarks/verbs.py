# SPDX-License-Identifier: Apache-2.0
"""The transport over an RDMA device, beside programs that use the same device without nicemu.

What is measured is `VerbsTransport` alone: the seam that a NIC's control thread calls. Bandwidth: writes of
64 KiB, 64 under way, beside perftest's `ib_write_bw` with as many. Latency: one write of 4 KiB from the post
until its completion is taken, beside a loop of bare pyverbs that makes a work request of pyverbs's, posts it
and polls. The transport is given a `WorkRequest`, of which it makes what the bare loop makes; `prepared` is
the bare loop with a request that was made once. Sides alternate in one run. `nic` is a whole NIC above the
transport, in the stepper: command ring, datapath, trigger unit, completion queue; it has no goal, and where
its datapath is interpreted, as in a guest unless --compiled, it says nothing.
Prints `name value unit` lines. Goals: 0.85 of ib_write_bw; at most 1.5 of the bare loop. docs/benchmarks.md
says how a guest's clock counts instructions, so that what else the machine does is not measured.
Run: nicemu vm run -- python benchmarks/verbs.py [DEVICE] [--json]
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from ipaddress import IPv6Address
from pathlib import Path
from statistics import median
from typing import Any, Final

from nicemu.abi import Access, Opcode, Sge, WorkRequest
from nicemu.errors import NicemuError, VerbsStatus
from nicemu.fabric import VerbsTransport, load_pyverbs, require_rdma_device
from nicemu.host import Nic
from nicemu.hot import JIT
from nicemu.nic import NicConfig
from nicemu.pcie import Backing
from nicemu.programs import load_module
from nicemu.rdma import MemoryRegion
from nicemu.run import Simulation

HERE: Final = Path(__file__)
reports = load_module(HERE.with_name("rig") / "report.py")

ROUNDS: Final = 5
SMALL: Final = 4096
LARGE: Final = 65_536
DEPTH: Final = 64
LATENCIES: Final = 300
NIC_LATENCIES: Final = 40
SLICE: Final = 20
LARGE_WRITES: Final = 500
MEMORY_BYTES: Final = 1 << 20
MIB: Final = 1 << 20
ROCE_V2: Final = 2
"""Source: rdma-core, `enum ibv_gid_type`."""
QP: Final = 1
PD: Final = 1
KEY: Final = 0x123
IOVA: Final = 0x10_0000
BANDWIDTH_GOAL: Final = 0.85
LATENCY_GOAL: Final = 1.5
TIME_LIMIT_S: Final = 120.0
LENDER: Final = HERE.parents[1] / "examples" / "softroce_loopback" / "lender.py"
RIGHTS: Final = Access.LOCAL_WRITE | Access.REMOTE_WRITE


def roce_v2_index(device: str) -> int:
    """Return the index of the device's first RoCEv2 address over IPv4; 0 if it has none."""
    context = load_pyverbs().device.Context(name=device)
    table = context.query_gid_table(context.query_port(1).gid_tbl_len)
    fitting = [one for one in table if one.gid_type == ROCE_V2 and IPv6Address(one.gid_str()).ipv4_mapped]
    context.close()
    return min((one.gid_index for one in fitting), default=0)


class Bare:
    """Two RC queue pairs of one device by pyverbs alone; writes go from one region to the other."""

    def __init__(self, device: str, gid_index: int) -> None:
        v = self.verbs = load_pyverbs()
        e = v.enums
        self.context = v.device.Context(name=device)
        self.domain = v.pd.PD(self.context)
        self.queue = v.cq.CQ(self.context, 2 * DEPTH)
        rights = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
        self.source, self.target = (v.mr.MR(self.domain, MEMORY_BYTES, rights) for _ in range(2))
        caps = v.qp.QPCap(DEPTH, 1, 1, 1, 0)
        first = v.qp.QPInitAttr(qp_type=e.IBV_QPT_RC, scq=self.queue, rcq=self.queue, cap=caps)
        self.here, self.there = v.qp.QP(self.domain, first), v.qp.QP(self.domain, first)
        gid = self.context.query_gid(1, gid_index)
        for qp, peer in ((self.here, self.there), (self.there, self.here)):
            attr = v.qp.QPAttr(port_num=1)
            attr.qp_access_flags, attr.dest_qp_num, attr.path_mtu = rights, peer.qp_num, e.IBV_MTU_4096
            attr.rq_psn = attr.sq_psn = 0
            attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
            attr.min_rnr_timer, attr.timeout, attr.retry_cnt, attr.rnr_retry = 12, 18, 6, 7
            route = v.addr.GlobalRoute(dgid=gid, sgid_index=gid_index)
            attr.ah_attr = v.addr.AHAttr(gr=route, is_global=1, port_num=1)
            qp.to_rts(attr)
        self.prepared = self.request()

    def request(self) -> Any:  # noqa: ANN401 - pyverbs has no types
        """Make a work request: a write of SMALL bytes."""
        v = self.verbs
        piece = v.wr.SGE(self.source.buf, SMALL, self.source.lkey)
        request = v.wr.SendWR(
            wr_id=1,
            opcode=v.enums.IBV_WR_RDMA_WRITE,
            num_sge=1,
            sg=[piece],
            send_flags=v.enums.IBV_SEND_SIGNALED,
        )
        request.set_wr_rdma(self.target.rkey, self.target.buf)
        return request

    def wait(self) -> None:
        """Poll until the completion has come."""
        while True:
            count, completions = self.queue.poll(1)
            if count:
                assert completions[0].status == VerbsStatus.SUCCESS
                return

    def write(self) -> None:
        """One write, with a request of its own."""
        self.here.post_send(self.request())
        self.wait()

    def write_prepared(self) -> None:
        """One write, with the request that was made once."""
        self.here.post_send(self.prepared)
        self.wait()


class Transport:
    """Two ends of `VerbsTransport`, each with the device opened for itself."""

    def __init__(self, device: str) -> None:
        self.ends = [VerbsTransport(device) for _ in range(2)]
        self.memory = [Backing.anonymous(MEMORY_BYTES) for _ in range(2)]
        for end, memory in zip(self.ends, self.memory, strict=True):
            end.register(MemoryRegion(KEY, PD, IOVA, MEMORY_BYTES, RIGHTS, 0), memory.address, False)
            end.create(QP, PD, True)
        self.here, there = self.ends
        offers = [end.offer(QP) for end in self.ends]
        self.here.connect(QP, offers[1])
        there.connect(QP, offers[0])
        self.here.learn(QP, KEY, there.describe(KEY))
        self.small, self.large = self.request(SMALL), self.request(LARGE)

    def request(self, length: int) -> WorkRequest:
        """Return a write of some bytes."""
        return WorkRequest(Opcode.RDMA_WRITE, (Sge(IOVA, length, KEY),), IOVA, KEY, signaled=True)

    def write(self) -> None:
        """One write of SMALL bytes."""
        self.here.post_send(QP, self.small, 1)
        self._take(1)

    def _take(self, least: int) -> int:
        """Run until so many completions have come; return how many did."""
        taken = 0
        while taken < least:
            self.here.run()
            for one in self.here.take_completions():
                assert one.status is VerbsStatus.SUCCESS
                taken += 1
        return taken

    def bandwidth(self) -> float:
        """Return MiB/s of large writes, DEPTH under way."""
        self.memory[0].view[:LARGE] = bytes(range(256)) * (LARGE // 256)
        posted = ended = 0
        begun = time.perf_counter()
        while ended < LARGE_WRITES:
            while posted < min(LARGE_WRITES, ended + DEPTH):
                posted += 1
                self.here.post_send(QP, self.large, posted)
            ended += self._take(1)
        seconds = time.perf_counter() - begun
        assert self.memory[1].view[:LARGE] == self.memory[0].view[:LARGE]
        return LARGE_WRITES * LARGE / MIB / seconds

    def close(self) -> None:
        """Give everything back."""
        for end, memory in zip(self.ends, self.memory, strict=True):
            end.close()
            memory.close()


class WholeNic:
    """A NIC and its host process, stepped, with a peer that lends it a page."""

    def __init__(self, device: str) -> None:
        configs = [NicConfig(name, f"127.0.1.{n}", n, transport="verbs") for n, name in enumerate("ab", 1)]
        self.outside = {config.name: VerbsTransport(device) for config in configs}
        self.nics = Simulation(configs, transports=self.outside, compiled=JIT)
        self.nics.load_firmware("b", LENDER)
        self.nic = Nic(self.nics.open_nic("a"))
        peer = self.nic.connect("b")
        self.qp, self.page = peer.qp_num, peer.span(**peer.private_data)
        self.span = self.nic.register(self.nic.allocate(SMALL))
        self.write()

    def write(self) -> None:
        """One write of SMALL bytes by the command ring, until its completion is taken from the queue."""
        span, page = self.span, self.page
        piece = Sge(span.address, SMALL, span.key)
        self.nic.post(
            self.qp, WorkRequest(Opcode.RDMA_WRITE, (piece,), page.address, page.rkey, signaled=True)
        )
        while not (ended := self.nic.take_completions()):
            self.nics.step()
        assert ended[0].status is VerbsStatus.SUCCESS

    def close(self) -> None:
        """Give everything back."""
        self.nic.close()
        for transport in self.outside.values():
            transport.close()


def latencies_us(sides: dict[str, Callable[[], None]], writes: int) -> dict[str, float]:
    """Return each side's mean time of a write; sides alternate every few writes."""
    seconds = dict.fromkeys(sides, 0.0)
    for number in range(writes // SLICE):
        for name in list(sides) if number % 2 else reversed(sides):
            write = sides[name]
            begun = time.perf_counter()
            for _ in range(SLICE):
                write()
            seconds[name] += time.perf_counter() - begun
    return {name: taken / writes * 1e6 for name, taken in seconds.items()}


def ib_write_bw(device: str, gid_index: int) -> float:
    """Return the MiB/s that ib_write_bw finds with writes of LARGE bytes, DEPTH under way."""
    command = ["ib_write_bw", "-d", device, "-x", str(gid_index), "-s", str(LARGE), "-n", str(LARGE_WRITES)]
    command += ["-t", str(DEPTH), "-F"]
    pipe, nothing = subprocess.PIPE, subprocess.DEVNULL
    with subprocess.Popen(["stdbuf", "-oL", *command], stdout=pipe, stderr=nothing, text=True) as server:
        assert server.stdout is not None
        for line in server.stdout:
            if "Waiting for client" in line:
                break
        client = subprocess.run(
            [*command, "127.0.0.1"], capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False
        )
        if client.returncode:
            server.kill()
    found = re.search(rf"^ *{LARGE} +\d+ +[\d.]+ +([\d.]+)", client.stdout, re.MULTILINE)
    if found is None:
        raise SystemExit(f"ib_write_bw says nothing of its bandwidth: {client.stdout}{client.stderr}")
    return float(found[1])


def compare_latency(report: reports.Report, device: str, gid_index: int) -> None:
    """Measure latencies, and report them."""
    bare, transport = Bare(device, gid_index), Transport(device)
    sides = {"transport": transport.write, "bare": bare.write, "prepared": bare.write_prepared}
    latencies_us(sides, SLICE)
    rounds = [latencies_us(sides, LATENCIES) for _ in range(ROUNDS)]
    for name in sides:
        report.add_rounds(f"4_KiB.{name}", [times[name] for times in rounds], "us")
    for name, goal in (("bare", LATENCY_GOAL), ("prepared", None)):
        ratios = [times["transport"] / times[name] for times in rounds]
        if goal is None:
            report.add(f"4_KiB.ratio_to_{name}", median(ratios), "ratio")
        else:
            report.add_goal("4_KiB.ratio", median(ratios), "ratio", goal, at_most=True)
            report.add("4_KiB.ratio_lowest", min(ratios), "ratio")
            report.add("4_KiB.ratio_highest", max(ratios), "ratio")
    transport.close()
    nic = WholeNic(device)
    report.add("4_KiB.nic", latencies_us({"nic": nic.write}, NIC_LATENCIES)["nic"], "us")
    nic.close()
    bare.context.close()


def compare_bandwidth(report: reports.Report, device: str, gid_index: int) -> None:
    """Measure bandwidths, and report them."""
    transport = Transport(device)
    sides = {"transport": transport.bandwidth, "ib_write_bw": lambda: ib_write_bw(device, gid_index)}
    rates: dict[str, list[float]] = {name: [] for name in sides}
    for number in range(ROUNDS + 1):
        for name in list(sides) if number % 2 else reversed(sides):
            rate = sides[name]()
            if number:
                rates[name].append(rate)
    for name, values in rates.items():
        report.add_rounds(f"64_KiB.{name}", values, "MiB/s")
    ratio = median(rates["transport"]) / median(rates["ib_write_bw"])
    report.add_goal("64_KiB.ratio", ratio, "ratio", BANDWIDTH_GOAL)
    transport.close()


def main() -> None:
    """Measure and print; say so, and no more, where there is nothing to measure."""
    try:
        load_pyverbs()
        names = require_rdma_device()
    except NicemuError as missing:
        print(f"verbs.py measures nothing here: {missing}", file=sys.stderr)
        return
    device = next(iter(reports.operands()), names[0])
    gid_index = roce_v2_index(device)
    report = reports.Report("verbs")
    compare_latency(report, device, gid_index)
    if shutil.which("ib_write_bw"):
        compare_bandwidth(report, device, gid_index)
    else:
        print(
            "verbs.py compares no bandwidth: ib_write_bw is missing (apt-get install perftest)",
            file=sys.stderr,
        )
    report.write()


if __name__ == "__main__":
    main()
