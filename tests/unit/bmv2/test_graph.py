# SPDX-License-Identifier: Apache-2.0
"""Graphs: every way through a pipeline or an action is that of the file; statements are as many as steps."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.bmv2 import Bmv2Error
from nicemu.pipeline import Disposition, Engine, Exact, TableEntry
from tests.unit.bmv2.program_json import (
    Node,
    action,
    assign,
    conditional,
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
    outcome,
    pipeline,
    primitive,
    program,
    send,
    set_port,
    table,
    wrapped,
)

NO_ACTION = action(9, "NoAction")


def step_action(number: int) -> Node:
    """Return an action that writes down that it ran: kind = 3 * kind + number, modulo 256."""
    times = masked(expression("*", field("h", "kind"), hexstr(3)), 8)
    return action(
        number,
        f"step{number}",
        assign(field("h", "kind"), wrapped(masked(expression("+", times, hexstr(number)), 8))),
    )


def bit_of(number: int) -> Node:
    """Return whether a bit of `value` is set."""
    return expression("!=", expression("&", field("h", "value"), hexstr(1 << number)), hexstr(0))


Graph = list[tuple[int | None, int | None]]


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Return an acyclic graph: for every node what comes next if its bit of `value` is set, and if not."""
    count = draw(st.integers(1, 8))
    return [
        tuple(draw(st.one_of(st.none(), st.integers(node + 1, count))) for _ in range(2))  # type: ignore[misc]
        for node in range(count)
    ]


def laid_out(graph: Graph) -> Node:
    """Return a program: node n writes itself down if it is a table, and chooses if it is a conditional."""
    count = len(graph)
    names = [f"node_{node}" for node in range(count)]

    def name(node: int | None) -> str | None:
        return names[node] if node is not None and node < count else None

    actions = [step_action(node) for node in range(count)]
    tables = []
    conditionals = []
    for node, (yes, no) in enumerate(graph):
        tables.append({**made_up(node, actions[node], f"choice_{node}"), "name": f"tbl_{node}"})
        ways = [None if name(way) is None else f"tbl_{way}" for way in (yes, no)]
        conditionals.append(conditional(node, f"choice_{node}", bit_of(node), *ways))
    order = [*tables[::-1]]  # the order in the file means nothing
    ingress = pipeline(0, "ingress", "tbl_0", order, conditionals)
    return program(actions=actions, pipelines=[ingress, pipeline(1, "egress")])


@settings(max_examples=60, deadline=None)
@given(graph=graphs(), value=st.integers(0, 255))
def test_every_way_through_an_acyclic_graph_is_that_of_the_file(graph: Graph, value: int) -> None:
    kind, node = 0, 0
    while True:
        kind = (3 * kind + node) % 256
        following = graph[node][0 if value >> node & 1 else 1]
        if following is None or following >= len(graph):
            break
        node = following
    assert outcome(laid_out(graph), f"00 {value:02x} 0000")[0][1] == f"{kind:02x}{value:02x}0000"


def test_a_graph_with_more_ways_than_can_be_counted_stays_as_long_as_its_steps() -> None:
    """Each of 60 diamonds doubles the ways."""
    actions, tables, conditionals = [], [], []
    for node in range(60):
        following = f"choice_{node + 1}" if node < 59 else None
        actions += [
            {**step_action(2 * node), "name": f"yes_{node}"},
            {**step_action(2 * node + 1), "name": f"no_{node}"},
        ]
        tables += [
            {**made_up(2 * node, actions[-2], following)},
            {**made_up(2 * node + 1, actions[-1], following)},
        ]
        conditionals.append(
            conditional(node, f"choice_{node}", bit_of(0), f"tbl_yes_{node}", f"tbl_no_{node}")
        )
    ingress = pipeline(0, "ingress", "choice_0", tables, conditionals)
    document = program(actions=actions, pipelines=[ingress, pipeline(1, "egress")])
    assert len(load(document).program.to_json()) < 3 * len(json.dumps(document))
    assert outcome(document, "00 01 0000")[0][0] == 0


