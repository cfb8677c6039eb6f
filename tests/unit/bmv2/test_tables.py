# SPDX-License-Identifier: Apache-2.0
"""Tables: keys, entries, actions and their copies, profiles, direct counters and meters; what P4Info says."""

from __future__ import annotations

import pytest

from nicemu.bmv2 import Bmv2Error
from nicemu.errors import ControlError
from nicemu.pipeline import (
    Engine,
    Exact,
    Group,
    Lpm,
    Member,
    MeterConfig,
    Range,
    TableEntry,
    Ternary,
    ir,
)
from tests.unit.bmv2.program_json import (
    Node,
    action,
    assign,
    either_engine,
    engine_of,
    entry_of,
    expression,
    field,
    frames,
    hexstr,
    key,
    load,
    local,
    made_up,
    masked,
    named,
    operation,
    pipeline,
    primitive,
    program,
    runtime_data,
    send,
    set_port,
    state,
    table,
    wrapped,
)

SET = action(
    0, "C.set", assign(field("standard_metadata", "egress_spec"), runtime_data(0)), data=[("port", 9)]
)
NO_ACTION = action(1, "NoAction")
BY_KIND = key("exact", "h", "kind", "hdr.h.kind")


def with_table(*keys: Node, actions: tuple[Node, ...] = (SET, NO_ACTION), **more: object) -> Node:
    """Return a program with table C.t."""
    given = table(0, "C.t", keys or [BY_KIND], actions, **more)  # type: ignore[arg-type]
    return program(
        actions=list(actions), pipelines=[pipeline(0, "ingress", "C.t", [given]), pipeline(1, "egress")]
    )


def ports(engine: Engine, *texts: str) -> list[int]:
    return [frames(send(engine, text))[0][0] for text in texts]


def const(*matches: Node, port: int, priority: int = 1) -> Node:
    called = {"action_id": 0, "action_data": [f"0x{port:x}"]}
    return {"match_key": list(matches), "action_entry": called, "priority": priority}


def test_entries_of_the_control_plane_match_and_the_default_action_runs_otherwise() -> None:
    engine = engine_of(with_table(default=entry_of(SET, "0x08")))
    engine.insert("t", TableEntry((Exact(7),), "set", (5,)))
    assert ports(engine, "07 00 00 00", "08 00 00 00") == [5, 8]


def test_entries_of_the_file_are_const() -> None:
    document = with_table(entries=[const({"match_type": "exact", "key": "0x07"}, port=5)])
    engine = engine_of(document)
    assert ports(engine, "07 00 00 00", "08 00 00 00") == [5, 0]
    with pytest.raises(ControlError, match="const in the program"):
        engine.insert("t", TableEntry((Exact(8),), "set", (5,)))


def test_entries_of_the_file_match_in_every_way() -> None:
    def engine(kind: str, *entries: Node) -> Engine:
        return engine_of(with_table(key(kind, "h", "kind", "k"), entries=list(entries)))

    prefixes = engine(
        "lpm",
        const({"match_type": "lpm", "key": "0x80", "prefix_length": 1}, port=1),
        const({"match_type": "lpm", "key": "0xf0", "prefix_length": 4}, port=2),
    )
    assert ports(prefixes, "81 00 00 00", "f1 00 00 00", "01 00 00 00") == [1, 2, 0]
    masks = engine(
        "ternary",
        const({"match_type": "ternary", "key": "0xff", "mask": "0x0f"}, port=1),
        const({"match_type": "ternary", "key": "0x00", "mask": "0x00"}, port=2, priority=2),
    )
    assert ports(masks, "1f 00 00 00", "f1 00 00 00") == [1, 2]
    ranges = engine(
        "range",
        const({"match_type": "range", "start": "0x10", "end": "0x1f"}, port=1),
        const({"match_type": "range", "start": "0x00", "end": "0xff"}, port=2, priority=2),
    )
    assert ports(ranges, "1f 00 00 00", "20 00 00 00") == [1, 2]


