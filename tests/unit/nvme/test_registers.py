# SPDX-License-Identifier: Apache-2.0
from hypothesis import given
from hypothesis import strategies as st

from nicemu.nvme import Capabilities, Configuration, doorbell_offset

u4 = st.integers(0, 15)


@given(
    st.builds(
        Capabilities,
        max_queue_entry_count=st.integers(2, 65536),
        ready_timeout_ms=st.integers(0, 255).map(lambda steps: steps * 500),
        doorbell_stride=u4,
        min_page_shift=u4,
        max_page_shift=u4,
    )
)
def test_capabilities_survive_their_encoding(capabilities: Capabilities) -> None:
    assert Capabilities.decode(capabilities.encode()) == capabilities


@given(
    st.builds(
        Configuration,
        enable=st.booleans(),
        command_set=st.integers(0, 7),
        page_shift=u4,
        arbitration=st.integers(0, 7),
        shutdown=st.integers(0, 3),
        io_sqe_shift=u4,
        io_cqe_shift=u4,
    )
)
def test_a_configuration_survives_its_encoding(configuration: Configuration) -> None:
    assert Configuration.decode(configuration.encode()) == configuration


def test_fields_lie_where_the_specification_puts_them() -> None:
    cap = Capabilities(
        1024, ready_timeout_ms=7500, doorbell_stride=1, min_page_shift=2, max_page_shift=4
    ).encode()
    assert cap == 1023 | 1 << 16 | 15 << 24 | 1 << 32 | 1 << 37 | 2 << 48 | 4 << 52
    assert Configuration(enable=True, shutdown=1).encode() == 0x0046_4001


def test_doorbells_alternate_between_tails_and_heads() -> None:
    assert [doorbell_offset(qid, is_completion=head) for qid in (0, 1) for head in (False, True)] == [
        0x1000,
        0x1004,
        0x1008,
        0x100C,
    ]
    assert doorbell_offset(2, is_completion=True, stride=2) == 0x1000 + 5 * 16
