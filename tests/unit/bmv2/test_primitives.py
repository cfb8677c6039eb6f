# SPDX-License-Identifier: Apache-2.0
"""Primitives: headers, stacks, metadata, externs of simple_switch, checksums."""

from __future__ import annotations

import zlib

import pytest
from scapy.utils import checksum as scapy_checksum

from nicemu.bmv2 import Bmv2Error
from nicemu.pipeline import (
    CloneSession,
    DigestPosted,
    Disposition,
    Engine,
    LogMessage,
    Meter,
    MeterConfig,
    Replica,
)
from tests.unit.bmv2.program_json import (
    Node,
    action,
    assign,
    boolean,
    either_engine,
    engine_of,
    expression,
    field,
    frames,
    hexstr,
    load,
    made_up,
    named,
    outcome,
    pipeline,
    primitive,
    program,
    send,
    set_port,
    transition,
    valid,
    wrapped,
)

H, G = named("header", "h"), named("header", "g")


def stores_hash(target: Node, base: int = 0, size: int = 256) -> Node:
    """Return the primitive that stores what `calc` makes of its inputs."""
    name = "modify_field_with_hash_based_offset"
    return primitive(name, target, hexstr(base), named("calculation", "calc"), hexstr(size))


def does(*primitives: Node, **parts: object) -> Node:
    """Return a program whose ingress does this."""
    return program(actions=[action(0, "C.a", *primitives)], **parts)


def in_egress(*primitives: Node, first: Node | None = None, **parts: object) -> Node:
    """Return a program whose egress does this, and whose ingress does `first`."""
    late = action(1, "C.late", *primitives)
    early = first or action(0, "C.early")
    return program(
        actions=[early, late],
        pipelines=[
            pipeline(0, "ingress", "tbl_early", [made_up(0, early)]),
            pipeline(1, "egress", "tbl_late", [made_up(1, late)]),
        ],
        **parts,
    )


# Headers


def test_headers_come_and_go_and_are_copied() -> None:
    document = does(
        primitive("add_header", G), primitive("assign_header", G, H), primitive("remove_header", H)
    )
    assert outcome(document, "01 02 03 0c ff") == [(0, "0102030cff")]
    assert outcome(does(primitive("remove_header", H)), "01 02 03 0c ff") == [(0, "ff")]


def filled() -> list[Node]:
    """Return primitives that make the stack 1, 2, 3."""
    return [
        part
        for place in range(3)
        for part in (
            primitive("add_header", named("header", f"s[{place}]")),
            assign(field(f"s[{place}]", "value"), hexstr(place + 1)),
        )
    ]


@pytest.mark.parametrize(("op", "items"), [("push", "0102"), ("pop", "0203")])
def test_stacks_are_pushed_and_popped(op: str, items: str) -> None:
    document = does(
        primitive("remove_header", H), *filled(), primitive(op, named("header_stack", "s"), hexstr(1))
    )
    assert outcome(document, "00 00 00 00") == [(0, items)]


def test_stacks_and_unions_are_copied_whole() -> None:
    document = does(primitive("remove_header", H), *filled())
    document["headers"] += [
        {"name": f"t[{place}]", "id": 40 + place, "header_type": "item_t", "metadata": False}
        for place in range(3)
    ] + [
        {"name": "w.a", "id": 43, "header_type": "item_t", "metadata": False},
        {"name": "w.b", "id": 44, "header_type": "tag_t", "metadata": False},
    ]
    document["header_stacks"].append(
        {"name": "t", "id": 1, "header_type": "item_t", "header_ids": [40, 41, 42]}
    )
    document["header_unions"].append({"name": "w", "id": 1, "union_type": "u_t", "header_ids": [43, 44]})
    document["deparsers"][0]["order"] = ["t[0]", "t[1]", "t[2]", "w.a", "w.b"]
    document["actions"][0]["primitives"] += [
        primitive("assign_header_stack", named("header_stack", "t"), named("header_stack", "s")),
        primitive("add_header", named("header", "u.a")),
        assign(field("u.a", "value"), hexstr(0x99)),
        primitive("assign_union", named("header_union", "w"), named("header_union", "u")),
    ]
    assert outcome(document, "00 00 00 00") == [(0, "01020399")]