def test_an_entry_whose_range_is_empty_matches_nothing() -> None:
    empty = const({"match_type": "range", "start": "0x20", "end": "0x10"}, port=1)
    every = const({"match_type": "range", "start": "0x00", "end": "0xff"}, port=2, priority=2)
    ranges = engine_of(with_table(key("range", "h", "kind", "k"), entries=[empty, every]))
    assert ports(ranges, "10 00 00 00", "20 00 00 00") == [2, 2]


def test_the_smaller_priority_of_the_file_wins() -> None:
    every = {"match_type": "ternary", "key": "0x00", "mask": "0x00"}
    one = {"match_type": "ternary", "key": "0x01", "mask": "0xff"}
    document = with_table(
        key("ternary", "h", "kind", "k"),
        entries=[const(every, port=1, priority=9), const(one, port=2, priority=4)],
    )
    assert ports(engine_of(document), "01 00 00 00", "02 00 00 00") == [2, 1]


def test_a_valid_key_and_a_validity_field_are_one_bit() -> None:
    old = {"match_type": "valid", "target": "h", "mask": None}
    new = key("exact", "g", "$valid$", "hdr.g.$valid$")
    engine = engine_of(with_table(old, new))
    [described] = engine.tables()
    assert [(part.name, part.width) for part in described.keys] == [("h.$valid$", 1), ("hdr.g.$valid$", 1)]
    engine.insert("t", TableEntry((Exact(1), Exact(0)), "set", (6,)))
    assert ports(engine, "00 00 00 00") == [6]


@pytest.mark.parametrize("kind", ["interpreter", "kernel"])
@pytest.mark.parametrize(
    ("target", "vanishing"),
    [
        (("g", "kind"), primitive("remove_header", named("header", "g"))),
        (("g", "kind"), primitive("assign_header", named("header", "g"), named("header", "other"))),
        (("s[0]", "value"), primitive("pop", named("header_stack", "s"), hexstr(1))),
        (("u.a", "value"), primitive("add_header", named("header", "u.b"))),
        (("other", "kind"), primitive("assign", field("other", "kind"), hexstr(5))),
        (
            ("g", "kind"),
            primitive(
                "remove_header", expression("dereference_header_stack", named("header_stack", "s"), hexstr(0))
            ),
        ),
    ],
)
def test_the_key_of_a_header_that_is_no_more_is_0(
    kind: str, target: tuple[str, str], vanishing: Node
) -> None:
    removed = action(2, "C.remove", vanishing)
    found = table(0, "C.t", [key("exact", *target, "k")], [SET, NO_ACTION], default=entry_of(NO_ACTION))
    extracted = [operation("extract", named("regular", name)) for name in ("h", "g", "u.a")]
    extracted.append(operation("extract", named("stack", "s")))
    document = program(
        actions=[SET, NO_ACTION, removed],
        pipelines=[
            pipeline(0, "ingress", "tbl_remove", [made_up(1, removed, "C.t"), found]),
            pipeline(1, "egress"),
        ],
        parsers=[
            {
                "name": "parser",
                "id": 0,
                "init_state": "start",
                "parse_states": [state(0, "start", *extracted)],
            }
        ],
    )
    document["headers"].append({"name": "other", "id": 50, "header_type": "tag_t", "metadata": False})
    engine = either_engine(kind, document)
    engine.insert("t", TableEntry((Exact(0),), "set", (7,)))
    is_other = isinstance(vanishing["parameters"][0]["value"], dict)
    verdict = engine.process(bytes.fromhex("01 02 03 04 05 06 07 08 09 0a"), 0)
    assert verdict.port == (0 if is_other else 7)


def test_a_key_may_be_masked() -> None:
    engine = engine_of(with_table(key("exact", "h", "kind", "k", mask="0x0f")))
    engine.insert("t", TableEntry((Exact(5),), "set", (6,)))
    assert ports(engine, "f5 00 00 00") == [6]


def test_a_const_default_action_cannot_be_changed() -> None:
    engine = engine_of(with_table(default=entry_of(SET, "0x08", const=True)))
    with pytest.raises(ControlError, match="default action is const"):
        engine.set_default("t", "NoAction")
    engine_of(with_table(default=entry_of(SET, "0x08"))).set_default("t", "NoAction")


