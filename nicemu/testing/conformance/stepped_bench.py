# SPDX-License-Identifier: Apache-2.0
"""Benches of our own engine: two stepped NICs, compiled or interpreted, a host process and a peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from nicemu.abi import Limits, Opcode, ProgramTarget, RemoteSpan, Sge, Span, WorkRequest, registers
from nicemu.host import Counter, Nic
from nicemu.nic import NicConfig
from nicemu.pcie import load_u64
from nicemu.run import Simulation

from .bench import MEMORY_BYTES, Bench

FIRMWARE = Path(__file__).with_name("peer_firmware.py")
LATER_NS = 1000
_RECEIVES_BYTES = 2 * MEMORY_BYTES


class SteppedBench:
    """Implements `Bench` and `Inside` in virtual time."""

    patience = 3

    def __init__(self, simulation: Simulation, compiled: bool) -> None:
        self._simulation = simulation
        self._here, self._there = simulation.nics["here"], simulation.nics["there"]
        self.compiled = compiled
        self.many = 100_000 if compiled else 1_200  # more than Python recurses
        self.unit = self._here.unit
        self.nic = Nic(simulation.open_nic("here"))
        self.limits: Limits = self.nic.limits
        memory = self.nic.allocate((MEMORY_BYTES,))
        self.local: Span = self.nic.register(memory)
        self.local_bytes = memory.array.data
        granted = self.nic.connect("there", length_bytes=MEMORY_BYTES)
        data = granted.private_data
        self._peer_qp = data["qp"]
        self.remote: RemoteSpan = granted.span(data["address"], data["length_bytes"], data["rkey"])
        self.remote_bytes = self._there.memory.space.view(data["address"], data["length_bytes"])
        self.wrong = RemoteSpan(granted.qp_num, data["address"], data["length_bytes"], data["rkey"] ^ 0x1000)
        self._messages = self._there.nic.allocate(_RECEIVES_BYTES)
        self._received = 0

    @property
    def inside(self) -> SteppedBench:
        """This bench is its own inside."""
        return self

    def settle(self) -> None:
        """Step until nothing is left to happen."""
        self._simulation.run_until_idle()

    def later(self, action: Callable[[], object]) -> None:
        """Have `action` happen as soon as virtual time passes."""
        self._simulation.schedule(self._simulation.clock.now_ns() + LATER_NS, lambda: _do(action))

    def peer_receive(self, length_bytes: int) -> memoryview:
        """Let the peer's firmware post one receive."""
        offset, self._received = self._received, self._received + length_bytes
        self._there.nic.post_receive(self._peer_qp, self._messages, offset, length_bytes)
        self.settle()
        return self._there.memory.space.view(self._messages.address + offset, length_bytes)

    def peer_send(self, data: bytes) -> None:
        """Let the peer's firmware send."""
        self._there.memory.space.write(self._messages.address, data)
        work = WorkRequest(Opcode.SEND, (Sge(self._messages.address, len(data), self._messages.key),))
        self._there.card.post_work(self._peer_qp, work, None)
        self.settle()

    @contextmanager
    def another(self) -> Iterator[ProgramTarget]:
        """Open the NIC once more."""
        with Nic(self._simulation.open_nic("here")) as nic:
            yield nic

    # Inside

    def ring(self, counter: Counter, *steps: int) -> None:
        """Put the stores into a stream of the stepper; they happen at one virtual time."""
        stream = self._simulation.stream()
        for step in steps:
            counter.trigger_after(stream, by=step)
        self.settle()

    def write_back(self, counter: Counter) -> int:
        """Load the word from the BAR."""
        place = registers.WRITE_BACK + counter.index * registers.WRITE_BACK_BYTES
        return int(load_u64(self.nic.connection.bar.address + place))

    def peer_write(self, span: Span, imm_data: int | None = None) -> None:
        """Let the peer's firmware write."""
        opcode = Opcode.RDMA_WRITE if imm_data is None else Opcode.RDMA_WRITE_WITH_IMM
        pieces = (Sge(self._messages.address, span.length_bytes, self._messages.key),)
        work = WorkRequest(opcode, pieces, span.address, span.key, imm_data or 0)
        self._there.card.post_work(self._peer_qp, work, None)
        self.settle()

    def counted(self, name: str) -> int:
        """Return a count of the NIC."""
        return self._here.statistics().get(name, 0)

    def slots_in_use(self) -> int:
        """Return how many slots hold work."""
        return self.unit.slots_in_use


def _do(action: Callable[[], object]) -> None:
    action()


@contextmanager
def stepped_bench(limits: Limits, *, compiled: bool, transport: str = "direct") -> Iterator[Bench]:
    """Set up two NICs, the one here with `limits`."""
    simulation = Simulation(
        [
            NicConfig("here", "127.0.1.1", 1, 1 << 20, limits, transport=transport),
            NicConfig("there", "127.0.1.2", 2, 64 << 20, transport=transport),
        ],
        compiled=compiled,
    )
    simulation.load_firmware("there", FIRMWARE)
    bench = SteppedBench(simulation, compiled)
    try:
        yield bench
    finally:
        bench.nic.close()
