# SPDX-License-Identifier: Apache-2.0
"""The machine that QEMU emulates for a guest, as its command line says it, and the server of its root.

Nothing of it has a name on this machine but the links: images, the console and sockets are passed as
descriptors, so none is left behind, however this process ends.
Sources: qemu(1); virtiofsd(1).
"""

from __future__ import annotations

import os
import platform
import shutil
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nicemu.errors import ResourceError, UsageError
from nicemu.fabric.ports import mac_of_host

from .agent import PORT
from .initramfs import ROOT_TAG, SHARE_TAG

LINK_MTU = 4300
"""Bytes of an IP packet on a link: a path MTU of 4096 and RoCEv2's headers fit."""
_APPEND = "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr"
_VIRTIOFSD = ("/usr/lib/qemu/virtiofsd", "/usr/libexec/virtiofsd", "/usr/lib/virtiofsd")


@dataclass(frozen=True, slots=True)
class GuestLink:
    """An Ethernet link of a guest: one frame a datagram, over UNIX sockets.

    `end` is a datagram socket whose other end somebody holds, or two paths: where QEMU receives, where it
    sends. What is sent to a path where nobody listens is lost, as on a cable that is not plugged in.
    `address` is what the guest's interface is given, with the bits of its network. `peer`, if given, is the
    address of the other end, which has the MAC address that is made of it and need not answer ARP.
    """

    end: socket.socket | tuple[Path, Path]
    address: str
    peer: str = ""

    @property
    def mac(self) -> str:
        """The guest's MAC address, made of its IP address."""
        return mac_of(self.address.partition("/")[0])

    def netdev(self, name: str) -> str:
        """Return QEMU's words for the end of the link."""
        if isinstance(self.end, socket.socket):
            return f"dgram,id={name},local.type=fd,local.str={self.end.fileno()}"
        local, remote = self.end
        return (
            f"dgram,id={name},local.type=unix,local.path={_word(local)},"
            f"remote.type=unix,remote.path={_word(remote)}"
        )


@dataclass(frozen=True, slots=True)
class Descriptors:
    """What QEMU inherits: kernel, initramfs, the console's file, the agent's channel, the root's server."""

    kernel: int
    initramfs: int
    console: int
    channel: int
    root: int | None = None


def mac_of(address: str) -> str:
    """Return the MAC address of an IPv4 address, the same as at other ports, as QEMU writes it.

    Raises: UsageError for what is none.
    """
    try:
        return mac_of_host(socket.inet_aton(address)).hex(":")
    except OSError:
        raise UsageError(f"{address} is no IPv4 address such as 10.7.0.2") from None


def qemu_command(
    descriptors: Descriptors,
    *,
    memory_mib: int,
    cpus: int,
    accelerator: str = "tcg",
    share: Path | None = None,
    links: Sequence[GuestLink] = (),
    devices: Sequence[str] = (),
) -> list[str]:
    """Return the command that runs a guest. `devices` are further arguments of QEMU's."""
    fast = {"tcg": "tcg,thread=multi"}.get(accelerator, accelerator)
    command = [f"qemu-system-{platform.machine()}", "-accel", fast, "-machine", "q35", "-cpu", "max"]
    command += ["-smp", str(cpus), "-m", str(memory_mib), "-nodefaults", "-display", "none", "-no-reboot"]
    command += ["-kernel", _inherited(descriptors.kernel), "-initrd", _inherited(descriptors.initramfs)]
    command += ["-append", _APPEND, "-serial", f"file:{_inherited(descriptors.console)}"]
    command += ["-device", "virtio-rng-pci", "-device", "virtio-serial-pci"]
    command += ["-chardev", f"socket,id=agent,fd={descriptors.channel}"]
    command += ["-device", f"virtserialport,chardev=agent,name={PORT}"]
    if descriptors.root is None:
        command += _folder(ROOT_TAG, Path("/"), "readonly=on,multidevs=remap")
    else:
        command += ["-object", f"memory-backend-memfd,id=memory,size={memory_mib}M,share=on"]
        command += ["-machine", "memory-backend=memory"]
        command += ["-chardev", f"socket,id=root,fd={descriptors.root}"]
        command += ["-device", f"vhost-user-fs-pci,chardev=root,tag={ROOT_TAG}"]
    if share is not None:
        command += _folder(SHARE_TAG, share, "multidevs=remap")
    for number, link in enumerate(links):
        device = f"virtio-net-pci,netdev=link{number},mac={link.mac},host_mtu={LINK_MTU},romfile="
        command += ["-netdev", link.netdev(f"link{number}"), "-device", device]
    return [*command, *devices]


def virtiofsd() -> str | None:
    """Return the program that serves the root by virtiofs; None where there is none, or this is not root."""
    if os.geteuid() != 0:
        return None
    return next((place for place in _VIRTIOFSD if os.access(place, os.X_OK)), shutil.which("virtiofsd"))


def virtiofsd_command(place: str, listening_fd: int) -> list[str]:
    """Return the command that serves this machine's root to the one client that connects."""
    options = ("source=/", "cache=always", "sandbox=chroot")
    return [place, f"--fd={listening_fd}", *(word for option in options for word in ("-o", option))]


def require_x86() -> None:
    """Guests are x86-64 machines, on such a machine.

    Raises: ResourceError elsewhere.
    """
    if platform.machine() != "x86_64":
        raise ResourceError(f"guests run on x86-64; this machine is {platform.machine()}")


def _folder(tag: str, path: Path, more: str) -> list[str]:
    """Return the arguments for a folder by 9p."""
    back = f"local,id={tag},path={_word(path)},security_model=none,{more}"
    return ["-fsdev", back, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]


def _inherited(fd: int) -> str:
    return f"/proc/self/fd/{fd}"


def _word(path: Path) -> str:
    """Return a path as a value among others; a comma is doubled."""
    return str(path.absolute()).replace(",", ",,")
