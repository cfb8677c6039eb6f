# SPDX-License-Identifier: Apache-2.0
"""The PCIe fabric itself: it starts, says what is wrong, and leaves nothing behind, however it ends."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nicemu.errors import ProtocolError, ResourceError, UsageError
from nicemu.fabric import NIC_BAR, QemuFabric, QemuNamespace, qemu_missing
from nicemu.fabric.pcie_qemu import fabric as pcie_qemu
from nicemu.fabric.pcie_qemu import link as pcie_qemu_link
from nicemu.fabric.pcie_qemu.function import PciFunction
from nicemu.nvme import (
    Capabilities,
    InitiatorState,
    IoOpcode,
    NvmeInitiator,
    Register,
    queue_memory_bytes,
)

BLOCK = 4096
BLOCKS = 64
BARS = {"nic": 8 << 20, "gpu": 1 << 20}
DEPTH = 8
DATA = NIC_BAR + (4 << 20)
WORD = DATA + (1 << 20)
LIMIT_S = 10.0

needs_qemu = pytest.mark.skipif(bool(qemu_missing()), reason=qemu_missing() or "QEMU is here")


def until(is_true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.0005)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def started(fabric: QemuFabric) -> NvmeInitiator:
    """Bring the controller up, queues in the NIC's BAR."""
    initiator = NvmeInitiator(
        fabric.nvme, fabric.memory, NIC_BAR, queue_memory_bytes(DEPTH), depth=DEPTH, name="nic"
    )
    initiator.start(0)
    until(lambda: initiator.advance(0) is InitiatorState.READY)
    return initiator


def do(initiator: NvmeInitiator, opcode: IoOpcode, slba: int = 0, blocks: int = 0, buffer: int = 0) -> int:
    assert initiator.submit(opcode, 1, slba, blocks, buffer) is not None
    done: list[int] = []

    def take() -> bool:
        done.extend(status for _, status in initiator.reap())
        return bool(done)

    until(take)
    return done[0]


def read_for_ever(initiator: NvmeInitiator) -> None:
    for _ in range(100_000):
        initiator.submit(IoOpcode.READ, 1, 0, 1, DATA)
        initiator.reap()


@pytest.fixture(scope="module")
def fabric() -> Iterator[QemuFabric]:
    with QemuFabric([QemuNamespace(1, BLOCKS)], BARS) as opened:
        yield opened


