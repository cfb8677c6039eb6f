# SPDX-License-Identifier: Apache-2.0
"""The NVMe commands of the firmware: more than the queue holds, and ones that no queue takes."""

from __future__ import annotations

import pytest

from nicemu.errors import NvmeStatus, UsageError
from nicemu.nic import NamespaceConfig, NicConfig, SmartNic
from nicemu.programs import find_program
from nicemu.run import Simulation

COMMANDS = 33
"""One more than the queue holds."""


def nic_with_a_full_queue() -> tuple[SmartNic, int]:
    """Return a NIC with commands that wait, and the address of a buffer."""
    space = NamespaceConfig(1, 64)
    nic = SmartNic(NicConfig("nic0", "127.0.1.1", memory_bytes=1 << 20, namespaces=(space,)), compiled=False)
    buffer = nic.memory.allocate(4096)
    assert nic.storage is not None
    for number in range(COMMANDS):
        nic.storage.submit("read", 1, number, 1, buffer, f"read {number}")
    return nic, buffer


def test_commands_beyond_the_depth_of_the_queue_wait_and_are_carried_out_in_order() -> None:
    nic, buffer = nic_with_a_full_queue()
    assert nic.storage is not None
    nic.storage.submit("read", 1, 40, 1, buffer, "one more")
    done: list[object] = []
    while len(done) < COMMANDS + 1:
        ios, reaped = nic.storage.run(0)
        done += [cookie for cookie, status in reaped if status == NvmeStatus.SUCCESS]
        assert ios or reaped
        for io in ios:
            nic.storage.complete(io.tag, NvmeStatus.SUCCESS, 0)
    assert done == [*(f"read {number}" for number in range(COMMANDS)), "one more"]


def test_a_command_that_cannot_be_expressed_is_refused_at_once() -> None:
    nic = SmartNic(
        NicConfig("nic0", "127.0.1.1", memory_bytes=1 << 20, namespaces=(NamespaceConfig(1, 64),)),
        compiled=False,
    )
    assert nic.storage is not None
    with pytest.raises(UsageError, match="nsid 9 is not active"):
        nic.storage.submit("read", 9, 0, 1, nic.memory.allocate(4096), "bad")


@pytest.mark.parametrize(("nsid", "block_count"), [(9, 1), (1, 0), (1, 1 << 20)])
def test_one_that_had_to_wait_completes_with_an_error_and_holds_up_nobody(
    nsid: int, block_count: int
) -> None:
    nic, buffer = nic_with_a_full_queue()
    assert nic.storage is not None
    nic.storage.submit("read", nsid, 0, block_count, buffer, "bad")
    nic.storage.submit("read", 1, 0, 1, buffer, "good")
    ended: dict[object, int] = {}
    while len(ended) < COMMANDS + 2:
        ios, reaped = nic.storage.run(0)
        ended.update(reaped)
        assert ios or reaped
        for io in ios:
            nic.storage.complete(io.tag, NvmeStatus.SUCCESS, 0)
    assert ended["bad"] == NvmeStatus.INVALID_FIELD
    assert ended["good"] == NvmeStatus.SUCCESS


def test_firmware_of_a_storage_nic_without_its_namespace_says_what_the_topology_lacks() -> None:
    simulation = Simulation([NicConfig("storage0", "127.0.1.2", memory_bytes=1 << 20)], compiled=False)
    simulation.load_firmware("storage0", find_program("firmware/kv_storage.py"))
    said = "this NIC has no NVMe namespace 1, nor any other; give it one in the topology"
    assert said in simulation.nics["storage0"].start_error