def test_a_value_is_cut_off_where_it_is_stored() -> None:
    document = does(assign(field("h", "five"), hexstr(0x123)), assign(field("h", "value"), hexstr(-1)))
    assert outcome(document, "00 00 00 07") == [(0, "00ff00" + f"{(3 << 3) | 7:02x}")]


def test_truth_values_are_fields_of_one_bit() -> None:
    flag = field("scalars", "flag")
    document = does(
        assign(flag, wrapped(expression("b2d", None, valid("h")))),
        assign(
            field("h", "kind"),
            wrapped(expression("?", hexstr(8), hexstr(9), cond=expression("d2b", None, flag))),
        ),
    )
    assert outcome(document, "00 00 00 00") == [(0, "08000000")]


# The switch


@pytest.mark.parametrize(
    "dropped",
    [
        primitive("mark_to_drop", named("header", "standard_metadata")),
        primitive("drop"),
        set_port(511),
    ],
)
def test_packets_are_dropped(dropped: Node) -> None:
    assert send(engine_of(does(dropped))).disposition is Disposition.DROP
    assert send(engine_of(in_egress(dropped))).disposition is Disposition.DROP


STANDARD, COPY = named("header", "standard_metadata"), named("header", "copy")


def with_copy(*primitives: Node) -> Node:
    """Return a document with a further instance of standard_metadata's type, as p4c makes for parameters."""
    document = does(*primitives)
    document["headers"].append(
        {"name": "copy", "id": 50, "header_type": "standard_metadata", "metadata": True}
    )
    return document


def test_a_copy_of_the_standard_metadata_is_marked_to_be_dropped_and_is_no_more_than_a_copy() -> None:
    marked = primitive("mark_to_drop", COPY)
    back = assign(field("standard_metadata", "egress_spec"), field("copy", "egress_spec"))
    assert outcome(with_copy(set_port(3), marked), "00") == [(3, "00")]
    assert send(engine_of(with_copy(set_port(3), marked, back))).disposition is Disposition.DROP
    group = assign(field("copy", "mcast_grp"), hexstr(5))
    into = assign(field("h", "value"), field("copy", "mcast_grp"))
    assert outcome(with_copy(set_port(3), group, marked, into), "00 ff 00 00") == [(3, "00000000")]


def test_the_standard_metadata_is_copied_as_a_whole() -> None:
    out, back = primitive("assign_header", COPY, STANDARD), primitive("assign_header", STANDARD, COPY)
    changed = assign(field("copy", "egress_spec"), hexstr(4))
    assert outcome(with_copy(set_port(3), out, changed), "00") == [(3, "00")]
    assert outcome(with_copy(set_port(3), out, changed, back), "00") == [(4, "00")]


def test_a_field_of_the_standard_metadata_is_named_by_its_number() -> None:
    port = wrapped(expression("access_field", STANDARD, 1))
    assert outcome(does(set_port(3), assign(field("h", "kind"), port)), "00 00 00 00") == [(3, "03000000")]


def test_fields_that_simple_switch_knows_by_other_names_are_its_own() -> None:
    engine = engine_of(does(assign(field("standard_metadata", "mcast_grp"), hexstr(5))))
    engine.objects.multicast_groups[5] = (Replica(1, 1), Replica(2, 2))
    assert [port for port, _ in frames(send(engine))] == [1, 2]


def test_metadata_of_the_file_s_own_may_be_aliased() -> None:
    """As p4c-bm wrote it: a header of its own for what is in standard_metadata now."""
    document = does(assign(field("intrinsic_metadata", "mcast_grp"), hexstr(5)))
    document["header_types"].append({"name": "i_t", "id": 8, "fields": [["mcast_grp", 16], ["other", 8]]})
    document["headers"].append(
        {"name": "intrinsic_metadata", "id": 50, "header_type": "i_t", "metadata": True}
    )
    engine = engine_of(document)
    engine.objects.multicast_groups[5] = (Replica(1, 1),)
    assert [port for port, _ in frames(send(engine))] == [1]
    document = does(assign(field("mine", "group"), hexstr(5)))
    document["header_types"].append({"name": "i_t", "id": 8, "fields": [["group", 16]]})
    document["headers"].append({"name": "mine", "id": 50, "header_type": "i_t", "metadata": True})
    document["field_aliases"].append(["intrinsic_metadata.mcast_grp", ["mine", "group"]])
    engine = engine_of(document)
    engine.objects.multicast_groups[5] = (Replica(1, 1),)
    assert [port for port, _ in frames(send(engine))] == [1]


