# SPDX-License-Identifier: Apache-2.0
"""Chunks from an NVMe namespace to another machine's RDMA memory and back, each part what it is.

QEMU's NVMe controller reads chunks into the BAR of a NIC of ours. The NIC's RoCEv2 engine takes the payload
out of that BAR and writes it into a memory region of the Linux kernel's rxe, in a guest: once by firmware,
once armed beforehand and fired by the NVMe completion itself. Then an ordinary verbs program there writes new
chunks into the BAR, the controller writes them to the namespace, and flushes. No buffer of a host lies
between namespace and wire. Every chunk's CRC-32 is taken at both ends.
Run: python examples/real_p2p/end_to_end.py [--chunks N] [--json]
"""

from __future__ import annotations

import argparse
import json
import random
import select
import socket
import sys
import time
import zlib
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nicemu.errors import NicemuError, ResourceError
from nicemu.fabric import (
    AnsweringPort,
    DatagramPort,
    Guest,
    GuestLink,
    GuestProcess,
    GuestTimeoutError,
    QemuFabric,
    QemuNamespace,
    install_command,
    missing_packages,
    qemu_missing,
)
from nicemu.firmware import load_firmware
from nicemu.nic import NamespaceConfig, NicConfig, SendFrames, SmartNic

HERE = Path(__file__).resolve().parent
SERVER, CLIENT = HERE / "chunk_server.py", HERE / "verbs_client.py"
OUR_IP, PEER_IP = "10.7.0.1", "10.7.0.2"
OUR_GID = "0000:0000:0000:0000:0000:ffff:0a07:0001"
PEER, DEVICE = "guest", "rxe1"
BLOCK_BYTES = 4096
CHUNK_BYTES = 64 << 10
NIC_BYTES = 16 << 20
NAP_S = 0.0005
PATIENCE_S = 120.0
GUEST_LIFE_S = 300.0
PATIENT_NS = 60_000_000_000
"""For firmware tasks: the guest's processor is emulated."""
ACK_TIMEOUT_NS = 2_000_000_000
PARTS = {
    "namespace and NVMe controller": "QEMU's model",
    "PCIe: queues, PRP lists and data in the NIC's BAR": "QEMU's model",
    "firmware scheduler, trigger unit, RoCEv2 engine": "nicemu",
    "RDMA peer, its memory region and verbs": "the Linux kernel's rdma_rxe, unchanged, in a guest",
}
LEGS = {
    "fetched": "namespace -> NIC BAR -> RoCEv2 -> rxe region, by firmware",
    "fired": "the same, each write fired by the NVMe completion's own interrupt",
    "stored": "rxe region -> RoCEv2 -> NIC BAR -> namespace, each flushed",
}
Say = Callable[[str], None]


class StorageNode:
    """A NIC of ours in real time: its NVMe controller on a PCIe fabric, its frames through a port."""

    def __init__(self, fabric: QemuFabric, port: DatagramPort, block_count: int) -> None:
        self.device = SmartNic(
            NicConfig(
                "storage0",
                OUR_IP,
                1,
                NIC_BYTES,
                namespaces=(NamespaceConfig(1, block_count),),
                transport="port",
                event_timeout_ns=PATIENT_NS,
                ack_timeout_ns=ACK_TIMEOUT_NS,
            ),
            time.monotonic_ns(),
            controller=fabric.nvme,
        )
        self.frames = {"sent": 0, "received": 0}
        self._port = AnsweringPort(port, self.device.config.mac, OUR_IP)
        self._unsent: deque[bytes] = deque()

    def load(self, script: Path) -> None:
        """Load firmware."""
        self.device.load_firmware(load_firmware(script), time.monotonic_ns())

    def accept(self, region: dict[str, Any]) -> dict[str, Any]:
        """Connect a queue pair of the firmware with one of rxe's; return what the client has to know."""
        offer = {"nic": PEER, "number": 2, "ip": PEER_IP, "transport": "port", **region}
        return self.device.connections.accept(offer, time.monotonic_ns())

    def move(self) -> None:
        """Let the NIC go on once, and nap where there is nothing to do, until a frame comes."""
        came = self._port.receive()
        if came:
            self.device.on_frames(came, time.monotonic_ns(), roce=True)
        self.device.on_timer(time.monotonic_ns())
        for effect in self.device.take_effects():
            if isinstance(effect, SendFrames):
                self._unsent += effect.frames
        sent = self._port.send(list(self._unsent))
        for _ in range(sent):
            self._unsent.popleft()
        self.frames["sent"] += sent
        self.frames["received"] += len(came)
        if not came and not sent:
            select.select([self._port.fileno() or 0], [], [], NAP_S)

    def run_until(self, is_so: Callable[[], bool], what: str, limit_s: float = PATIENCE_S) -> None:
        """Let the NIC go on until something is so. Raises: ResourceError after `limit_s`."""
        end = time.monotonic() + limit_s
        while not is_so():
            if time.monotonic() > end:
                raise ResourceError(f"waited {limit_s:.0f} s for {what}; {dict(self.device.drops)}")
            self.move()


