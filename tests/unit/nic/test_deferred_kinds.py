# SPDX-License-Identifier: Apache-2.0
"""Deferred receives, sends, atomics, NVMe commands and firmware events, over transports that have them."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

from nicemu.abi import AtomicOperation, Limits, Opcode, RemoteSpan, Span, Step, Unsupported
from nicemu.errors import ResourceError, UsageError, VerbsStatus
from nicemu.host import Memory, Nic
from nicemu.host.refusal import Refusal
from nicemu.nic import NamespaceConfig, NicConfig
from nicemu.run import Simulation
from tests.unit.nic.conftest import Bench

XOR = AtomicOperation.XOR
TRANSPORTS = pytest.mark.parametrize("transport", ["direct", "port"])
PEER = """
from nicemu.firmware import Arrival, Buffer, Connection, Nic, on_arrival, on_connect

inbox = {}

@on_connect
def grant(nic: Nic, connection: Connection) -> dict[str, int]:
    buffer = inbox[connection.qp_num] = nic.allocate(8192, remote=True, atomic=True)
    for place in range(connection.private_data.get("receives", 0)):
        nic.post_receive(connection.qp_num, buffer, 64 * place, 64, wr_id=place)
    return {"address": buffer.address, "rkey": buffer.key}

@on_arrival
async def answer(nic: Nic, arrival: Arrival) -> None:
    nic.count(f"message.{arrival.wr_id}.{arrival.byte_len}")
    buffer = inbox[arrival.qp_num]
    if buffer.length_bytes and nic.read(buffer.address + 64 * arrival.wr_id, 4) == b"ping":
        nic.write(buffer.address + 4096, b"pong")
        await nic.rdma_send(arrival.qp_num, buffer, 4096, 4)