def test_a_standard_field_may_be_narrower_in_the_file() -> None:
    document = does(
        assign(field("standard_metadata", "enq_qdepth"), hexstr(0x12345)),
        assign(
            field("h", "kind"),
            wrapped(expression(">>", field("standard_metadata", "enq_qdepth"), hexstr(12))),
        ),
    )
    for item in document["header_types"][1]["fields"]:
        if item[0] == "enq_qdepth":
            item[1] = 16
    assert outcome(document, "00 00 00 00") == [(0, "02000000")]


LISTS = [
    {"id": 1, "name": "fl", "elements": []},
    {"id": 2, "name": "field_list1", "elements": [field("scalars", "userMetadata._kept0")]},
]
KEPT = field("scalars", "userMetadata._kept0")
SEEN = (
    assign(field("h", "value"), KEPT),
    assign(field("h", "kind"), field("standard_metadata", "instance_type")),
)


@pytest.mark.parametrize(("number", "kept"), [(1, "00"), (2, "55")])
def test_clones_of_ingress_keep_the_fields_of_their_list(number: int, kept: str) -> None:
    first = action(
        0,
        "C.early",
        set_port(2),
        assign(KEPT, hexstr(0x55)),
        primitive("clone_ingress_pkt_to_egress", hexstr(9), hexstr(number)),
    )
    engine = engine_of(in_egress(*SEEN, first=first, field_lists=LISTS))
    engine.objects.clone_sessions[9] = CloneSession((Replica(7),))
    assert frames(send(engine, "00 00 00 00")) == [(7, f"01{kept}0000"), (2, "00550000")]


def test_clones_of_egress_begin_anew_but_for_their_list() -> None:
    is_normal = expression("==", field("standard_metadata", "instance_type"), hexstr(0))
    late = action(
        1, "C.late", assign(KEPT, hexstr(0x55)), primitive("clone_egress_pkt_to_egress", hexstr(9), hexstr(2))
    )
    seen = action(2, "C.seen", *SEEN)
    document = program(
        actions=[late, seen],
        field_lists=LISTS,
        pipelines=[
            pipeline(0, "ingress"),
            pipeline(
                1,
                "egress",
                "is_normal",
                [made_up(0, late, "tbl_seen"), made_up(1, seen)],
                [
                    {
                        "name": "is_normal",
                        "id": 0,
                        "expression": is_normal,
                        "true_next": "tbl_late",
                        "false_next": "tbl_seen",
                    }
                ],
            ),
        ],
    )
    engine = engine_of(document)
    engine.objects.clone_sessions[9] = CloneSession((Replica(7),))
    assert sorted(frames(send(engine, "00 00 00 00"))) == [(0, "00550000"), (7, "02550000")]


@pytest.mark.parametrize("op", ["resubmit", "recirculate"])
def test_packets_come_again_with_the_fields_of_their_list(op: str) -> None:
    test = expression("==", field("standard_metadata", "instance_type"), hexstr(0))
    again = action(0, "C.again", assign(KEPT, hexstr(0x55)), primitive(op, hexstr(2)))
    seen = action(1, "C.seen", *SEEN)
    chosen = {
        "name": "first",
        "id": 0,
        "expression": test,
        "true_next": "tbl_again",
        "false_next": "tbl_seen",
    }
    graph = [made_up(0, again), made_up(1, seen)], [chosen]
    again_in_egress = op == "recirculate"
    empty = pipeline(1, "ingress") if again_in_egress else pipeline(1, "egress")
    document = program(
        actions=[again, seen],
        field_lists=LISTS,
        pipelines=[pipeline(0, "egress" if again_in_egress else "ingress", "first", *graph), empty],
    )
    if again_in_egress:  # instance_type is that of the copy in egress; ingress keeps what says so
        document["pipelines"][0]["conditionals"][0]["expression"] = expression("==", KEPT, hexstr(0))
        assert outcome(document, "00 00 00 00")[0][1][2:4] == "55"
    else:
        assert outcome(document, "00 00 00 00") == [(0, "06550000")]


