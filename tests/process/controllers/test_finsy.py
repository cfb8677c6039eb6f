# SPDX-License-Identifier: Apache-2.0
"""finsy, as it is, controls a pipeline: every object that it knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.controllers.environment import FINSY, Served, served

pytestmark = [pytest.mark.process, pytest.mark.slow]

PRELUDE = """
import asyncio, sys
from pathlib import Path
import finsy as fy
from finsy.p4entity import P4BackupReplica, P4Replica, P4ValueSetMember
address, folder = sys.argv[1:]
SEND = fy.Action("send", port=3)
ZERO = fy.P4CounterData()
def show(*items):
    print("=", *items)
async def frame():
    print("frame")
    await asyncio.to_thread(input)
async def found(switch, *entities):
    return [item async for item in switch.read(list(entities))]
async def refused(change):
    try:
        await change
    except fy.P4ClientError as error:
        return [detail.canonical_code.name for detail in error.details.values()]
def port_entry(flow, action=SEND, **values):
    return fy.P4TableEntry("port", match=fy.Match({"flow": flow}), action=action, priority=1, **values)
def run(program, main, **options):
    async def whole():
        files = {"p4info": Path(f"{folder}/{program}.p4info.txt"), "p4blob": Path(f"{folder}/{program}.json")}
        async with fy.Switch("nic", address, fy.SwitchOptions(**files, **options)) as switch:
            await main(switch)
    asyncio.run(whole())
"""
KINDS = """
async def main(switch):
    async def insert(table, priority=0, **match):
        entry = fy.P4TableEntry(table, match=fy.Match(match), action=SEND, priority=priority)
        await switch.insert([entry])
        show(table, [item.match for item in await found(switch, fy.P4TableEntry(table))])
    await switch.delete_all()
    await insert("by_exact", dst="10.0.0.1", tag=7)
    await insert("by_lpm", dst="10.0.0.0/8")
    await insert("by_ternary", 5, src="10.0.0.0/255.0.0.0", tag="0x10/&0xff0")
    await insert("by_range", 5, port="80...90")
    await insert("by_optional", 5, tag=7)
    await insert("by_all", 5, rest=1, dst="10.0.0.0/8", src="1/&1", port="80...90", tag=7)
    show([item.is_const for item in await found(switch, fy.P4TableEntry("fixed"))])
    fixed = fy.P4TableEntry("fixed", match=fy.Match({"rest": 5}), action=SEND)
    show(await refused(switch.write([+fixed])))
    default = fy.P4TableEntry("by_lpm", is_default_action=True, action=fy.Action("send", port=4))
    await switch.write([~default])
    (read,) = await found(switch, fy.P4TableEntry("by_lpm", is_default_action=True))
    show(read.action.args, read.is_default_action)
    show(len(await found(switch, fy.P4TableEntry())))
    await switch.delete_all()
    show(len(await found(switch, fy.P4TableEntry())))
run("kinds", main)
"""
ENTRIES = """
async def main(switch):
    rates = fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
    entry = port_entry(5, metadata=b"note", controller_metadata=9, idle_timeout_ns=200_000_000,
        counter_data=fy.P4CounterData(packet_count=5), meter_config=rates)
    await switch.write([+entry])
    query = fy.P4TableEntry("port", counter_data=ZERO, meter_config=rates, time_since_last_hit=0)
    (read,) = await found(switch, query)
    show(read.metadata, read.controller_metadata, read.idle_timeout_ns, read.counter_data)
    show(read.meter_config == rates)
    show((await anext(aiter(switch.read_idle_timeouts()))).table_entry[0].match)
    await frame()
    (read,) = await found(switch, query)
    show(read.counter_data.packet_count)
    marked = fy.P4MeterCounterData(green=ZERO, yellow=ZERO, red=ZERO)
    (read,) = await found(switch, fy.P4TableEntry("port", meter_counter_data=marked))
    show(read.meter_counter_data.green)
    bare = port_entry(5, None)
    await switch.write([
        ~fy.P4DirectMeterEntry(table_entry=bare, config=fy.P4MeterConfig(cir=7, cburst=1, pir=9, pburst=1)),
        ~fy.P4DirectCounterEntry("hits", table_entry=bare, data=fy.P4CounterData(packet_count=77)),
    ])
    counter, meter = await found(switch, fy.P4DirectCounterEntry(), fy.P4DirectMeterEntry())
    show(counter.counter_id, counter.data.packet_count, meter.config.cir)
    show(await refused(switch.write([+port_entry(6), +port_entry(5), +port_entry(7)])))
    show(sorted(item.match["flow"] for item in await found(switch, fy.P4TableEntry("port"))))
    changed = port_entry(5, fy.Action("send", port=4))
    await switch.write([~changed, -port_entry(6), -port_entry(7)])
    (read,) = await found(switch, fy.P4TableEntry("port"))
    show(read.action.args)
    show(await refused(switch.write([-port_entry(9)])))
