# SPDX-License-Identifier: Apache-2.0
"""What NVMe controllers do with queues: created, shared, wrapped, full, deleted, reset; ours and QEMU's.

Source: NVM Express Base Specification 2.0, "Queue Model", "Admin Command Set"; NVM Express over PCIe
Transport Specification 1.0, "Interrupts".
"""

from __future__ import annotations

import dataclasses

from nicemu.errors import NvmeStatus
from nicemu.nvme import AdminOpcode, Cqe, Register, Sqe, Status
from nicemu.nvme.command import AdminStatus
from nicemu.pcie import PAGE_BYTES as PAGE
from tests.contract.nvme_deviations import check
from tests.contract.nvme_plain_host import PlainHost, read, write
from tests.contract.nvme_rigs import until

OK = NvmeStatus.SUCCESS


def test_impossible_completion_queues_are_refused(io: PlainHost) -> None:
    assert io.create_cq(0) == NvmeStatus.INVALID_QUEUE_IDENTIFIER
    assert io.create_cq(1) == NvmeStatus.INVALID_QUEUE_IDENTIFIER
    assert io.create_cq(5) == NvmeStatus.INVALID_QUEUE_IDENTIFIER
    assert io.create_cq(2, 1) == NvmeStatus.INVALID_QUEUE_SIZE
    assert io.create_cq(2, 8192) == NvmeStatus.INVALID_QUEUE_SIZE
    assert io.create_cq(2, address=io.cq_address(2) + 64) == NvmeStatus.PRP_OFFSET_INVALID
    assert io.create_cq(2, vector=77) == AdminStatus.INVALID_INTERRUPT_VECTOR
    scattered = Sqe(AdminOpcode.CREATE_IO_CQ, prp1=io.cq_address(2), cdw10=7 << 16 | 2)
    assert io.admin(scattered).status == NvmeStatus.INVALID_FIELD


def test_impossible_submission_queues_are_refused(io: PlainHost) -> None:
    assert io.create_sq(0, 1) == NvmeStatus.INVALID_QUEUE_IDENTIFIER
    assert io.create_sq(1, 1) == NvmeStatus.INVALID_QUEUE_IDENTIFIER
    assert io.create_sq(5, 1) == NvmeStatus.INVALID_QUEUE_IDENTIFIER
    assert io.create_sq(2, 2) == NvmeStatus.COMPLETION_QUEUE_INVALID
    assert io.create_sq(2, 1, 1) == NvmeStatus.INVALID_QUEUE_SIZE
    assert io.create_sq(2, 1, 8192) == NvmeStatus.INVALID_QUEUE_SIZE
    assert io.create_sq(2, 1, address=io.sq_address(2) + 64) == NvmeStatus.PRP_OFFSET_INVALID
    scattered = Sqe(AdminOpcode.CREATE_IO_SQ, prp1=io.sq_address(2), cdw10=7 << 16 | 2, cdw11=1 << 16)
    assert io.admin(scattered).status == NvmeStatus.INVALID_FIELD
    for case, cq_id in (("the admin completion queue", 0), ("a completion queue out of range", 99)):
        status = io.create_sq(2, cq_id)
        check(io, f"a submission queue for {case}", status, NvmeStatus.INVALID_QUEUE_IDENTIFIER)


def test_queues_are_deleted_submission_queue_first(io: PlainHost) -> None:
    assert io.delete_cq(1) == AdminStatus.INVALID_QUEUE_DELETION
    for missing in (0, 3):
        assert io.delete_sq(missing) == NvmeStatus.INVALID_QUEUE_IDENTIFIER
        case = f"deletion of completion queue {missing}"
        check(io, case, io.delete_cq(missing), NvmeStatus.INVALID_QUEUE_IDENTIFIER)
    assert io.delete_sq(1) == OK
    assert io.delete_sq(1) == NvmeStatus.INVALID_QUEUE_IDENTIFIER
    assert io.delete_cq(1) == OK
    io.open(1, 4)
    assert io.do(read(0, 1, io.data)) == OK


def test_several_submission_queues_share_a_completion_queue(io: PlainHost) -> None:
    assert io.create_sq(2, 1) == OK
    io.memory.write(io.data, b"2" * PAGE)
    io.send(dataclasses.replace(write(5, 1, io.data), cid=7), qid=2)
    (second,) = io.reap(1)
    io.send(dataclasses.replace(read(5, 1, io.data + PAGE), cid=7), qid=1)
    (first,) = io.reap(1)
    assert [(cqe.cid, cqe.sq_id, cqe.sq_head, cqe.status) for cqe in (second, first)] == [
        (7, 2, 1, OK),
        (7, 1, 1, OK),
    ]
    assert io.memory.read(io.data + PAGE, PAGE) == b"2" * PAGE


