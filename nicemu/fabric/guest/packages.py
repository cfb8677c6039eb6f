# SPDX-License-Identifier: Apache-2.0
"""The packages of the distribution that a guest with SoftRoCE is made of: the one list of them.

The names are those of Debian and Ubuntu. `nicemu vm packages` prints the list, `nicemu doctor` holds the
machine against it, and continuous integration installs it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from nicemu.errors import ResourceError

INSTALL = "apt-get install --no-install-recommends"
_PROGRAM_FOLDERS = ("/usr/local/sbin", "/usr/sbin", "/sbin")


@dataclass(frozen=True, slots=True)
class Package:
    """A package, what a guest has it for, and the sign that it is here: a program, or a pattern below `/`.

    `boots`: no guest starts without it. The others are what programs in the guest are written with.
    """

    name: str
    use: str
    sign: str
    boots: bool = False

    def is_here(self, root: Path = Path("/")) -> bool:
        """Return whether its sign is on this machine."""
        if "/" in self.sign:
            return any(root.glob(self.sign))
        return program(self.sign) is not None


PACKAGES = (
    Package(
        "linux-image-amd64",
        "the kernel, with rdma_rxe",
        "lib/modules/*/kernel/drivers/infiniband/sw/rxe/rdma_rxe.ko*",
        boots=True,
    ),
    Package("qemu-system-x86", "the emulated machine", "qemu-system-x86_64", boots=True),
    Package("busybox-static", "the first program of the guest", "busybox", boots=True),
    Package("kmod", "loads modules in the guest", "modprobe", boots=True),
    Package("iproute2", "makes rxe links (rdma) and sets addresses (ip)", "rdma", boots=True),
    Package(
        "python3-pyverbs",
        "verbs for Python, with rdma-core below it",
        "usr/lib/python3/dist-packages/pyverbs/device.*.so",
    ),
    Package("ibverbs-utils", "ibv_devinfo, ibv_rc_pingpong", "ibv_devinfo"),
    Package("rdmacm-utils", "rping", "rping"),
    Package("perftest", "ib_write_bw and its kin", "ib_write_bw"),
    Package("pciutils", "lspci", "lspci"),
    Package("nvme-cli", "nvme", "nvme"),
)
"""qemu-system-x86 brings its firmware, python3-pyverbs rdma-core, libibverbs1 and ibverbs-providers."""


def install_command(packages: Iterable[Package] = PACKAGES) -> str:
    """Return the command that installs packages, to be run as root."""
    return f"{INSTALL} {' '.join(package.name for package in packages)}"


def missing_packages(root: Path = Path("/")) -> list[Package]:
    """Return the packages of the list that are not here."""
    return [package for package in PACKAGES if not package.is_here(root)]


def require_packages_to_boot() -> None:
    """Say what is missing for a guest to start, and the command that installs it.

    Raises: ResourceError.
    """
    missing = [package for package in missing_packages() if package.boots]
    if missing:
        what = ", ".join(f"{package.name} ({package.use})" for package in missing)
        raise ResourceError(f"no guest can be started here: missing {what}; {install_command(missing)}")


def program(name: str) -> str | None:
    """Return where a program is, also one that lies where only root's path leads."""
    folders = [os.environ.get("PATH", os.defpath), *_PROGRAM_FOLDERS]
    return shutil.which(name, path=os.pathsep.join(folders))