run("switch", main)
"""
OBJECTS = """
async def main(switch):
    other = fy.Action("send", port=4)
    members = [fy.P4ActionProfileMember("ways", member_id=number, action=SEND) for number in (1, 2)]
    watching = fy.P4Member(2, weight=(3, 2))
    weighted = [fy.P4Member(1, weight=1), watching]
    group = fy.P4ActionProfileGroup("ways", group_id=2, max_size=5, members=weighted)
    def entry(table, flow, action):
        return fy.P4TableEntry(table, match=fy.Match({"flow": flow}), action=action)
    await switch.write([+item for item in members])
    await switch.write([+group, +entry("way", 9, fy.P4IndirectAction(group_id=2))])
    await switch.write([+fy.P4ActionProfileMember("profile", member_id=1, action=other)])
    await switch.write([+entry("shared", 9, fy.P4IndirectAction(member_id=1))])
    show(len(await found(switch, fy.P4ActionProfileMember())))
    (read,) = await found(switch, fy.P4ActionProfileGroup())
    show(read == group, read.max_size)
    show([item.action for item in await found(switch, fy.P4TableEntry())])
    show(await refused(switch.write([-fy.P4ActionProfileGroup("ways", group_id=2)])))
    await switch.delete_all()
    show(len(await found(switch, fy.P4ActionProfileMember(), fy.P4ActionProfileGroup())))
    shot = fy.P4IndirectAction([(2, SEND), ((1, 2), other)])
    await switch.write([+entry("way", 9, shot)])
    (read,) = await found(switch, fy.P4TableEntry("way"))
    show(read.action == shot)
    rates = fy.P4MeterConfig(cir=1, cburst=2, pir=3, pburst=4)
    await switch.write([
        ~fy.P4MeterEntry("rates", index=2, config=rates),
        ~fy.P4CounterEntry("flows", index=1, data=fy.P4CounterData(packet_count=8, byte_count=9)),
        ~fy.P4RegisterEntry("last", index=1, data=5),
        ~fy.P4RegisterEntry("pairs", index=1, data={"count": 7, "seen": True}),
    ])
    read = await found(switch, fy.P4MeterEntry("rates", index=2), fy.P4CounterEntry("flows", index=1),
        fy.P4RegisterEntry("last", index=1), fy.P4RegisterEntry("pairs", index=1))
    show(read[0].config == rates, read[1].data, read[2].data, read[3].data)
    show(len(await found(switch, fy.P4MeterEntry())), len(await found(switch, fy.P4RegisterEntry("last"))))
    backed = P4Replica(4, instance=1, backup_replicas=[P4BackupReplica(5, instance=2)])
    groups = [fy.P4MulticastGroupEntry(1, replicas=[1, (2, 3)], metadata=b"note"),
        fy.P4MulticastGroupEntry(2, replicas=[backed])]
    session = fy.P4CloneSessionEntry(3, class_of_service=2, packet_length_bytes=64, replicas=[(1, 2)])
    await switch.write([+item for item in groups] + [+session])
    one, two, three = await found(switch, fy.P4MulticastGroupEntry(), fy.P4CloneSessionEntry())
    show(one.metadata, two.replicas[0].backup_replicas[0].port, three.packet_length_bytes)
    await switch.write([fy.P4ValueSetEntry("ignored", members=[P4ValueSetMember(200)])])
    show((await found(switch, fy.P4ValueSetEntry("ignored", members=[])))[0].members)