def test_a_table_without_a_default_entry_does_nothing_on_a_miss() -> None:
    document = with_table(actions=(SET,))
    del document["pipelines"][0]["tables"][0]["default_entry"]
    engine = engine_of(document)
    assert ports(engine, "07 00 00 00") == [0]
    [described] = load(document).p4info.tables
    assert [(ref.name, ref.scope) for ref in described.actions] == [
        ("C.set", "both"),
        ("NoAction", "default_only"),
    ]


# Actions that are copies


def copies() -> Node:
    """Return tables C.t and C.u that both have C.mark, which p4c copied with a temporary field each."""

    def mark(number: int, temporary: str) -> Node:
        sum_ = masked(expression("+", local(0), hexstr(number)), 8)
        return action(
            number,
            "C.mark",
            assign(field("scalars", temporary), wrapped(sum_)),
            assign(field("h", "value" if number == 4 else "kind"), field("scalars", temporary)),
            data=[("x", 8)],
        )

    one, two = mark(4, "tmp"), mark(5, "tmp_0")
    tables = [
        table(0, "C.t", [BY_KIND], [one, NO_ACTION], "C.u"),
        table(1, "C.u", [key("exact", "h", "small", "hdr.h.small")], [two, NO_ACTION]),
    ]
    return program(
        actions=[NO_ACTION, one, {**NO_ACTION, "id": 2}, two],
        pipelines=[pipeline(0, "ingress", "C.t", tables), pipeline(1, "egress")],
    )


def test_copies_of_an_action_are_one_action_for_the_control_plane() -> None:
    info = load(copies()).p4info
    assert [item.name for item in info.actions] == ["C.mark", "NoAction"]
    assert [(part.name, part.width) for part in info.actions[0].params] == [("x", 8)]


def test_every_table_runs_its_own_copy_of_an_action() -> None:
    engine = engine_of(copies())
    engine.insert("t", TableEntry((Exact(1),), "mark", (0x10,)))
    engine.insert("u", TableEntry((Exact(0),), "mark", (0x20,)))
    assert frames(send(engine, "01 00 00 00")) == [(0, "25140000")]


def test_actions_of_one_name_with_other_parameters_are_refused() -> None:
    document = copies()
    document["actions"][3]["runtime_data"] = [{"name": "x", "bitwidth": 16}]
    with pytest.raises(
        Bmv2Error, match=r"actions\[3\] has not the parameters that another action called C.mark"
    ):
        load(document)


def test_a_copy_without_data_is_what_the_program_calls_itself() -> None:
    """Its name in P4Info is another: no entry can have it."""
    document = copies()
    document["actions"][3]["runtime_data"] = []
    document["actions"][3]["primitives"] = [set_port(5)]
    document["pipelines"][0]["tables"][1]["default_entry"] = {
        "action_id": document["actions"][3]["id"],
        "action_const": True,
        "action_data": [],
        "action_entry_const": True,
    }
    engine = engine_of(document)
    engine.insert("t", TableEntry((Exact(1),), "mark", (0x10,)))
    assert [port for port, _ in frames(send(engine, "01 00 00 00"))] == [5]


def test_what_p4c_made_up_is_not_for_the_control_plane() -> None:
    """An action called in a control's body stands in a table of its own, statements in an action, too."""
    drop, statements = action(2, "C.drop", primitive("drop")), action(3, "test54", set_port(3))
    document = with_table()
    document["actions"] += [drop, statements]
    document["pipelines"][0]["tables"] += [made_up(1, drop), made_up(2, statements)]
    info = load(document).p4info
    assert [item.name for item in info.tables] == ["C.t"]
    assert [item.name for item in info.actions] == ["C.drop", "C.set", "NoAction"]