def test_a_pipeline_that_leads_back_goes_round() -> None:
    counted = action(
        0,
        "count",
        assign(field("h", "kind"), wrapped(masked(expression("+", field("h", "kind"), hexstr(1)), 8))),
    )
    ingress = pipeline(
        0,
        "ingress",
        "tbl_count",
        [made_up(0, counted, "choice")],
        [conditional(0, "choice", expression("<", field("h", "kind"), hexstr(10)), "tbl_count", None)],
    )
    document = program(actions=[counted], pipelines=[ingress, pipeline(1, "egress")])
    assert outcome(document, "00 00 0000") == [(0, "0a000000")]
    endless = json.loads(json.dumps(document).replace('"<"', '">="'))
    verdict = send(engine_of(endless), "ff 00 0000")
    assert (verdict.disposition, verdict.drop_reason) == (Disposition.PORT, "")
    ingress["conditionals"][0]["expression"] = {"type": "bool", "value": True}
    assert send(engine_of(document), "00 00 0000").drop_reason == "pipeline.too_many_turns"


# Tables


def switch(following: dict[str, str | None] | str | None, default: Node | None = None) -> tuple[Engine, Node]:
    """Return an engine whose table C.t has actions C.one, C.two and NoAction, and leads on as given."""
    one, two = (action(place, f"C.{name}", set_port(place + 1)) for place, name in enumerate(("one", "two")))
    three = action(3, "three", assign(field("h", "value"), hexstr(3)))
    four = action(4, "four", assign(field("h", "value"), hexstr(4)))
    chosen = table(
        0,
        "C.t",
        [key("exact", "h", "kind", "h.kind")],
        [one, two, NO_ACTION],
        following,
        default,
    )
    ingress = pipeline(0, "ingress", "C.t", [chosen, made_up(1, three), made_up(2, four)])
    document = program(actions=[one, two, three, four, NO_ACTION], pipelines=[ingress, pipeline(1, "egress")])
    engine = engine_of(document)
    engine.insert("t", TableEntry((Exact(1),), "one"))
    engine.insert("t", TableEntry((Exact(2),), "two"))
    return engine, document


def values(engine: Engine) -> list[str]:
    return [frames(send(engine, f"0{kind} ff 0000"))[0][1][2:4] for kind in range(3)]


def test_what_comes_next_can_depend_on_the_action_that_ran() -> None:
    engine, _ = switch({"C.one": "tbl_three", "C.two": "tbl_four", "NoAction": None})
    assert values(engine) == ["ff", "03", "04"]


def test_what_comes_next_can_depend_on_whether_an_entry_matched() -> None:
    engine, _ = switch({"__HIT__": "tbl_three", "__MISS__": "tbl_four"})
    assert values(engine) == ["04", "03", "03"]
    engine, _ = switch({"__HIT__": "tbl_three", "__MISS__": None})
    assert values(engine) == ["ff", "03", "03"]


def test_what_comes_next_can_be_the_same_always() -> None:
    engine, _ = switch("tbl_three")
    assert values(engine) == ["03", "03", "03"]


def test_an_action_that_next_tables_leaves_out_goes_on_as_base_default_next_says() -> None:
    engine, _ = switch({"C.one": "tbl_three"})
    assert values(engine) == ["ff", "03", "ff"]


def test_a_table_without_keys_never_matches() -> None:
    one = action(0, "C.one", set_port(5))
    late = action(1, "late", assign(field("h", "value"), hexstr(4)))
    for following in ({"__HIT__": None, "__MISS__": "tbl_late"}, {"C.one": "tbl_late"}, {}):
        first = {**made_up(0, one), "next_tables": following, "base_default_next": "tbl_late"}
        document = program(
            actions=[one, late],
            pipelines=[pipeline(0, "ingress", "tbl_one", [first, made_up(1, late)]), pipeline(1, "egress")],
        )
        assert outcome(document, "00 00 0000") == [(5, "00040000")]


def test_actions_can_be_called_without_a_table() -> None:
    one = action(0, "C.one", set_port(5))
    ingress = {
        **pipeline(0, "ingress", "call"),
        "action_calls": [{"name": "call", "id": 0, "action_id": 0, "next_node": None}],
    }
    document = program(actions=[one], pipelines=[ingress, pipeline(1, "egress")])
    assert outcome(document, "00 00 0000") == [(5, "00000000")]


