# SPDX-License-Identifier: Apache-2.0
"""NVMe completions that count, on live NICs: the message, the datapath's thread, and what it fires."""

from __future__ import annotations

from pathlib import Path

import pytest

from nicemu.errors import ResourceError
from nicemu.fabric import qemu_missing
from nicemu.host import open_nic
from tests.process.live_nics import live_nics

pytestmark = pytest.mark.process

BLOCK, COMMANDS = 4096, 20
LENDER = """
from nicemu.firmware import Connection, Nic, on_connect

@on_connect
def lend(nic: Nic, connection: Connection) -> dict[str, int]:
    page = nic.allocate(4096, remote=True)
    return {"address": page.address, "rkey": page.key}
"""
SENDER = """
from nicemu.firmware import Arrival, Connection, Nic, on_arrival, on_connect

peers = {}

@on_connect
def serve(nic: Nic, connection: Connection) -> dict[str, int]:
    counter = nic.allocate_counter()
    region = connection.private_data["address"], connection.private_data["rkey"]
    peers[connection.qp_num] = nic.count_completions(counter), counter, nic.allocate(4096), region
    return {}

@on_arrival
async def send(nic: Nic, arrival: Arrival) -> None:
    reads, counter, buffer, region = peers[arrival.qp_num]
    await nic.nvme_write(1, 3, 1, buffer.address)
    nic.write(buffer.address, bytes(range(256)) * 16)
    await nic.nvme_write(1, 3, 1, buffer.address)
    nic.write(buffer.address, bytes(4096))
    imm = arrival.imm_data
    nic.arm_write(counter, 1, arrival.qp_num, buffer, 0, buffer.length_bytes, *region, imm_data=imm)
    await reads.nvme_read(1, 3, 1, buffer.address)
"""


def topology(folder: Path, controller: str) -> Path:
    (folder / "lender.py").write_text(LENDER)
    (folder / "sender.py").write_text(SENDER)
    path = folder / "counted.toml"
    path.write_text(f"""
[nic.compute0]
p4 = "p4/kvmatch.p4"
firmware = "{folder}/lender.py"
peers = ["storage0"]

[nic.storage0]
p4 = "p4/kvserve.p4"
firmware = "{folder}/sender.py"
memory = "16 MiB"
controller = "{controller}"
peers = ["compute0"]

[[nic.storage0.namespace]]
nsid = 1
path = "storage0.nvme"
size = "1 MiB"
create = true
""")
    return path


def test_commands_of_a_program_count_one_after_the_other_and_the_last_fires_a_write(tmp_path: Path) -> None:
    with (
        live_nics("counted", tmp_path, topology(tmp_path, "nicemu")) as instance,
        open_nic(instance.nics[1].socket) as nic,
    ):
        peer = nic.connect("compute0")
        page = nic.allocate((BLOCK,))
        page.array[:] = 7
        span = nic.register(page)
        target = peer.span(peer.private_data["address"], BLOCK, peer.private_data["rkey"])
        go, moved, done = nic.counters("go", "moved", "done")
        queue = moved.count_completions()
        with nic.program("count") as program:
            for number in range(COMMANDS):
                program.when(go >= 1).nvme_write(span, nsid=1, slba=number, queue=queue)
            program.when(moved >= COMMANDS).write(span, target, then=done)
        program.arm()
        go.add()
        done.wait(1, timeout_s=20)
        assert moved.read() == (COMMANDS, 0)
        for _ in range(3):
            moved.count_completions()
        with pytest.raises(ResourceError, match=r"4 NVMe queue pairs .* all are in use \(ENOSPC\)"):
            moved.count_completions()


@pytest.mark.parametrize("controller", ["nicemu", pytest.param("qemu", marks=pytest.mark.p2p)])
def test_firmware_arms_a_write_that_a_completion_fires(tmp_path: Path, controller: str) -> None:
    if controller == "qemu" and qemu_missing():
        pytest.skip(qemu_missing())
    with (
        live_nics("fired", tmp_path, topology(tmp_path, controller)) as instance,
        open_nic(instance.nics[0].socket) as nic,
    ):
        landing = nic.allocate((BLOCK,))
        span = nic.register(landing)
        go, landed = nic.counters("go"), nic.counters("landed", remote=True)
        peer = nic.connect("storage0", address=span.address, rkey=span.key)
        with nic.program("ask") as program:
            program.when(go[0] >= 1).write((), peer.span(0, 0, 0), imm_data=landed[0].index)
        program.arm()
        go[0].add()
        landed[0].wait(1, timeout_s=20)
        assert landing.array.tobytes() == bytes(range(256)) * 16
