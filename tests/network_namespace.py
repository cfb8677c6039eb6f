# SPDX-License-Identifier: Apache-2.0
"""A network namespace for a test: interfaces that nothing else on this machine sees or uses."""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

Made = TypeVar("Made")
_CLONE_NEWNET = 0x40000000
_UP = re.compile(rb"state (UP|UNKNOWN) ")


def enter_network_namespace(commands: list[str]) -> str:
    """Put this thread into a new network namespace and run commands of ip(8) there; return what is wrong.

    What the thread starts is in the namespace, too. That lives as long as a thread or a socket in it.
    """
    if os.geteuid() != 0:
        return "a network namespace needs root: sudo .venv/bin/python -m pytest ..."
    if shutil.which("ip") is None:
        return "no ip(8) here: apt-get install iproute2"
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNET) != 0:
        return f"no network namespace can be made here: {os.strerror(ctypes.get_errno())}"
    for command in commands:
        done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, timeout=20)
        if done.returncode:
            return f"ip {command}: {done.stderr.strip()}"
    return ""


def in_network_namespace(commands: list[str], make: Callable[[], Made]) -> Made:
    """Run commands of ip(8) in a new network namespace, then return what `make` opens there.

    The namespace lives as long as a socket in it is open. Skips the test where there can be none.
    """
    with ThreadPoolExecutor(1) as thread:  # a namespace of its own is a thread's, not the process's
        problem = thread.submit(enter_network_namespace, commands).result(60)
        if problem:
            pytest.skip(problem)
        return thread.submit(make).result(60)


def until_up(*interfaces: str) -> None:
    """Wait until the kernel, which switches interfaces on a little later, sends what they are given."""
    end = time.monotonic() + 10
    for name in interfaces:
        command = ["ip", "-o", "link", "show", name]
        while not _UP.search(subprocess.run(command, capture_output=True, timeout=20).stdout):
            assert time.monotonic() < end, f"{name} does not come up"


def veth_pair(mtu_bytes: int = 9202) -> list[str]:
    """Return the commands for interfaces `here` and `there`, joined, without traffic of the kernel's own."""
    up = f"mtu {mtu_bytes} addrgenmode none up"
    return [
        "link add here type veth peer name there",
        f"link set here {up}",
        f"link set there {up}",
    ]


def quiet_tap(name: str) -> list[str]:
    """Return the commands for a TAP interface on which the kernel says nothing of its own."""
    return [f"tuntap add dev {name} mode tap", f"link set {name} addrgenmode none"]
