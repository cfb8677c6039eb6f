# SPDX-License-Identifier: Apache-2.0
"""p4runtime-shell, as it is, controls a pipeline: every object that it knows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from nicemu.pipeline import Disposition
from tests.process.controllers.environment import P4RUNTIME_SHELL, Served, served

pytestmark = [pytest.mark.process, pytest.mark.slow]

PRELUDE = """
import os, sys
import p4runtime_sh.shell as sh
address, folder = sys.argv[1:]
def start(program, election_id=(0, 1)):
    config = sh.FwdPipeConfig(f"{folder}/{program}.p4info.txt", f"{folder}/{program}.json")
    sh.setup(1, address, election_id, config=config)
def show(*items):
    print("=", *items)
def found(entity, of):
    items = []
    entity.read(lambda item: items.append(of(item)))
    return items
def refused(change):
    try:
        change()
    except Exception as error:
        return str(error).replace("\\n", " ")
def frame():
    print("frame")
    input()
def port_entry(flow, action="I.send", **values):
    entry = sh.TableEntry("I.port")(action=action)
    entry.match["hdr.flow.flow"], entry.priority = str(flow), 1
    for name, value in values.items():
        entry.action[name] = str(value)
    return entry
"""
KINDS = """
start("kinds")
def insert(table, priority=0, **match):
    entry = sh.TableEntry(table)(action="send")
    for name, value in match.items():
        entry.match[name] = value
    entry.action["port"] = "3"
    if priority:
        entry.priority = priority
    entry.insert()
    show(table, [item for item in found(sh.TableEntry(table), lambda item: [
        (field.field_id, field.WhichOneof("field_match_type")) for field in item.msg().match])])
insert("by_exact", dst="10.0.0.1", tag="0x7")
insert("by_lpm", dst="10.0.0.0/8")
insert("by_lpm")
insert("by_ternary", 7, src="10.0.0.0&&&255.0.0.0", tag="0x10&&&0xff0")
insert("by_range", 8, port="80..90")
insert("by_optional", 9, tag="7")
insert("by_all", 9, rest="1", dst="10.0.0.0/8", src="1&&&1", port="80..90", tag="7")
show(len(found(sh.TableEntry("fixed"), lambda item: item)))
show(refused(lambda: insert("fixed", rest="5")))
default = sh.TableEntry("by_lpm")(action="send", is_default=True)
default.action["port"] = "4"
default.modify()
query = sh.TableEntry("by_lpm")
query.is_default = True
show(found(query, lambda item: (item.is_default, item.action["port"])))
show(sh.APIVersion())
sh.teardown()
"""
ENTRIES = """
start("switch")
entry = port_entry(5, port=3)
entry.metadata, entry.idle_timeout_ns = b"note", 200_000_000
entry.counter_data.packet_count = 5
entry.meter_config.cir, entry.meter_config.cburst = 1, 2
entry.meter_config.pir, entry.meter_config.pburst = 3, 4
entry.insert()
def query():
    entry = sh.TableEntry("I.port")
    entry.counter_data, entry.meter_config, entry.time_since_last_hit
    return entry
show(found(query(), lambda item: (
    item.metadata, item.idle_timeout_ns, item.counter_data.packet_count, item.meter_config.pburst)))
idle = []
sh.IdleTimeoutNotification().sniff(
    lambda item: idle.append(item.idle_timeout_notification.table_entry[0].priority), timeout=2)
show(sorted({*idle}))
frame()
show(found(query(), lambda item: item.counter_data.packet_count))
direct = sh.DirectCounterEntry("I.hits")
direct.table_entry.match["hdr.flow.flow"], direct.table_entry.priority = "5", 1
direct.packet_count = 77
direct.modify()
show(found(sh.DirectCounterEntry("I.hits"), lambda item: item.packet_count))
marks = sh.DirectMeterEntry("I.marks")
marks.table_entry.match["hdr.flow.flow"], marks.table_entry.priority = "5", 1
marks.cir, marks.cburst, marks.pir, marks.pburst = 9, 1, 10, 1
marks.modify()
show(found(sh.DirectMeterEntry("I.marks"), lambda item: item.cir))
changed = port_entry(5, port=4)
changed.modify()
show(found(sh.TableEntry("I.port"), lambda item: item.action["port"]))
show(refused(lambda: port_entry(5, port=4).insert()))
changed.delete()
show(refused(changed.delete))
show(found(sh.TableEntry("I.port"), lambda item: item))
frame()
missed = sh.TableEntry("I.port")
missed.is_default = True
missed.counter_data
show(found(missed, lambda item: (item.is_default, item.counter_data.packet_count)))
sh.teardown()
"""
OBJECTS = """
start("switch")
member = sh.ActionProfileMember("I.ways")(member_id=1, action="I.send")
member.action["port"] = "4"
member.insert()
member.action["port"] = "5"
member.modify()
group = sh.ActionProfileGroup("I.ways")(group_id=2)
group.add(1, 1)
group.max_size = 4
group.insert()
group.clear()
group.add(1, 3, watch_port=b"\\2")
group.modify()
show(found(sh.ActionProfileMember("I.ways"), lambda item: item.action["port"]))
show(found(sh.ActionProfileGroup("I.ways"), lambda item: (item.max_size, str(item.members[0].weight),
    item.members[0].watch_port)))
