# SPDX-License-Identifier: Apache-2.0
"""Eight NICs write to one through a switch: what is lost, how long queues are, and who gets how much.

In virtual time: RoCEv2 engines, a switch of 10 Gb/s links, and against congestion nothing,
pauses (PFC), marks (DCQCN), or both. Prints a table, which docs/congestion.md explains.
Run: python examples/congestion/incast.py [MILLISECONDS]
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from nicemu.abi import Access, Opcode, Sge, WorkRequest, registers
from nicemu.arguments import check_flag, check_number, check_whole
from nicemu.errors import UsageError
from nicemu.fabric import EcnMarking, LinkModel, PauseThresholds, SwitchModel
from nicemu.pcie import Backing
from nicemu.rdma import Dcqcn, MemoryRegionTable, QpState, RoceEngine, new_state

SENDERS, MOST_SENDERS = 8, 99
TARGET = MOST_SENDERS + 1
"""The number of the host that all write to; senders count from 1."""
LONGEST_NS = 10_000_000_000
LINK = LinkModel(rate_bits_per_s=10e9, delay_ns=1000)
PATH_MTU = 1024
WRITE_BYTES = 1 << 14
IN_FLIGHT = 8
"""Writes that a sender keeps posted."""
TIMEOUT_NS = 1_000_000
PRIORITY = 3
"""Of all that is sent; the class selector of the traffic class says so."""
SHORT_QUEUE, LONG_QUEUE = 200_000, 1_000_000
MARKING = EcnMarking(kmin_bytes=40_000, kmax_bytes=200_000, pmax=0.2)
QUEUE_BOUND = 250_000
"""What the queue stays under with DCQCN, when the rates have settled."""
PAUSE = PauseThresholds(xoff_bytes=30_000, xon_bytes=20_000)
DCQCN = Dcqcn(
    line_rate_bits_per_s=10e9,
    g=1 / 16,
    additive_increase_bits_per_s=20e6,
    hyper_increase_bits_per_s=100e6,
)
IOVA = 0x1_0000_0000


@dataclass(frozen=True)
class Outcome:
    """What one run showed: the second half of it, but for what was lost and how often hosts were paused."""

    lost: int
    pauses: int
    marks: int
    deepest_bytes: int
    goodputs: tuple[float, ...]
    """By sender, as shares of the link's rate."""

    @property
    def jain_index(self) -> float:
        """How fairly the rate is shared: 1 if all have the same, 1 / senders if one has all."""
        squares = sum(one * one for one in self.goodputs)
        return sum(self.goodputs) ** 2 / (len(self.goodputs) * squares) if squares else 0.0


class Host:
    """A NIC's engine with its memory and its port of the switch."""

    def __init__(self, number: int, model: SwitchModel, congestion_control: bool) -> None:
        self.public, self.memory = Backing.anonymous(registers.PUBLIC_BYTES), Backing.anonymous(1 << 20)
        state = new_state(self.public.address)
        state.backings[0] = self.memory.address
        table = MemoryRegionTable(self.public.address + registers.REGION_TABLE, random.Random(number))
        rights = Access.LOCAL_WRITE | Access.REMOTE_WRITE
        self.key = table.register(1, IOVA, 1 << 20, rights, 0, 0).key
        mac, rng = bytes([2, 0, 0, 0, 0, number]), random.Random(number)
        self.port = model.join(mac, 4 * PATH_MTU)
        self.engine = RoceEngine(state, mac, f"10.0.0.{number}", rng, Counter(), dcqcn=DCQCN)
        self.written_bytes = 0
        self.deadline_ns: int | None = None
        self._has_more = True
        self._congestion_control = congestion_control

    def add_queue_pair(self, number: int) -> None:
        """Create a queue pair."""
        self.engine.create_qp(
            number,
            1,
            path_mtu=PATH_MTU,
            timeout_ns=TIMEOUT_NS,
            traffic_class=PRIORITY << 5,
            congestion_control=self._congestion_control,
        )
        self.engine.modify(number, QpState.INIT)

    def write(self, number: int, key: int, now_ns: int) -> None:
        """Post a write to the region under a peer's key."""
        work = WorkRequest(Opcode.RDMA_WRITE, (Sge(IOVA, WRITE_BYTES, self.key),), IOVA, key)
        assert self.engine.post_send(number, work, 0, now_ns)

    def is_due(self, now_ns: int) -> bool:
        """Return whether there is anything to do."""
        is_late = self.deadline_ns is not None and self.deadline_ns <= now_ns
        return is_late or self.port.has_arrivals or (self._has_more and self.port.has_room(PRIORITY))

    def run(self, now_ns: int) -> None:
        """Take what has arrived, let timers run, and give away what the port has room for."""
        frames = self.port.receive(1000)
        if frames:
            self.engine.on_frames(frames, now_ns)
        if self.deadline_ns is not None and self.deadline_ns <= now_ns:
            self.engine.on_timer(now_ns)
        self._has_more = True
        while self._has_more and self.port.has_room(PRIORITY):
            made = self.engine.take_frames(1)
            self._has_more = bool(made)
            self.port.send(made)
        self.deadline_ns = self.engine.next_deadline_ns()


