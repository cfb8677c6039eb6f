# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "Annotating P4 Entities with Documentation", "Annotating P4 code with PkgInfo"."""

from __future__ import annotations

import pytest

from nicemu.control.info_message import info_message, p4info_of_message
from nicemu.control.messages import Message
from nicemu.p4 import CompileError, compile_text
from nicemu.pipeline import program_of_json

SOURCE = """
#include <core.p4>
#include <v1model.p4>
#define TEXT "hello"
const bit<8> SIX = 6;
header byte_t { bit<8> value; }
@controller_header("packet_in") header in_t { @id(5) @vendor(1) bit<9> port; @brief("no room") bit<7> rest; }
@shared type bit<8> kind_t;
@p4runtime_translation("u", 32) type bit<9> port_t;
struct headers_t { in_t i; byte_t h; }
struct metadata_t { }
struct pair_t { @id(3) bit<8> first; @match(ternary) @brief("Second") @vendor bit<4> second; bit<4> third; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    @brief("Ports") value_set<bit<8>>(4) known;
    value_set<pair_t>(4) pairs;
    state start { b.extract(h.h); transition select(h.h.value) { known: accept; default: more; } }
    state more {
        transition select(h.h.value, h.h.value[3:0], h.h.value[7:4]) { pairs: accept; default: accept; }
    }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    @shared @brief("Packets") counter(4, CounterType.packets) counted;
    @vendor(fast, size = 3, "a , b") @id(7) action act() { counted.count(0); }
    action set(@brief("What") @format(MAC) @vendor[] kind_t kind, port_t port) { h.h.value = (bit<8>) kind; }
    @mixed[1, TEXT, true, 1 == 2, 5 + SIX, -3] @keyed[label="text", flag=true, number=2 * 3] @bare[]
    table noted {
        key = { h.h.value: exact @brief("Byte") @format(HEX) @id(4) @vendor[a=1]; }
        actions = { @vendor(2) @tableonly act; @brief("dropped") set; @defaultonly NoAction; }
    }
    @name("tt") @description("A table" ++ " of bytes.") @brief("Bytes") @vendor[1]
    table t { key = { h.h.value: exact; } actions = { act; NoAction; } }
    apply { t.apply(); noted.apply(); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
@pkginfo(name="switch.p4", version="2") @pkginfo(url="example.org", arch="mine")
@platform_property(multicast_group_table_size=16, multicast_group_table_total_replicas=0x20)
@brief("A switch") @mine(1) @yours[1]
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
MAIN = '@pkginfo(name="switch.p4", version="2")'


def message() -> Message:
    return info_message(compile_text(SOURCE).p4info)


def by_alias(items: list[Message]) -> dict[str, Message]:
    return {item.preamble.alias: item.preamble for item in items}


def test_documentation_of_entities_stands_in_their_preambles() -> None:
    table = by_alias(message().tables)["tt"]
    assert (table.doc.brief, table.doc.description) == ("Bytes", "A table of bytes.")
    assert list(table.annotations) == []
    assert [item.name for item in table.structured_annotations] == ["vendor"]
    assert by_alias(message().value_sets)["known"].doc.brief == "Ports"
    counted = by_alias(message().counters)["counted"]
    assert (counted.doc.brief, list(counted.annotations)) == ("Packets", ["@shared"])


def test_other_annotations_are_kept_as_p4c_has_them_with_a_blank_between_words() -> None:
    actions = by_alias(message().actions)
    assert list(actions["act"].annotations) == ['@vendor(fast , size = 3 , "a , b")']
    assert list(actions["NoAction"].annotations) == ['@noWarn("unused")']


def test_the_package_says_what_its_annotations_say() -> None:
    package = message().pkg_info
    assert (package.name, package.version, package.url) == ("switch.p4", "2", "example.org")
    assert (package.arch, package.doc.brief) == ("v1model", "A switch")
    assert list(package.annotations) == ["@mine(1)"]
    needs = {field.name: number for field, number in package.platform_properties.ListFields()}
    assert needs == {"multicast_group_table_size": 16, "multicast_group_table_total_replicas": 32}
    assert [item.name for item in package.structured_annotations] == ["yours"]


def test_values_in_square_brackets_are_computed() -> None:
    mixed, keyed, bare = by_alias(message().tables)["noted"].structured_annotations
    values = [getattr(item, item.WhichOneof("value")) for item in mixed.expression_list.expressions]
    assert (mixed.name, values) == ("mixed", [1, "hello", True, False, 11, -3])
    pairs = {pair.key: pair.value for pair in keyed.kv_pair_list.kv_pairs}
    assert (pairs["label"].string_value, pairs["flag"].bool_value) == ("text", True)
    assert pairs["number"].int64_value == 6
    assert (bare.name, bare.WhichOneof("body")) == ("bare", None)


def test_keys_parameters_and_references_to_actions_have_annotations() -> None:
    (table,) = (item for item in message().tables if item.preamble.alias == "noted")
    (key,) = table.match_fields
    assert (key.id, key.doc.brief, list(key.annotations)) == (4, "Byte", ["@format(HEX)"])
    assert key.structured_annotations[0].kv_pair_list.kv_pairs[0].key == "a"
    assert [list(ref.annotations) for ref in table.action_refs] == [
        ["@tableonly", "@vendor(2)"],
        [],
        ["@defaultonly"],
    ]
    (action,) = (item for item in message().actions if item.preamble.alias == "set")
    kind, port = action.params
    assert (kind.doc.brief, list(kind.annotations)) == ("What", ["@format(MAC)"])
    assert [item.name for item in kind.structured_annotations] == ["vendor"]
    assert list(port.annotations) == []


def test_fields_of_value_sets_and_controller_headers_have_numbers_and_annotations() -> None:
    (pairs,) = (item for item in message().value_sets if item.preamble.alias == "pairs")
    assert [(field.id, field.match_type) for field in pairs.match] == [(3, 2), (2, 4), (4, 2)]
    assert (pairs.match[1].doc.brief, list(pairs.match[1].annotations)) == ("Second", ["@vendor"])
    (header,) = message().controller_packet_metadata
    assert list(header.preamble.annotations) == ['@controller_header("packet_in")']
    fields = [(field.id, field.name, list(field.annotations)) for field in header.metadata]
    assert fields == [(5, "port", ["@vendor(1)"]), (2, "rest", [])]


def test_types_have_annotations() -> None:
    types = message().type_info.new_types
    assert list(types["kind_t"].annotations) == ["@shared"]
    assert list(types["port_t"].annotations) == []


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ("h.h.value", "a value of @vendor is a string, a number or a bool"),
        ("h", "a value of @vendor is struct headers_t; a string, a number or a bool was expected"),
        ("1 << 63", "a value of @vendor is 9223372036854775808; 64 bits are allowed"),
        ("-(1 << 63) - 1", "64 bits are allowed"),
        ("unknown", "unknown name unknown"),
    ],
)
def test_values_that_no_controller_can_be_told_are_refused(values: str, sentence: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_text(SOURCE.replace("table t {", f"@vendor[{values}] table t {{").replace("@vendor[1]", ""))
    assert sentence in str(refused.value)


def test_annotations_survive_the_message_and_the_program_its_json() -> None:
    assert info_message(p4info_of_message(message())) == message()
    program = compile_text(SOURCE).program
    assert program_of_json(program.to_json()) == program


@pytest.mark.parametrize(
    ("annotation", "sentence"),
    [
        ('@pkginfo(version="2", version="3")', "@pkginfo has the key version twice"),
        ('@pkginfo(version="2") @pkginfo(version="2")', "@pkginfo has the key version twice"),
        ('@pkginfo(colour="red")', "@pkginfo has the key colour, which is unknown"),
        ("@pkginfo(version=2)", "@pkginfo needs keys and texts"),
        ('@pkginfo("2")', "@pkginfo needs keys and texts"),
        ("@platform_property(colour=1)", "@platform_property has the key colour, which is unknown"),
        ("@platform_property(arch=1)", "@platform_property has the key arch, which is unknown"),
        (
            "@platform_property(multicast_group_table_size=1)",
            "@platform_property has the key multicast_group_table_size twice",
        ),
        ('@platform_property(multicast_group_table_size="1")', "@platform_property needs keys and numbers"),
    ],
)
def test_a_package_that_cannot_be_described_so_is_refused(annotation: str, sentence: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_text(SOURCE.replace(MAIN, annotation))
    assert sentence in str(refused.value)
