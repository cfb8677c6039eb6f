# SPDX-License-Identifier: Apache-2.0
import pytest

from nicemu.errors import NvmeCommandError, NvmeStatus, UsageError
from nicemu.nvme import BlockIo, BlockIoKind, Namespace


def test_a_block_range_is_an_offset_and_a_length() -> None:
    assert Namespace(1, 4096, 100).extent(slba=3, nlb=1) == (3 * 4096, 2 * 4096)


def test_the_last_block_can_be_reached_and_the_one_behind_it_cannot() -> None:
    namespace = Namespace(1, 512, 8)
    assert namespace.extent(7, 0) == (3584, 512)
    for slba, nlb in ((8, 0), (7, 1), (0, 8), (2**64 - 1, 0)):
        with pytest.raises(NvmeCommandError, match="end behind them") as caught:
            namespace.extent(slba, nlb)
        assert caught.value.status is NvmeStatus.LBA_OUT_OF_RANGE


def test_the_size_is_blocks_times_block_size() -> None:
    assert Namespace(1, 4096, 256).size_bytes == 1 << 20


@pytest.mark.parametrize("nsid", [0, 0xFFFF_FFFF, -1])
def test_reserved_namespace_identifiers_are_refused(nsid: int) -> None:
    with pytest.raises(UsageError, match="nsid"):
        Namespace(nsid, 4096, 1)


@pytest.mark.parametrize("block_bytes", [0, 256, 1000, 131072])
def test_odd_block_sizes_are_refused(block_bytes: int) -> None:
    with pytest.raises(UsageError, match="power of two"):
        Namespace(1, block_bytes, 1)


def test_an_empty_namespace_is_refused() -> None:
    with pytest.raises(UsageError, match="at least one"):
        Namespace(1, 4096, 0)


def test_the_length_of_io_is_that_of_its_segments() -> None:
    assert BlockIo(1, BlockIoKind.READ, 1, 0, ((0x1000, 512), (0x8000, 1536)), 0).length_bytes == 2048