def test_what_a_copy_is_stands_above_its_field_list() -> None:
    """Programs before 2021 list all of standard_metadata."""
    standard = [
        field("standard_metadata", name) for name in ("ingress_port", "instance_type", "packet_length")
    ]
    test = expression("==", field("standard_metadata", "instance_type"), hexstr(0))
    again = action(0, "C.again", primitive("resubmit", hexstr(1)))
    seen = action(1, "C.seen", *SEEN)
    first = {"name": "first", "id": 0, "expression": test, "true_next": "tbl_again", "false_next": "tbl_seen"}
    document = program(
        actions=[again, seen],
        field_lists=[{"id": 1, "name": "fl", "elements": [*standard, KEPT]}],
        pipelines=[
            pipeline(0, "ingress", "first", [made_up(0, again), made_up(1, seen)], [first]),
            pipeline(1, "egress"),
        ],
    )
    assert outcome(document, "00 00 00 00") == [(0, "06000000")]
    [kept] = load(document).program.field_lists
    assert len(kept.fields) == 2


def test_a_constant_in_a_field_list_is_kept_by_itself() -> None:
    """Source: p4lang/behavioral-model, P4Objects: elements of a field list are fields, or constants."""
    document = in_egress(
        first=action(0, "C.early", primitive("clone_ingress_pkt_to_egress", hexstr(9), hexstr(1))),
        field_lists=[{"id": 1, "name": "fl", "elements": [hexstr(8), KEPT]}],
    )
    [kept] = load(document).program.field_lists
    assert len(kept.fields) == 1


def test_a_field_list_may_hold_nothing_or_be_left_out() -> None:
    for given in ([], [hexstr(0)], [hexstr(1)]):
        late = in_egress(
            *SEEN,
            first=action(
                0,
                "C.early",
                assign(KEPT, hexstr(1)),
                primitive("clone_ingress_pkt_to_egress", hexstr(9), *given),
            ),
            field_lists=LISTS,
        )
        engine = engine_of(late)
        engine.objects.clone_sessions[9] = CloneSession((Replica(7),))
        assert frames(send(engine, "00 00 00 00"))[0] == (7, "01000000")


def test_packets_are_truncated() -> None:
    assert outcome(in_egress(primitive("truncate", hexstr(3)))) == [(0, "010203")]


def test_messages_are_logged_with_their_values() -> None:
    values = {
        "type": "parameters_vector",
        "value": [field("h", "kind"), wrapped(expression("-", hexstr(1), hexstr(3)))],
    }
    told = send(
        engine_of(does(primitive("log_msg", {"type": "string", "value": "{} and {}"}, values)))
    ).effects
    assert told == (LogMessage("1 and -2"),)
    nothing = {"type": "parameters_vector", "value": {}}
    told = send(engine_of(does(primitive("log_msg", {"type": "string", "value": "so"}, nothing)))).effects
    assert told == (LogMessage("so"),)


@pytest.mark.parametrize("op", ["assert", "assume"])
def test_what_does_not_hold_drops_the_packet(op: str) -> None:
    holds = wrapped(expression("b2d", None, expression("==", field("h", "kind"), hexstr(1))))
    engine = engine_of(does(primitive(op, holds)))
    assert frames(send(engine, "01 00 00 00"))
    assert send(engine, "02 00 00 00").drop_reason == "pipeline.assertion"


