# SPDX-License-Identifier: Apache-2.0
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import NvmeStatus, UsageError
from nicemu.nvme import AdminStatus, Cqe, IoOpcode, Sqe

u2, u16, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (2, 16, 32, 64))


@given(
    st.builds(
        Sqe,
        opcode=st.integers(0, 255),
        cid=u16,
        nsid=u32,
        prp1=u64,
        prp2=u64,
        **{f"cdw{i}": u32 for i in (2, 3, *range(10, 16))},
        fuse=u2,
        psdt=u2,
        mptr=u64,
    )
)
def test_a_submission_entry_survives_its_encoding(sqe: Sqe) -> None:
    data = sqe.encode()
    assert len(data) == 64
    assert Sqe.decode(data) == sqe


@given(
    st.builds(
        Cqe,
        cid=u16,
        status=st.sampled_from(list(NvmeStatus)),
        sq_id=u16,
        sq_head=u16,
        result=u32,
        phase=st.integers(0, 1),
        dnr=st.booleans(),
    )
)
def test_a_completion_entry_survives_its_encoding(cqe: Cqe) -> None:
    data = cqe.encode()
    assert len(data) == 16
    assert Cqe.decode(data) == cqe


def test_a_read_command_has_its_fields_where_the_specification_puts_them() -> None:
    sqe = Sqe(
        IoOpcode.READ, cid=0x1234, nsid=7, prp1=0x1000, prp2=0x2000, cdw10=0xAABBCCDD, cdw11=0x11, cdw12=0xF
    )
    data = sqe.encode()
    assert data[0] == 0x02
    assert data[1] == 0
    assert struct.unpack_from("<H", data, 2) == (0x1234,)
    assert struct.unpack_from("<I", data, 4) == (7,)
    assert struct.unpack_from("<QQ", data, 24) == (0x1000, 0x2000)
    assert struct.unpack_from("<III", data, 40) == (0xAABBCCDD, 0x11, 0xF)
    assert sqe.slba == 0x11_AABB_CCDD
    assert sqe.nlb == 15


def test_fuse_and_psdt_share_the_second_byte() -> None:
    assert Sqe(0, fuse=2, psdt=1).encode()[1] == 0b0100_0010


def test_force_unit_access_is_bit_30_of_dword_12() -> None:
    assert Sqe(IoOpcode.WRITE, cdw12=1 << 30).fua
    assert not Sqe(IoOpcode.WRITE, cdw12=1 << 31 | 0xFFFF).fua


def test_a_completion_has_its_fields_where_the_specification_puts_them() -> None:
    cqe = Cqe(cid=5, status=NvmeStatus.LBA_OUT_OF_RANGE, sq_id=3, sq_head=9, result=0xCAFE, phase=1, dnr=True)
    result, reserved, head, sq_id, cid, word = struct.unpack("<IIHHHH", cqe.encode())
    assert (result, reserved, head, sq_id, cid) == (0xCAFE, 0, 9, 3, 5)
    assert word == 1 | 0x80 << 1 | 1 << 15


def test_a_status_without_a_name_stays_a_number() -> None:
    assert Cqe.decode(Cqe(1, 0x1AB).encode()).status == 0x1AB
    assert Cqe.decode(Cqe(1, 0x10C).encode()).status is AdminStatus.INVALID_QUEUE_DELETION


@pytest.mark.parametrize("length", [0, 15, 17, 63, 65])
def test_an_entry_of_another_length_is_refused(length: int) -> None:
    with pytest.raises(UsageError, match=f"64 bytes, these are {length}"):
        Sqe.decode(bytes(length))
    with pytest.raises(UsageError, match=f"16 bytes, these are {length}"):
        Cqe.decode(bytes(length))


def test_a_field_that_does_not_fit_is_refused() -> None:
    with pytest.raises(UsageError, match="does not fit a submission queue entry"):
        Sqe(IoOpcode.READ, cid=0x10000).encode()
    with pytest.raises(UsageError, match="does not fit a completion queue entry"):
        Cqe(cid=0x10000, status=0).encode()