def test_queue_pairs_work_side_by_side(host: PlainHost) -> None:
    for qid in (1, 2, 3, 4):
        host.open(qid)
    for qid in (1, 2, 3, 4):
        place = host.data + qid * PAGE
        host.memory.write(place, bytes([qid]) * PAGE)
        host.send(dataclasses.replace(write(qid, 1, place), cid=qid), qid=qid)
    for qid in (4, 2, 1, 3):
        (done,) = host.reap(1, qid)
        assert (done.cid, done.sq_id, done.status) == (qid, qid, OK)
    assert host.do(read(1, 4, host.data, host.pages(*(host.data + n * PAGE for n in (8, 9, 10)))), 3) == OK
    assert host.memory.read(host.data, 1) == b"\1"
    assert [host.memory.read(host.data + n * PAGE, 1) for n in (8, 9, 10)] == [b"\2", b"\3", b"\4"]


def test_the_phase_bit_turns_over_each_time_the_queue_wraps(host: PlainHost) -> None:
    host.open(1, 4)
    seen: list[Cqe] = []
    for number in range(10):
        host.send(dataclasses.replace(read(number, 1, host.data), cid=number))
        seen += host.reap(1)
    assert [cqe.cid for cqe in seen] == list(range(10))
    assert [cqe.phase for cqe in seen] == [1] * 4 + [0] * 4 + [1] * 2
    assert [cqe.sq_head for cqe in seen] == [1, 2, 3, 0, 1, 2, 3, 0, 1, 2]


def test_a_full_completion_queue_holds_what_is_left_until_there_is_room(host: PlainHost) -> None:
    host.open(1, 8, 4)
    host.send(*(dataclasses.replace(read(number, 1, host.data), cid=number) for number in range(7)))
    found = host.reap(3, ring=False)
    for _ in range(20):
        host.rig.run()
    assert host.reap(0, ring=False) == []
    host.ring_head()
    found += host.reap(3)
    found += host.reap(1)
    assert sorted(cqe.cid for cqe in found) == list(range(7))
    assert {cqe.status for cqe in found} == {OK}


def test_a_submission_queue_is_fetched_at_full_depth(host: PlainHost) -> None:
    host.open(1, 64)
    for number in range(63):
        host.memory.write(host.data + number * PAGE, bytes([number + 1]) * PAGE)
    host.send(*(dataclasses.replace(write(n, 1, host.data + n * PAGE), cid=n) for n in range(63)))
    done = host.reap(63)
    assert {cqe.cid for cqe in done} == set(range(63))
    assert {cqe.status for cqe in done} == {OK}
    pages = [host.data + (100 + number) * PAGE for number in range(63)]
    assert host.do(read(0, 63, pages[0], host.pages(*pages[1:]))) == OK
    assert [host.memory.read(page, 1)[0] for page in pages] == list(range(1, 64))


def test_doorbells_with_impossible_values_change_nothing(io: PlainHost) -> None:
    io.write_doorbell(1, 8, is_completion=False)
    io.write_doorbell(1, 9, is_completion=True)
    for _ in range(20):
        io.rig.run()
    assert io.reap(0, ring=False) == []
    assert io.do(read(0, 1, io.data)) == OK


def test_a_completion_raises_the_vector_of_its_queue(host: PlainHost) -> None:
    host.rig.take_messages()
    host.open(1, vector=1)
    host.open(2, vector=3)
    host.open(3)
    until(lambda: host.rig.take_messages() <= {0}, host.rig)
    raised: set[int] = set()

    def has(*vectors: int) -> bool:
        raised.update(host.rig.take_messages())
        return raised == set(vectors)

    assert host.do(read(0, 1, host.data), 3) == OK
    assert has()
    assert host.do(read(0, 1, host.data), 2) == OK
    until(lambda: has(3), host.rig)
    assert host.do(read(0, 1, host.data), 1) == OK
    until(lambda: has(1, 3), host.rig)


def test_a_reset_forgets_the_queues_and_keeps_the_blocks(io: PlainHost) -> None:
    io.memory.write(io.data, b"kept" * 1024)
    assert io.do(write(3, 1, io.data)) == OK
    io.enable()
    assert io.rig.registers.read32(Register.CSTS) == Status.READY
    io.open(1)
    assert io.do(read(3, 1, io.data + PAGE)) == OK
    assert io.memory.read(io.data + PAGE, PAGE) == b"kept" * 1024