def test_a_deparser_logs_and_asserts_behind_the_checksums() -> None:
    """It does so before it emits, so what is wrong does not leave."""
    document = with_sum(summed(None, update=True, verify=False))
    vector = {"type": "parameters_vector", "value": [field("wide", "sum")]}
    holds = wrapped(expression("b2d", None, expression("==", field("h", "kind"), hexstr(0x12))))
    document["deparsers"][0]["primitives"] = [
        primitive("log_msg", {"type": "string", "value": "sum {}"}, vector),
        primitive("assert", holds),
    ]
    engine = engine_of(document)
    right = scapy_checksum(b"\x12\x34")
    told = send(engine, "12 34 00 00 00 00")
    assert (told.effects, told.frame[4:].hex()) == ((LogMessage(f"sum {right}"),), f"{right:04x}")
    assert send(engine, "11 34 00 00 00 00").drop_reason == "pipeline.assertion"


def test_digests_carry_the_elements_of_their_list() -> None:
    document = does(
        primitive("generate_digest", hexstr(1), hexstr(1)),
        learn_lists=[
            {
                "id": 1,
                "name": "learn_t",
                "elements": [field("h", "kind"), field("h", "small"), hexstr(0x1234)],
            }
        ],
    )
    [digest] = send(engine_of(document), "07 00 ff 00").effects
    assert isinstance(digest, DigestPosted)
    assert (digest.name, digest.length_bits, digest.number) == ("learn_t", 32, 0x07FF1234)
    struct = next(item for item in load(document).program.structs if item.name == "learn_t")
    assert [part.name for part in struct.fields] == ["kind", "small", "value"]


# Calculations and random numbers


def calculation(algorithm: str, *inputs: Node) -> list[Node]:
    return [{"name": "calc", "id": 0, "algo": algorithm, "input": list(inputs)}]


def test_a_hash_is_the_calculation_modulo_the_size_behind_the_base() -> None:
    document = does(
        stores_hash(field("scalars", "tmp_0"), 3, 0x100),
        assign(field("h", "small"), field("scalars", "tmp_0")),
        calculations=calculation(
            "crc32", field("h", "kind"), {**hexstr(0xA), "bitwidth": 4}, {**hexstr(0xB), "bitwidth": 4}
        ),
    )
    wanted = (zlib.crc32(b"\x07\xab") % 0x100 + 3) & 0xFF
    assert outcome(document, "07 00 00 00") == [(0, f"0700{wanted:02x}00")]


def test_a_calculation_takes_whole_headers() -> None:
    document = does(
        stores_hash(field("h", "kind")),
        calculations=calculation("xor16", H),
    )
    assert outcome(document, "12 34 56 78") == [(0, f"{(0x34 ^ 0x78):02x}345678")]


@pytest.mark.parametrize("kind", ["interpreter", "kernel"])
def test_a_calculation_skips_headers_that_are_not_there(kind: str) -> None:
    """Whole ones and their fields; whether one is there is hashed all the same."""
    inputs = [G, field("h", "kind"), field("g", "value"), field("s[0]", "value"), field("g", "$valid$")]
    inputs += [{**hexstr(0), "bitwidth": 7}, field("scalars", "tmp")]
    document = does(
        stores_hash(field("scalars", "tmp_0")),
        assign(field("h", "value"), field("scalars", "tmp_0")),
        calculations=calculation("crc32", *inputs),
    )
    ways = document["parsers"][0]["parse_states"]
    item = {"op": "extract", "parameters": [named("stack", "s")]}
    ways[0]["transition_key"] = [field("h", "kind")]
    ways[0]["transitions"] = [transition("0x01", "tag"), transition("0x02", "item")]
    tag = {"op": "extract", "parameters": [named("regular", "g")]}
    default = {"type": "default", "value": None, "mask": None}
    ways.append(
        {"name": "tag", "id": 1, "parser_ops": [tag], "transitions": [{**default, "next_state": "item"}]}
    )
    ways.append(
        {"name": "item", "id": 2, "parser_ops": [item], "transitions": [{**default, "next_state": None}]}
    )
    engine = either_engine(kind, document)
    for frame, hashed in (
        ("03 00 00 00 aa bb cc dd ee", "03 00 00"),
        ("02 00 00 00 aa bb cc dd ee", "02 aa 00 00"),
        ("01 00 00 00 aa bb cc dd ee", "aabbccdd 01 bb ee 80 00"),
    ):
        wanted = zlib.crc32(bytes.fromhex(hashed)) % 256
        assert frames(engine.process(bytes.fromhex(frame), 0))[0][1][2:4] == f"{wanted:02x}"


