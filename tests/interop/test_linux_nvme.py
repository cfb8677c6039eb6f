# SPDX-License-Identifier: Apache-2.0
"""Linux's own NVMe driver, in a guest, on our controller and on QEMU's, over NVMe/TCP."""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType
from typing import Protocol

import pytest

from nicemu.errors import ResourceError
from nicemu.fabric import Guest, install_command, missing_packages
from nicemu.programs import find_program, load_module

from .conftest import _give_up

pytestmark = [pytest.mark.interop, pytest.mark.slow]


class Linux(Protocol):
    """A guest with its driver loaded; `LinuxHost` of the example."""

    def shell(self, command: str) -> str:
        """Run a command there; what it said."""
        ...

    def connect(self, port: int) -> str:
        """Connect to a target; the block device's name."""
        ...


CHECKS = ("health log", "read all blocks", "write 1 MiB", "flush", "nvme-cli read", "file system")


@pytest.fixture(scope="module")
def example() -> ModuleType:
    return load_module(find_program("examples/nvme_tcp/linux_host.py"))


@pytest.fixture(scope="module")
def linux(example: ModuleType) -> Iterator[Linux]:
    """A guest with its driver loaded, and a network to this machine."""
    needed = [one for one in missing_packages() if one.boots or one.name == "nvme-cli"]
    if needed:
        names = ", ".join(one.name for one in needed)
        _give_up(f"no NVMe host without {names}; {install_command(needed)}")
    try:
        guest = Guest(devices=example.NETWORK, rxe=False, time_limit_s=420, memory_mib=1024).__enter__()
    except ResourceError as error:
        _give_up(str(error))
    try:
        yield example.LinuxHost(guest)
    finally:
        guest.close()


@pytest.mark.parametrize("which", ["nicemu", pytest.param("qemu", marks=pytest.mark.p2p)])
def test_linux_uses_the_disk_in_every_way_and_leaves_in_order(
    example: ModuleType, linux: Linux, which: str
) -> None:
    with example.controller(which) as one, example.served(one) as target:
        seen = example.use(linux, one, target)
    assert seen["checks"] == dict.fromkeys(CHECKS, 1)
    assert seen["listed"] == 1
    assert seen["model"] == ("nicemu NVMe controller" if which == "nicemu" else "QEMU NVMe Ctrl")
    assert seen["terminated"] == {}


def test_a_reset_by_linux_brings_the_disk_back(example: ModuleType, linux: Linux) -> None:
    with example.controller("nicemu") as one, example.served(one) as target:
        disk = linux.connect(target.port)
        one.view[:4096] = b"\x5a" * 4096
        device = disk[: disk.rindex("n")]
        linux.shell(f"nvme reset /dev/{device}")
        linux.shell(
            f"for i in $(seq 100); do grep -q live /sys/class/nvme/{device}/state && break; sleep 0.1; done"
        )
        found = linux.shell(f"dd if=/dev/{disk} bs=4096 count=1 iflag=direct 2>/dev/null | head -c 4")
        linux.shell("nvme disconnect-all")
    assert found == "ZZZZ"


def test_the_kernel_s_target_and_host_meet_over_rxe(linux: Linux) -> None:
    """Nothing of ours takes part: the recipe of the example holds."""
    script = find_program("examples/nvme_tcp/kernel_over_rxe.sh")
    assert "1 MiB written, flushed and read back over rxe, and right" in linux.shell(f"bash {script}")