@dataclass
class Told:
    """What the client in the guest has said: by leg, CRC-32 by chunk, as its own memory holds it."""

    legs: dict[str, dict[int, int]] = field(default_factory=lambda: defaultdict(dict))
    offer: dict[str, Any] = field(default_factory=dict)
    phases: dict[str, float] = field(default_factory=dict)
    kernel: dict[str, int] = field(default_factory=dict)

    def hear(self, process: GuestProcess) -> None:
        """Read what has been said. Raises: ResourceError if the client has ended before its time."""
        with suppress(GuestTimeoutError):
            while "stored" not in self.phases:
                self._take(json.loads(process.expect(r"^\{.*\}$", timeout_s=0)[0]))

    def _take(self, said: dict[str, Any]) -> None:
        if "leg" in said:
            self.legs[said["leg"]][said["chunk"]] = said.get("crc", 0)
        elif "phase" in said:
            self.phases[said["phase"]] = time.monotonic()
            self.kernel = said.get("kernel", {})
        else:
            self.offer = said


@contextmanager
def guest_on_a_cable(say: Say) -> Iterator[tuple[Guest, DatagramPort]]:
    """A guest with rxe at the other end of a datagram link. Raises: ResourceError."""
    needed = [one for one in missing_packages() if one.boots or one.name == "python3-pyverbs"]
    if missing := qemu_missing() or ", ".join(one.name for one in needed):
        raise ResourceError(f"{missing} is missing; {install_command(needed)}")
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with ExitStack() as stack:
        port = DatagramPort(ours)
        stack.callback(port.close)
        with theirs:
            link = GuestLink(theirs, f"{PEER_IP}/24")
            guest = stack.enter_context(
                Guest(links=[link], say=say, time_limit_s=GUEST_LIFE_S, memory_mib=1024)
            )
        yield guest, port


def fill(fabric: QemuFabric, chunk_count: int) -> list[int]:
    """Put chunks onto the namespace, each different; return the CRC-32 of each."""
    for number in range(chunk_count):
        place = slice(number * CHUNK_BYTES, (number + 1) * CHUNK_BYTES)
        fabric.blocks[1].view[place] = random.Random(f"chunk {number}").randbytes(CHUNK_BYTES)
    return checksums(fabric, 0, chunk_count)


def checksums(fabric: QemuFabric, first: int, count: int) -> list[int]:
    """Return the CRC-32 of chunks as they lie on the namespace."""
    view = fabric.blocks[1].view
    return [
        zlib.crc32(view[number * CHUNK_BYTES : (number + 1) * CHUNK_BYTES])
        for number in range(first, first + count)
    ]


