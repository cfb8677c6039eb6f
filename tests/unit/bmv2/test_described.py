# SPDX-License-Identifier: Apache-2.0
"""BMv2 JSON with the P4Info that p4c writes beside it, as controllers bring both."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nicemu.bmv2 import as_described, load_bmv2_text
from nicemu.control.info_message import info_message, p4info_of_message
from nicemu.control.messages import Message, messages
from nicemu.control.p4info_difference import difference
from nicemu.control.pipeline_config import PipelineConfig
from nicemu.errors import ControlError
from nicemu.p4 import compile_text
from nicemu.pipeline import ActionInfo, Engine, P4Info, ParameterInfo, Program, ir, p4info_of, program_of_json
from nicemu.run import program_of
from tests.unit.bmv2.program_json import (
    ALIASES,
    STANDARD_FIELDS,
    Node,
    action,
    assign,
    entry_of,
    extract,
    field,
    frames,
    hexstr,
    key,
    pipeline,
    program,
    runtime_data,
    send,
    state,
    table,
)

SWITCH = """
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("example.com/port", string) type bit<9> port_t;
@p4runtime_translation("example.com/group", 32) type bit<8> group_t;
@controller_header("packet_in") header in_t { @id(4) bit<9> port; bit<7> pad; }
@controller_header("packet_out") header out_t { bit<9> port; bit<7> pad; }
header tag_t { bit<8> kind; group_t group; }
struct headers_t { in_t cpu_in; out_t cpu_out; tag_t h; }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    @id(0x7) value_set<bit<8>>(3) known;
    state start { b.extract(h.h); transition select(h.h.kind) { known: more; default: accept; } }
    state more { transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    @id(0x99) direct_counter(CounterType.packets) hits;
    @id(5) action send(@id(3) port_t port) { s.egress_spec = (bit<9>) port; }
    action none() { }
    @id(0x1234) table t {
        key = { h.h.kind: optional; h.h.group: ternary @id(8) @name("group"); }
        actions = { send; @defaultonly none; @tableonly NoAction; }
        default_action = none;
        counters = hits;
        size = 16;
    }
    apply { t.apply(); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


def switch_json(**parts: object) -> Node:
    """Return SWITCH as p4c writes it: nothing of its annotations is there."""
    actions = [
        action(
            0,
            "I.send",
            assign(field("standard_metadata", "egress_spec"), runtime_data(0)),
            data=[("port", 9)],
        ),
        action(1, "I.none"),
        action(2, "NoAction"),
    ]
    cpu = [["port", 9, False], ["pad", 7, False]]
    types = {"scalars": [], "standard_metadata": [[name, width, False] for name, width in STANDARD_FIELDS]}
    types |= {"in_t": cpu, "out_t": cpu, "tag_t": [["kind", 8, False], ["group", 8, False]]}
    instances = ["scalars", "standard_metadata", "in_t", "out_t", "tag_t"]
    names = ["scalars", "standard_metadata", "cpu_in", "cpu_out", "h"]
    ways = {"type": "parse_vset", "value": "P.known", "mask": None, "next_state": "more"}
    states = [
        state(0, "start", extract("h"), keys=[field("h", "kind")], transitions=[ways]),
        state(1, "more"),
    ]
    route = table(
        0,
        "I.t",
        [key("ternary", "h", "kind", "h.h.kind"), key("ternary", "h", "group", "group")],
        actions,
        default=entry_of(actions[1]),
        max_size=16,
        with_counters=True,
    )
    return program(
        header_types=[
            {"name": name, "id": place, "fields": fields}
            for place, (name, fields) in enumerate(types.items())
        ],
        headers=[
            {"name": name, "id": place, "header_type": kind, "metadata": place < 2}
            for place, (name, kind) in enumerate(zip(names, instances, strict=True))
        ],
        header_stacks=[],
        header_union_types=[],
        header_unions=[],
        parsers=[{"name": "parser", "id": 0, "init_state": "start", "parse_states": states}],
        parse_vsets=[{"name": "P.known", "id": 0, "compressed_bitwidth": 8, "max_size": 3}],
        deparsers=[{"name": "deparser", "id": 0, "order": ["cpu_in", "cpu_out", "h"], "primitives": []}],
        counter_arrays=[{"name": "I.hits", "id": 0, "is_direct": True, "binding": "I.t"}],
        actions=actions,
        pipelines=[pipeline(0, "ingress", "I.t", [route]), pipeline(1, "egress")],
        field_aliases=[
            [f"{header}.{name}", ["standard_metadata", name]]
            for header, given in ALIASES.items()
            for name in given
        ],
        **parts,
    )


def sent_p4info() -> P4Info:
    """Return the P4Info of SWITCH as it arrives in a message."""
    return p4info_of_message(info_message(p4info_of(compile_text(SWITCH).program)))


def from_json(document: Node | None = None) -> Program:
    return load_bmv2_text(json.dumps(document or switch_json())).program


def config_of(document: Node, p4info: Message) -> Message:
    config = {"p4_device_config": json.dumps(document).encode()}
    request = messages().SetForwardingPipelineConfigRequest(action=3, config=config)
    request.config.p4info.CopyFrom(p4info)
    return request


def test_the_p4info_that_comes_with_a_file_says_what_the_file_does_not() -> None:
    given, own = sent_p4info(), p4info_of(as_described(from_json(), sent_p4info()))
    (ours,) = own.tables
    assert (ours.id, difference(given, own)) == (0x02001234, None)
    assert [(item.id, item.match_kind, item.type_name) for item in ours.keys] == [
        (1, "optional", ""),
        (8, "ternary", "group_t"),
    ]
    assert {item.name: item.scope for item in ours.actions} == {
        "I.send": "both",
        "I.none": "default_only",
        "NoAction": "table_only",
    }
    assert [(item.id, item.params[0].id) for item in own.actions if item.params] == [(0x01000005, 3)]
    assert [[part.id for part in item.metadata] for item in own.packet_metadata] == [[4, 2], [1, 2]]
    assert [(item.name, item.id) for item in own.packet_metadata] == [
        (item.name, item.id) for item in given.packet_metadata
    ]
    assert [(item.name, item.id, item.size) for item in own.value_sets] == [("P.known", 0x03000007, 3)]
    assert [(item.name, item.id) for item in own.direct_counters] == [("I.hits", 0x13000099)]
    assert {item.name: (item.type, item.controller_bits) for item in own.new_types} == {
        "port_t": (ir.Bits(9), 0),
        "group_t": (ir.Bits(8), 32),
    }


def test_a_controller_brings_both_and_speaks_of_the_program_as_the_p4info_does() -> None:
    engine = Engine()
    config = PipelineConfig(engine, program_of)
    config.set(config_of(switch_json(), info_message(p4info_of(compile_text(SWITCH).program))))
    table_schema = config.schema().table("t")
    assert table_schema.id == 0x02001234
    assert sorted(config.schema().packet_headers) == ["packet_in", "packet_out"]


def test_headers_of_one_shape_are_told_apart_whatever_their_ids() -> None:
    given = info_message(p4info_of(compile_text(SWITCH).program))
    for number, header in enumerate(given.controller_packet_metadata, start=1):
        header.preamble.id = 0x81000000 | number  # as @id chooses it: nothing of the name is in it
        for place, part in enumerate(header.metadata, start=1):
            part.id = place
    config = PipelineConfig(Engine(), program_of)
    config.set(config_of(switch_json(), given))
    assert sorted(config.schema().packet_headers) == ["packet_in", "packet_out"]


def test_a_p4info_of_another_architecture_is_refused() -> None:
    given = info_message(p4info_of(compile_text(SWITCH).program))
    given.pkg_info.arch = "psa"
    with pytest.raises(ControlError, match="architecture psa in p4info and v1model in the program"):
        PipelineConfig(Engine(), program_of).set(config_of(switch_json(), given))


def _int32(info: Message) -> None:
    info.registers[0].type_spec.Clear()
    info.registers[0].type_spec.bitstring.int.bitwidth = 32


def _bool(info: Message) -> None:
    info.registers[0].type_spec.Clear()
    info.registers[0].type_spec.bool.SetInParent()


@pytest.mark.parametrize(
    ("kind", "array", "change"),
    [
        ("counter_arrays", {"is_direct": False}, lambda info: setattr(info.counters[0].spec, "unit", 2)),
        ("counter_arrays", {"is_direct": False}, lambda info: setattr(info.counters[0].spec, "unit", 1)),
        ("register_arrays", {"bitwidth": 32}, _int32),
        ("register_arrays", {"bitwidth": 1}, _bool),
    ],
)
def test_what_a_file_cannot_say_may_be_as_the_p4info_has_it(
    kind: str, array: Node, change: Callable[[Message], object]
) -> None:
    document = switch_json()
    document[kind] = [*document.get(kind, []), {"name": "I.more", "id": 7, "size": 16, **array}]
    given = info_message(p4info_of(from_json(document)))
    change(given)
    engine = Engine()
    PipelineConfig(engine, program_of).set(config_of(document, given))
    assert engine.program is not None


@pytest.mark.parametrize("translation", ["string", "32"])
def test_a_header_for_the_controller_may_have_fields_of_translated_types(translation: str) -> None:
    new = f'@p4runtime_translation("example.com/far", {translation}) type bit<9> far_t;'
    given = '@controller_header("packet_in") header in_t { @id(4) bit<9> port;'
    source = SWITCH.replace(given, f"{new} {given.replace('bit<9>', 'far_t')}")
    assert source != SWITCH
    config = PipelineConfig(Engine(), program_of)
    config.set(config_of(switch_json(), info_message(p4info_of(compile_text(source).program))))
    header = config.schema().packet_headers["packet_in"]
    port = header.metadata[0]
    assert (port.id, port.width, port.given_width) == (4, 9, 0 if translation == "string" else 32)


def test_ids_that_older_compilers_made_of_a_name_are_taken() -> None:
    """They have 16 bits of the name's hash, not 24."""
    program_ = from_json()
    own = p4info_of(program_)
    older = replace(own, tables=tuple(replace(item, id=item.id & 0xFF00FFFF) for item in own.tables))
    assert p4info_of(as_described(program_, older)).tables == older.tables


def test_a_p4info_that_says_nothing_more_changes_nothing() -> None:
    given = from_json()
    assert as_described(given, p4info_of(given)) is given


def hiding_json() -> Node:
    """Return SWITCH's file with one more table, which runs an action of its own."""
    document = switch_json()
    mark = action(9, "I.mark", assign(field("h", "kind"), hexstr(7)))
    document["actions"].append(mark)
    (seen,) = document["pipelines"][0]["tables"]
    seen["base_default_next"] = "I.marks"
    seen["next_tables"] = dict.fromkeys(seen["next_tables"], "I.marks")
    keys = [key("exact", "h", "kind", "h.h.kind")]
    document["pipelines"][0]["tables"].append(table(9, "I.marks", keys, [mark], None, entry_of(mark)))
    return document


def test_tables_and_actions_that_the_p4info_leaves_out_are_hidden() -> None:
    engine = Engine()
    config = PipelineConfig(engine, program_of)
    config.set(config_of(hiding_json(), info_message(p4info_of(compile_text(SWITCH).program))))
    assert [item.name for item in config.schema().tables] == ["I.t"]
    program_ = engine.program
    assert program_ is not None
    notes = {item.name: [note.name for note in item.annotations] for item in program_.tables}
    assert notes == {"I.t": [], "I.marks": ["hidden"]}
    assert "I.mark" not in {item.name for item in p4info_of(program_).actions}


def test_a_p4info_of_nothing_hides_nothing() -> None:
    with pytest.raises(ControlError, match=r"I\.t is in the program only"):
        PipelineConfig(Engine(), program_of).set(
            config_of(switch_json(), info_message(P4Info("", "v1model")))
        )


def test_a_key_of_entries_that_no_optional_one_has_stays_ternary() -> None:
    document = switch_json()
    matches = [{"match_type": "ternary", "key": "0x10", "mask": mask} for mask in ("0xf0", "0xff")]
    entry = {"match_key": matches, "action_entry": {"action_id": 1, "action_data": []}, "priority": 1}
    document["pipelines"][0]["tables"][0]["entries"] = [entry]
    (found,) = as_described(from_json(document), sent_p4info()).tables
    assert found.keys[0].match_kind is ir.MatchKind.TERNARY


def test_an_action_without_a_control_that_only_a_body_calls_is_one_for_controllers() -> None:
    """In the file it looks as what p4c made up for statements."""
    document = program(actions=[action(0, "drop_it", assign(field("h", "kind"), hexstr(7)))])
    given = p4info_of(from_json(document))
    assert given.actions == ()
    called = ActionInfo("drop_it", "drop_it", 0x01000009, (ParameterInfo("port", 2, 9),))
    described = as_described(from_json(document), replace(given, actions=(called,)))
    assert p4info_of(described).actions == (called,)
    engine = Engine()
    engine.load(program_of_json(described.to_json()))
    assert frames(send(engine, "00 00 00 00")) == [(0, "07000000")]


def sliced(*entries: tuple[Node, Node]) -> Node:
    """Return a program with the keys h.kind[7:4] and h.group[5:2], as p4c writes them."""
    document = switch_json()
    (route,) = document["pipelines"][0]["tables"]
    route["key"] = [
        key("exact", "h", "kind", "high", mask="0xf0"),
        key("ternary", "h", "group", "middle", mask="0x3c"),
    ]
    if entries:
        route["entries"] = [
            {
                "match_key": list(match),
                "action_entry": {"action_id": 0, "action_data": [f"0x{place}"]},
                "priority": place,
            }
            for place, match in enumerate(entries, start=1)
        ]
    return document


def narrow(p4info: P4Info, *widths: int) -> P4Info:
    (route,) = p4info.tables
    keys = tuple(replace(info, width=width) for info, width in zip(route.keys, widths, strict=True))
    return replace(p4info, tables=(replace(route, keys=keys),))


def test_keys_that_are_slices_are_those_of_the_p4info() -> None:
    """In the file they are fields with a mask, and their entries hold the bits of the slice."""
    exact = [{"match_type": "exact", "key": value} for value in ("0x0a", "0x0b")]
    masks = [{"match_type": "ternary", "key": "0x05", "mask": mask} for mask in ("0x0f", "0x01")]
    every = {"match_type": "ternary", "key": "0x00", "mask": "0x00"}
    document = sliced((exact[0], masks[0]), (exact[0], masks[1]), (exact[1], every))
    given = narrow(p4info_of(from_json(document)), 4, 4)
    described = as_described(from_json(document), given)
    assert difference(given, p4info_of(described)) is None
    engine = Engine()
    engine.load(program_of_json(described.to_json()))
    ports = [frames(send(engine, f"{text} 00"))[0][0] for text in ("a7 14", "af 04", "a0 08", "b0 ff")]
    assert ports == [1, 2, 0, 3]


def test_a_slice_may_stand_beside_a_field_with_a_mask() -> None:
    given = narrow(p4info_of(from_json(sliced())), 4, 8)
    high, middle = as_described(from_json(sliced()), given).tables[0].keys
    assert isinstance(high.expression, ir.Slice)
    assert isinstance(middle.expression, ir.Binary)


def test_keys_with_a_mask_stay_what_they_are_where_controllers_give_all_bits() -> None:
    given = p4info_of(from_json(sliced()))
    assert as_described(from_json(sliced()), given).tables == from_json(sliced()).tables


@pytest.mark.parametrize("width", [-5, 0, 2**31 - 1])
def test_a_parameter_that_no_program_can_have_is_refused(width: int) -> None:
    """Of an action that the file does not have, the P4Info is all that is known."""
    message = info_message(p4info_of(from_json(sliced())))
    added = message.actions.add()
    added.preamble.id, added.preamble.name = 0x0100_0077, "called"
    added.params.add(id=1, name="x", bitwidth=width)
    with pytest.raises(ControlError):
        PipelineConfig(Engine(), program_of).set(config_of(sliced(), message))


@pytest.mark.parametrize("widths", [(5, 4), (0, 0), (-1, 4), (2**31 - 1, 4)])
def test_keys_with_a_mask_of_other_bits_than_controllers_give_are_refused(widths: tuple[int, int]) -> None:
    other = info_message(narrow(p4info_of(from_json(sliced())), *widths))
    with pytest.raises(ControlError, match=r"table I\.t has keys"):
        PipelineConfig(Engine(), program_of).set(config_of(sliced(), other))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"id": 0x0100_0001}, "table I.t has id 16777217 in p4info"),
        ({"name": "I.other"}, "table I.other is in p4info only"),
        ({"keys": ()}, "table I.t has keys"),
    ],
)
def test_a_p4info_of_another_program_is_refused_all_the_same(wrong: dict[str, Any], message: str) -> None:
    given = sent_p4info()
    other = info_message(replace(given, tables=(replace(given.tables[0], **wrong),)))
    with pytest.raises(ControlError, match=message):
        PipelineConfig(Engine(), program_of).set(config_of(switch_json(), other))


def test_two_headers_for_packets_of_one_kind_are_refused() -> None:
    given = sent_p4info()
    both = tuple(replace(item, name="packet_in", id=item.id) for item in given.packet_metadata)
    with pytest.raises(ControlError, match="packet_in"):
        PipelineConfig(Engine(), program_of).set(
            config_of(switch_json(), info_message(replace(given, packet_metadata=both)))
        )
