# SPDX-License-Identifier: Apache-2.0
"""Firmware that raises, hangs or never returns, and programs that do not verify, on a NIC that goes on
working.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from nicemu.control import P4RuntimeClient
from nicemu.errors import ControlError, NicemuError
from nicemu.p4 import compile_program
from nicemu.programs import find_program
from nicemu.run import Instance, ask
from tests.process.live_nics import LAYOUT, LiveHost, eventually, live_nics, statistics

pytestmark = pytest.mark.process

SESSION = b"1" * 16
SCRIPT = """
from nicemu.firmware import Event, Nic, Mailbox, on_event

@on_event("kv_follow_up")
async def handler(nic: Nic, event: Event) -> None:
    slot = nic.take_landing_slot()
    counter = nic.allocate_counter(slot.pd)
    {body}
"""


@pytest.fixture(scope="module")
def nics(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Instance]:
    with live_nics("firmware", tmp_path_factory.mktemp("data")) as instance:
        yield instance


@pytest.fixture(scope="module")
def host(nics: Instance) -> Iterator[LiveHost]:
    """A host that has left one session, with one landing slot on the NIC's ring."""
    with LiveHost(nics, slots=4) as host:
        host.leave(SESSION)
        assert host.fetch(SESSION) is not None
        host.resume.offer()
        yield host


@pytest.fixture
def compute(nics: Instance) -> Iterator[str]:
    """The compute NIC's name; afterwards it has its own programs again."""
    yield nics.nics[0].name
    ask(nics.nics[0], "flash", path=str(find_program("firmware/kv_requestor.py")))


@pytest.mark.parametrize(
    ("body", "fault"),
    [
        ("while True: pass", "firmware.overrun"),
        ("raise KeyError('no such thing')", "firmware.KeyError"),
        ("await nic.allocate_counter().reaches(5)", "firmware.timeout"),
    ],
    ids=["never returns", "raises", "awaits forever"],
)
def test_a_script_that_fails_costs_a_miss_and_the_datapath_lives_on(
    nics: Instance, host: LiveHost, compute: str, tmp_path: Path, body: str, fault: str
) -> None:
    nic = nics.nics[0]
    script = tmp_path / "faulty.py"
    script.write_text(SCRIPT.format(body=body))
    ask(nic, "flash", path=str(script))
    before = statistics(nic)
    host.ask(SESSION)
    host.leave(b"2" * 16, 20)  # doorbells ring, writes fire, acknowledgements count, all the while
    packet = host.receive()
    assert packet.info[0] == 0
    after = statistics(nic)
    assert after[fault] == before.get(fault, 0) + 1
    assert after["firmware.tasks"] == 0
    ask(nic, "flash", path=str(find_program("firmware/kv_requestor.py")))
    landed = host.fetch(SESSION)
    assert landed is not None, "the landing slot did not come back"
    host.resume.offer()


def test_a_script_whose_top_level_never_returns_is_refused(
    nics: Instance, host: LiveHost, compute: str, tmp_path: Path
) -> None:
    script = tmp_path / "endless.py"
    script.write_text("while True:\n    pass\n")
    with pytest.raises(NicemuError, match="did not return"):
        ask(nics.nics[0], "flash", path=str(script))
    assert host.fetch(SESSION) is not None
    host.resume.offer()


@pytest.mark.parametrize("module", ["asyncio", "threading", "os"])
def test_flash_refuses_a_script_that_imports_what_firmware_may_not(
    nics: Instance, host: LiveHost, tmp_path: Path, module: str
) -> None:
    script = tmp_path / "imports.py"
    script.write_text(f"import {module}\n" + SCRIPT.format(body="pass"))
    with pytest.raises(NicemuError, match=f"firmware cannot import {module}"):
        ask(nics.nics[0], "flash", path=str(script))
    assert "kv_follow_up" in ask(nics.nics[0], "describe")["firmware"]
    assert host.fetch(SESSION) is not None, "the firmware that ran before does not run any more"
    host.resume.offer()


def test_new_firmware_in_mid_fetch_passes_the_request_on_and_gives_the_slot_back(
    nics: Instance, host: LiveHost, compute: str, tmp_path: Path
) -> None:
    nic = nics.nics[0]
    script = tmp_path / "waits.py"
    script.write_text(SCRIPT.format(body="await nic.delay(1_000_000_000)"))
    ask(nic, "flash", path=str(script))
    host.ask(SESSION)
    assert eventually(lambda: statistics(nic)["firmware.tasks"] == 1)
    ask(nic, "flash", path=str(find_program("firmware/kv_requestor.py")))
    assert host.receive().info[0] == 0
    assert host.fetch(SESSION) is not None
    host.resume.offer()


def test_a_program_that_does_not_verify_leaves_the_running_one(nics: Instance, host: LiveHost) -> None:
    nic = nics.nics[0]
    good = compile_program(find_program("p4/kvmatch.p4"))
    broken = json.loads(good.program.to_json())
    broken["name"] = "broken"
    for state in broken["parser"]["states"]:
        state["transition"] = {"kind": "no such transition"}
    with P4RuntimeClient(nic.p4runtime) as client, pytest.raises((ControlError, NicemuError)):
        client.load(json.dumps(broken), good.p4info)
    assert ask(nic, "describe")["program"] == good.program.name
    assert host.fetch(SESSION) is not None, "the table's entries are gone"
    host.resume.offer()


def test_malformed_control_messages_are_refused_and_the_nic_goes_on(nics: Instance, host: LiveHost) -> None:
    nic = nics.nics[0]
    for operation, operands in (
        ("no such operation", {}),
        ("counter_open", {"name": "x"}),
        ("connect", {}),
        ("hello", {}),
        ("flash", {"path": "/no/such/file.py"}),
        ("share", {"length_bytes": 4096, "kind": "gpu"}),
    ):
        with pytest.raises(NicemuError):
            ask(nic, operation, **operands)
    assert host.fetch(SESSION) is not None
    host.resume.offer()


def test_waiting_again_and_again_takes_one_trigger_slot(nics: Instance, host: LiveHost) -> None:
    (counter,) = host.nic.counters("never")
    before = statistics(nics.nics[0])["trigger.slots_in_use"]
    for _ in range(5):
        with pytest.raises(TimeoutError):
            counter.wait(1, timeout_s=0.01)
    assert statistics(nics.nics[0])["trigger.slots_in_use"] == before + 1
    assert host.nic.flush() == 1  # takes the wake-up away too; the next wait asks for another
    with pytest.raises(TimeoutError):
        counter.wait(1, timeout_s=0.01)
    assert eventually(lambda: statistics(nics.nics[0])["trigger.slots_in_use"] == before + 1)
    counter.add(1)
    counter.wait(1)
    assert eventually(lambda: statistics(nics.nics[0])["trigger.slots_in_use"] == before)


@pytest.mark.slow
def test_new_firmware_of_a_storage_nic_takes_the_place_of_the_old_one_again_and_again(
    nics: Instance, host: LiveHost
) -> None:
    """Its memory is given back; a host connects anew; what is durable stays."""
    nic = nics.nics[1]
    assert host.nic.connected_peers() == ["storage0", "storage1"]
    for _ in range(12):
        ask(nic, "flash", path=str(find_program("firmware/kv_storage.py")))
        assert eventually(lambda: host.nic.connected_peers() == ["storage1"])
        host.nic.connect("storage0", slot_count=64, slot_bytes=LAYOUT.chunk_bytes)
        assert host.nic.connected_peers() == ["storage0", "storage1"]
    assert host.fetch(SESSION) is not None
    host.resume.offer()