@pytest.mark.p2p
@needs_qemu
class TestWithQemu:
    def test_bars_are_windows_that_the_controller_and_this_process_reach(self, fabric: QemuFabric) -> None:
        assert fabric.memory.find(NIC_BAR, BARS["nic"]).kind == "nic"
        gpu = fabric.memory.find(0x80_0000_0000, 1)
        assert (gpu.kind, gpu.backing, gpu.length_bytes) == ("gpu", fabric.bars["gpu"], BARS["gpu"])
        initiator = started(fabric)
        fabric.memory.write(gpu.bus_address, b"from gpu" * 512)
        assert do(initiator, IoOpcode.WRITE, 7, 1, gpu.bus_address) == 0
        assert do(initiator, IoOpcode.READ, 7, 1, DATA) == 0
        assert bytes(fabric.bars["nic"].view[4 << 20 : (4 << 20) + BLOCK]) == b"from gpu" * 512
        assert bytes(fabric.blocks[1].view[7 * BLOCK : 8 * BLOCK]) == b"from gpu" * 512

    def test_the_controller_has_what_it_was_asked_for(self, fabric: QemuFabric) -> None:
        assert Capabilities.decode(fabric.nvme.read64(Register.CAP)).max_queue_entry_count >= 64
        assert fabric.nvme.vector_count == 17
        initiator = started(fabric)
        assert initiator.identity is not None
        assert initiator.identity.serial == "NICEMU-P2P"
        assert initiator.max_transfer_bytes == 2 << 20

    def test_a_completion_stores_the_message_of_its_vector(self, fabric: QemuFabric) -> None:
        initiator = started(fabric)
        fabric.memory.write(WORD, bytes(16))
        for number in (7, 8):
            fabric.nvme.set_message(1, WORD, number)
            assert do(initiator, IoOpcode.READ, 0, 1, DATA) == 0
            until(lambda number=number: fabric.memory.read(WORD, 1)[0] == number)  # type: ignore[misc]
        assert fabric.memory.read(WORD, 16) == b"\x08" + bytes(15)

    def test_a_masked_vector_stores_its_message_when_it_gets_one(self, fabric: QemuFabric) -> None:
        initiator = started(fabric)
        fabric.memory.write(WORD, bytes(16))
        fabric.nvme.set_message(1, WORD, 9)
        fabric.nvme.mask(1)
        assert do(initiator, IoOpcode.READ, 0, 1, DATA) == 0
        fabric.nvme.read32(Register.CSTS)
        assert fabric.memory.read(WORD, 16) == bytes(16)
        fabric.nvme.set_message(1, WORD + 8, 10)
        until(lambda: fabric.memory.read(WORD + 8, 1) == b"\x0a")
        assert fabric.memory.read(WORD, 8) == bytes(8)

    @pytest.mark.parametrize(("vector", "address"), [(17, WORD), (-1, WORD), (1, WORD + 2), (1, 0x5000)])
    def test_an_impossible_message_is_refused(self, fabric: QemuFabric, vector: int, address: int) -> None:
        with pytest.raises(UsageError):
            fabric.nvme.set_message(vector, address, 1)

    def test_a_function_that_is_not_there_is_an_error(self, fabric: QemuFabric) -> None:
        with pytest.raises(ProtocolError, match=r"no PCI function 0x1e\.0"):
            PciFunction(fabric._link, 30)
        with pytest.raises(ProtocolError, match="has no capability 0x09"):
            PciFunction(fabric._link, 4).find_capability(9)

    def test_nothing_is_left_behind(self) -> None:
        shared, before = set(os.listdir("/dev/shm")), set(os.listdir("/proc/self/fd"))
        fabric = QemuFabric([QemuNamespace(1, BLOCKS)], BARS)
        pid = fabric.pid
        assert is_alive(pid)
        assert not [name for name in os.listdir("/dev/shm") if name not in shared and "nicemu" in name]
        fabric.close()
        fabric.close()
        assert not is_alive(pid)
        assert set(os.listdir("/proc/self/fd")) <= before
        with pytest.raises(ProtocolError, match="is closed"):
            fabric.nvme.read32(Register.CSTS)

    def test_a_fabric_that_nobody_holds_any_more_ends(self) -> None:
        fabric = QemuFabric([QemuNamespace(1, BLOCKS)], BARS)
        pid = fabric.pid
        del fabric
        gc.collect()
        assert not is_alive(pid)

    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
    def test_qemu_that_is_killed_is_named_at_the_next_access(self, how: signal.Signals) -> None:
        with QemuFabric([QemuNamespace(1, BLOCKS)], BARS) as fabric:
            initiator = started(fabric)
            os.kill(fabric.pid, how)
            with pytest.raises(ProtocolError, match="QEMU is lost"):
                read_for_ever(initiator)
            with pytest.raises(ProtocolError, match="QEMU is lost"):
                fabric.check()
            assert not is_alive(fabric.pid)

    def test_qemu_that_answers_no_more_is_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(pcie_qemu_link, "ANSWER_TIMEOUT_S", 2.0)
        with QemuFabric([QemuNamespace(1, BLOCKS)], BARS) as fabric:
            fabric._link._channel.settimeout(0.05)
            os.kill(fabric.pid, signal.SIGSTOP)
            with pytest.raises(ProtocolError, match="no answer to 'readl"):
                fabric.nvme.read32(Register.CSTS)
            assert not is_alive(fabric.pid)

    def test_blocks_in_a_file_outlive_the_fabric(self, tmp_path: Path) -> None:
        path = tmp_path / "a name, with commas=and more"
        path.write_bytes(bytes(BLOCKS * BLOCK))
        space = QemuNamespace(1, BLOCKS, BLOCK, path)
        with QemuFabric([space], BARS) as fabric:
            initiator = started(fabric)
            fabric.memory.write(DATA, b"kept" * 1024)
            assert do(initiator, IoOpcode.WRITE, 3, 1, DATA) == 0
            assert do(initiator, IoOpcode.FLUSH) == 0
            with pytest.raises(ResourceError, match=r"did not start.*lock"):
                QemuFabric([space], BARS)
            os.kill(fabric.pid, signal.SIGKILL)
        assert path.read_bytes()[3 * BLOCK : 4 * BLOCK] == b"kept" * 1024

    @pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    def test_qemu_ends_with_the_program_that_opened_it(self, how: signal.Signals) -> None:
        program = (
            "from nicemu.fabric import *\n"
            "import time\n"
            "with QemuFabric([QemuNamespace(1, 64)]) as fabric:\n"
            "    print(fabric.pid, flush=True)\n"
            "    time.sleep(60)\n"
        )
        running = subprocess.Popen(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        with running:
            assert running.stdout is not None
            pid = int(running.stdout.readline())
            assert is_alive(pid)
            running.send_signal(how)
            running.wait(LIMIT_S)
        until(lambda: not is_alive(pid))


def test_what_is_missing_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None if "qemu" in program else program)
    assert qemu_missing() == "qemu-system-x86_64 is not installed; apt-get install qemu-system-x86"
    with pytest.raises(ResourceError, match="apt-get install qemu-system-x86"):
        QemuFabric([QemuNamespace(1, BLOCKS)])


@pytest.mark.parametrize(
    ("spaces", "bars", "message"),
    [
        ([], BARS, r"namespaces \[\]"),
        ([QemuNamespace(1, 1), QemuNamespace(1, 1)], BARS, r"namespaces \[1, 1\]"),
        ([QemuNamespace(257, 1)], BARS, r"namespaces \[257\]"),
        ([QemuNamespace(1, 0)], BARS, "0 blocks of 4096 bytes"),
        ([QemuNamespace(1, 1, 3000)], BARS, "blocks of 3000 bytes"),
        ([QemuNamespace(1, 1, 4096, Path("/nowhere/at/all"))], BARS, "is no file; a file of 4096 bytes"),
        ([QemuNamespace(1, 1, 4096, Path(__file__))], BARS, "a file of 4096 bytes is needed"),
        ([QemuNamespace(1, 1)], {}, "0 BARs"),
        ([QemuNamespace(1, 1)], {"nic": 3 << 20}, "a power of two"),
        ([QemuNamespace(1, 1)], {"a,b": 1 << 20}, "a BAR 'a,b'"),
    ],
)
def test_what_cannot_be_is_refused_before_qemu_starts(
    spaces: list[QemuNamespace], bars: dict[str, int], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pcie_qemu, "qemu_missing", lambda: "")
    with pytest.raises(UsageError, match=message):
        QemuFabric(spaces, bars)


def test_no_more_queue_pairs_than_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pcie_qemu, "qemu_missing", lambda: "")
    with pytest.raises(UsageError, match="2048 queue pairs"):
        QemuFabric([QemuNamespace(1, 1)], queue_pairs=2048)
