# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "Annotating P4 Entities with Documentation", "Annotating P4 code with PkgInfo"."""

from __future__ import annotations

import pytest

from nicemu.control.info_message import info_message, p4info_of_message
from nicemu.control.messages import Message
from nicemu.p4 import CompileError, compile_text
from nicemu.pipeline import Program

SOURCE = """
#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> value; }
struct headers_t { byte_t h; }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    @brief("Ports") value_set<bit<8>>(4) known;
    state start { b.extract(h.h); transition select(h.h.value) { known: accept; default: accept; } }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    @shared @brief("Packets") counter(4, CounterType.packets) counted;
    @vendor(fast, size = 3, "a , b") @id(7) action act() { counted.count(0); }
    @name("tt") @description("A table" ++ " of bytes.") @brief("Bytes") @vendor[1]
    table t { key = { h.h.value: exact; } actions = { act; NoAction; } }
    apply { t.apply(); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
@pkginfo(name="switch.p4", version="2") @pkginfo(url="example.org", arch="mine")
@brief("A switch") @mine(1)
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
    assert by_alias(message().value_sets)["known"].doc.brief == "Ports"
    counted = by_alias(message().counters)["counted"]
    assert (counted.doc.brief, list(counted.annotations)) == ("Packets", ["@shared"])


def test_other_annotations_are_kept_as_they_are_written() -> None:
    actions = by_alias(message().actions)
    assert list(actions["act"].annotations) == ['@vendor(fast, size=3, "a , b")']
    assert list(actions["NoAction"].annotations) == []


def test_the_package_says_what_its_annotations_say() -> None:
    package = message().pkg_info
    assert (package.name, package.version, package.url) == ("switch.p4", "2", "example.org")
    assert (package.arch, package.doc.brief) == ("v1model", "A switch")
    assert list(package.annotations) == ["@mine(1)"]


def test_annotations_survive_the_message_and_the_program_its_json() -> None:
    assert info_message(p4info_of_message(message())) == message()
    program = compile_text(SOURCE).program
    assert Program.from_json(program.to_json()) == program


@pytest.mark.parametrize(
    ("annotation", "sentence"),
    [
        ('@pkginfo(version="2", version="3")', "@pkginfo has the key version twice"),
        ('@pkginfo(version="2") @pkginfo(version="2")', "@pkginfo has the key version twice"),
        ('@pkginfo(colour="red")', "@pkginfo has the key colour, which is unknown"),
        ("@pkginfo(version=2)", "@pkginfo needs keys and texts"),
        ('@pkginfo("2")', "@pkginfo needs keys and texts"),
    ],
)
def test_a_package_that_cannot_be_described_so_is_refused(annotation: str, sentence: str) -> None:
    with pytest.raises(CompileError) as refused:
        compile_text(SOURCE.replace(MAIN, annotation))
    assert sentence in str(refused.value)
