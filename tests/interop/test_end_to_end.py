# SPDX-License-Identifier: Apache-2.0
"""QEMU's NVMe controller, a NIC of ours whose memory is a BAR, the kernel's rxe: chunks there and back."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

import pytest

from nicemu.errors import NicemuError
from nicemu.fabric import QemuFabric, qemu_missing
from nicemu.programs import find_program, load_module

from .conftest import Machine

pytestmark = [pytest.mark.interop, pytest.mark.p2p, pytest.mark.slow]
CHUNKS = 12


@pytest.fixture
def example(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The example, with the guest of all these tests instead of one of its own."""
    if missing := qemu_missing():
        pytest.skip(missing)
    while machine.port.receive():
        pass
    loaded = load_module(find_program("examples/real_p2p/end_to_end.py"))

    @contextmanager
    def this_guest(say: object) -> Iterator[tuple[object, object]]:
        yield machine.guest, machine.port

    monkeypatch.setattr(loaded, "guest_on_a_cable", this_guest)
    return loaded


def test_chunks_go_from_the_namespace_to_rxe_and_back_without_a_host_buffer(
    example: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    example.main(["--json", "--chunks", str(CHUNKS)])
    printed = capsys.readouterr()
    account = json.loads(printed.out)
    length = CHUNKS * example.CHUNK_BYTES
    for leg in ("fetched", "fired", "stored"):
        assert account[leg].pop("seconds") > 0
        assert account[leg] == {"chunks": CHUNKS, "bytes": length, "crc32_equal": CHUNKS}
    packets = 2 * CHUNKS * example.CHUNK_BYTES // 4096
    assert account["frames"]["sent"] >= packets + CHUNKS  # data of one way, answers of the other
    assert account["rxe_counters"]["rcvd_pkts"] >= packets
    assert "by firmware): 12 of 12 chunks" in printed.err


def test_the_account_says_what_is_real(example: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    example.main(["--chunks", "1"])
    said = capsys.readouterr().out
    assert "fetched: 1 of 1 chunks, 65536 bytes, CRC-32 equal" in said
    assert "the Linux kernel's rdma_rxe, unchanged, in a guest" in said


def test_a_byte_that_changed_between_namespace_and_rxe_is_told(
    example: ModuleType, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill = example.fill

    def fill_and_spoil(fabric: QemuFabric, chunk_count: int) -> list[int]:
        expected: list[int] = fill(fabric, chunk_count)
        fabric.blocks[1].view[example.CHUNK_BYTES + 5] ^= 1
        return expected

    monkeypatch.setattr(example, "fill", fill_and_spoil)
    with pytest.raises(NicemuError, match=r"fetched: chunks \[1\] are not the same"):
        example.journey(machine.guest, machine.port, 2, lambda line: None)
