# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.pipeline import (
    ActionSet,
    CloneSession,
    Engine,
    Exact,
    Group,
    Lpm,
    Member,
    Optional,
    Range,
    Replica,
    TableEntry,
    Ternary,
    ir,
)
from nicemu.switch import put_tables
from tests.unit.switch.every_kind import PROGRAM

SEND_4 = {"name": "send", "parameters": {"port": 4}}


@pytest.fixture
def engine() -> Engine:
    made = Engine()
    made.load(PROGRAM)
    return made


def put(engine: Engine, folder: Path, document: Any) -> int:  # noqa: ANN401
    path = folder / "tables.json"
    path.write_text(document if isinstance(document, str) else json.dumps(document))
    return put_tables(engine, path)


def entry(keys: dict[str, Any], action: Any = "NoAction", **more: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"keys": keys, "action": action, **more}


def test_entries_of_every_match_kind_are_put(engine: Engine, tmp_path: Path) -> None:
    filters = [
        entry({"a": "0x10&&&0xf0", "b": "1..9", "x": 3}, SEND_4, priority=7),
        entry({"b": 5}, priority=6),
    ]
    tables = [
        {"table": "plain", "entries": [entry({"h.a": 1}, SEND_4)], "default": SEND_4},
        {"table": "I.route", "entries": [entry({"address": "10.0.0.0/8"}, SEND_4)]},
        {"table": "filter", "entries": filters},
        {"table": "aging", "entries": [entry({"a": 1}, idle_timeout_ns=5)]},
    ]
    assert put(engine, tmp_path, {"tables": tables}) == 5
    assert engine.read("plain") == [TableEntry((Exact(1),), "I.send", (4,))]
    assert engine.read("route") == [TableEntry((Lpm(0x0A000000, 8),), "I.send", (4,))]
    assert engine.read("filter") == [
        TableEntry((Ternary(0x10, 0xF0), Range(1, 9), Optional(3)), "I.send", (4,), 7),
        TableEntry((Ternary(0, 0), Range(5, 5), Optional(None)), "NoAction", (), 6),
    ]
    assert engine.read("aging")[0].idle_timeout_ns == 5
    default = next(table for table in engine.tables() if table.name == "I.plain")
    assert (default.default_action, default.default_parameters) == ("I.send", (4,))


def test_a_list_alone_is_what_nicemu_table_list_prints(engine: Engine, tmp_path: Path) -> None:
    default = {"name": "NoAction", "parameters": {}}
    printed = [
        {
            "table": "I.acl",
            "size": 1,
            "entries": [entry({"h.h.a": "1"}, const=True, hits=0)],
            "default": default,
        },
        {"table": "I.plain", "size": 9, "entries": [entry({"h.h.a": "1"}, SEND_4, priority=0, hits=2)]},
    ]
    assert put(engine, tmp_path, printed) == 1
    assert len(engine.read("plain")) == 1


def test_members_and_groups_come_before_the_entries_that_name_them(engine: Engine, tmp_path: Path) -> None:
    document = {
        "tables": [
            {
                "table": "balance",
                "entries": [
                    {"keys": {"a": 1}, "member": 5},
                    {"keys": {"a": 2}, "group": 9},
                ],
            }
        ],
        "action_profiles": [
            {
                "profile": "choice",
                "members": [{"member": 5, "action": SEND_4}, {"member": 6, "action": "NoAction"}],
                "groups": [{"group": 9, "members": [{"member": 5, "weight": 2}, {"member": 6}]}],
            }
        ],
    }
    assert put(engine, tmp_path, document) == 2
    send, none = ir.ActionCall("I.send", (4,)), ir.ActionCall("NoAction")
    assert [item.choice for item in engine.read("balance")] == [Member(5), Group(9)]
    profile = engine.objects.profile("choice")
    assert (profile.members, profile.groups) == ({5: send, 6: none}, {9: ((5, 2), (6, 1))})


def test_an_entry_may_bring_a_set_of_actions(engine: Engine, tmp_path: Path) -> None:
    entries = [{"keys": {"a": 3}, "actions": [{**SEND_4, "weight": 2}, "NoAction"]}]
    assert put(engine, tmp_path, {"tables": [{"table": "balance", "entries": entries}]}) == 1
    send, none = ir.ActionCall("I.send", (4,)), ir.ActionCall("NoAction")
    assert [item.choice for item in engine.read("balance")] == [ActionSet(((send, 2), (none, 1)))]


def test_value_sets_registers_groups_and_sessions_are_put(engine: Engine, tmp_path: Path) -> None:
    document = {
        "value_sets": [{"value_set": "known", "members": [1, "0x2"]}],
        "registers": [
            {"register": "seen", "values": {"3": "0x7f"}},
            {"register": "offset", "values": {"0x1": -128}},
            {"register": "flags", "values": {"0": True}},
        ],
        "multicast_groups": [{"group": 1, "replicas": [{"port": 2}, {"port": 3, "rid": 4}]}],
        "clone_sessions": [{"session": 5, "replicas": [{"port": 6}], "truncate_bytes": 64}],
    }
    assert put(engine, tmp_path, document) == 0
    objects = engine.objects
    assert objects.value_set("known").members == [(Exact(1),), (Exact(2),)]
    assert [objects.register(name).values for name in ("seen", "offset", "flags")] == [
        {3: 0x7F},
        {1: -128},
        {0: 1},
    ]
    assert objects.multicast_groups == {1: (Replica(2), Replica(3, 4))}
    assert objects.clone_sessions == {5: CloneSession((Replica(6),), 64)}


