# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "Representation of Arbitrary P4 Types": tuples have no name, and their values are of a form of
their own.
"""

from __future__ import annotations

import pytest

from nicemu.control.info_message import info_message, p4info_of_message
from nicemu.control.messages import messages
from nicemu.control.schema import Schema
from nicemu.errors import P4RuntimeCode
from nicemu.p4 import compile_text
from nicemu.pipeline import Program, p4info_of
from tests.unit.control.conftest import INSERT, MODIFY, Controller

SOURCE = """
#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> value; }
struct headers_t { byte_t h; }
struct metadata_t { tuple<bit<8>, bool> pair; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<tuple<bit<8>, bool>>(4) pairs;
    apply {
        pairs.write(0, { h.h.value, true });
        digest(1, { h.h.value, { true, 4w3 } });
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_text(SOURCE).program


@pytest.fixture
def controller(program: Program) -> Controller:
    return Controller(program)


def test_p4info_says_of_which_types_a_tuple_is(program: Program) -> None:
    info = info_message(p4info_of(program))
    value, flag = info.registers[0].type_spec.tuple.members
    assert (value.bitstring.bit.bitwidth, flag.WhichOneof("type_spec")) == (8, "bool")
    _, inner = info.digests[0].type_spec.tuple.members
    assert [member.WhichOneof("type_spec") for member in inner.tuple.members] == ["bool", "bitstring"]
    assert not info.type_info.structs
    assert info_message(p4info_of_message(info)) == info


def test_a_client_knows_the_types_of_tuples_from_p4info(program: Program) -> None:
    known = Schema(p4info_of_message(info_message(p4info_of(program))))
    kinds = [item.type for item in known.p4info.registers] + [item.type for item in known.p4info.digests]
    assert all(known.layouts[str(kind)].name == str(kind) for kind in kinds)


def test_a_tuple_in_a_register_is_read_and_written_as_one(controller: Controller) -> None:
    place = {"register_id": controller.id("register", "pairs"), "index": {"index": 1}}
    data = {"tuple": {"members": [{"bitstring": b"\7"}, {"bool": True}]}}
    assert controller.write(MODIFY, "register_entry", place | {"data": data}) is None
    (found,) = controller.read("register_entry", place)
    assert found == messages().Entity(register_entry=place | {"data": data}).register_entry
    wrong = controller.write(MODIFY, "register_entry", place | {"data": {"struct": data["tuple"]}})
    assert wrong is not None
    assert wrong.code is P4RuntimeCode.INVALID_ARGUMENT


def test_a_tuple_in_a_digest_is_one(controller: Controller) -> None:
    number = next(iter(controller.schema.digests.values())).id
    assert controller.write(INSERT, "digest_entry", {"digest_id": number, "config": {}}) is None
    controller.frame(5)
    controller.report()
    (message,) = controller.received()
    value, inner = message.digest.data[0].tuple.members
    assert value.bitstring == b"\5"
    assert [member.WhichOneof("data") for member in inner.tuple.members] == ["bool", "bitstring"]
