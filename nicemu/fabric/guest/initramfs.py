# SPDX-License-Identifier: Apache-2.0
"""What the guest's kernel finds in memory: busybox, modules, the agent, and the script that mounts the root.

Source: Linux Documentation/driver-api/early-userspace/buffer-format.rst (newc); switch_root(8).
"""

from __future__ import annotations

import os
import shlex
import stat
from dataclasses import dataclass
from pathlib import Path

from nicemu.errors import ResourceError

from . import agent
from .kernel import Kernel, is_static, modules_in_order, unpacked_module
from .packages import program

SHARE = Path("/mnt/share")
AGENT = Path("/run/nicemu/agent.py")
ROOT_TAG, SHARE_TAG = "root", "share"
_9P = "trans=virtio,version=9p2000.L,msize=512000,access=any"
_MODULES = ("virtio_pci", "virtio_console", "virtio_rng", "overlay")
_9P_MODULES = ("9pnet_virtio", "9p")

_INIT = """#!/bin/busybox sh
set -e
b=/bin/busybox
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
$b mount -t devtmpfs dev /dev
for module in /modules/*; do $b insmod $module; done
{mount_root}
$b mount -t tmpfs -o size=60% overlay /overlay
$b mkdir /overlay/upper /overlay/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/overlay/upper,workdir=/overlay/work overlay /root
for place in proc sys dev; do $b mount --move /$place /root/$place; done
$b mount -t tmpfs run /root/run
$b mkdir -p /root/run/nicemu /root/dev/pts /root/dev/shm /root{share}
$b mount -t devpts devpts /root/dev/pts
$b mount -t tmpfs shm /root/dev/shm
$b mount -t cgroup2 cgroup /root/sys/fs/cgroup || $b true
{mount_share}
$b ln -sf /proc/self/fd /root/dev/fd
$b cp /bin/busybox /agent.py /root/run/nicemu
$b ip link set lo up
exec $b switch_root /root {python} -I -S {agent}
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or, without data, a folder of an archive."""

    name: str
    data: bytes | None = None
    mode: int = 0o644


def initramfs(kernel: Kernel, python: Path, *, virtiofs: bool, share: bool, links: bool) -> bytes:
    """Return the archive for a guest that runs the agent with `python` on a view of this machine's root.

    `virtiofs`: how the root is reached, else by 9p. `share`: a folder is mounted at SHARE. `links`: it has a
    network.
    Raises: ResourceError if a module is missing, or busybox would need libraries.
    """
    names = _MODULES + (("virtiofs",) if virtiofs else _9P_MODULES)
    names += (_9P_MODULES if share else ()) + (("virtio_net",) if links else ())
    folders = ("bin", "proc", "sys", "dev", "modules", "lower", "overlay", "root")
    entries = [Entry(name, mode=0o755) for name in folders]
    entries += [
        Entry("init", init_script(python, virtiofs=virtiofs, share=share).encode(), 0o755),
        Entry("bin/busybox", _busybox(), 0o755),
        Entry("agent.py", Path(agent.__file__).read_bytes()),
    ]
    for number, path in enumerate(modules_in_order(kernel, names)):
        entries.append(Entry(f"modules/{number:02}-{path.name}", unpacked_module(path)))
    return newc(entries)


def init_script(python: Path, *, virtiofs: bool, share: bool) -> str:
    """Return the first program of the guest; where it fails, the kernel panics and the guest ends."""
    root = f"-t 9p -o ro,cache=loose,{_9P}"
    if virtiofs:
        root = "-t virtiofs -o ro"
    return _INIT.format(
        mount_root=f"$b mount {root} {ROOT_TAG} /lower",
        mount_share=f"$b mount -t 9p -o {_9P} {SHARE_TAG} /root{SHARE}" if share else "",
        share=SHARE,
        python=shlex.quote(str(python)),
        agent=AGENT,
    )


def newc(entries: list[Entry]) -> bytes:
    """Return entries as an archive in cpio's "newc" format, owned by root."""
    archive = bytearray()
    for inode, entry in enumerate([*entries, Entry("TRAILER!!!", b"", 0)], start=1):
        kind = stat.S_IFDIR if entry.data is None else stat.S_IFREG
        data, name = entry.data or b"", os.fsencode(entry.name) + b"\0"
        fields = (inode, kind | entry.mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
        archive += b"070701" + b"".join(b"%08X" % field for field in fields) + name
        archive += bytes(-len(archive) % 4) + data
        archive += bytes(-len(archive) % 4)
    return bytes(archive)


def _busybox() -> bytes:
    place = program("busybox")
    if place is None:
        raise ResourceError("busybox is not here; apt-get install busybox-static")
    data = Path(place).read_bytes()
    if not is_static(data):
        raise ResourceError(
            f"{place} needs libraries, which a guest has not yet; apt-get install busybox-static"
        )
    return data