def test_a_calculation_takes_what_is_a_bool_in_the_program() -> None:
    """p4c writes a conversion to bool for such a field."""
    whether = expression("d2b", None, field("scalars", "flag"))
    inputs = [whether, boolean(True), {**hexstr(0), "bitwidth": 6}, valid("h"), {**hexstr(0), "bitwidth": 7}]
    document = does(
        assign(field("scalars", "flag"), hexstr(1)),
        stores_hash(field("scalars", "tmp_0")),
        assign(field("h", "kind"), field("scalars", "tmp_0")),
        calculations=calculation("crc32", *inputs),
    )
    wanted = zlib.crc32(b"\xc0\x80") % 256
    assert outcome(document, "00 00 00 00") == [(0, f"{wanted:02x}000000")]


@pytest.mark.parametrize("kind", ["interpreter", "kernel"])
def test_a_calculation_of_nothing_but_what_is_not_there_is_that_of_no_bytes(kind: str) -> None:
    document = does(
        stores_hash(field("h", "kind")),
        calculations=calculation("csum16", G),
    )
    engine = either_engine(kind, document)
    assert frames(engine.process(bytes(4), 0)) == [(0, "ff000000")]


def test_a_calculation_of_many_headers_is_taken() -> None:
    """It would need a call for each set of them, so those that are one too many count as they are."""
    inputs = [field(f"x{place}", "value") for place in range(40)]
    document = does(
        stores_hash(field("h", "kind")),
        calculations=calculation("crc16", *inputs),
    )
    document["headers"] += [
        {"name": f"x{place}", "id": 60 + place, "header_type": "item_t", "metadata": False}
        for place in range(40)
    ]
    assert outcome(document, "00 00 00 00")[0][0] == 0


def test_random_numbers_lie_between_their_bounds() -> None:
    document = does(primitive("modify_field_rng_uniform", field("h", "kind"), hexstr(0x20), hexstr(0x23)))
    engine = engine_of(document)
    found = {frames(send(engine, "00 00 00 00"))[0][1][:2] for _ in range(60)}
    assert found == {"20", "21", "22", "23"}


def summed(condition: Node | None, payload: bool = False, **how: object) -> Node:
    """Return a program with a checksum over kind and value, for which `with_sum` makes room."""
    inputs = [field("h", "kind"), field("h", "value")]
    if payload:
        inputs.append({"type": "payload", "value": None})
    return program(
        calculations=calculation("csum16", *inputs),
        checksums=[
            {
                "name": "cksum",
                "id": 0,
                "target": ["wide", "sum"],
                "type": "generic",
                "calculation": "calc",
                "if_cond": condition,
                **how,
            }
        ],
    )


def with_sum(document: Node) -> Node:
    document["header_types"].append({"name": "wide_t", "id": 9, "fields": [["sum", 16, False]]})
    document["headers"].append({"name": "wide", "id": 60, "header_type": "wide_t", "metadata": False})
    document["parsers"][0]["parse_states"][0]["parser_ops"].append(
        {"op": "extract", "parameters": [named("regular", "wide")]}
    )
    document["deparsers"][0]["order"].append("wide")
    return document


def test_checksums_are_updated_behind_egress() -> None:
    right = scapy_checksum(b"\x12\x34")
    document = with_sum(summed(None, update=True, verify=False))
    assert outcome(document, "12 34 00 00 00 00") == [(0, f"12340000{right:04x}")]


def test_checksums_are_updated_where_their_condition_holds() -> None:
    document = with_sum(summed(expression("==", field("h", "kind"), hexstr(1)), update=True, verify=False))
    assert outcome(document, "12 34 00 00 aa aa") == [(0, "12340000aaaa")]
    assert outcome(document, "01 00 00 00 aa aa") == [(0, "01000000feff")]
    assert (
        outcome(with_sum(summed(boolean(False), update=True, verify=False)), "01 00 00 00 aa aa")[0][1][8:]
        == "aaaa"
    )