def plain(*entries: Any) -> dict[str, Any]:  # noqa: ANN401
    return {"tables": [{"table": "plain", "entries": list(entries)}]}


@pytest.mark.parametrize(
    ("document", "told"),
    [
        ('{"tables":\n  [}', ":2:4: this is no JSON: Expecting value"),
        ("[" * 100_000, "nested too deeply"),
        (3, "$ is 3; an object was expected"),
        ({"table": []}, "$.table is unknown; there may be action_profiles, tables,"),
        ({"tables": {}}, "$.tables is an object; a list was expected"),
        ([{}], "$.tables[0] lacks table"),
        ([{"table": 1}], "$.tables[0].table is 1; a name was expected"),
        ([{"table": "plane"}], "$.tables[0].table: the program: table plane is unknown; did you mean plain?"),
        (plain({}), "$.tables[0].entries[0] lacks keys"),
        (plain(entry({"c": 1})), "$.tables[0].entries[0].keys.c: key c is unknown; there is h.h.a"),
        (plain(entry({})), "$.tables[0].entries[0].keys lacks h.h.a, an exact key"),
        (
            plain(entry({"a": 256})),
            "$.tables[0].entries[0].keys.a: h.h.a is bit<8>, 0 to 255; 256 does not fit",
        ),
        (plain(entry({"a": 1.5})), "keys.a is 1.5; a number or a text was expected"),
        (plain({"keys": {"a": 1}}), "has none of action, member, group, actions; one was expected"),
        (
            plain(entry({"a": 1}, "nothing")),
            "action.name: I.plain: action nothing is unknown; there is I.send, NoAction",
        ),
        (plain(entry({"a": 1}, "send")), "entries[0].action lacks parameters, of which I.send has port"),
        (
            plain(entry({"a": 1}, {"name": "send", "parameters": {"port": 512}})),
            "parameters.port: port is bit<9>",
        ),
        (plain(entry({"a": 1}, {"name": "send", "parameters": {"prt": 5}})), "parameters.prt is unknown"),
        (
            plain(entry({"a": 1}), entry({"a": 1})),
            "$.tables[0].entries[1]: table I.plain has an entry for 0x1 already",
        ),
        (plain(entry({"a": 1}, priority=-1)), "entries[0].priority is -1; a number from 0 up was expected"),
        ({"registers": [{"register": "seen", "values": {"16": 1}}]}, "values.16: I.seen has 16 places"),
        ({"registers": [{"register": "offset", "values": {"1": 128}}]}, "values.1 is no value of int<8>"),
        ({"value_sets": [{"value_set": "known", "members": [300]}]}, "members[0]"),
        (
            {"meters": [{"meter": "rates", "values": {"1": {"cir": 1, "pir": 2}}}]},
            "$.meters[0].values.1 has cir, pir; all of cir, cburst, pir, pburst were expected, or none",
        ),
        (
            {"meters": [{"meter": "rates", "values": {"1": {"cir": 3, "cburst": 1, "pir": 2, "pburst": 1}}}]},
            "values.1 has a pir of 2, below its cir, 3",
        ),
        ({"meters": [{"meter": "rates", "values": {"4": {}}}]}, "values.4: I.rates has 4 places"),
        (
            plain(entry({"a": 1}, meter={})),
            "entries[0].meter is for a table with a direct meter; I.plain has none",
        ),
        (
            {"tables": [{"table": "I.plain", "entries": [], "default_entry": {"meter": {"cir": 1}}}]},
            "tables[0].default_entry.meter is for a table with a direct meter; I.plain has none",
        ),
        ({"clone_sessions": [{"session": 1, "replicas": [{"rid": 1}]}]}, "replicas[0] lacks port"),
        (
            {"clone_sessions": [{"session": 1, "replicas": [{"port": 511}]}]},
            "replicas[0].port is 511; a number from 0 to 510 was expected",
        ),
        (
            {"multicast_groups": [{"group": 1, "replicas": [{"port": 1, "rid": 65536}]}]},
            "replicas[0].rid is 65536; a number from 0 to 65535 was expected",
        ),
        ({"multicast_groups": [{"group": 0, "replicas": []}]}, "a number from 1 to 65535 was expected"),
        (
            {"multicast_groups": [{"group": 1, "replicas": [{"port": 1}, {"port": 1, "rid": 0}]}]},
            "replicas[1] names a port and rid that stand in this list already",
        ),
        (
            {
                "action_profiles": [
                    {"profile": "choice", "groups": [{"group": 1, "members": [{"member": 8}]}]}
                ]
            },
            "member 8",
        ),
    ],
)
def test_every_fault_names_the_file_and_the_place(
    engine: Engine,
    tmp_path: Path,
    document: object,
    told: str,
) -> None:
    with pytest.raises(UsageError) as refused:
        put(engine, tmp_path, document)
    assert str(refused.value).startswith(str(tmp_path / "tables.json"))
    assert told in str(refused.value)


def test_a_member_that_stands_twice_in_an_object_is_refused(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    path.write_text('{"registers": [{"register": "seen", "values": {"1": 2, "1": 3}}]}')
    with pytest.raises(UsageError, match=r"tables\.json: 1 stands twice in one object"):
        put_tables(engine, path)