def test_exit_ends_the_pipeline_it_stands_in_alone() -> None:
    leave, late = action(0, "C.leave", set_port(2), primitive("exit")), action(1, "C.late", set_port(3))
    seen = action(2, "D.seen", assign(field("h", "value"), hexstr(0x77)))
    document = program(
        actions=[leave, late, seen],
        pipelines=[
            pipeline(0, "ingress", "tbl_leave", [made_up(0, leave, "tbl_late"), made_up(1, late)]),
            pipeline(1, "egress", "tbl_seen", [made_up(2, seen)]),
        ],
    )
    assert outcome(document, "00 00 0000") == [(2, "00770000")]


# Jumps inside actions


def test_jumps_inside_an_action_are_followed() -> None:
    test = expression("==", field("h", "kind"), hexstr(1))
    chosen = action(
        0,
        "C.a",
        primitive("_jump_if_zero", wrapped(expression("b2d", None, test)), hexstr(3)),
        assign(field("h", "value"), hexstr(0x11)),
        primitive("_jump", hexstr(4)),
        assign(field("h", "value"), hexstr(0x22)),
        set_port(4),
    )
    document = program(actions=[chosen])
    assert outcome(document, "01 00 0000") == [(4, "01110000")]
    assert outcome(document, "02 00 0000") == [(4, "02220000")]


def test_a_jump_can_lead_back() -> None:
    more = masked(expression("+", field("h", "value"), hexstr(2)), 8)
    turned = action(
        0,
        "C.a",
        assign(field("h", "value"), wrapped(more)),
        primitive(
            "_jump_if_zero",
            wrapped(expression("b2d", None, expression(">", field("h", "value"), hexstr(9)))),
            hexstr(0),
        ),
        set_port(1),
    )
    assert outcome(program(actions=[turned]), "00 00 0000") == [(1, "000a0000")]


def test_an_action_with_jumps_reads_its_action_data() -> None:
    chosen = action(
        0,
        "C.a",
        primitive("_jump_if_zero", wrapped(local(0)), hexstr(2)),
        assign(field("h", "value"), wrapped(local(0))),
        set_port(1),
        data=[("x", 8)],
    )
    given = table(0, "C.t", [key("exact", "h", "kind", "h.kind")], [chosen], None, entry_of(chosen, "0x00"))
    document = program(
        actions=[chosen], pipelines=[pipeline(0, "ingress", "C.t", [given]), pipeline(1, "egress")]
    )
    engine = engine_of(document)
    engine.insert("t", TableEntry((Exact(1),), "a", (0x99,)))
    assert frames(send(engine, "00 55 0000")) == [(1, "00550000")]
    assert frames(send(engine, "01 55 0000")) == [(1, "01990000")]


# Refusals


def refused(document: Node) -> str:
    with pytest.raises(Bmv2Error) as caught:
        load(document)
    return str(caught.value)


def test_what_leads_nowhere_is_refused() -> None:
    _, document = switch("tbl_three")
    broken = json.dumps(document).replace('"base_default_next": "tbl_three"', '"base_default_next": "none"')
    assert "leads to none, which is nothing in ingress" in refused(json.loads(broken))
    document["pipelines"][0]["init_table"] = "none"
    assert "$.pipelines[0].init_table is none, which is nothing in ingress" in refused(document)


def test_a_jump_out_of_the_action_is_refused() -> None:
    message = refused(program(actions=[action(0, "C.a", primitive("_jump", hexstr(2)))]))
    assert (
        "$.actions[0].primitives[0].parameters[0] was expected to be the number of a primitive, 1" in message
    )


def test_pipelines_are_ingress_and_egress() -> None:
    assert "was expected to hold an ingress and an egress" in refused(
        program(pipelines=[pipeline(0, "ingress")])
    )
    assert '"pna"; one of ingress, egress was expected' in refused(program(pipelines=[pipeline(0, "pna")]))