run("switch", main)
"""
STREAM = """
async def main(switch):
    await switch.write([+fy.P4DigestEntry("learn_t", max_list_size=1),
        +port_entry(6, fy.Action("learn")), +port_entry(4, fy.Action("punt"))])
    show((await found(switch, fy.P4DigestEntry()))[0].max_list_size)
    digests, packets = switch.read_digests("learn_t"), switch.read_packets()
    next_digest, next_packet = asyncio.create_task(anext(digests)), asyncio.create_task(anext(packets))
    await frame()
    digest = await next_digest
    await switch.write([digest.ack()])
    show(digest.data)
    await frame()
    packet = await next_packet
    show(packet.payload, packet.metadata)
    await switch.write([fy.P4PacketOut(bytes([4, 0]) + b"out", egress_port=510, unused=0)])
    show((await anext(packets)).payload)
    show(switch.is_primary, switch.p4runtime_version)
async def two(primary):
    files = {"p4info": Path(f"{folder}/switch.p4info.txt")}
    lower = fy.SwitchOptions(**files, initial_election_id=5)
    async with fy.Switch("other", address, lower) as backup:
        show(primary.is_primary, backup.is_primary, backup.primary_id)
        show(len(await found(backup, fy.P4TableEntry())))
run("switch", main)
run("switch", two, initial_election_id=50)
"""


@pytest.fixture
def nic(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def test_entries_of_every_match_kind(nic: Served) -> None:
    found = nic.run(FINSY, PRELUDE + KINDS)
    assert found == [
        "by_exact [{'dst': 167772161, 'tag': 7}]",
        "by_lpm [{'dst': (167772160, 8)}]",
        "by_ternary [{'src': (167772160, 4278190080), 'tag': (16, 4080)}]",
        "by_range [{'port': (80, 90)}]",
        "by_optional [{'tag': 7}]",
        "by_all [{'rest': 1, 'dst': (167772160, 8), 'src': (1, 1), 'port': (80, 90), 'tag': 7}]",
        "[True, True]",
        "['PERMISSION_DENIED']",
        "{'port': 4} True",
        "8",
        "2",
    ]


def test_an_entry_s_timeout_counter_meter_and_life(nic: Served) -> None:
    found = nic.run(FINSY, PRELUDE + ENTRIES, frames=(bytes([5, 0]),))
    assert found == [
        "b'note' 9 200000000 P4CounterData(byte_count=0, packet_count=5)",
        "True",
        "{'flow': 5}",
        "6",
        "P4CounterData(byte_count=2, packet_count=1)",
        "hits 77 7",
        "['ALREADY_EXISTS']",
        "[5, 6, 7]",
        "{'port': 4}",
        "['NOT_FOUND']",
    ]


def test_profiles_arrays_and_replication(nic: Served) -> None:
    found = nic.run(FINSY, PRELUDE + OBJECTS)
    assert found[:2] == ["3", "True 5"]
    assert found[2] == "[P4IndirectAction(member_id=1), P4IndirectAction(group_id=2)]"
    assert found[3:] == [
        "['FAILED_PRECONDITION']",
        "0",
        "True",
        "True P4CounterData(byte_count=9, packet_count=8) 5 {'count': 7, 'seen': True}",
        "8 16",
        "b'note' 5 64",
        "[{'': 200}]",
    ]


def test_digests_packets_and_arbitration(nic: Served) -> None:
    found = nic.run(FINSY, PRELUDE + STREAM, frames=(bytes([6, 0]), bytes([4, 0, 9])))
    assert found[:4] == [
        "1",
        "[{'flow': 6, 'port': 4}]",
        "b'\\x04\\x00\\t' {'ingress_port': 4, 'unused': 0}",
        "b'out'",
    ]
    assert found[4].startswith("True 1.4.0")
    assert found[5:] == ["True False 50", "2"]