"""


class Ends:
    """A host at "here" with registered memory, connected to PEER at "there"."""

    def __init__(self, bench: Bench, receives: int = 0) -> None:
        bench.flash("there", PEER)
        self.bench, self.nic = bench, bench.nic
        self.memory: Memory = bench.nic.allocate((4096,))
        self.span: Span = bench.nic.register(self.memory)
        self.peer = bench.nic.connect("there", receives=receives)
        self.address = self.peer.private_data["address"]

    def remote(self, offset: int = 0, length: int = 8) -> RemoteSpan:
        return self.peer.span(self.address + offset, length, self.peer.private_data["rkey"])

    def there(self, offset: int = 0, length: int = 8) -> bytes:
        return self.bench.there.memory.space.read(self.address + offset, length)

    def store_there(self, value: int) -> None:
        self.bench.there.memory.space.write(self.address, value.to_bytes(8, "little"))

    def settle(self) -> None:
        self.bench.simulation.run_until_idle()


@TRANSPORTS
def test_a_deferred_send_lands_in_a_receive_of_the_peer_s_firmware(
    make_bench: Callable[..., Bench], transport: str
) -> None:
    ends = Ends(make_bench(transport), receives=2)
    go, sent = ends.nic.counters("go", "sent")
    with ends.nic.program("messages") as program:
        program.when(go >= 1).send(ends.span[:5], ends.peer.qp_num, then=sent)
        program.when(go >= 2).send(ends.span[8:11], ends.peer.qp_num, then=sent)
    program.arm()
    ends.memory.array[:16] = np.frombuffer(b"hello...abc.....", np.uint8)
    ends.settle()
    assert ends.there(0, 5) == bytes(5)
    go.add(2)
    ends.settle()
    assert (ends.there(0, 5), ends.there(64, 3)) == (b"hello", b"abc")
    assert sent.read() == (2, 0)
    assert ends.bench.drops("there") == {"message.0.5": 1, "message.1.3": 1}


@TRANSPORTS
def test_a_receive_that_fires_later_takes_the_message_that_waits_for_it(
    make_bench: Callable[..., Bench], transport: str
) -> None:
    """Receiver not ready: the sender keeps the message until a receive is there."""
    ends = Ends(make_bench(transport), receives=1)
    go, ready, got = ends.nic.counters("go", "ready", "got")
    with ends.nic.program("ping") as program:
        program.when(go >= 1).send(ends.span[:4], ends.peer.qp_num)
        program.when(ready >= 1).receive(ends.span[64:128], ends.peer.qp_num, then=got)
    program.arm()
    ends.memory.array[:4] = np.frombuffer(b"ping", np.uint8)
    go.add()
    ends.bench.simulation.run_until(lambda: False, 3_000_000)
    assert got.read() == (0, 0)
    ready.add()
    ends.bench.simulation.run_until(lambda: got.success == 1, 2_000_000_000)
    assert got.read() == (1, 0)
    assert ends.memory.array[64:68].tobytes() == b"pong"
    assert ends.nic.take_completions() == [], "a deferred receive makes an entry only if asked"


@TRANSPORTS
def test_a_posted_receive_makes_an_entry_with_its_number(
    make_bench: Callable[..., Bench], transport: str
) -> None:
    ends = Ends(make_bench(transport), receives=1)
    ends.nic.post_receive(ends.span[64:128], ends.peer.qp_num, wr_id=77)
    ends.memory.array[:4] = np.frombuffer(b"ping", np.uint8)
    (go,) = ends.nic.counters("go")
    with ends.nic.program("ping") as program:
        program.when(go >= 1).send(ends.span[:4], ends.peer.qp_num)
    program.arm()
    go.add()
    ends.settle()
    (entry,) = ends.nic.take_completions()
    assert (entry.wr_id, entry.status, entry.byte_len) == (77, VerbsStatus.SUCCESS, 4)


def test_the_receive_queue_is_finite_and_deferred_receives_wait_for_room(bench: Bench) -> None:
    ends = Ends(bench)
    for number in range(64):
        ends.nic.post_receive(ends.span[:8], ends.peer.qp_num, wr_id=number)
    with pytest.raises(ResourceError, match="ENOSPC"):
        ends.nic.post_receive(ends.span[:8], ends.peer.qp_num)
    (go,) = ends.nic.counters("go")
    with ends.nic.program("one more") as program:
        program.when(go >= 0).receive(ends.span[:8], ends.peer.qp_num)
    program.arm()
    assert bench.here.unit.slots_in_use == 1, "it stays due"


@TRANSPORTS
def test_receives_of_a_queue_pair_that_fails_end_with_an_error(
    make_bench: Callable[..., Bench], transport: str
) -> None:
    ends = Ends(make_bench(transport))
    go, got = ends.nic.counters("go", "got")
    with ends.nic.program("three receives, one bad write") as program:
        for _ in range(3):
            program.when(go >= 0).receive(ends.span[64:128], ends.peer.qp_num, then=got)
        program.when(go >= 1).write(ends.span[:8], ends.peer.span(ends.address, 8, 0x1234567))
    program.arm()
    with pytest.raises(UsageError, match="EBUSY"):
        got.close()
    go.add()
    ends.settle()
    assert got.read() == (0, 3)
    got.close()


def test_a_counter_of_receives_is_free_when_the_queue_pair_has_gone(bench: Bench) -> None:
    ends = Ends(bench)
    go, got = ends.nic.counters("go", "got")
    with ends.nic.program("a receive") as program:
        program.when(go >= 0).receive(ends.span[:64], ends.peer.qp_num, then=got)
    program.arm()
    ends.nic.close()
    assert bench.here.unit.slots_in_use == 0
    assert not any(counter.in_flight for counter in bench.here.unit.state.counters)


# Tagged messages: on `direct`

TAGGED_PEER = """
from nicemu.firmware import Arrival, Connection, Nic, on_arrival, on_connect

inbox = {}

@on_connect
def grant(nic: Nic, connection: Connection) -> dict[str, int]:
    buffer = inbox[connection.qp_num] = nic.allocate(8192, remote=True)
    nic.post_receive(connection.qp_num, buffer, 0, 64, wr_id=1, tag=0xA1)
    nic.post_receive(connection.qp_num, buffer, 64, 64, wr_id=2, tag=0xB0, ignore=0x0F)
    nic.post_receive(connection.qp_num, buffer, 128, 64, wr_id=3, tag=0xB7)
    return {"address": buffer.address, "rkey": buffer.key}