def test_a_checksum_may_reach_over_the_payload() -> None:
    right = scapy_checksum(b"\x12\x34\x56\x78")
    document = with_sum(summed(valid("h"), payload=True, update=True, verify=False))
    assert outcome(document, "12 34 00 00 00 00 56 78") == [(0, f"12340000{right:04x}5678")]


def test_a_wrong_checksum_is_seen_by_ingress() -> None:
    document = with_sum(summed(valid("h"), update=False, verify=True))
    seen = action(0, "C.seen", assign(field("h", "kind"), field("standard_metadata", "checksum_error")))
    document["actions"] = [seen]
    document["pipelines"][0] = pipeline(0, "ingress", "tbl_seen", [made_up(0, seen)])
    right = scapy_checksum(b"\x12\x34")
    assert outcome(document, f"12 34 00 00 {right:04x}")[0][1][:2] == "00"
    assert outcome(document, "12 34 00 00 00 01")[0][1][:2] == "01"


@pytest.mark.parametrize("payload", [False, True])
@pytest.mark.parametrize(
    "condition", [None, boolean(True), expression("==", field("h", "kind"), hexstr(0x12))]
)
def test_a_checksum_in_a_header_that_is_not_there_is_not_verified(
    condition: Node | None, payload: bool
) -> None:
    """simple_switch skips it, whatever its condition says."""
    document = with_sum(summed(condition, payload, update=False, verify=True))
    state_ = document["parsers"][0]["parse_states"][0]
    operations = state_["parser_ops"]
    document["parsers"][0]["parse_states"] = [
        {**state_, "parser_ops": operations[:1], "transition_key": [field("h", "five")]},
        {**state_, "name": "more", "id": 1, "parser_ops": operations[1:]},
    ]
    document["parsers"][0]["parse_states"][0]["transitions"] = [transition("0x01", "more")]
    seen = action(0, "C.seen", assign(field("h", "kind"), field("standard_metadata", "checksum_error")))
    document["actions"] = [seen]
    document["pipelines"][0] = pipeline(0, "ingress", "tbl_seen", [made_up(0, seen)])
    assert outcome(document, "12 34 00 00 00 01")[0][1][:2] == "00"
    assert outcome(document, "12 34 00 08 00 01")[0][1][:2] == "01"


@pytest.mark.parametrize(
    ("op", "given", "wanted"),
    [
        ("add_to_field", [hexstr(0xFF)], 0x11),
        ("subtract_from_field", [hexstr(0x13)], 0xFF),
        ("add", [field("h", "value"), hexstr(0xF0)], 0x24),
        ("subtract", [hexstr(0x30), field("h", "value")], 0xFC),
        ("bit_and", [field("h", "value"), hexstr(0x0F)], 0x04),
        ("bit_or", [field("h", "value"), hexstr(0x0F)], 0x3F),
        ("bit_xor", [field("h", "value"), hexstr(0xFF)], 0xCB),
        ("shift_left", [field("h", "value"), hexstr(4)], 0x40),
        ("shift_right", [field("h", "value"), hexstr(4)], 0x03),
    ],
)
def test_primitives_of_p4_14_compute(op: str, given: list[Node], wanted: int) -> None:
    assert outcome(does(primitive(op, field("h", "kind"), *given)), "12 34 00 00") == [
        (0, f"{wanted:02x}340000")
    ]


# Arrays


def test_counters_count_packets_and_bytes_at_their_index() -> None:
    document = does(
        primitive("count", named("counter_array", "C.packets"), field("h", "kind")),
        counter_arrays=[{"name": "C.packets", "id": 0, "size": 4, "is_direct": False}],
    )
    engine = engine_of(document)
    for text in ("01 00 00 00", "01 00 00 00 ff", "09 00 00 00"):
        send(engine, text)
    counts = engine.objects.counter("packets").counts
    assert {place: (count.packets, count.bytes) for place, count in counts.items()} == {1: (2, 9)}


