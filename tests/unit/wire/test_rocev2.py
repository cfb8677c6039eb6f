# SPDX-License-Identifier: Apache-2.0
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.wire import (
    RNR_TIMER_NS,
    Aeth,
    AtomicAckEth,
    AtomicEth,
    Bth,
    MalformedError,
    NakCode,
    RcOpcode,
    Reth,
    SyndromeKind,
    decode_immediate,
    encode_immediate,
    rnr_timer_code,
)

u8, u24, u32, u64 = (st.integers(0, 2**bits - 1) for bits in (8, 24, 32, 64))
headers = st.one_of(
    st.builds(
        Bth,
        opcode=u8,
        destination_qp=u24,
        psn=u24,
        ack_request=st.booleans(),
        pad_count=st.integers(0, 3),
        solicited=st.booleans(),
        migration_request=st.booleans(),
        partition_key=st.integers(0, 0xFFFF),
        fecn=st.booleans(),
        becn=st.booleans(),
    ),
    st.builds(Reth, u64, u32, u32),
    st.builds(Aeth, u8, u24),
    st.builds(AtomicEth, u64, u32, u64, u64),
    st.builds(AtomicAckEth, u64),
)


@given(headers, st.binary(max_size=8))
def test_every_header_decodes_to_itself_and_is_refused_one_byte_short(
    header: Bth | Reth | Aeth | AtomicEth | AtomicAckEth, rest: bytes
) -> None:
    encoded = header.encode()
    assert type(header).decode(encoded + rest) == header
    with pytest.raises(MalformedError, match="too_short"):
        type(header).decode(encoded[:-1])


@given(u32)
def test_immediate_data_is_four_bytes_big_endian(imm_data: int) -> None:
    assert decode_immediate(encode_immediate(imm_data)) == imm_data
    with pytest.raises(MalformedError, match=r"immediate\.too_short"):
        decode_immediate(encode_immediate(imm_data)[:3])


def test_a_bth_lies_on_the_wire_as_the_specification_draws_it() -> None:
    bth = Bth(RcOpcode.RDMA_WRITE_ONLY, 0x112233, 0x445566, ack_request=True, pad_count=2)
    assert bth.encode() == bytes.fromhex("0a60 ffff 00112233 80445566")


def test_another_transport_version_is_refused() -> None:
    with pytest.raises(MalformedError) as caught:
        Bth.decode(bytes.fromhex("0a41ffff0011223380445566"))
    assert caught.value.reason == "bth.version"


def test_syndromes_have_their_specified_codes() -> None:
    assert Aeth.nak(NakCode.PSN_SEQUENCE_ERROR, 1).syndrome == 0x60
    assert Aeth.nak(NakCode.REMOTE_ACCESS_ERROR, 1).syndrome == 0x62
    assert Aeth.rnr_nak(12, 1).syndrome == 0x2C
    assert Aeth.ack(1).syndrome == 0x1F
    assert [Aeth(s, 0).kind for s in (0x1F, 0x2C, 0x60)] == [
        SyndromeKind.ACK,
        SyndromeKind.RNR_NAK,
        SyndromeKind.NAK,
    ]


@given(st.integers(0, 655_360_000))
def test_the_receiver_not_ready_timer_is_the_shortest_that_waits_long_enough(wait_ns: int) -> None:
    chosen = RNR_TIMER_NS[rnr_timer_code(wait_ns)]
    assert chosen >= wait_ns
    assert not [ns for ns in RNR_TIMER_NS if wait_ns <= ns < chosen]


def test_a_wait_longer_than_any_timer_gets_the_longest() -> None:
    assert RNR_TIMER_NS[rnr_timer_code(10**10)] == max(RNR_TIMER_NS)
