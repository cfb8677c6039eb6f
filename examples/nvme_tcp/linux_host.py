# SPDX-License-Identifier: Apache-2.0
"""Linux's own NVMe driver on nicemu's controller: a guest connects to it over NVMe/TCP and uses the disk.

The controller is our model (or, to compare, QEMU's) behind an NVMe/TCP target on this machine; the host is
the Linux kernel's `nvme-tcp` driver, unchanged, in a guest, driven by nvme-cli. Every command of the driver
reaches the controller: reset, identify, features, queues, asynchronous event requests, reads, writes, flush.
Run: python examples/nvme_tcp/linux_host.py [--controller qemu] [--json]
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from nicemu.errors import NicemuError, ResourceError
from nicemu.fabric import (
    DEFAULT_SUBSYSTEM,
    NIC_BAR,
    TARGET_MEMORY_BYTES,
    Guest,
    NvmeTcpTarget,
    QemuFabric,
    QemuNamespace,
    qemu_missing,
)
from nicemu.nvme import LocalRegisters, Namespace, NvmeController, NvmeRegisters
from nicemu.pcie import AddressSpace, Backing
from nicemu.run import MemoryBlockIo

NSID, BLOCK_BYTES, BLOCKS = 1, 4096, 2048
NETWORK = ("-netdev", "user,id=u0,restrict=off", "-device", "virtio-net-pci,netdev=u0,romfile=")
HERE, GUEST = "10.0.2.2", "10.0.2.15/24"
GUEST_LIFE_S, COMMAND_S = 300.0, 120.0
MODULES = f"modprobe -a virtio_net nvme_tcp; ip address add {GUEST} dev eth0; ip link set eth0 up"
WRITTEN, WRITTEN_AT = 1 << 20, 64
"""Bytes that the guest writes, and the block where they begin."""


class OwnController:
    """Our controller model over blocks in memory."""

    name = "nicemu's model"

    def __init__(self) -> None:
        self.memory = AddressSpace()
        self.base = NIC_BAR
        self.memory.add(self.base, "nic", Backing.memfd("nvme-tcp", TARGET_MEMORY_BYTES))
        self.block_bytes = {NSID: BLOCK_BYTES}
        self.controller = NvmeController(self.memory, [Namespace(NSID, BLOCK_BYTES, BLOCKS)])
        self.registers: NvmeRegisters = LocalRegisters(self.controller, time.monotonic_ns)
        self._disk = MemoryBlockIo(BLOCK_BYTES, BLOCKS, self.memory)
        self.view = self._disk.view

    def run(self) -> None:
        """Perform the I/O that there is, and complete what is done."""
        for io in self.controller.take_io():
            self._disk.submit(io)
        for tag, status in self._disk.take_completions():
            self.controller.on_io_complete(tag, status, time.monotonic_ns())
        self.controller.on_timer(time.monotonic_ns())
        self.controller.take_interrupts()


class QemuController:
    """QEMU's controller on its PCIe fabric, for comparison."""

    name = "QEMU's model"

    def __init__(self, fabric: QemuFabric) -> None:
        self.memory, self.base = fabric.memory, NIC_BAR
        self.registers: NvmeRegisters = fabric.nvme
        self.block_bytes = {NSID: BLOCK_BYTES}
        self.view = fabric.blocks[NSID].view

    def run(self) -> None:
        """It runs by itself."""


@contextmanager
def controller(which: str) -> Iterator[OwnController | QemuController]:
    """Return a controller to serve."""
    if which == "nicemu":
        yield OwnController()
        return
    if missing := qemu_missing():
        raise ResourceError(missing)
    with QemuFabric([QemuNamespace(NSID, BLOCKS, BLOCK_BYTES)], {"nic": 16 << 20}) as fabric:
        yield QemuController(fabric)


@contextmanager
def served(one: OwnController | QemuController) -> Iterator[NvmeTcpTarget]:
    """A target that serves a controller in a thread of its own."""
    over = threading.Event()
    with NvmeTcpTarget(one, ("127.0.0.1", 0)) as target:

        def serve() -> None:
            while not over.is_set():
                target.run()

        thread = threading.Thread(target=serve, name="nvme-tcp")
        thread.start()
        try:
            yield target
        finally:
            over.set()
            thread.join()