def test_p4info_has_the_ids_of_p4c() -> None:
    """Ids of p4c for these names: the type's number, then a hash of the name."""
    info = load(with_table(max_size=77)).p4info
    ids = {item.name: item.id for item in info.actions}
    assert ids["NoAction"] == 21257015
    [described] = info.tables
    assert (described.id >> 24, described.size, described.keys[0].name) == (2, 77, "hdr.h.kind")


# Profiles, counters, meters


def indirect(selector: Node | None = None) -> Node:
    document = with_table(type="indirect_ws" if selector else "indirect", action_profile="C.p")
    del document["pipelines"][0]["tables"][0]["default_entry"]
    profile: Node = {"name": "C.p", "id": 0, "max_size": 16}
    if selector:
        profile["selector"] = selector
    document["pipelines"][0]["action_profiles"] = [profile]
    return document


def test_entries_may_name_the_members_of_a_profile() -> None:
    engine = engine_of(indirect())
    profile = engine.objects.states["C.p"]
    profile.insert_member(1, ir.ActionCall("C.set", (6,)))
    engine.insert("t", TableEntry((Exact(7),), "", choice=Member(1)))
    assert ports(engine, "07 00 00 00", "08 00 00 00") == [6, 0]


def test_a_selector_hashes_its_input_to_choose_a_member() -> None:
    engine = engine_of(indirect({"algo": "identity", "input": [field("h", "value")]}))
    profile = engine.objects.states["C.p"]
    for member in range(2):
        profile.insert_member(member, ir.ActionCall("C.set", (member + 1,)))
    profile.insert_group(1, ((0, 1), (1, 1)))
    engine.insert("t", TableEntry((Exact(7),), "", choice=Group(1)))
    assert ports(engine, "07 00 00 00", "07 01 00 00", "07 02 00 00") == [1, 2, 1]


def test_a_table_with_a_selector_needs_one_in_its_profile() -> None:
    document = indirect()
    document["pipelines"][0]["tables"][0]["type"] = "indirect_ws"
    with pytest.raises(Bmv2Error, match=r"action_profile is C\.p, which has no selector"):
        load(document)


def test_a_selector_takes_what_is_a_bool_in_the_program() -> None:
    """p4c writes a conversion to bool for such a field."""
    flag = {"type": "expression", "value": {"op": "d2b", "left": None, "right": field("scalars", "flag")}}
    document = indirect({"algo": "identity", "input": [flag, field("h", "value")]})
    plain = indirect({"algo": "identity", "input": [field("scalars", "flag"), field("h", "value")]})
    assert load(document).program == load(plain).program


def test_direct_counters_belong_to_their_table() -> None:
    document = with_table(with_counters=True)
    document["counter_arrays"] = [{"name": "C.seen", "id": 0, "is_direct": True, "binding": "C.t"}]
    engine = engine_of(document)
    engine.insert("t", TableEntry((Exact(7),), "set", (1,)))
    send(engine, "07 00 00 00 ff")
    row = engine.row("t", (Exact(7),))
    assert (row.hits, row.bytes) == (1, 5)
    assert load(document).program.tables[0].counter == "C.seen"


def test_a_direct_meter_colours_its_field_before_the_action_runs() -> None:
    seen = action(2, "C.seen", assign(field("h", "value"), field("scalars", "tmp")))
    document = with_table(actions=(seen, NO_ACTION), direct_meters="C.m")
    document["meter_arrays"] = [
        {
            "name": "C.m",
            "id": 0,
            "is_direct": True,
            "rate_count": 2,
            "type": "packets",
            "size": 1024,
            "binding": "C.t",
            "result_target": ["scalars", "tmp"],
        }
    ]
    engine = engine_of(document)
    engine.insert("t", TableEntry((Exact(7),), "seen"))
    engine.row("t", (Exact(7),)).meter.configure(MeterConfig(0, 1, 0, 2), 0)
    assert [frames(send(engine, "07 ff 00 00"))[0][1][2:4] for _ in range(3)] == ["00", "01", "02"]


def test_a_direct_meter_that_is_bound_to_no_table_of_its_name_is_refused() -> None:
    with pytest.raises(Bmv2Error, match=r"\.direct_meters is no direct meter that is bound to this table"):
        load(with_table(direct_meters="nothing"))