class Incast:
    """Senders that write to one host through one switch, as much as they can.

    Raises: UsageError for no number of senders, or no queue.
    """

    def __init__(self, *, pause: bool, marking: bool, queue_bytes: int, senders: int = SENDERS) -> None:
        check_flag("pause", pause)
        check_flag("marking", marking)
        check_whole("senders", senders, 1, MOST_SENDERS)
        self.model = SwitchModel(
            random.Random(1),
            link=LINK,
            queue_bytes=queue_bytes,
            pause=PAUSE if pause else None,
            marking=MARKING if marking else None,
        )
        self.target = Host(TARGET, self.model, marking)
        self.senders = [Host(number, self.model, marking) for number in range(1, senders + 1)]
        for number, sender in enumerate(self.senders, 1):
            ends = sender, self.target
            for end in ends:
                end.add_queue_pair(number)
            for end, other in zip(ends, ends[::-1], strict=True):
                end.engine.modify(number, QpState.RTR, remote=other.engine.local(number))
                end.engine.modify(number, QpState.RTS)
            for _ in range(IN_FLIGHT):
                sender.write(number, self.target.key, 0)

    def run(self, until_ns: int) -> None:
        """Let time pass."""
        hosts = [self.target, *self.senders]
        while True:
            for number, host in enumerate(hosts):
                if host.is_due(self.model.now_ns):
                    host.run(self.model.now_ns)
                    for done in host.engine.take_completions():
                        assert done.status == 0, done
                        host.written_bytes += done.byte_len
                        host.write(number, self.target.key, self.model.now_ns)
                        host.run(self.model.now_ns)
            times = [self.model.next_event_ns(), *(host.deadline_ns for host in hosts)]
            now_ns = min(time_ns for time_ns in times if time_ns is not None)
            if now_ns > until_ns:
                self.model.advance(until_ns)
                return
            self.model.advance(max(now_ns, self.model.now_ns))

    def measure(self, length_ns: int) -> Outcome:
        """Run for a time, and look at its second half.

        Raises: UsageError if it is no time.
        """
        check_whole("length_ns", length_ns, 1, LONGEST_NS)
        self.run(length_ns // 2)
        output = self.model.output(self.target.port)
        output.deepest_bytes = 0
        before = [sender.written_bytes for sender in self.senders]
        self.run(length_ns)
        line_bytes = LINK.rate_bits_per_s / 8e9 * (length_ns - length_ns // 2)
        return Outcome(
            self.model.drops["switch.queue_full"],
            self.model.pauses,
            self.model.marks,
            output.deepest_bytes,
            tuple((one.written_bytes - b) / line_bytes for one, b in zip(self.senders, before, strict=True)),
        )


def cases() -> dict[str, Incast]:
    """Return the cases of the table, ready to run."""
    return {
        "neither, 200 kB queue": Incast(pause=False, marking=False, queue_bytes=SHORT_QUEUE),
        "neither, 1 MB queue": Incast(pause=False, marking=False, queue_bytes=LONG_QUEUE),
        "PFC": Incast(pause=True, marking=False, queue_bytes=LONG_QUEUE),
        "DCQCN": Incast(pause=False, marking=True, queue_bytes=LONG_QUEUE),
        "PFC and DCQCN": Incast(pause=True, marking=True, queue_bytes=LONG_QUEUE),
    }


def milliseconds(text: str) -> int:
    """Return the nanoseconds of so many milliseconds. Raises: ArgumentTypeError, with what is allowed."""
    try:
        length_ns = round(check_number("it", float(text), 0) * 1e6)
        return check_whole("it", length_ns, 1, LONGEST_NS)
    except (ValueError, UsageError):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no time to run for; give milliseconds, from 0.000001 to {LONGEST_NS // 10**6}"
        ) from None


def main(arguments: Sequence[str]) -> None:
    """Run all cases and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument(
        "length_ns",
        metavar="MILLISECONDS",
        type=milliseconds,
        nargs="?",
        default="20",
        help="how long each case runs, in virtual time (default: 20)",
    )
    length_ns = parser.parse_args(arguments).length_ns
    print("| against congestion | frames lost | pauses | marks | longest queue, kB | goodput | Jain index |")
    print("|---|---|---|---|---|---|---|")
    for name, incast in cases().items():
        found = incast.measure(length_ns)
        share = sum(found.goodputs)
        cells = found.lost, found.pauses, found.marks, found.deepest_bytes // 1000, f"{share:.2f}"
        print(f"| {name} | {' | '.join(map(str, cells))} | {found.jain_index:.3f} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
