# SPDX-License-Identifier: Apache-2.0
"""A PCIe fabric without a guest: QEMU's NVMe controller beside memory BARs that this process maps too.

QEMU runs a machine whose only processor is halted. Its NVMe controller fetches commands, moves data and posts
completions by DMA of its own, between a file and BARs that stand for a NIC's and a GPU's memory; so a
transfer between disk and NIC memory is peer-to-peer, by a controller that nicemu did not write. Nothing of
it lies in a file system: memory and boot ROM are memfds, the control socket is a pair without a name.

Not modelled: latency, ordering and access control of PCIe.
Source: QEMU 7.2, docs/system/devices/nvme.rst, docs/system/devices/ivshmem.rst; PCI Express Base
Specification 5.0, "Memory, I/O, and Configuration Request Rules"; prctl(2), PR_SET_PDEATHSIG.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from nicemu.errors import ProtocolError, ResourceError, UsageError
from nicemu.nvme import OutsideController
from nicemu.pcie import PAGE_BYTES, AddressSpace, Backing

from .function import MsixTable, PciFunction
from .link import QtestLink

NIC_BAR: Final = 0x1_0000_0000
"""Bus address of the BAR that stands for NIC memory: where a NIC of nicemu has its own."""

_QEMU, _GUARDIAN = "qemu-system-x86_64", "setpriv"
_PACKAGES: Final = {_QEMU: "qemu-system-x86", _GUARDIAN: "util-linux"}
_OTHER_BARS: Final = 0x80_0000_0000
_BAR_STEP: Final = 0x10_0000_0000
_REGISTERS: Final = 0xE000_0000
_NVME_DEVICE, _FIRST_BAR_DEVICE = 4, 8
_MAX_BARS: Final = 16
_MEMORY_BAR: Final = 2
_MACHINE_MIB: Final = 16
_ROM_BYTES, _RESET_OFFSET = 65536, 0xFFF0
_CLI_HLT_JMP: Final = b"\xfa\xf4\xeb\xfd"
_MDTS: Final = 9
"""Transfers of up to 2 MiB, in pages of 4096 bytes, as nicemu's own controller takes them."""
_STOP_TIMEOUT_S: Final = 5.0
_SHOWN_CHARACTERS: Final = 1000


def qemu_missing() -> str:
    """Return what to install before a fabric can be opened; "" if all is here."""
    for program, package in _PACKAGES.items():
        if shutil.which(program) is None:
            return f"{program} is not installed; apt-get install {package}"
    return ""


@dataclass(frozen=True, slots=True)
class QemuNamespace:
    """A namespace of the fabric's controller: `path` of its file, None for blocks in memory.

    A file is a whole number of blocks long and is used by one fabric at a time; QEMU holds a lock on it.
    """

    nsid: int
    block_count: int
    block_bytes: int = 4096
    path: Path | None = None