def test_registers_are_read_and_written() -> None:
    wider = expression("+", field("scalars", "tmp_0"), hexstr(0x1FF))
    document = does(
        primitive(
            "register_read", field("scalars", "tmp_0"), named("register_array", "C.seen"), field("h", "kind")
        ),
        primitive(
            "register_read", field("h", "value"), named("register_array", "C.seen"), field("h", "kind")
        ),
        primitive("register_write", named("register_array", "C.seen"), field("h", "kind"), wrapped(wider)),
        register_arrays=[{"name": "C.seen", "id": 0, "size": 4, "bitwidth": 12}],
    )
    engine = engine_of(document)
    assert [frames(send(engine, "03 00 00 00"))[0][1] for _ in range(3)] == [
        "03000000",
        "03ff0000",
        "03fe0000",
    ]
    assert engine.objects.register("seen").values == {3: 3 * 0x1FF}


def test_a_register_is_wrapped_to_its_width() -> None:
    document = does(
        primitive("register_write", named("register_array", "C.r"), hexstr(0), hexstr(0x1FF)),
        primitive("register_read", field("h", "small"), named("register_array", "C.r"), hexstr(0)),
        register_arrays=[{"name": "C.r", "id": 0, "size": 1, "bitwidth": 8}],
    )
    assert outcome(document, "00 00 00 00") == [(0, "0000ff00")]


def test_meters_colour_packets() -> None:
    document = does(
        primitive("execute_meter", named("meter_array", "C.m"), hexstr(0), field("h", "kind")),
        meter_arrays=[
            {"name": "C.m", "id": 0, "is_direct": False, "size": 1, "rate_count": 2, "type": "packets"}
        ],
    )
    engine: Engine = engine_of(document)
    meter = engine.objects.meter("m").meters.setdefault(0, Meter())
    meter.configure(MeterConfig(0, 1, 0, 2), 0)
    assert [frames(send(engine, "ff 00 00 00"))[0][1][:2] for _ in range(3)] == ["00", "01", "02"]


# Refusals


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        (primitive("frob"), "op is not supported by nicemu yet: primitive frob"),
        (primitive("assign", hexstr(1)), "has 1 items; assign takes 2"),
        (primitive("assign", hexstr(1), hexstr(1)), "is a hexstr; a field was expected"),
        (primitive("assign", field("h", "$valid$"), hexstr(1)), "is $valid$, which is no field"),
        (primitive("assign_header", H, named("header", "s[0]")), "is a item_t; a tag_t was expected"),
        (primitive("mark_to_drop", H), "is a tag_t, which has no egress_spec"),
        (primitive("add_header", named("header", "scalars")), "a header was expected"),
        (primitive("push", named("header_stack", "s"), field("h", "kind")), "a constant, were expected"),
        (primitive("count", named("counter_array", "none"), hexstr(0)), "is none, which is no counter"),
        (primitive("count", named("meter_array", "none"), hexstr(0)), "one of counter_array was expected"),
        (primitive("resubmit", hexstr(7)), "is 7, which is the number of none of field_lists"),
        (primitive("generate_digest", hexstr(0), hexstr(7)), "the number of none of learn_lists"),
        (
            primitive(
                "modify_field_with_hash_based_offset",
                field("h", "kind"),
                hexstr(0),
                named("calculation", "x"),
                hexstr(1),
            ),
            "is x, which is none of calculations",
        ),
    ],
)
def test_what_is_not_taken_is_refused_with_its_path(broken: Node, message: str) -> None:
    with pytest.raises(Bmv2Error) as caught:
        load(does(broken))
    assert message in str(caught.value)
    assert caught.value.path.startswith("$.actions[0].primitives[0]")


def test_algorithms_and_externs_that_simple_switch_does_not_have_are_refused() -> None:
    document = with_sum(summed(None, update=True))
    document["calculations"][0]["algo"] = "crcCCITT"
    with pytest.raises(Bmv2Error, match="one of crc32, crc32_custom"):
        load(document)
    mine = [{"name": "x", "id": 0, "type": "Mine", "attribute_values": []}]
    with pytest.raises(Bmv2Error, match="not supported by nicemu yet: an extern of type Mine"):
        load(program(extern_instances=mine))