way = sh.TableEntry("I.way")(group_id=2)
way.match["hdr.flow.flow"] = "9"
way.insert()
show(found(sh.TableEntry("I.way"), lambda item: item.group_id))
show(refused(group.delete))
way.delete()
group.delete()
member.delete()
shot = sh.TableEntry("I.way")
shot.match["hdr.flow.flow"] = "7"
send, drop = sh.Action("I.send"), sh.Action("I.drop")
send["port"] = "2"
shot.oneshot.add(send, weight=2, watch_port=b"\\1")
shot.oneshot.add(drop, weight=1)
shot.insert()
show(found(sh.TableEntry("I.way"),
    lambda item: [(one.weight, one.watch_port) for one in item.oneshot.actions]))
counter = sh.CounterEntry("I.flows")
counter.index, counter.packet_count, counter.byte_count = 2, 3, 4
counter.modify()
show(found(sh.CounterEntry("I.flows"), lambda item: item.packet_count))
meter = sh.MeterEntry("I.rates")
meter.index, meter.cir, meter.pir = 2, 3, 4
meter.modify()
show(found(sh.MeterEntry("I.rates"), lambda item: item.cir))
sh.MulticastGroupEntry(1).add(2, 1).add(3, 1).insert()
sh.MulticastGroupEntry(1).add(4, 1).modify()
show(found(sh.MulticastGroupEntry(), lambda item: [(one.egress_port, one.instance) for one in item.replicas]))
sh.MulticastGroupEntry(1).delete()
clone = sh.CloneSessionEntry(7).add(2, 1)
clone.cos, clone.packet_length_bytes = 3, 64
clone.insert()
show(found(sh.CloneSessionEntry(7), lambda item: (item.cos, item.packet_length_bytes)))
sh.CloneSessionEntry(7).delete()
sh.teardown()
"""
STREAM = """
start("switch")
digest = sh.DigestEntry("learn_t")
digest.max_list_size = 1
digest.insert()
show(found(sh.DigestEntry("learn_t"), lambda item: item.max_list_size))
port_entry(6, "I.learn").insert()
port_entry(4, "I.punt").insert()
frame()
def sniffed(stream, shown):
    found, turns = [], 0
    while not found and turns < 20:
        stream.sniff(lambda item: found.append(shown(item)), timeout=1)
        turns += 1
    return found
def packet(item):
    return item.packet.payload, [part.value for part in item.packet.metadata]
show(sniffed(sh.DigestList(), lambda item: [part.bitstring for part in item.digest.data[0].struct.members]))
frame()
packets_in = sh.PacketIn()
show(sniffed(packets_in, packet))
sh.PacketOut(b"\\4\\0out", egress_port="510", unused="0").send()
show(sniffed(packets_in, packet))
sh.teardown()
start("switch", (1, 0))
show(found(sh.TableEntry("I.port"), lambda item: item))
sh.teardown()
sys.stdout.flush()
os._exit(0)  # its thread that takes packets does not end
"""


@pytest.fixture
def nic(tmp_path: Path) -> Iterator[Served]:
    with served(tmp_path) as found:
        yield found


def test_entries_of_every_match_kind(nic: Served) -> None:
    *found, const, refused, default, version = nic.run(P4RUNTIME_SHELL, PRELUDE + KINDS)
    assert found == [
        "by_exact [[(1, 'exact'), (2, 'exact')]]",
        "by_lpm [[(1, 'lpm')]]",
        "by_lpm [[(1, 'lpm')], []]",
        "by_ternary [[(1, 'ternary'), (2, 'ternary')]]",
        "by_range [[(1, 'range')]]",
        "by_optional [[(1, 'optional')]]",
        "by_all [[(1, 'exact'), (2, 'lpm'), (3, 'ternary'), (4, 'range'), (5, 'optional')]]",
    ]
    assert const == "2"
    assert "PERMISSION_DENIED" in refused
    assert default.startswith("[(True, ")
    assert version == "1.4.0"
    assert nic.engine.table("by_lpm").default.entry.parameters == (4,)


def test_an_entry_s_timeout_counter_meter_and_life(nic: Served) -> None:
    frame = bytes([5, 0])
    found = nic.run(P4RUNTIME_SHELL, PRELUDE + ENTRIES, frames=(frame, frame))
    assert found[0] == "[(b'note', 200000000, 5, 4)]"
    assert found[1:5] == ["[1]", "[6]", "[77]", "[9]"]
    assert "ALREADY_EXISTS" in found[6]
    assert "NOT_FOUND" in found[7]
    assert found[8:] == ["[]", "[(True, 1)]"]


def test_profiles_arrays_and_replication(nic: Served) -> None:
    found = nic.run(P4RUNTIME_SHELL, PRELUDE + OBJECTS)
    assert found[1] == "[(4, '3', b'\\x02')]"
    assert found[2] == "[2]"
    assert "FAILED_PRECONDITION" in found[3]
    assert found[4:] == [
        "[[(2, b'\\x01'), (1, b'')]]",
        "[0, 0, 3, 0, 0, 0, 0, 0]",
        "[0, 0, 3, 0, 0, 0, 0, 0]",
        "[[(4, 1)]]",
        "[(3, 64)]",
    ]


def test_digests_packets_and_arbitration(nic: Served) -> None:
    found = nic.run(P4RUNTIME_SHELL, PRELUDE + STREAM, frames=(bytes([6, 0]), bytes([4, 0, 9])))
    assert found == [
        "[1]",
        "[[b'\\x06', b'\\x04']]",
        "[(b'\\x04\\x00\\t', [b'\\x04', b'\\x00'])]",
        "[(b'out', [b'\\x08', b'\\x00'])]",
        "[]",
    ]
    assert nic.engine.process(bytes([99, 0]), 1).disposition is Disposition.DROP