class QemuFabric:
    """QEMU with one NVMe controller, and BARs by kind ("nic", "gpu"), each a power of two of bytes long.

    `memory` holds the BARs as windows, at the addresses by which the controller reaches them; `bars` their
    backings. `nvme` is the controller. `queue_pairs`: I/O queue pairs that it offers; vector n is there for
    queue n. QEMU ends with `close`, with this process however that ends, and with the thread that opened it.
    Raises: ResourceError if QEMU is missing or does not start, with what it said; UsageError for namespaces
    or BARs that cannot be.
    """

    def __init__(
        self,
        namespaces: Sequence[QemuNamespace],
        bars: Mapping[str, int] | None = None,
        *,
        queue_pairs: int = 16,
        serial: str = "NICEMU-P2P",
    ) -> None:
        missing = qemu_missing()
        if missing:
            raise ResourceError(missing)
        bar_bytes = {"nic": 64 << 20} if bars is None else dict(bars)
        _check(namespaces, bar_bytes, queue_pairs)
        self.bars = {kind: Backing.memfd(f"nicemu-{kind}-bar", size) for kind, size in bar_bytes.items()}
        self.blocks = {
            space.nsid: Backing.memfd("nicemu-blocks", space.block_bytes * space.block_count)
            for space in namespaces
            if space.path is None
        }
        """What lies under the namespaces without a file, by nsid."""
        self.memory = AddressSpace()
        self._said = os.memfd_create("nicemu-qemu-said", os.MFD_CLOEXEC)
        ours, theirs = socket.socketpair()
        rom = _halting_rom()
        fds = [backing.fd for backing in (*self.bars.values(), *self.blocks.values())]
        try:
            self._process = subprocess.Popen(
                [
                    *(_GUARDIAN, "--pdeathsig", "KILL", "--", _QEMU),
                    *self._arguments(namespaces, rom, theirs.fileno(), queue_pairs, serial),
                ],
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=[rom, theirs.fileno(), *(fd for fd in fds if fd is not None)],
                process_group=0,
            )
        except BaseException:
            ours.close()
            os.close(self._said)
            raise
        finally:
            theirs.close()
            os.close(rom)
        self._end = weakref.finalize(self, _end, self._process, ours, self._said)
        self._link = QtestLink(ours, self._lost)
        try:
            self._map()
            self.nvme = QemuNvme(self, self._link)
        except ProtocolError as error:
            self.close()
            raise ResourceError(f"the PCIe fabric did not start: {error}") from error
        except BaseException:
            self.close()
            raise

    @property
    def pid(self) -> int:
        """Process identifier of QEMU."""
        return self._process.pid

    def check(self) -> None:
        """Return while QEMU runs. Raises: ProtocolError with what it said, once it does not."""
        if self._process.poll() is not None:
            raise self._lost("it has ended")

    def close(self) -> None:
        """End QEMU and give the BARs back; closing twice does nothing."""
        self._link.close()
        self._end()
        for backing in (*self.bars.values(), *self.blocks.values()):
            backing.close()

    def __enter__(self) -> QemuFabric:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _arguments(
        self, namespaces: Sequence[QemuNamespace], rom: int, channel: int, queue_pairs: int, serial: str
    ) -> list[str]:
        arguments = ["-nodefaults", "-no-user-config", "-display", "none", "-machine", "q35", "-accel", "tcg"]
        arguments += ["-m", str(_MACHINE_MIB), "-bios", _place_of(rom)]
        arguments += ["-chardev", f"socket,id=qtest,fd={channel}", "-qtest", "chardev:qtest"]
        arguments += ["-qtest-log", "none"]
        for number, (kind, backing) in enumerate(self.bars.items()):
            arguments += [
                "-object",
                _options(
                    "memory-backend-file",
                    id=kind,
                    size=backing.length_bytes,
                    share="on",
                    **{"mem-path": _place_of(backing.fd)},
                ),
                "-device",
                _options("ivshmem-plain", memdev=kind, addr=f"{_FIRST_BAR_DEVICE + number:#x}.0"),
            ]
        arguments += [
            "-device",
            _options(
                "nvme",
                id="nvme",
                serial=serial,
                addr=f"{_NVME_DEVICE:#x}.0",
                max_ioqpairs=queue_pairs,
                msix_qsize=queue_pairs + 1,
                mdts=_MDTS,
            ),
        ]
        for space in namespaces:
            under = _place_of(self.blocks[space.nsid].fd) if space.path is None else str(space.path)
            file = {"driver": "file", "filename": under}
            drive = {"driver": "raw", "node-name": f"blocks{space.nsid}", "file": file}
            arguments += [
                "-blockdev",
                json.dumps(drive),
                "-device",
                _options(
                    "nvme-ns",
                    bus="nvme",
                    drive=drive["node-name"],
                    nsid=space.nsid,
                    logical_block_size=space.block_bytes,
                    physical_block_size=space.block_bytes,
                ),
            ]
        return arguments

    def _map(self) -> None:
        """Be the firmware that enumerates the bus: give every BAR its address."""
        others = 0
        for number, (kind, backing) in enumerate(self.bars.items()):
            bus_address = NIC_BAR
            if kind != "nic":
                bus_address = _OTHER_BARS + others * _BAR_STEP
                others += 1
            function = PciFunction(self._link, _FIRST_BAR_DEVICE + number)
            length_bytes = function.place(_MEMORY_BAR, bus_address)
            if length_bytes != backing.length_bytes:
                raise ProtocolError(f"the BAR {kind} has {length_bytes} bytes, not {backing.length_bytes}")
            function.enable()
            self.memory.add(bus_address, kind, backing)

    def _lost(self, seen: str) -> ProtocolError:
        """End QEMU, so that its controller moves nothing any more, and say what it said."""
        status = self._process.poll()
        self._process.kill()
        self._process.wait()
        said = os.pread(self._said, 1 << 16, 0).decode(errors="replace").strip() if self._end.alive else ""
        how = "was running" if status is None else f"had ended with status {status}"
        return ProtocolError(f"QEMU is lost ({seen}); it {how}. {said[-_SHOWN_CHARACTERS:]}".strip())