class LinuxHost:
    """The guest with its driver, and what it says."""

    def __init__(self, guest: Guest) -> None:
        self._guest = guest
        self.shell(MODULES)

    def shell(self, command: str) -> str:
        """Run a command in the guest. Raises: ResourceError with what it said, if it fails."""
        return self._guest.run(f"set -e; {command}", timeout_s=COMMAND_S).checked().output

    def connect(self, port: int) -> str:
        """Connect; return the block device's name."""
        self.shell(f"nvme disconnect-all; nvme connect -t tcp -a {HERE} -s {port} -n {DEFAULT_SUBSYSTEM}")
        found = self.shell("for i in $(seq 50); do ls /dev/nvme*n1 2>/dev/null && break; sleep 0.1; done")
        if not found:
            raise ResourceError("no block device came; " + self.shell("dmesg | tail -20"))
        return found.split()[0].removeprefix("/dev/")


def use(host: LinuxHost, one: OwnController | QemuController, target: NvmeTcpTarget) -> dict[str, Any]:
    """Have Linux use the disk in every way; return what was seen. Raises: NicemuError if a byte differs."""
    one.view[:] = random.Random(1).randbytes(len(one.view))
    started = time.monotonic()
    disk = host.connect(target.port)
    connected_s = time.monotonic() - started
    device = disk[: disk.rindex("n")]
    identity = json.loads(host.shell(f"nvme id-ctrl /dev/{device} -o json"))
    listed = json.loads(host.shell("nvme list -o json"))["Devices"]
    checks = Counter[str]()
    health = json.loads(host.shell(f"nvme smart-log /dev/{device} -o json"))
    checks["health log"] = int(
        int(health["host_read_commands"]) > 0 and 270 < int(health["temperature"]) < 340
    )
    read = host.shell(f"dd if=/dev/{disk} bs=256k iflag=direct 2>/dev/null | sha256sum").split()[0]
    checks["read all blocks"] = int(read == hashlib.sha256(one.view).hexdigest())
    host.shell(
        f"head -c {WRITTEN} /dev/urandom > /tmp/data; "
        f"dd if=/tmp/data of=/dev/{disk} bs=64k seek={WRITTEN_AT * BLOCK_BYTES} oflag=direct,seek_bytes "
        "2>/dev/null"
    )
    made = host.shell("sha256sum < /tmp/data").split()[0]
    start = WRITTEN_AT * BLOCK_BYTES
    checks["write 1 MiB"] = int(made == hashlib.sha256(one.view[start : start + WRITTEN]).hexdigest())
    host.shell(f"nvme flush /dev/{disk} -n {NSID}")
    checks["flush"] = 1
    small = host.shell(
        f"nvme read /dev/{disk} -s 5 -c 0 -z {BLOCK_BYTES} -d /tmp/one >/dev/null 2>&1; sha256sum < /tmp/one"
    )
    expected = hashlib.sha256(one.view[5 * BLOCK_BYTES : 6 * BLOCK_BYTES]).hexdigest()
    checks["nvme-cli read"] = int(small.split()[0] == expected)
    host.shell(f"mkfs.ext4 -q -F /dev/{disk}; mkdir -p /tmp/m; mount /dev/{disk} /tmp/m")
    host.shell("cp /tmp/data /tmp/m/; sync; umount /tmp/m")
    host.shell(f"mount /dev/{disk} /tmp/m; cmp /tmp/data /tmp/m/data; umount /tmp/m")
    checks["file system"] = 1
    host.shell(f"nvme disconnect -n {DEFAULT_SUBSYSTEM}")
    if failed := [name for name, right in checks.items() if not right]:
        raise NicemuError(f"wrong: {', '.join(failed)}")
    return {
        "controller": one.name,
        "model": identity["mn"].strip(),
        "serial": identity["sn"].strip(),
        "listed": len(listed),
        "connected_s": connected_s,
        "checks": dict(checks),
        "terminated": dict(target.faults),
    }


def main(arguments: list[str]) -> None:
    """Boot a guest, let it use the disk; print what was seen, or with --json one object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--controller", choices=["nicemu", "qemu"], default="nicemu")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    with ExitStack() as stack:
        say("booting a guest, a few seconds")
        guest = stack.enter_context(
            Guest(devices=NETWORK, rxe=False, say=say, time_limit_s=GUEST_LIFE_S, memory_mib=1024)
        )
        one = stack.enter_context(controller(options.controller))
        target = stack.enter_context(served(one))
        seen = use(LinuxHost(guest), one, target)
    if options.json:
        print(json.dumps(seen))
        return
    print(f"controller: {seen['controller']}, {seen['model']!r} {seen['serial']!r}")
    print("host: the Linux kernel's nvme-tcp driver and nvme-cli, unchanged, in a guest")
    for name in seen["checks"]:
        print(f"    right: {name}")


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except NicemuError as error:
        raise SystemExit(f"linux_host: {error}") from error