@on_arrival
async def answer(nic: Nic, arrival: Arrival) -> None:
    nic.count(f"message.{arrival.wr_id}")
    if arrival.wr_id == 1:
        buffer = inbox[arrival.qp_num]
        await nic.rdma_send(arrival.qp_num, buffer, 0, 64, tag=0xCAFE)
"""


@pytest.fixture(params=[False, True], ids=["interpreted", "compiled"])
def tagged(request: pytest.FixtureRequest, make_bench: Callable[..., Bench]) -> Ends:
    bench = make_bench(compiled=request.param)
    ends = Ends(bench)
    bench.flash("there", TAGGED_PEER)
    ends.peer = bench.nic.connect("there")
    ends.address = ends.peer.private_data["address"]
    return ends


def test_a_tagged_message_lands_in_the_oldest_receive_that_its_tag_matches(tagged: Ends) -> None:
    go, sent = tagged.nic.counters("go", "sent")
    tagged.memory.array[:3] = 11, 12, 13
    with tagged.nic.program("tagged") as program:
        for step, tag in enumerate((0xB7, 0xB7, 0xA1)):
            program.when(go >= step + 1).tagged_send(
                tagged.span[step : step + 1], tagged.peer.qp_num, tag, then=sent
            )
    program.arm()
    go.add(1)
    tagged.settle()
    assert tagged.bench.drops("there") == {"message.2": 1}, "B0 with 4 bits ignored is older than B7"
    go.add(2)
    tagged.settle()
    assert sent.read() == (3, 0)
    assert [tagged.there(place, 1)[0] for place in (0, 64, 128)] == [13, 11, 12]


def test_a_tagged_message_waits_for_its_receive_and_holds_up_no_other_tag(tagged: Ends) -> None:
    """Each on a counter of its own: work of one counter waits for the one before."""
    early, late, sent = tagged.nic.counters("early", "late", "sent")
    with tagged.nic.program("tagged") as program:
        program.when(early >= 1).tagged_send(tagged.span[:8], tagged.peer.qp_num, 0xDEAD, then=sent)
        program.when(late >= 1).tagged_send(tagged.span[:8], tagged.peer.qp_num, 0xB3, then=sent)
    program.arm()
    early.add()
    late.add()
    tagged.settle()
    assert sent.read() == (1, 0)
    assert tagged.bench.here.unit.slots_in_use == 1


def test_a_deferred_tagged_receive_takes_only_its_tag(tagged: Ends) -> None:
    go, got, other = tagged.nic.counters("go", "got", "other")
    with tagged.nic.program("tagged") as program:
        program.when(go >= 0).tagged_receive(tagged.span[128:192], tagged.peer.qp_num, 0xBEEF, then=other)
        program.when(go >= 0).tagged_receive(tagged.span[64:128], tagged.peer.qp_num, 0xCAFE, then=got)
        program.when(go >= 1).tagged_send(tagged.span[:4], tagged.peer.qp_num, 0xA1)
    program.arm()
    tagged.memory.array[:4] = 9
    go.add()
    tagged.settle()
    assert (got.read(), other.read()) == ((1, 0), (0, 0))
    assert tagged.memory.array[64:68].tolist() == [9, 9, 9, 9]
    with pytest.raises(UsageError, match="EBUSY"):
        other.close()


def test_tagged_receives_of_a_failed_queue_pair_are_flushed(tagged: Ends) -> None:
    go, got = tagged.nic.counters("go", "got")
    with tagged.nic.program("tagged") as program:
        program.when(go >= 0).tagged_receive(tagged.span[:64], tagged.peer.qp_num, 1, then=got)
        program.when(go >= 1).write(tagged.span[:8], tagged.peer.span(tagged.address, 8, 0x1234567))
    program.arm()
    go.add()
    tagged.settle()
    assert got.read() == (0, 1)
    got.close()


def test_a_tagged_message_that_is_too_long_for_its_receive_is_refused(tagged: Ends) -> None:
    go, sent = tagged.nic.counters("go", "sent")
    with tagged.nic.program("tagged") as program:
        program.when(go >= 1).tagged_send(tagged.span[:65], tagged.peer.qp_num, 0xA1, then=sent)
    program.arm()
    go.add()
    tagged.settle()
    assert sent.read() == (0, 1)
    assert tagged.there(0, 72) == bytes(72)


def test_what_rocev2_does_not_have_is_refused_when_it_is_armed_or_posted(
    make_bench: Callable[..., Bench],
) -> None:
    ends = Ends(make_bench("port"))
    (go,) = ends.nic.counters("go")
    qp_num, old = ends.peer.qp_num, ends.span[:8]
    lacking: list[tuple[str, Callable[[Step], None]]] = [
        ("TAGGED_RECV", lambda step: step.tagged_receive(ends.span[:64], qp_num, 1)),
        ("TAGGED_SEND", lambda step: step.tagged_send(ends.span[:8], qp_num, 1)),
        ("ATOMIC of <AtomicOperation.XOR: 3>", lambda step: step.atomic(XOR, ends.remote(), 3, old=old)),
        ("ATOMIC without `old`", lambda step: step.atomic(AtomicOperation.SUM, ends.remote(), 3)),
    ]
    for name, write in lacking:
        with ends.nic.program(name) as program:
            program.when(go >= 1).add(go)
            write(program.when(go >= 1))
        said = f"step 1: here carries RDMA in frames, and RoCEv2 has no {name}; the transport `direct` has"
        for arm in (program.arm, lambda program=program: program.window(1)):
            with pytest.raises(Unsupported, match=re.escape(said)) as refused:
                arm()
            assert "ENOSYS" in str(refused.value)
        work = program.work[1].work
        assert work is not None
        with pytest.raises(Unsupported, match=f"request 0: .* RoCEv2 has no {re.escape(name)}"):
            ends.nic.post(qp_num, work)
    assert ends.bench.here.unit.slots_in_use == 0
    assert Opcode.TAGGED_SEND not in ends.nic.capabilities.operations
    assert Opcode.ATOMIC in ends.nic.capabilities.operations


def ask_anyway(nic: Nic, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a host ask a NIC for what its own library knows that it does not have."""
    monkeypatch.setattr(nic, "_refusal", Refusal("here", "direct", nic.limits, (), ()))


