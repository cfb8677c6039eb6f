# SPDX-License-Identifier: Apache-2.0
"""PDUs of NVMe/TCP: what a host may send is read however it is cut, everything else is refused by name."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.fabric.nvme_tcp.pdu import (
    CAPSULE_DATA_BYTES,
    MAX_DATA_BYTES,
    FatalError,
    FatalStatus,
    Pdu,
    PduReader,
    PduType,
)

REQUEST = Pdu(PduType.IC_REQUEST, 0, bytes(120))
COMMAND = Pdu(PduType.COMMAND, 0, bytes(range(64)), b"data" * 5)
DATA = Pdu(PduType.HOST_DATA, 4, bytes(16), b"x" * 4096)


@given(st.lists(st.integers(1, 300), min_size=1))
def test_pdus_are_whole_however_the_bytes_come(cuts: list[int]) -> None:
    sent = REQUEST.encode() + COMMAND.encode() + DATA.encode() + COMMAND.encode()
    reader, found, at, turn = PduReader(), list[Pdu](), 0, 0
    while at < len(sent):
        found += reader.feed(sent[at : at + cuts[turn % len(cuts)]])
        at, turn = at + cuts[turn % len(cuts)], turn + 1
    assert found == [REQUEST, COMMAND, DATA, COMMAND]


def test_data_may_stand_off_from_the_header() -> None:
    header = struct.pack("<BBBBI", 4, 0, 72, 76, 84) + bytes(64)
    (pdu,) = PduReader().feed(header + b"pad!" + b"eight by")
    assert pdu.data == b"eight by"


@pytest.mark.parametrize(
    ("common", "status"),
    [
        ((0x05, 0, 24, 0, 24), FatalStatus.INVALID_FIELD),
        ((0x42, 0, 24, 0, 24), FatalStatus.INVALID_FIELD),
        ((0x04, 1, 72, 0, 72), FatalStatus.INVALID_FIELD),
        ((0x04, 0, 71, 0, 72), FatalStatus.INVALID_FIELD),
        ((0x04, 0, 72, 0, 71), FatalStatus.INVALID_FIELD),
        ((0x04, 0, 72, 70, 100), FatalStatus.INVALID_FIELD),
        ((0x04, 0, 72, 74, 100), FatalStatus.INVALID_FIELD),
        ((0x04, 0, 72, 104, 100), FatalStatus.INVALID_FIELD),
        ((0x04, 0, 72, 72, 72 + CAPSULE_DATA_BYTES + 1), FatalStatus.LIMIT_EXCEEDED),
        ((0x06, 0, 24, 24, 24 + MAX_DATA_BYTES + 1), FatalStatus.LIMIT_EXCEEDED),
        ((0x00, 0, 128, 128, 132), FatalStatus.LIMIT_EXCEEDED),
        ((0x04, 0, 72, 72, 0xFFFFFFFF), FatalStatus.LIMIT_EXCEEDED),
    ],
)
def test_a_header_that_no_host_may_send_is_refused_before_the_rest_comes(
    common: tuple[int, int, int, int, int], status: FatalStatus
) -> None:
    with pytest.raises(FatalError) as caught:
        PduReader().feed(struct.pack("<BBBBI", *common))
    assert caught.value.status is status


@given(st.binary(max_size=400))
def test_any_bytes_give_pdus_or_one_kind_of_error(data: bytes) -> None:
    try:
        found = PduReader().feed(data)
    except FatalError:
        return
    assert sum(len(pdu.encode()) for pdu in found) <= len(data)