def test_entries_may_time_out_where_the_table_says_so() -> None:
    engine = engine_of(with_table(support_timeout=True))
    engine.insert("t", TableEntry((Exact(7),), "set", (1,), idle_timeout_ns=5))
    assert len(engine.idle(10)) == 1


# All kinds of keys at once


def test_keys_of_several_kinds_stand_in_one_table() -> None:
    keys = [
        BY_KIND,
        key("lpm", "h", "value", "v"),
        key("ternary", "h", "small", "s"),
        key("range", "h", "five", "f"),
    ]
    engine = engine_of(with_table(*keys))
    matches = (Exact(1), Lpm(0x80, 1), Ternary(0x01, 0x0F), Range(2, 3))
    engine.insert("t", TableEntry(matches, "set", (4,), 1))
    assert ports(engine, "01 81 f1 10", "01 81 f1 20") == [4, 0]


@pytest.mark.parametrize(("data", "port"), [("0x1ff", 511), ("-0x1", 511), ("-0x100", 256), ("0x0", 0)])
def test_action_data_below_0_are_in_two_s_complement(data: str, port: int) -> None:
    program = load(with_table(default=entry_of(SET, data))).program
    (table,) = program.tables
    assert table.default_action.parameters == (port,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"key": [key("exact", "h", "none", "k")]}, "key[0].target[1] is none, which is no field"),
        ({"key": [key("fuzzy", "h", "kind", "k")]}, "one of exact, lpm, ternary, range, valid was expected"),
        ({"action_ids": [1, 0]}, "is the id of NoAction; that of C.set was expected"),
        ({"action_ids": [0, 9]}, "is 9, which is the id of no action"),
        ({"actions": ["C.set", "NoAction", "C.set"], "action_ids": [0, 1, 0]}, "names an action twice"),
        ({"default_entry": entry_of(SET)}, "has 0 action_data; C.set takes 1"),
        ({"default_entry": entry_of(SET, "0x200")}, "is 0x200, which is no number of 9 bits"),
        ({"default_entry": entry_of(SET, "-0x101")}, "is -0x101, which is no number of 9 bits"),
        ({"type": "indirect", "action_profile": "none"}, "is none, which is none of the pipeline's"),
        ({"next_tables": {"other": None}}, "is for other, which is no action of the table"),
        (
            {"entries": [const({"match_type": "lpm", "key": "0x1", "prefix_length": 1}, port=1)]},
            "is lpm; key",
        ),
        ({"entries": [const({"match_type": "exact", "key": "0x100"}, port=1)]}, "of 8 bits cannot be"),
        ({"entries": [const({"match_type": "exact", "key": "-0x01"}, port=1)]}, "BMv2 takes no sign here"),
        ({"entries": [const(port=1)]}, "has 0 items; 1 were expected"),
        (
            {"entries": [const({"match_type": "exact", "key": "0x7"}, port=port) for port in (1, 2)]},
            "entries[1] matches just what entries[0] does",
        ),
        (
            {"key": [key("exact", "h", "kind", "k"), key("exact", "h", "value", "k")]},
            "key[1] is called k, as another key is",
        ),
        (
            {"match_type": "ternary", "key": [key("lpm", "h", "kind", "k")]},
            "match_type is not supported by nicemu yet: priorities of entries whose keys are lpm",
        ),
    ],
)
def test_what_is_not_taken_is_refused_with_its_path(change: Node, message: str) -> None:
    document = with_table()
    document["pipelines"][0]["tables"][0] |= change
    with pytest.raises(Bmv2Error) as caught:
        load(document)
    assert message in str(caught.value)
    assert caught.value.path.startswith("$.pipelines[0].tables[0]")


def test_what_the_engine_does_not_take_is_refused_in_its_words() -> None:
    keys = [key("lpm", "h", "kind", f"k{number}") for number in range(5)]
    with pytest.raises(Bmv2Error, match=r"not supported by nicemu yet: .* more than 4 lpm keys"):
        load(with_table(*keys))