def test_rocev2_has_no_tags(make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch) -> None:
    ends = Ends(make_bench("port"))
    ask_anyway(ends.nic, monkeypatch)
    go, sent, got = ends.nic.counters("go", "sent", "got")
    with ends.nic.program("tagged") as program:
        program.when(go >= 1).tagged_receive(ends.span[:64], ends.peer.qp_num, 1, then=got)
        program.when(go >= 2).tagged_send(ends.span[:8], ends.peer.qp_num, 1, then=sent)
    program.arm()
    go.add(2)
    ends.settle()
    assert (got.read(), sent.read()) == ((0, 1), (0, 1))


OPERATIONS = [
    (AtomicOperation.SUM, 5, (1 << 64) - 2, 3),
    (AtomicOperation.AND, 0b1100, 0b1010, 0b1000),
    (AtomicOperation.OR, 0b1100, 0b1010, 0b1110),
    (AtomicOperation.XOR, 0b1100, 0b1010, 0b0110),
    (AtomicOperation.MIN, 7, 3, 3),
    (AtomicOperation.MIN, 1 << 63, 3, 3),
    (AtomicOperation.MAX, 1 << 63, 3, 1 << 63),
    (AtomicOperation.SWAP, 7, 3, 3),
    (AtomicOperation.COMPARE_SWAP, 7, 7, 99),
    (AtomicOperation.COMPARE_SWAP, 7, 8, 7),
]


