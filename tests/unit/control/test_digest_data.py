# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "P4Data": digests of headers, unions, stacks and varbits say what is valid, and how long."""

from __future__ import annotations

from typing import Any

import pytest

from nicemu.control.info_message import info_message, p4info_of_message
from nicemu.control.messages import INSERT, Message
from nicemu.control.schema import Schema
from nicemu.control.stream_client import ReceivedDigests, received
from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine, Program, p4info_of
from tests.unit.control.conftest import Controller

SOURCE = """
#include <core.p4>
#include <v1model.p4>
enum bit<4> Kind { GET = 1, PUT = 2 }
struct halves_t { Kind kind; bit<4> low; }
header byte_t { halves_t halves; }
header word_t { int<16> value; }
header text_t { bit<8> length; varbit<32> text; }
header_union either_t { byte_t byte; word_t word; }
struct headers_t { byte_t[3] s; either_t[2] e; text_t t; word_t never; }
struct all_t { byte_t[3] s; either_t[2] e; either_t one; text_t t; varbit<32> v; word_t never; bool last; }
struct metadata_t { either_t empty; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.s.next); b.extract(h.s.next); b.extract(h.e.next.word);
        b.extract(h.t, (bit<32>) b.lookahead<bit<8>>()); transition accept;
    }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { DIGEST }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
ALL = "digest<all_t>(1, { h.s, h.e, h.e[0], h.t, h.t.text, h.never, true });"
FRAME = bytes((0x1A, 0x2B, 0xFF, 0xFE, 16, 0, 7))


def program_of(statement: str) -> Program:
    return compile_text(SOURCE.replace("DIGEST", statement)).program


@pytest.fixture(params=["interpreter", "kernel"])
def engine(request: pytest.FixtureRequest) -> Engine:
    if request.param == "interpreter":
        return Engine()
    if not JIT:
        pytest.skip("kernels need the compiler, which NICEMU_JIT=0 turns off")
    return CompiledEngine(optimised=False)


def told(program: Program, engine: Engine) -> tuple[Message, Any]:
    """Return the digest that a packet makes, and what a client that has only the P4Info reads in it."""
    controller = Controller(program, engine)
    (item,) = p4info_of(program).digests
    digest = {"digest_id": item.id, "config": {"max_list_size": 1}}
    assert controller.write(INSERT, "digest_entry", digest) is None
    controller.engine.process(FRAME, 0)
    controller.report()
    (message,) = controller.received()
    client = Schema(p4info_of_message(info_message(p4info_of(program))))
    seen = received(message, client)
    assert isinstance(seen, ReceivedDigests)
    return message.digest.data[0], seen.values[0]


def test_a_struct_holds_its_stacks_unions_and_varbits_as_they_are(engine: Engine) -> None:
    data, seen = told(program_of(ALL), engine)
    stack, unions, union, text, varbit, never, last = data.struct.members
    assert [one.is_valid for one in stack.header_stack.entries] == [True, True, False]
    assert list(stack.header_stack.entries[1].bitstrings) == [b"\2", b"\x0b"]
    assert [one.valid_header_name for one in unions.header_union_stack.entries] == ["word", ""]
    assert list(union.header_union.valid_header.bitstrings) == [b"\xfe"]
    assert list(text.header.bitstrings) == [b"\x10", b"\0\7"]
    assert (varbit.varbit.bitwidth, varbit.varbit.bitstring) == (16, b"\7")
    assert (never.header.is_valid, list(never.header.bitstrings)) == (False, [])
    assert last.bool
    byte = {"halves.kind": 1, "halves.low": 10}
    assert seen["s"] == [byte, {"halves.kind": 2, "halves.low": 11}, None]
    assert (seen["e"], seen["one"]) == ([{"word": {"value": -2}}, None], {"word": {"value": -2}})
    assert (seen["t"], seen["v"], seen["never"]) == ({"length": 16, "text": 7}, 7, None)


@pytest.mark.parametrize(
    ("argument", "form", "value"),
    [
        (
            "h.s",
            "header_stack",
            [{"halves.kind": 1, "halves.low": 10}, {"halves.kind": 2, "halves.low": 11}, None],
        ),
        ("h.e", "header_union_stack", [{"word": {"value": -2}}, None]),
        ("h.e[0]", "header_union", {"word": {"value": -2}}),
        ("m.empty", "header_union", None),
        ("h.t", "header", {"length": 16, "text": 7}),
        ("h.never", "header", None),
        ("h.t.text", "varbit", 7),
    ],
)
def test_each_alone_is_data_of_its_own_form(argument: str, form: str, value: object, engine: Engine) -> None:
    data, seen = told(program_of(f"digest(1, {argument});"), engine)
    assert (data.WhichOneof("data"), seen) == (form, value)


def test_headers_that_differ_in_nothing_but_whether_they_are_valid_are_two_digests() -> None:
    controller = Controller(
        program_of("h.never.value = 0; digest(1, h.never); h.never = { 0 }; digest(1, h.never);")
    )
    engine = controller.engine
    assert engine.program is not None
    (item,) = p4info_of(engine.program).digests
    controller.write(INSERT, "digest_entry", {"digest_id": item.id, "config": {"max_list_size": 1}})
    engine.process(FRAME, 0)
    controller.report()
    seen = [data.header.is_valid for message in controller.received() for data in message.digest.data]
    assert seen == [False, True]
