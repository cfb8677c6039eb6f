# SPDX-License-Identifier: Apache-2.0
"""Log pages: what they hold, and what of them is returned."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import NvmeStatus
from nicemu.nvme import AdminOpcode, BlockIoKind, Sqe
from nicemu.nvme.command import AdminStatus
from nicemu.nvme.log_page import IoTotals, read_log

LIMIT = 8192


def ask(
    identifier: int, length: int, offset: int = 0, nsid: int = 0, totals: IoTotals | None = None
) -> object:
    dwords = length // 4 - 1
    cdw10 = (dwords & 0xFFFF) << 16 | identifier
    sqe = Sqe(AdminOpcode.GET_LOG_PAGE, nsid=nsid, cdw10=cdw10, cdw11=dwords >> 16)
    sqe = Sqe.decode(sqe.encode()[:48] + struct.pack("<Q", offset) + bytes(8))
    return read_log(sqe, totals or IoTotals(), LIMIT)


def test_the_supported_pages_are_those_that_are_answered() -> None:
    page = ask(0, 1024)
    assert isinstance(page, bytes)
    supported = [number for number, word in enumerate(struct.unpack("<256I", page)) if word & 1]
    assert supported == [number for number in range(256) if not isinstance(ask(number, 64), int)]


def test_health_is_in_thousands_of_512_bytes_rounded_up() -> None:
    totals = IoTotals()
    totals.count(BlockIoKind.READ, 512_000)
    totals.count(BlockIoKind.READ, 1)
    totals.count(BlockIoKind.WRITE, 511_999)
    totals.count(BlockIoKind.FLUSH, 0)
    page = ask(2, 512, totals=totals)
    assert isinstance(page, bytes)
    assert [int.from_bytes(page[at : at + 16], "little") for at in (32, 48, 64, 80)] == [2, 1, 2, 1]


@given(st.integers(0, 3), st.integers(0, 260), st.integers(1, LIMIT // 4))
def test_any_piece_is_that_piece_of_the_page_and_zeros_behind_it(
    identifier: int, place: int, dwords: int
) -> None:
    whole, found = ask(identifier, LIMIT), ask(identifier, 4 * dwords, 4 * place)
    assert isinstance(whole, bytes)
    if isinstance(found, int):
        assert not any(whole[4 * place :])
    else:
        assert found == (whole + bytes(LIMIT))[4 * place : 4 * place + 4 * dwords]


@pytest.mark.parametrize(
    ("operands", "status"),
    [
        ((4, 64), AdminStatus.INVALID_LOG_PAGE),
        ((0xC0, 64), AdminStatus.INVALID_LOG_PAGE),
        ((2, LIMIT + 4), NvmeStatus.INVALID_FIELD),
        ((2, 1 << 34), NvmeStatus.INVALID_FIELD),
        ((2, 64, 2), NvmeStatus.INVALID_FIELD),
        ((2, 64, 516), NvmeStatus.INVALID_FIELD),
        ((2, 64, 1 << 40), NvmeStatus.INVALID_FIELD),
        ((2, 64, 0, 1), NvmeStatus.INVALID_FIELD),
    ],
)
def test_what_cannot_be_read_is_refused(operands: tuple[int, ...], status: int) -> None:
    identifier, length, offset, nsid = (*operands, 0, 0)[:4]
    assert ask(identifier, length, offset, nsid) == status