class QemuNvme(OutsideController):
    """The fabric's NVMe controller: its registers over the control socket, its messages by MSI-X."""

    def __init__(self, fabric: QemuFabric, link: QtestLink) -> None:
        function = PciFunction(link, _NVME_DEVICE)
        function.place(0, _REGISTERS)
        function.enable()
        self._fabric = fabric
        self._link = link
        self._msix = MsixTable(link, function, _REGISTERS)

    @property
    def registers(self) -> QemuNvme:
        """The registers, which this is itself."""
        return self

    @property
    def reach(self) -> AddressSpace:
        """The BARs of the fabric."""
        return self._fabric.memory

    @property
    def vector_count(self) -> int:
        """How many interrupt vectors there are."""
        return self._msix.vector_count

    def check(self) -> None:
        """Return while QEMU runs. Raises: ProtocolError once it does not."""
        self._fabric.check()

    def set_message(self, vector: int, bus_address: int, data: int) -> None:
        """Let a vector store 32 bits in a BAR; one that is pending does it at once.

        Raises: UsageError for a vector that there is not, or an address outside the BARs.
        """
        self.reach.find(bus_address, 4)
        self._msix.set_message(vector, bus_address, data)

    def mask(self, vector: int) -> None:
        """Let a vector send nothing until its next `set_message`."""
        self._msix.mask(vector)

    def read32(self, offset: int) -> int:
        """Return 32 bits."""
        return self._link.read32(_REGISTERS + offset)

    def read64(self, offset: int) -> int:
        """Return 64 bits."""
        return self._link.read64(_REGISTERS + offset)

    def write32(self, offset: int, value: int) -> None:
        """Store 32 bits."""
        self._link.write32(_REGISTERS + offset, value)

    def write64(self, offset: int, value: int) -> None:
        """Store 64 bits."""
        self._link.write64(_REGISTERS + offset, value)


def _end(process: subprocess.Popen[bytes], channel: socket.socket, said: int) -> None:
    """End QEMU in any case, and wait for it."""
    channel.close()
    process.terminate()
    try:
        process.wait(_STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    with suppress(OSError):
        os.close(said)


def _halting_rom() -> int:
    """Return a descriptor of a boot ROM in which the processor halts at once, for good."""
    rom = bytearray(b"\xf4" * _ROM_BYTES)
    rom[_RESET_OFFSET : _RESET_OFFSET + len(_CLI_HLT_JMP)] = _CLI_HLT_JMP
    fd = os.memfd_create("nicemu-halting-rom", os.MFD_CLOEXEC)
    os.write(fd, rom)
    return fd


def _place_of(fd: int | None) -> str:
    return f"/proc/self/fd/{fd}"


def _options(kind: str, **values: Any) -> str:  # noqa: ANN401 - numbers and words
    return ",".join([kind, *(f"{key}={value}" for key, value in values.items())])


def _check(namespaces: Sequence[QemuNamespace], bars: Mapping[str, int], queue_pairs: int) -> None:
    nsids = [space.nsid for space in namespaces]
    if not nsids or len(set(nsids)) < len(nsids) or not all(1 <= nsid <= 256 for nsid in nsids):
        raise UsageError(
            f"namespaces {nsids}; a fabric has one at least, each with an nsid of its own to 256"
        )
    for space in namespaces:
        if space.block_count < 1 or space.block_bytes not in (512, 1024, 2048, 4096):
            raise UsageError(
                f"namespace {space.nsid} has {space.block_count} blocks of {space.block_bytes} bytes; "
                "a block has 512, 1024, 2048 or 4096"
            )
        if space.path is not None:
            _check_file(space)
    for kind, length_bytes in bars.items():
        if not kind.isidentifier() or length_bytes < PAGE_BYTES or length_bytes & (length_bytes - 1):
            raise UsageError(f"a BAR {kind!r} of {length_bytes} bytes; a power of two of bytes is needed")
    if not 1 <= len(bars) <= _MAX_BARS or max(bars.values()) > _BAR_STEP:
        raise UsageError(f"{len(bars)} BARs; 1 to {_MAX_BARS} are possible, each of up to 64 GiB")
    if not 1 <= queue_pairs <= 2047:
        raise UsageError(f"{queue_pairs} queue pairs; 1 to 2047 are possible")


def _check_file(space: QemuNamespace) -> None:
    path, needed = Path(space.path or ""), space.block_bytes * space.block_count
    found = path.stat().st_size if path.is_file() else -1
    if found != needed:
        what = f"has {found} bytes" if found >= 0 else "is no file"
        raise UsageError(f"namespace {space.nsid}: {path} {what}; a file of {needed} bytes is needed")
