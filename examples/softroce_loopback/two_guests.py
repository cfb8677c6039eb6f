# SPDX-License-Identifier: Apache-2.0
"""A compute node and a storage node, each a guest with a kernel of its own, joined by a cable.

`python two_guests.py` writes a page from one to the other and reads it back, fired by counters;
`python two_guests.py --journey` runs what `nicemu demo` runs, with the storage NIC on the other node.
"""

from __future__ import annotations

import base64
import secrets
import shutil
import socket
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from nicemu.errors import NicemuError
from nicemu.fabric import Guest, GuestLink

HERE = Path(__file__).resolve().parent
COMPUTE, STORAGE = "10.7.0.1", "10.7.0.2"
TIME_LIMIT_S = 900.0
"""For each guest: their processors are emulated."""


class Node:
    """A guest that says whose every line is."""

    def __init__(self, name: str, guest: Guest) -> None:
        self._name = name
        self._guest = guest
        self._rest = b""

    def run(self, command: Sequence[str]) -> None:
        """Run a command to its end. Raises: ResourceError if it ends with a status that is not 0."""
        self._say(f"$ {' '.join(command)}\n".encode())
        self._guest.run(command, folder=HERE, sink=lambda stream, data: self._say(data)).checked()

    def _say(self, data: bytes) -> None:
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            print(f"{self._name:8} | {line.decode(errors='replace')}", flush=True)


def prepare(folder: Path) -> None:
    """Put the topologies and a new key into a folder: the same files, as every machine needs them."""
    for name in ("two_nodes.toml", "two_nodes_kv.toml"):
        shutil.copy(HERE / name, folder)
    key = folder / "two_nodes.key"
    key.touch(mode=0o600)
    key.write_bytes(base64.b64encode(secrets.token_bytes(32)))


def boot(stack: ExitStack, name: str, end: socket.socket, address: str, peer: str) -> Node:
    """Boot a node at one end of the cable."""
    link = GuestLink(end, f"{address}/24", peer=peer)
    say = lambda text: print(f"{name:8} | {text}", flush=True)  # noqa: E731
    guest = Guest(links=[link], memory_mib=1024, time_limit_s=TIME_LIMIT_S, say=say)
    return Node(name, stack.enter_context(guest))


def main(journey: bool) -> None:
    """Boot both, start a NIC on each, and run the compute node's program."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="nicemu-nodes-")))
        prepare(folder)
        ends = [stack.enter_context(end) for end in socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)]
        compute = boot(stack, "compute", ends[0], COMPUTE, STORAGE)
        storage = boot(stack, "storage", ends[1], STORAGE, COMPUTE)
        topology = str(folder / ("two_nodes_kv.toml" if journey else "two_nodes.toml"))
        storage.run(["nicemu", "up", topology, "--nic", "storage0"])
        if journey:
            compute.run(["nicemu", "demo", "--topology", topology, "--nic", "compute0", "--blocks", "16"])
        else:
            compute.run(["nicemu", "up", topology, "--nic", "compute0"])
            compute.run(["python", "two_nodes.py"])
        storage.run(["rdma", "statistic", "show", "link", "rxe1/1"])


if __name__ == "__main__":
    try:
        main(journey="--journey" in sys.argv[1:])
    except NicemuError as error:
        sys.exit(f"two_guests.py: {error}")