@pytest.mark.parametrize("fetches", [False, True], ids=["no fetch", "fetch"])
@pytest.mark.parametrize(("operation", "before", "operand", "after"), OPERATIONS)
@pytest.mark.parametrize("compiled", [False, True], ids=["interpreted", "compiled"])
def test_an_atomic_changes_the_peer_s_word_and_fetches_the_old_one(
    make_bench: Callable[..., Bench],
    compiled: bool,
    operation: AtomicOperation,
    before: int,
    operand: int,
    after: int,
    fetches: bool,
) -> None:
    ends = Ends(make_bench(compiled=compiled))
    ends.store_there(before)
    go, done = ends.nic.counters("go", "done")
    old = ends.span[8:16] if fetches else None
    with ends.nic.program("atomic") as program:
        program.when(go >= 1).atomic(operation, ends.remote(), operand, swap=99, old=old, then=done)
    program.arm()
    go.add()
    ends.settle()
    assert done.read() == (1, 0)
    assert int.from_bytes(ends.there(), "little") == after
    assert int.from_bytes(ends.memory.array[8:16].tobytes(), "little") == (before if fetches else 0)


def test_atomics_that_rocev2_does_not_have_end_with_an_error_over_frames(
    make_bench: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    ends = Ends(make_bench("port"))
    ask_anyway(ends.nic, monkeypatch)
    go, done = ends.nic.counters("go", "done")
    with ends.nic.program("atomics") as program:
        program.when(go >= 1).atomic(AtomicOperation.SUM, ends.remote(), 3, old=ends.span[:8], then=done)
        program.when(go >= 2).atomic(AtomicOperation.XOR, ends.remote(), 3, old=ends.span[:8], then=done)
    program.arm()
    go.add()
    ends.settle()
    assert (done.read(), int.from_bytes(ends.there(), "little")) == ((1, 0), 3)
    go.add()
    ends.settle()
    assert done.read() == (1, 1)
    assert ends.nic.take_completions()[0].status is VerbsStatus.LOC_QP_OP_ERR


@TRANSPORTS
def test_a_counter_of_bytes_counts_what_was_moved_and_one_for_an_error(
    make_bench: Callable[..., Bench], transport: str
) -> None:
    ends = Ends(make_bench(transport))
    (go,) = ends.nic.counters("go")
    (moved,) = ends.nic.counters("moved", counts_bytes=True)
    with ends.nic.program("writes") as program:
        program.when(go >= 1).write(ends.span[:100], ends.remote(0, 100), then=moved)
        program.when(go >= 1).write(ends.span[:24], ends.remote(0, 24), then=moved)
        program.when(go >= 2).write(ends.span[:8], ends.peer.span(ends.address, 8, 0x1234567), then=moved)
    program.arm()
    go.add()
    ends.settle()
    assert moved.read() == (124, 0)
    go.add()
    ends.settle()
    assert moved.read() == (124, 1)


# NVMe and firmware events


@pytest.fixture(params=[False, True], ids=["interpreted", "compiled"])
def storage(request: pytest.FixtureRequest) -> Simulation:
    space = NamespaceConfig(nsid=1, block_count=64)
    return Simulation(
        [NicConfig("storage0", "127.0.1.2", namespaces=(space,)), NicConfig("bare", "127.0.1.3")],
        compiled=request.param,
    )


def test_blocks_written_by_a_counter_are_read_back_by_its_chain(storage: Simulation) -> None:
    with Nic(storage.open_nic("storage0")) as nic:
        memory = nic.allocate((4, 4096))
        span = nic.register(memory)
        memory.array[0], memory.array[1] = 7, 9
        go, written, read = nic.counters("go", "written", "read")
        with nic.program("round trip") as program:
            program.when(go >= 1).nvme_write(span[:8192], nsid=1, slba=10, then=written, signaled=True)
            program.when(written >= 1).nvme_read(span[8192:], nsid=1, slba=10, then=read)
        program.arm()
        assert (written.success, read.success) == (0, 0)
        go.add()
        read.wait(1)
        assert (memory.array[2:] == memory.array[:2]).all()
        (entry,) = nic.take_completions()
        assert (entry.opcode.name, entry.status, entry.byte_len) == ("NVME_WRITE", VerbsStatus.SUCCESS, 8192)


@pytest.mark.parametrize(
    ("length", "nsid", "slba", "status"),
    [
        (4096, 1, 64, VerbsStatus.REM_INV_REQ_ERR),
        (8192, 1, 63, VerbsStatus.REM_INV_REQ_ERR),
        (4096, 9, 0, VerbsStatus.LOC_QP_OP_ERR),
        (100, 1, 0, VerbsStatus.LOC_QP_OP_ERR),
    ],
)
def test_an_nvme_command_that_cannot_be_carried_out_ends_with_an_error(
    storage: Simulation, length: int, nsid: int, slba: int, status: VerbsStatus
) -> None:
    with Nic(storage.open_nic("storage0")) as nic:
        span = nic.register(nic.allocate((8192,)))
        go, done = nic.counters("go", "done")
        with nic.program("wrong") as program:
            program.when(go >= 1).nvme_read(span[:length], nsid=nsid, slba=slba, then=done)
        program.arm()
        go.add()
        storage.run_until_idle()
        assert done.read() == (0, 1)
        assert [entry.status for entry in nic.take_completions()] == [status]
        done.close()


def test_an_nvme_read_cannot_land_in_memory_of_another_process(storage: Simulation) -> None:
    with Nic(storage.open_nic("storage0")) as nic, Nic(storage.open_nic("storage0")) as other:
        memory = other.allocate((4096,))
        theirs = other.register(memory)
        memory.array[:] = 0x5A
        go, done = nic.counters("go", "done")
        with nic.program("theft") as program:
            program.when(go >= 1).nvme_read(theirs, nsid=1, slba=0, then=done)
        program.arm()
        go.add()
        storage.run_until_idle()
        assert done.read() == (0, 1)
        assert [entry.status for entry in nic.take_completions()] == [VerbsStatus.LOC_PROT_ERR]
        assert (memory.array == 0x5A).all()


def test_a_nic_without_a_namespace_refuses_nvme_when_it_is_armed(storage: Simulation) -> None:
    with Nic(storage.open_nic("bare")) as nic:
        span = nic.register(nic.allocate((4096,)))
        (go,) = nic.counters("go")
        with nic.program("nvme") as program:
            program.when(go >= 1).nvme_read(span, nsid=1, slba=0)
        with pytest.raises(UsageError, match="not supported"):
            program.arm()


def test_memory_that_an_nvme_command_still_moves_outlives_its_process(storage: Simulation) -> None:
    nic = Nic(storage.open_nic("storage0"))
    span = nic.register(nic.allocate((4096,)))
    (go,) = nic.counters("go")
    with nic.program("write") as program:
        program.when(go >= 0).nvme_write(span, nsid=1, slba=0)
    device = storage.nics["storage0"]
    pieces = len(device.memory.pieces)
    held = device.storage
    assert held is not None
    held.run, run = (lambda now_ns: ([], [])), held.run  # type: ignore[method-assign]
    program.arm()
    nic.close()
    assert len(device.memory.pieces) == pieces, "the command is on its way"
    held.run = run  # type: ignore[method-assign]
    storage.run_until_idle()
    assert len(device.memory.pieces) == pieces - 1


TRIGGERED = """
from nicemu.firmware import Event, Nic, on_trigger

@on_trigger("tidy_up")
async def tidy(nic: Nic, event: Event) -> None:
    nic.count(f"tidied.{event['value']}")
"""


def test_a_deferred_event_starts_its_handler_with_what_was_armed(bench: Bench) -> None:
    bench.flash("here", TRIGGERED)
    (go,) = bench.nic.counters("go")
    with bench.nic.program("events") as program:
        program.when(go >= 2).event(bench.nic.event("tidy_up"), value=42)
        program.when(go >= 1).event(bench.nic.event("nobody's"), value=43)
    program.arm()
    bench.simulation.run_until_idle()
    assert bench.drops() == {}
    go.add(2)
    bench.simulation.run_until_idle()
    assert bench.drops() == {"tidied.42": 1, "firmware.no_handler": 1}


def test_cassini_takes_no_operations_of_nicemu_s_own_in_its_check(bench: Bench) -> None:
    (go,) = bench.nic.counters("go")
    with bench.nic.program("ours") as program:
        program.when(go >= 1).event(bench.nic.event("tidy_up"))
    assert [finding.rule for finding in program.check("cassini")] == ["R15"]
    assert program.check(Limits()) == []
