# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from nicemu.errors import UsageError
from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import (
    ActionSet,
    CloneSession,
    Engine,
    Exact,
    Group,
    Lpm,
    Member,
    MeterConfig,
    Optional,
    Range,
    Replica,
    TableEntry,
    Ternary,
    ir,
)
from nicemu.switch import put_tables
from tests.unit.switch.every_kind import PROGRAM, SOURCE

NEEDS_JIT = pytest.mark.skipif(not JIT, reason="NICEMU_JIT is 0")
PROGRAM_OF_ROUTES = compile_text(SOURCE.replace("table route {", "table route { size = 8192;")).program
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
        ([{"table": "plain", "complete": 3}], "$.tables[0].complete is 3; true or false was expected"),
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
        (
            plain(entry({"a": 1}, priority=-1)),
            "entries[0].priority is -1; a number from 0 to 2147483647 was expected",
        ),
        ({"registers": [{"register": "seen", "values": {"16": 1}}]}, "values.16: I.seen has 16 places"),
        (
            {"registers": [{"register": "seen", "values": {"1": 1, "2": 1, "0x1": 2}}]},
            "values.0x1 is the same as $.registers[0].values.1; one was expected",
        ),
        (
            {"counters": [{"counter": "counted", "values": {"1": {}}}] * 2},
            "$.counters[1].values.1 is the same as $.counters[0].values.1; one was expected",
        ),
        (
            {"value_sets": [{"value_set": "known", "members": []}] * 2},
            "$.value_sets[1].value_set is the same as $.value_sets[0].value_set; one was expected",
        ),
        (
            {"clone_sessions": [{"session": 1, "replicas": [{"port": 1}]}] * 2},
            "$.clone_sessions[1].session is the same as $.clone_sessions[0].session; one was expected",
        ),
        (
            {"multicast_groups": [{"group": 1, "replicas": []}] * 2},
            "$.multicast_groups[1].group is the same as $.multicast_groups[0].group; one was expected",
        ),
        (
            [{"table": "plain", "complete": True}, {"table": "plain"}],
            "$.tables[1] is of I.plain, as is $.tables[0]; one that is complete stands alone",
        ),
        (
            [{"table": "plain"}, {"table": "plain", "complete": True}],
            "$.tables[1] is of I.plain, as is $.tables[0]; one that is complete stands alone",
        ),
        (
            [{"table": "plain", "default": "NoAction"}] * 2,
            "$.tables[1].default is the same as $.tables[0].default; one was expected",
        ),
        (
            {"value_sets": [{"value_set": "known", "members": [3, "0x3"]}]},
            "$.value_sets[0]: value set P.known is given a member twice",
        ),
        (
            plain(entry({"a": 1, "h.h.a": 1})),
            "keys.h.h.a is h.h.a, which has a value already; one was expected",
        ),
        ({"registers": [{"register": "offset", "values": {"1": 256}}]}, "values.1: the value is int<8>"),
        ({"value_sets": [{"value_set": "known", "members": [300]}]}, "members[0]"),
        (
            {"meters": [{"meter": "rates", "values": {"1": {"cir": 1, "pir": 2}}}]},
            "values.1 has cir, pir; cir, cburst, pir, pburst, or of one rate cir, cburst, eburst, or nothing",
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
        ({"clone_sessions": [{"session": 1 << 32, "replicas": []}]}, "a number from 0 to 4294967295 was"),
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


@pytest.mark.parametrize(
    "document",
    [
        {"clone_sessions": [{"session": 1, "replicas": [], "truncate_bytes": 1 << 31}]},
        {"tables": [{"table": "plain", "complete": True, "entries": [], "hits": 1 << 64}]},
        {"tables": [{"table": "aging", "entries": [entry({"a": 1}, idle_timeout_ns=1 << 63)]}]},
        {"tables": [{"table": "filter", "entries": [entry({}, priority=1 << 31)]}]},
    ],
)
def test_numbers_are_no_larger_than_what_holds_them(engine: Engine, tmp_path: Path, document: Any) -> None:  # noqa: ANN401
    with pytest.raises(UsageError, match="a number from 0 to "):
        put(engine, tmp_path, document)


def test_groups_and_sessions_of_a_file_count_among_those_that_may_be(engine: Engine, tmp_path: Path) -> None:
    ways = [{"port": 1}, {"port": 2}]
    document = {
        "multicast_groups": [{"group": 1, "replicas": ways}],
        "clone_sessions": [{"session": 1, "replicas": ways}],
    }
    put(engine, tmp_path, document)
    put(engine, tmp_path, {"multicast_groups": [{"group": 1, "replicas": ways[:1]}]})
    assert engine.objects.replica_count == 2 + 3
    engine.objects.hold_group(1, None)
    engine.objects.hold_session(1, None)
    assert engine.objects.replica_count == 0


def test_a_member_that_stands_twice_in_an_object_is_refused(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    path.write_text('{"registers": [{"register": "seen", "values": {"1": 2, "1": 3}}]}')
    with pytest.raises(UsageError, match=r"tables\.json: \$\.registers\[0\]\.values has 1 twice"):
        put_tables(engine, path)


def test_a_member_that_stands_twice_is_found_however_deep(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "tables.json"
    path.write_text('{"tables": ' + "[" * 900 + '{"a": 1, "a": 2}' + "]" * 900 + "}")
    with pytest.raises(UsageError, match=r"\[0\]\[0\] has a twice"):
        put_tables(engine, path)


TYPED = compile_text("""
#include <core.p4>
#include <v1model.p4>
header h_t { int<8> signed; bit<7> rest; bool flag; }
struct headers_t { h_t h; }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bool>(4) flags;
    action set(int<8> by, bool flag) { h.h.signed = h.h.signed + by; h.h.flag = flag; }
    table one { key = { h.h.signed: exact; h.h.flag: exact; } actions = { set; NoAction; } }
    table some { key = { h.h.signed: range; h.h.flag: ternary; } actions = { set; NoAction; } }
    table prefix { key = { h.h.signed: lpm; } actions = { set; NoAction; } }
    apply { one.apply(); some.apply(); prefix.apply(); bool f; flags.read(f, 0); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
""").program


@pytest.fixture
def typed() -> Engine:
    made = Engine()
    made.load(TYPED)
    return made


def set_by(by: Any, flag: Any = 0) -> dict[str, Any]:  # noqa: ANN401
    return {"name": "set", "parameters": {"by": by, "flag": flag}}


@pytest.mark.parametrize("flag", [True, "true", 1, "1"])
@pytest.mark.parametrize("by", [-5, "-5", 251, "0xfb", "-0x5"])
def test_numbers_may_be_negative_and_booleans_words_where_the_program_has_them_so(
    typed: Engine, tmp_path: Path, by: int | str, flag: bool | int | str
) -> None:
    put(
        typed,
        tmp_path,
        [{"table": "one", "entries": [entry({"signed": by, "flag": flag}, set_by(by, flag))]}],
    )
    assert typed.table("one").read() == [TableEntry((Exact(251), Exact(1)), "I.set", (251, 1))]
    frame = typed.process(bytes([251, 1]), 0).frame
    assert frame == bytes([246, 1])


def test_ranges_masks_and_prefixes_may_have_negative_numbers(typed: Engine, tmp_path: Path) -> None:
    ranged = entry({"signed": "-8..-2", "flag": False}, set_by(1), priority=1)
    tables = [
        {"table": "some", "entries": [ranged]},
        {"table": "prefix", "entries": [entry({"signed": "-128/1"}, set_by(1))]},
    ]
    put(typed, tmp_path, tables)
    assert typed.table("some").read()[0].matches == (Range(248, 254), Ternary(0, 1))
    assert typed.table("prefix").read()[0].matches == (Lpm(128, 1),)


REGISTERS = compile_text("""
#include <core.p4>
#include <v1model.p4>
enum Colour { RED, GREEN }
enum int<8> Level { LOW = -3, HIGH = 9 }
struct both_t { int<8> number; Colour colour; Level level; error fault; bool flag; }
struct headers_t { }
struct metadata_t { both_t both; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<Colour>(4) colours;
    register<Level>(4) levels;
    register<int<8>>(4) numbers;
    register<both_t>(4) all;
    apply {
        colours.write(0, Colour.RED); levels.write(0, Level.LOW); numbers.write(0, 1); all.write(0, m.both);
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { } }
V1Switch(P(), V(), I(), E(), V(), D()) main;
""").program


@pytest.mark.parametrize(
    ("register", "written", "held"),
    [
        *(("numbers", value, -5) for value in (-5, "-5", 251, "0xfb")),
        ("numbers", "0x7f", 127),
        ("colours", "GREEN", 1),
        ("colours", 1, 1),
        ("levels", "LOW", -3),
        ("levels", -3, -3),
        ("levels", "0xfd", -3),
        (
            "all",
            {"number": "0xff", "colour": "GREEN", "level": "HIGH", "fault": "NoMatch", "flag": True},
            {"number": -1, "colour": 1, "level": 9, "fault": 2, "flag": 1},
        ),
    ],
)
def test_a_register_takes_what_its_type_has_as_the_command_line_does(
    tmp_path: Path, register: str, written: object, held: object
) -> None:
    made = Engine()
    made.load(REGISTERS)
    put(made, tmp_path, {"registers": [{"register": register, "values": {"1": written}}]})
    assert made.objects.register(register).values == {1: held}


@pytest.mark.parametrize("value", [False, 0, "false"])
def test_a_register_of_booleans_takes_words_and_numbers(typed: Engine, tmp_path: Path, value: Any) -> None:  # noqa: ANN401
    put(typed, tmp_path, {"registers": [{"register": "flags", "values": {"1": True, "2": value}}]})
    assert [typed.objects.register("flags").read(place, zero=0) for place in (1, 2)] == [1, 0]


@pytest.mark.parametrize(
    ("keys", "sentence"),
    [
        ({"signed": -129, "flag": 0}, "h.h.signed is int<8>, -128 to 127; -129 does not fit"),
        ({"signed": 256, "flag": 0}, "h.h.signed is int<8>, -128 to 127; 256 does not fit"),
        ({"signed": 0, "flag": 2}, "h.h.flag is bool, false or true; '2' is neither"),
        ({"signed": True, "flag": 0}, "is true; a number or a text was expected"),
        ({"signed": 0, "flag": "yes"}, "h.h.flag is bool, false or true; 'yes' is neither"),
    ],
)
def test_what_is_no_value_of_the_program_s_type_is_told_by_it(
    typed: Engine, tmp_path: Path, keys: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UsageError) as caught:
        put(typed, tmp_path, [{"table": "one", "entries": [entry(keys)]}])
    assert sentence in str(caught.value)


def test_a_range_over_0_is_two_entries(typed: Engine, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="goes over 0; write an entry to -1, and one from 0"):
        put(typed, tmp_path, [{"table": "some", "entries": [entry({"signed": "-3..4"}, priority=1)]}])


def test_a_meter_of_one_rate_has_no_peak_of_its_own(engine: Engine, tmp_path: Path) -> None:
    rates = {"cir": 10, "cburst": 4, "eburst": 2}
    put(engine, tmp_path, {"meters": [{"meter": "rates", "values": {"1": rates}}]})
    assert engine.objects.meter("rates").meters[1].config == MeterConfig(10, 4, 10, 4, 2)


def many(engine: Engine, folder: Path, heard: list[int], *more: Any) -> int:  # noqa: ANN401
    entries = [entry({"address": f"10.{number >> 8}.{number & 255}.0/24"}, SEND_4) for number in range(5000)]
    path = folder / "routes.json"
    path.write_text(json.dumps([{"table": "route", "entries": [*entries, *more]}]))
    return put_tables(engine, path, heard.append)


@pytest.mark.parametrize("compiled", [False, pytest.param(True, marks=NEEDS_JIT)])
def test_who_waits_hears_how_many_entries_are_in(compiled: bool, tmp_path: Path) -> None:
    engine, heard = CompiledEngine(optimised=False) if compiled else Engine(), list[int]()
    engine.load(PROGRAM_OF_ROUTES)
    assert many(engine, tmp_path, heard) == 5000
    assert heard == [4096, 5000]
    assert len(engine.read("route")) == 5000
    assert engine.process(bytes.fromhex("0901 0a138701 ff"), 0).port == 4


def test_one_entry_of_many_that_is_refused_is_named(tmp_path: Path) -> None:
    engine = Engine()
    engine.load(PROGRAM_OF_ROUTES)
    twice = entry({"address": "10.0.7.0/24"}, SEND_4)
    with pytest.raises(
        UsageError, match=r"entries\[5000\]: table I.route has an entry for 0xa000700/24 already"
    ):
        many(engine, tmp_path, [], twice)


def test_a_key_may_be_called_as_the_program_writes_it(tmp_path: Path) -> None:
    engine = Engine()
    text = SOURCE.replace(
        "table plain { key = { h.h.a: exact; }", "table plain { key = { h.h.isValid(): exact; }"
    )
    engine.load(compile_text(text).program)
    for name in ("h.h.isValid()", "h.h.$valid$"):
        keys = {name: True}
        put(engine, tmp_path, {"tables": [{"table": "plain", "entries": [entry(keys)]}]})
        assert [item.matches for item in engine.table("plain").read()] == [(Exact(1),)]
        engine.table("plain").delete((Exact(1),))
