# SPDX-License-Identifier: Apache-2.0
"""SoftRoCE devices on interfaces: in a guest, or on this machine where its own kernel has rdma_rxe.

Sources: rdma-link(8); ip-address(8), ip-neighbour(8).
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from .machine import GuestLink, mac_of
from .packages import program

LOOPBACK_DEVICE = "rxe0"
_DEVICES = Path("/sys/class/infiniband")
_MODULES = "modprobe -a rdma_rxe ib_uverbs rdma_ucm\n"
_TIME_LIMIT_S = 30.0


def links_script(links: Sequence[GuestLink]) -> str:
    """Return the commands that give the interfaces of a guest their addresses."""
    script = ""
    for number, link in enumerate(links):
        script += f"ip address add {link.address} dev eth{number}\nip link set eth{number} up\n"
        if link.peer:
            script += f"ip neighbour add {link.peer} lladdr {mac_of(link.peer)} dev eth{number}\n"
    return script


def rxe_script(links: int) -> str:
    """Return the commands that make rxe0 on the loopback interface, rxe1 on eth0, and so on."""
    interfaces = ["lo", *(f"eth{number}" for number in range(links))]
    return _MODULES + "".join(
        f"rdma link add rxe{number} type rxe netdev {interface}\n"
        for number, interface in enumerate(interfaces)
    )


def rdma_devices(folder: Path = _DEVICES) -> list[str]:
    """Return the names of the RDMA devices that this kernel has."""
    return sorted(place.name for place in folder.glob("*"))


def rxe_here() -> bool:
    """Return whether this machine has an RDMA device; where its kernel can have one, it gets rxe0."""
    if rdma_devices():
        return True
    if program("modprobe") and program("rdma"):
        subprocess.run(
            ["bash", "-c", f"PATH=$PATH:/usr/sbin:/sbin; set -e\n{rxe_script(0)}"],
            check=False,
            timeout=_TIME_LIMIT_S,
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
    return bool(rdma_devices())