def journey(guest: Guest, port: DatagramPort, chunk_count: int, say: Say) -> dict[str, Any]:
    """Fetch all chunks to rxe, store as many from there; return the account of it.

    Raises: NicemuError if a chunk did not come as it was, or did not come.
    """
    block_count = 2 * chunk_count * CHUNK_BYTES // BLOCK_BYTES
    with QemuFabric([QemuNamespace(1, block_count, BLOCK_BYTES)], {"nic": NIC_BYTES}) as fabric:
        expected = fill(fabric, chunk_count)
        node = StorageNode(fabric, port, block_count)
        node.load(SERVER)
        words = [sys.executable, "-I", str(CLIENT), DEVICE, OUR_GID, str(chunk_count), str(CHUNK_BYTES)]
        client, told = guest.start(words), Told()

        def heard(is_so: Callable[[], bool]) -> Callable[[], bool]:
            def look() -> bool:
                told.hear(client)
                return is_so()

            return look

        node.run_until(heard(lambda: bool(told.offer)), "the client in the guest")
        client.send(json.dumps(node.accept(told.offer)) + "\n")
        times = [time.monotonic()]
        for leg, path in LEGS.items():
            for goal in sorted({chunk_count * step // 4 for step in range(1, 5)} - {0}):
                node.run_until(
                    heard(lambda leg=leg, goal=goal: len(told.legs[leg]) >= goal),  # type: ignore[misc]
                    f"{goal} chunks {leg}",
                )
                say(f"{leg} ({path}): {goal} of {chunk_count} chunks")
            node.run_until(heard(lambda leg=leg: leg in told.phases), f"the end of {leg}")  # type: ignore[misc]
            times.append(told.phases[leg])
        stored = checksums(fabric, chunk_count, chunk_count)
        bar = fabric.memory.find(node.device.memory.own.window.bus_address, 1)
        if bar.backing is not fabric.bars["nic"]:
            raise NicemuError("NIC memory is not the BAR")
    here = {"fetched": expected, "fired": expected, "stored": stored}
    there = told.legs | {"stored": told.legs["made"]}
    return {
        **{
            leg: _leg(leg, here[leg], there[leg], end - begun)
            for leg, begun, end in zip(LEGS, times, times[1:], strict=False)
        },
        "frames": node.frames,
        "rxe_counters": told.kernel,
        "parts": PARTS,
    }


def _leg(leg: str, on_namespace: list[int], at_rxe: dict[int, int], seconds: float) -> dict[str, Any]:
    """Return the account of one direction. Raises: NicemuError if a checksum differs."""
    wrong = [number for number, crc in enumerate(on_namespace) if at_rxe.get(number) != crc]
    if wrong or len(at_rxe) != len(on_namespace):
        raise NicemuError(f"{leg}: chunks {wrong} are not the same on the namespace and at rxe")
    length = len(on_namespace) * CHUNK_BYTES
    return {"chunks": len(on_namespace), "bytes": length, "crc32_equal": len(at_rxe), "seconds": seconds}


def print_account(account: dict[str, Any]) -> None:
    """Say what went where, and what each part was."""
    for name, path in LEGS.items():
        leg = account[name]
        rate = leg["bytes"] / leg["seconds"] / 1e6
        print(f"{name}: {leg['crc32_equal']} of {leg['chunks']} chunks, {leg['bytes']} bytes, CRC-32 equal")
        print(f"    {path}, {leg['seconds']:.1f} s ({rate:.1f} MB/s; the guest's processor is emulated)")
    frames, kernel = account["frames"], account["rxe_counters"]
    print(f"frames: {frames['sent']} to the guest, {frames['received']} from it")
    print("rxe counted: " + ", ".join(f"{name} {value}" for name, value in kernel.items()))
    print("what is what:")
    for part, what in account["parts"].items():
        print(f"    {part}: {what}")


def main(arguments: list[str]) -> None:
    """Run the journey; print the account, or with --json one object."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--chunks", type=int, default=32, help=f"chunks of {CHUNK_BYTES >> 10} KiB (1 to 64)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args(arguments)
    if not 1 <= options.chunks <= 64:
        parser.error(f"--chunks {options.chunks}; 1 to 64 are possible")

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    say("booting a guest with the kernel's rxe, a few seconds")
    with guest_on_a_cable(say) as (guest, port):
        account = journey(guest, port, options.chunks, say)
    if options.json:
        print(json.dumps(account))
    else:
        print_account(account)


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except NicemuError as error:
        raise SystemExit(f"end_to_end: {error}") from error
