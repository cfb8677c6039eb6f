# SPDX-License-Identifier: Apache-2.0
"""Controllers of others speak to the server: p4runtime-shell, and finsy.

Each needs an environment of its own, since they ask for other versions of protobuf than nicemu: make one with
`python -m venv DIR && DIR/bin/pip install p4runtime-shell` (or finsy), and name DIR/bin/python in the
variable NICEMU_P4RUNTIME_SHELL (or NICEMU_FINSY).
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from nicemu.control import P4RuntimeServer
from nicemu.control.info_message import info_message
from nicemu.p4 import compile_program
from nicemu.pipeline import Disposition, Engine, Program, p4info_of

pytestmark = pytest.mark.process

SHELL = """
import sys
import p4runtime_sh.shell as sh
address, info, program = sys.argv[1:]
sh.setup(1, address, (0, 1), config=sh.FwdPipeConfig(info, program))
entry = sh.TableEntry("I.port")(action="I.send")
entry.match["hdr.flow.flow"], entry.action["port"], entry.priority = "5", "3", 1
entry.insert()
member = sh.ActionProfileMember("I.ways")(member_id=1, action="I.send")
member.action["port"] = "4"
member.insert()
group = sh.ActionProfileGroup("I.ways")(group_id=2)
group.add(1, 1)
group.insert()
way = sh.TableEntry("I.way")(group_id=2)
way.match["hdr.flow.flow"] = "9"
way.insert()
counter = sh.CounterEntry("I.flows")
counter.index, counter.packet_count = 2, 7
counter.modify()
meter = sh.MeterEntry("I.rates")
meter.index, meter.cir, meter.cburst, meter.pir, meter.pburst = 1, 1, 2, 3, 4
meter.modify()
sh.MulticastGroupEntry(1).add(2, 1).add(3, 1).insert()
sh.CloneSessionEntry(1).add(2, 1).insert()
digest = sh.DigestEntry("learn_t")
digest.max_list_size = 1
digest.insert()
found = []
counter.read(lambda item: found.append(item.packet_count))
meter.read(lambda item: found.append(item.pburst))
sh.DirectCounterEntry("I.hits").read(lambda item: found.append(item.packet_count))
sh.MulticastGroupEntry(1).read(lambda item: found.append(len(item.replicas)))
sh.CloneSessionEntry(1).read(lambda item: found.append(len(item.replicas)))
sh.TableEntry("I.way").read(lambda item: found.append(item.group_id))
packets = sh.PacketIn()
sh.PacketOut(bytes([5, 0]) + b"rest", egress_port="510", unused="0").send()
packets.sniff(lambda item: found.append(item.packet.payload), timeout=5)
sh.teardown()
print(found)
"""

FINSY = """
import asyncio, sys
from pathlib import Path
import finsy as fy
address, info, program = sys.argv[1:]
async def main():
    options = fy.SwitchOptions(p4info=Path(info), p4blob=Path(program))
    found = []
    async with fy.Switch("nic", address, options) as switch:
        await switch.delete_all()
        match, action = fy.Match({"hdr.flow.flow": 5}), fy.Action("I.send", port=3)
        replicas = fy.P4MulticastGroupEntry(1, replicas=[2, 3])
        await switch.write([
            +fy.P4TableEntry("I.port", match=match, action=action, priority=1),
            ~fy.P4RegisterEntry("I.last", index=3, data=7),
            ~fy.P4RegisterEntry("I.pairs", index=1, data={"count": 7, "seen": True}),
            ~fy.P4CounterEntry("I.flows", index=3, data=fy.P4CounterData(packet_count=3, byte_count=4)),
            +replicas,
            +fy.P4DigestEntry("learn_t", max_list_size=1),
        ])
        async for item in switch.read(fy.P4RegisterEntry("I.last", index=3)):
            found.append(item.data)
        async for item in switch.read(fy.P4RegisterEntry("I.pairs", index=1)):
            found.append(item.data)
        async for item in switch.read(fy.P4CounterEntry("I.flows", index=3)):
            found.append(item.data.packet_count)
        async for item in switch.read(fy.P4MulticastGroupEntry()):
            found.append(item.replicas)
        packets = switch.read_packets()
        await switch.write(fy.P4PacketOut(bytes([5, 0]) + b"rest", egress_port=510, unused=0))
        found.append((await anext(packets)).payload)
    print(found)
asyncio.run(main())
"""


@pytest.fixture(scope="module")
def program() -> Program:
    path = Path(__file__).parents[1] / "unit" / "control" / "switch.p4"
    return compile_program(path).program


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.fixture
def run(program: Program, engine: Engine, tmp_path: Path) -> Iterator[Callable[[str, str, str], str]]:
    """Return a function that runs a script of a controller's, and returns what it prints."""
    info, config = tmp_path / "switch.p4info.txt", tmp_path / "switch.json"
    info.write_text(str(info_message(p4info_of(program))))
    config.write_text(program.to_json())
    server = P4RuntimeServer({1: engine}, "127.0.0.1:0")
    address = server.start()

    def with_python_of(variable: str, package: str, script: str) -> str:
        python = os.environ.get(variable, "")
        if not python:
            pytest.skip(f"no {package}: make an environment with it and name its Python in {variable}")
        done = subprocess.run(
            [python, "-c", script, address, str(info), str(config)],
            capture_output=True,
            text=True,
            timeout=60,
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().splitlines()[-1]

    yield with_python_of
    server.stop()


def test_p4runtime_shell_loads_writes_reads_and_sends(
    run: Callable[[str, str, str], str], engine: Engine
) -> None:
    found = run("NICEMU_P4RUNTIME_SHELL", "p4runtime-shell", SHELL)
    assert found == "[7, 4, 0, 2, 1, 2, b'rest']"
    assert engine.process(bytes([5, 0]), 1).port == 3
    assert engine.process(bytes([9, 0]), 1).port == 4
    assert "learn_t" in engine.objects.digests


def test_finsy_loads_writes_reads_registers_too_and_sends(
    run: Callable[[str, str, str], str], engine: Engine
) -> None:
    found = run("NICEMU_FINSY", "finsy", FINSY)
    assert found == "[7, {'count': 7, 'seen': True}, 3, (2, 3), b'rest']"
    assert engine.process(bytes([5, 0]), 1).disposition is Disposition.PORT
