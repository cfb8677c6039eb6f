# SPDX-License-Identifier: Apache-2.0
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nicemu.errors import UsageError
from nicemu.nvme import ControllerIdentity, NamespaceIdentity


@given(
    st.builds(
        ControllerIdentity,
        serial=st.text("ABCXYZ0189", max_size=20),
        model=st.text("abcxyz0189", max_size=40),
        mdts=st.integers(0, 255),
        namespace_limit=st.integers(0, 2**32 - 1),
    )
)
def test_a_controller_identity_survives_its_encoding(identity: ControllerIdentity) -> None:
    data = identity.encode()
    assert len(data) == 4096
    assert ControllerIdentity.decode(data) == identity


@given(st.integers(9, 16), st.integers(1, 2**64 - 1))
def test_a_namespace_identity_survives_its_encoding(shift: int, block_count: int) -> None:
    identity = NamespaceIdentity(1 << shift, block_count)
    data = identity.encode()
    assert len(data) == 4096
    assert NamespaceIdentity.decode(data) == identity


@pytest.mark.parametrize(
    ("flbas", "index"), [(0x00, 0), (0x01, 1), (0x10, 0), (0x0F, 15), (0x21, 17), (0x6F, 63)]
)
def test_the_format_in_use_is_the_one_that_counts(flbas: int, index: int) -> None:
    data = bytearray(4096)
    struct.pack_into("<Q", data, 0, 10)
    data[26] = flbas
    data[128 + 4 * index + 2] = 12
    assert NamespaceIdentity.decode(bytes(data)) == NamespaceIdentity(4096, 10)


def test_a_structure_of_another_length_is_refused() -> None:
    for decode in (ControllerIdentity.decode, NamespaceIdentity.decode):
        with pytest.raises(UsageError, match="4096 bytes, these are 512"):
            decode(bytes(512))
