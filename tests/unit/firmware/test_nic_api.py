# SPDX-License-Identifier: Apache-2.0
"""What a script awaits: mailboxes, delays, counters, RDMA and NVMe."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, cast

import pytest

from nicemu.abi import Opcode, Sge, WorkRequest
from nicemu.errors import NvmeStatus, ResourceError, UsageError, VerbsStatus
from nicemu.firmware import Buffer, Card, CompletionError, FirmwareTimeout, Mailbox, Nic, Signal

if TYPE_CHECKING:
    from tests.unit.firmware.conftest import Core


class OneCard:
    """What of a card these tests need: time, signals that wait, memory."""

    def __init__(self, core: Core) -> None:
        self._core = core
        self.armed: list[tuple[int, int, Signal]] = []
        self.posted: list[tuple[int, WorkRequest, Signal | None]] = []
        self.nvme_commands: list[tuple[str, int, int, int, int]] = []
        self.nvme_status = NvmeStatus.SUCCESS
        self.queues: list[int] = []
        self.spaces: dict[int, tuple[int, int]] = {}
        self.armed_work: list[tuple[int, int, int, WorkRequest, int | None]] = []
        self.memory = bytearray(range(64))

    def now_ns(self) -> int:
        return self._core.now

    def allocate_counter(self, pd: int) -> int:
        return 10 + pd

    def counter_value(self, counter: int) -> tuple[int, int]:
        return counter * 2, 1

    def arm_signal(self, counter: int, threshold: int, signal: Signal) -> None:
        self.armed.append((counter, threshold, signal))

    def post_work(self, qp_num: int, work: WorkRequest, signal: Signal | None) -> None:
        self.posted.append((qp_num, work, signal))

    def nvme(
        self, opcode: str, nsid: int, slba: int, nlb: int, address: int, signal: Signal, queue: int = 1
    ) -> None:
        self.nvme_commands.append((opcode, nsid, slba, nlb, address))
        self.queues.append(queue)
        signal.set(self.nvme_status)

    def namespaces(self) -> dict[int, tuple[int, int]]:
        return self.spaces

    def count_completions(self, counter: int) -> int:
        self.queues.append(counter)
        return 7

    def stop_counting(self, queue: int) -> None:
        self.queues.append(-queue)

    def arm_work(
        self, counter: int, threshold: int, qp_num: int, work: WorkRequest, completion: int | None
    ) -> None:
        self.armed_work.append((counter, threshold, qp_num, work, completion))

    def memory_view(self, address: int, length_bytes: int) -> memoryview:
        return memoryview(self.memory)[address : address + length_bytes]


@pytest.fixture
def card(core: Core) -> OneCard:
    return OneCard(core)


@pytest.fixture
def nic(card: OneCard) -> Nic:
    return Nic(cast(Card, card))


# Mailboxes.


def test_a_mailbox_is_first_come_first_served(core: Core) -> None:
    mailbox, log = Mailbox(8), list[Any]()

    async def take(name: str) -> None:
        log.append((name, await mailbox.get()))

    mailbox.put(1)
    mailbox.put(2)
    for name in "abcd":
        core.spawn(name, take(name))
    core.run()
    assert log == [("a", 1), ("b", 2)]
    mailbox.put(3)
    mailbox.put(4)
    mailbox.put(5)
    core.run()
    assert log == [("a", 1), ("b", 2), ("c", 3), ("d", 4)]
    core.spawn("e", take("e"))
    core.run()
    assert log[-1] == ("e", 5)


def test_a_full_mailbox_refuses_and_keeps_what_it_has(core: Core) -> None:
    mailbox, log = Mailbox(2), list[Any]()

    async def take_all() -> None:
        log.extend(await mailbox.get_all())

    mailbox.put("a")
    mailbox.put("b")
    with pytest.raises(ResourceError, match="the mailbox holds 2 items already"):
        mailbox.put("c")
    core.spawn("taker", take_all())
    core.run()
    assert log == ["a", "b"]
    mailbox.put("d")


def test_taking_everything_waits_for_the_first_item(core: Core) -> None:
    mailbox, log = Mailbox(8), list[Any]()

    async def take_all() -> None:
        while True:
            log.append(await mailbox.get_all())

    core.spawn("taker", take_all())
    core.run()
    assert log == []
    for item in range(3):
        mailbox.put(item)
    core.run()
    mailbox.put(3)
    core.run()
    assert log == [[0, 1, 2], [3]]
    core.scheduler.cancel_all()


def test_an_item_is_not_given_to_a_task_that_no_longer_waits(core: Core) -> None:
    mailbox, log = Mailbox(8), list[Any]()

    async def take(name: str) -> None:
        log.append((name, await mailbox.get()))

    core.spawn("impatient", take("impatient"), timeout_ns=10)
    core.spawn("patient", take("patient"))
    core.run(0)
    core.run(10)
    mailbox.put("item")
    core.run()
    assert log == [("patient", "item")]


def test_an_item_for_nobody_waits_in_the_mailbox(core: Core) -> None:
    mailbox, log = Mailbox(8), list[Any]()

    async def take() -> None:
        log.append(await mailbox.get())

    core.spawn("impatient", take(), timeout_ns=10)
    core.run(0)
    core.run(10)
    mailbox.put("item")
    core.spawn("later", take())
    core.run()
    assert log == ["item"]


# Time.


@pytest.mark.parametrize(("duration_ns", "end_ns"), [(250, 1250), (0, 1000), (-5, 1000)])
def test_a_delay_ends_when_its_time_is_over(core: Core, nic: Nic, duration_ns: int, end_ns: int) -> None:
    async def sleep() -> None:
        await nic.delay(duration_ns)

    core.spawn("sleeper", sleep())
    core.run(1000)
    assert core.scheduler.next_deadline_ns() == end_ns
    core.run(end_ns - 1) if duration_ns > 0 else None
    assert core.ended == []
    core.run(end_ns)
    assert core.ended == [("sleeper", "")]


def test_a_delay_does_not_outlive_the_deadline_of_its_task(core: Core, nic: Nic) -> None:
    log: list[str] = []

    async def sleep() -> None:
        await nic.delay(1000)
        log.append("must not run")

    core.spawn("sleeper", sleep(), timeout_ns=100)
    core.run(0)
    core.run(100)
    assert (log, core.ended) == ([], [("sleeper", "firmware.timeout")])


# Counters.


def test_waiting_for_a_counter_arms_its_threshold(core: Core, nic: Nic, card: OneCard) -> None:
    counter = nic.allocate_counter(pd=3)

    async def wait() -> None:
        await counter.reaches(5)

    core.spawn("waiter", wait())
    core.run()
    ((index, threshold, signal),) = card.armed
    assert (index, threshold, counter.success, core.ended) == (13, 5, 26, [])
    signal.set()
    core.run()
    assert core.ended == [("waiter", "")]


@pytest.mark.parametrize("threshold", [0, -3])
def test_a_threshold_of_zero_is_reached(core: Core, nic: Nic, card: OneCard, threshold: int) -> None:
    async def wait() -> None:
        await nic.allocate_counter().reaches(threshold)

    core.spawn("waiter", wait())
    core.run()
    assert (core.ended, card.armed) == ([("waiter", "")], [])


def test_waiting_for_a_counter_may_time_out(core: Core, nic: Nic) -> None:
    log: list[str] = []

    async def wait() -> None:
        try:
            await nic.allocate_counter().reaches(5, timeout_ns=10)
        except FirmwareTimeout:
            log.append("timed out")

    core.spawn("waiter", wait())
    core.run(0)
    core.run(10)
    assert log == ["timed out"]


# RDMA and NVMe.

BUFFER = Buffer(0x10000, 8192, 77)


def test_an_rdma_write_is_posted_signaled_and_awaited(core: Core, nic: Nic, card: OneCard) -> None:
    async def write() -> None:
        await nic.rdma_write(4, BUFFER, 100, 200, 0x5000, 9, imm_data=0)

    core.spawn("writer", write())
    core.run()
    ((qp_num, work, signal),) = card.posted
    assert qp_num == 4
    sges = (Sge(0x10064, 200, 77),)
    assert work == WorkRequest(Opcode.RDMA_WRITE_WITH_IMM, sges, 0x5000, 9, 0, signaled=True)
    assert core.ended == []
    assert signal is not None
    signal.set(0)
    core.run()
    assert core.ended == [("writer", "")]


def test_an_rdma_write_of_nothing_has_no_local_piece(core: Core, nic: Nic, card: OneCard) -> None:
    async def write() -> None:
        await nic.rdma_write(4, BUFFER, 0, 0, 0, 0)

    core.spawn("writer", write())
    core.run()
    assert card.posted[0][1] == WorkRequest(Opcode.RDMA_WRITE, signaled=True)
    core.scheduler.cancel_all()


def test_a_failed_rdma_write_raises_its_status(core: Core, nic: Nic, card: OneCard) -> None:
    async def write() -> None:
        await nic.rdma_write(4, BUFFER, 0, 64, 0, 0)

    task = core.spawn("writer", write())
    core.run()
    signal = card.posted[0][2]
    assert signal is not None
    signal.set(int(VerbsStatus.REM_ACCESS_ERR))
    core.run()
    assert core.ended == [("writer", "firmware.CompletionError")]
    assert str(task.error) == "RDMA_WRITE of 64 bytes on queue pair 4 ended with REM_ACCESS_ERR"


def test_nvme_commands_are_awaited_and_their_errors_raised(core: Core, nic: Nic, card: OneCard) -> None:
    log: list[Any] = []

    async def store() -> None:
        await nic.nvme_write(1, 2, 3, 4)
        await nic.nvme_flush(1)
        card.nvme_status = NvmeStatus.LBA_OUT_OF_RANGE
        try:
            await nic.nvme_read(1, 9, 1, 4)
        except CompletionError as error:
            log.append((error.status, str(error)))

    core.spawn("store", store())
    core.run()
    assert card.nvme_commands == [("write", 1, 2, 3, 4), ("flush", 1, 0, 0, 0), ("read", 1, 9, 1, 4)]
    assert log == [
        (
            NvmeStatus.LBA_OUT_OF_RANGE,
            "NVMe read of 1 blocks at 9, namespace 1, ended with LBA_OUT_OF_RANGE",
        )
    ]


def test_a_checksum_is_the_crc_32_of_memory(nic: Nic, card: OneCard) -> None:
    assert nic.checksum(8, 16) == zlib.crc32(bytes(range(8, 24)))


def test_commands_of_a_counted_queue_go_there(core: Core, nic: Nic, card: OneCard) -> None:
    counter = nic.allocate_counter()
    reads = nic.count_completions(counter)

    async def work() -> None:
        await reads.nvme_read(1, 2, 3, 4)
        await reads.nvme_write(1, 5, 6, 7)
        await reads.nvme_flush(1)

    core.spawn("work", work())
    core.run()
    reads.close()
    assert card.nvme_commands == [("read", 1, 2, 3, 4), ("write", 1, 5, 6, 7), ("flush", 1, 0, 0, 0)]
    assert card.queues == [counter.index, *[7] * 3, -7]


@pytest.mark.parametrize(("length", "imm"), [(8, None), (0, 5)])
def test_a_write_is_armed_with_its_end_s_counter(
    nic: Nic, card: OneCard, length: int, imm: int | None
) -> None:
    counter, then = nic.allocate_counter(), nic.allocate_counter(1)
    nic.arm_write(counter, 3, 9, Buffer(0x1000, 64, 0x77), 16, length, 0x2000, 0x88, imm, then)
    sges = (Sge(0x1010, 8, 0x77),) if length else ()
    opcode = Opcode.RDMA_WRITE if imm is None else Opcode.RDMA_WRITE_WITH_IMM
    work = WorkRequest(opcode, sges, 0x2000, 0x88, imm or 0)
    assert card.armed_work == [(counter.index, 3, 9, work, then.index)]


def test_a_namespace_that_a_nic_does_not_have_is_missed_in_words(nic: Nic, card: OneCard) -> None:
    with pytest.raises(
        UsageError, match=r"no NVMe namespace 1, nor any other; .* \[\[nic.NAME.namespace\]\] with"
    ):
        nic.namespaces[1]
    card.spaces = {3: (512, 8), 2: (4096, 16)}
    with pytest.raises(UsageError, match=r"no NVMe namespace 1, only 2, 3; .* with nsid = 1$"):
        nic.namespaces[1]
    assert nic.namespaces[3] == (512, 8)
    assert nic.namespaces.get(1) is None
    assert dict(nic.namespaces) == card.spaces
