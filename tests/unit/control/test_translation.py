# SPDX-License-Identifier: Apache-2.0
"""P4Runtime, "PSA Metadata Translation": controllers give and see their values, programs have their own."""

from __future__ import annotations

import pytest

from nicemu.control.info_message import info_message, p4info_of_message
from nicemu.control.messages import Message, messages
from nicemu.control.schema import Schema
from nicemu.control.stream import uint128
from nicemu.control.stream_client import ReceivedPacket, received
from nicemu.control.texts import Texts, UnknownTextError
from nicemu.control.value_text import TEXT_BITS, parse_value
from nicemu.errors import ControlError, P4RuntimeCode
from nicemu.p4 import compile_text
from nicemu.pipeline import Exact, Lpm, Optional, Program, TableEntry, Ternary, ir, p4info_of
from tests.unit.control.conftest import DELETE, INSERT, MODIFY, Controller

SOURCE = """
#include <core.p4>
#include <v1model.p4>
@p4runtime_translation("", string) type bit<2> name_t;
@p4runtime_translation("nicemu/port", bit<32>) type bit<9> port_t;
@p4runtime_translation("nicemu/narrow", 4) type bit<16> narrow_t;
@controller_header("packet_in") header in_t { port_t port; name_t name; bit<5> rest; }
@controller_header("packet_out") header out_t { port_t port; name_t name; bit<5> rest; }
header byte_t { bit<8> value; }
struct headers_t { in_t i; out_t o; byte_t h; }
struct learn_t { name_t name; port_t port; }
struct metadata_t { name_t name; port_t port; narrow_t narrow; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    value_set<name_t>(4) known;
    state start { transition select(s.ingress_port) { 510: sent; default: rest; } }
    state sent { b.extract(h.o); transition rest; }
    state rest { b.extract(h.h); transition select((name_t) 1) { known: accept; default: accept; } }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<name_t>(4) names;
    register<learn_t>(4) pairs;
    action send(name_t name, port_t port) { s.egress_spec = (bit<9>) port; }
    table named { key = { m.name: exact; } actions = { send; NoAction; } }
    table maybe { key = { m.name: optional; m.port: ternary; } actions = { send; NoAction; } }
    table routed { key = { m.port: lpm; } actions = { NoAction; } }
    table ranged { key = { m.port: range; m.name: ternary; } actions = { NoAction; } }
    table small { key = { m.narrow: exact; } actions = { NoAction; } }
    apply {
        if (h.o.isValid()) { m.name = h.o.name; m.port = h.o.port; h.o.setInvalid(); }
        h.i = { m.port, m.name, 0 };
        s.egress_spec = 510;
        named.apply(); maybe.apply(); routed.apply(); ranged.apply(); small.apply();
        digest<learn_t>(1, { m.name, m.port });
        names.write(0, m.name);
        pairs.write(0, { m.name, m.port });
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
NAME = ir.NewType("name_t", ir.Bits(2), True, "", 0)
OUT_OF_RANGE, UNIMPLEMENTED = P4RuntimeCode.OUT_OF_RANGE, P4RuntimeCode.UNIMPLEMENTED


@pytest.fixture(scope="module")
def program() -> Program:
    return compile_text(SOURCE).program


@pytest.fixture
def controller(program: Program) -> Controller:
    return Controller(program)


def entry(
    controller: Controller, table: str, *match: dict[str, object], action: object = None, **rest: object
) -> Message:
    fields = [{"field_id": number, **field} for number, field in enumerate(match, start=1) if field]
    chosen = {"action": {"action": action or controller.action("NoAction")}}
    return messages().TableEntry(table_id=controller.id("table", table), match=fields, **chosen, **rest)


def send(controller: Controller, name: bytes, port: bytes) -> dict[str, object]:
    params = [{"param_id": 1, "value": name}, {"param_id": 2, "value": port}]
    return {"action_id": controller.id("action", "send"), "params": params}


def insert(controller: Controller, message: Message) -> P4RuntimeCode | None:
    error = controller.write(INSERT, "table_entry", message)
    return error.code if error is not None else None


def exact(value: bytes) -> dict[str, object]:
    return {"exact": {"value": value}}


def test_texts_stand_for_numbers_in_the_order_of_their_first_use(controller: Controller) -> None:
    eth1 = entry(controller, "named", exact(b"eth1"), action=send(controller, b"eth0", b"\7"))
    eth0 = entry(controller, "named", exact(b"eth0"), action=send(controller, b"eth1", b"\7"))
    assert [insert(controller, message) for message in (eth1, eth0)] == [None, None]
    assert controller.engine.read("named") == [
        TableEntry((Exact(1),), "I.send", (2, 7)),
        TableEntry((Exact(2),), "I.send", (1, 7)),
    ]
    assert controller.read("table_entry", {"table_id": eth1.table_id}) == [eth1, eth0]
    assert controller.read("table_entry", eth0) == [eth0]


def test_a_text_of_digits_stands_for_its_number(controller: Controller) -> None:
    assert insert(controller, entry(controller, "named", exact(b"2"))) is None
    assert controller.engine.read("named")[0].matches == (Exact(2),)


def test_what_stands_for_nothing_is_not_found_and_gets_no_number(controller: Controller) -> None:
    unknown = entry(controller, "named", exact(b"eth9"))
    assert controller.read("table_entry", unknown) == []
    error = controller.write(DELETE, "table_entry", unknown)
    assert error is not None
    assert error.code is P4RuntimeCode.NOT_FOUND
    with pytest.raises(UnknownTextError):
        controller.read("direct_counter_entry", {"table_entry": unknown})
    assert insert(controller, entry(controller, "named", exact(b"eth0"))) is None
    assert controller.engine.read("named")[0].matches == (Exact(1),)


@pytest.mark.parametrize("atomicity", [0, 1])
def test_texts_of_updates_that_are_refused_get_no_numbers(controller: Controller, atomicity: int) -> None:
    eth0, eth1 = (entry(controller, "named", exact(name)) for name in (b"eth0", b"eth1"))
    bad = entry(controller, "named", exact(b"eth5"), action=send(controller, b"eth6", b""))
    again = entry(controller, "named", exact(b"eth0"), action=send(controller, b"eth7", b"\7"))
    updates = [(INSERT, "table_entry", message) for message in (eth0, bad, again, eth1)]
    outcomes = controller.write_all(*updates, atomicity=atomicity)
    assert [error is None for error in outcomes] == [[True, False, False, True], [False] * 4][atomicity]
    assert len(controller.engine.read("named")) == [2, 0][atomicity]
    more = [insert(controller, entry(controller, "named", exact(b"new%d" % n))) for n in range(5)]
    room = [2, 4][atomicity]
    assert more == [None] * room + [P4RuntimeCode.RESOURCE_EXHAUSTED] * (5 - room)


def test_no_more_texts_than_the_type_has_values_are_taken(controller: Controller) -> None:
    found = [insert(controller, entry(controller, "named", exact(f"eth{n}".encode()))) for n in range(5)]
    assert found == [None, None, None, None, P4RuntimeCode.RESOURCE_EXHAUSTED]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (b"", OUT_OF_RANGE),
        (b"x" * 1025, OUT_OF_RANGE),
        (b"\xff", P4RuntimeCode.INVALID_ARGUMENT),
        (b"a\0", P4RuntimeCode.INVALID_ARGUMENT),
    ],
)
def test_what_is_no_text_is_refused(controller: Controller, text: bytes, code: P4RuntimeCode) -> None:
    assert insert(controller, entry(controller, "named", exact(text))) is code


def test_numbers_are_the_same_in_another_width(controller: Controller) -> None:
    ones = b"\xff\xff\xff\xff"
    port: dict[str, object] = {"ternary": {"value": b"\1\x05", "mask": ones}}
    chosen = send(controller, b"a", b"\1\xff")
    maybe = entry(controller, "maybe", {"optional": {"value": b"b"}}, port, action=chosen, priority=1)
    routed = entry(controller, "routed", {"lpm": {"value": b"\5", "prefix_len": 32}})
    ranged = entry(controller, "ranged", {"range": {"low": b"\5", "high": b"\5"}}, priority=1)
    assert [insert(controller, message) for message in (maybe, routed, ranged)] == [None, None, None]
    (held,) = controller.engine.read("maybe")
    assert held.matches == (Optional(1), Ternary(0x105, 0x1FF))
    assert controller.engine.read("routed")[0].matches == (Lpm(5, 9),)
    for message in (maybe, routed, ranged):
        assert controller.read("table_entry", {"table_id": message.table_id}) == [message]


def test_numbers_that_fit_one_side_alone_are_out_of_range(controller: Controller) -> None:
    wide = entry(controller, "routed", {"lpm": {"value": b"\2\0", "prefix_len": 32}})
    data = entry(controller, "named", exact(b"a"), action=send(controller, b"a", b"\2\0"))
    small = [entry(controller, "small", exact(value)) for value in (b"\x0f", b"\x10")]
    found = [insert(controller, message) for message in (wide, data, *small)]
    assert found == [OUT_OF_RANGE, OUT_OF_RANGE, None, OUT_OF_RANGE]


@pytest.mark.parametrize(
    ("table", "match"),
    [
        ("maybe", ({}, {"ternary": {"value": b"\1", "mask": b"\1"}})),
        ("routed", ({"lpm": {"value": b"\1\0", "prefix_len": 24}},)),
        ("ranged", ({"range": {"low": b"\1", "high": b"\2"}},)),
        ("ranged", ({}, {"ternary": {"value": b"a", "mask": b"\1"}})),
    ],
)
def test_a_match_that_cannot_be_translated_is_unimplemented(
    controller: Controller, table: str, match: tuple[dict[str, object], ...]
) -> None:
    priority = 0 if table == "routed" else 1
    assert insert(controller, entry(controller, table, *match, priority=priority)) is UNIMPLEMENTED


def test_registers_and_value_sets_hold_texts(controller: Controller) -> None:
    register = {"register_id": controller.id("register", "names"), "index": {"index": 2}}
    assert controller.write(MODIFY, "register_entry", {**register, "data": {"bitstring": b"up"}}) is None
    assert controller.engine.objects.register("names").values == {2: 1}
    assert controller.read("register_entry", register)[0].data.bitstring == b"up"
    pair = {"struct": {"members": [{"bitstring": b"down"}, {"bitstring": b"\5"}]}}
    pairs = {"register_id": controller.id("register", "pairs"), "index": {"index": 1}}
    assert controller.write(MODIFY, "register_entry", {**pairs, "data": pair}) is None
    assert controller.engine.objects.register("pairs").values == {1: {"name": 2, "port": 5}}
    assert controller.read("register_entry", pairs)[0].data == messages().P4Data(**pair)
    known = {
        "value_set_id": controller.id("value set", "known"),
        "members": [{"match": [{"field_id": 1, "exact": {"value": b"down"}}]}],
    }
    assert controller.write(MODIFY, "value_set_entry", known) is None
    assert controller.engine.objects.value_set("known").members == [(Exact(2),)]
    assert controller.read("value_set_entry", {})[0].members[0].match[0].exact.value == b"down"


def test_packets_and_digests_carry_texts(controller: Controller) -> None:
    digest = {"digest_id": controller.id("digest", "learn_t"), "config": {"max_list_size": 1}}
    assert controller.write(INSERT, "digest_entry", digest) is None
    sent = messages().StreamMessageRequest().packet
    for number, value in ((1, b"\x2a"), (2, b"eth0"), (3, b"\0")):
        sent.metadata.add(metadata_id=number, value=value)
    sent.payload = b"\1rest"
    controller.device.packet_out(controller.session, sent)
    controller.report()
    found = {message.WhichOneof("update"): message for message in controller.received()}
    packet = found["packet"].packet
    assert [item.value for item in packet.metadata] == [b"\x2a", b"eth0", b"\0"]
    members = found["digest"].digest.data[0].struct.members
    assert [member.bitstring for member in members] == [b"eth0", b"\x2a"]
    client = Schema(p4info_of_message(info_message(p4info_of(compile_text(SOURCE).program))))
    told = received(found["packet"], client)
    assert isinstance(told, ReceivedPacket)
    assert told.metadata == {"port": 42, "name": "eth0", "rest": 0}


def test_a_number_that_no_text_stands_for_is_shown_in_digits() -> None:
    texts = Texts()
    assert texts.text(NAME, 3) == b"3"
    assert texts.number(NAME, b"3", "x", allot=False) == 3
    assert [texts.number(NAME, text, "x", allot=True) for text in (b"a", b"1")] == [1, 2]
    assert texts.text(NAME, 1) == b"a"
    assert texts.text(NAME, 0) == b"0"
    assert texts.text(NAME, 2) == b"1"


def test_what_was_never_written_is_the_last_that_a_text_stands_for() -> None:
    texts = Texts()
    given = [texts.number(NAME, text, "x", allot=True) for text in (b"a", b"b", b"c", b"d")]
    assert given == [1, 2, 3, 0]
    with pytest.raises(ControlError):
        texts.number(NAME, b"e", "x", allot=True)


def test_what_is_shown_in_digits_of_another_number_s_text_can_be_given_back() -> None:
    texts = Texts()
    wide = ir.NewType("wide_t", ir.Bits(8), True, "", 0)
    assert [texts.number(wide, text, "x", allot=True) for text in (b"a", b"1", b"b", b"2")] == [1, 2, 3, 4]
    texts.number(wide, b"c", "x", allot=True)
    assert [texts.text(wide, number) for number in (5, 6)] == [b"c", b"6"]
    assert texts.number(wide, b"5", "x", allot=True) == 6
    assert [texts.text(wide, number) for number in (6, 7)] == [b"5", b"7"]
    assert texts.number(wide, b"7", "x", allot=True) == 7
    assert texts.number(wide, b"#9", "x", allot=True) == 9


def test_values_that_are_shown_use_no_texts_up(controller: Controller) -> None:
    digest = {"digest_id": controller.id("digest", "learn_t"), "config": {"max_list_size": 1}}
    assert controller.write(INSERT, "digest_entry", digest) is None
    for name in range(4):
        controller.engine.process(bytes((0, name << 5, 1)), 510)
        controller.report()
    assert len(controller.received()) == 8
    found = [insert(controller, entry(controller, "named", exact(f"eth{n}".encode()))) for n in range(4)]
    assert found == [None] * 4


def test_packets_out_that_are_refused_use_no_texts_up(controller: Controller) -> None:
    for number in range(4):
        sent = messages().StreamMessageRequest().packet
        sent.metadata.add(metadata_id=2, value=b"junk%d" % number)  # and no other field
        with pytest.raises(ControlError):
            controller.device.packet_out(controller.session, sent)
    found = [insert(controller, entry(controller, "named", exact(f"eth{n}".encode()))) for n in range(4)]
    assert found == [None] * 4


def test_texts_that_nothing_names_any_more_make_room_for_others(controller: Controller) -> None:
    """Those of keys, of action data, of registers and of the same batch stay what they were."""
    register = {"register_id": controller.id("register", "names"), "index": {"index": 2}}
    assert controller.write(MODIFY, "register_entry", {**register, "data": {"bitstring": b"held"}}) is None
    kept = entry(controller, "named", exact(b"key"), action=send(controller, b"data", b"\7"))
    assert insert(controller, kept) is None
    for number in range(20):
        passing = entry(controller, "named", exact(b"eth%d" % number))
        assert insert(controller, passing) is None
        assert controller.write(DELETE, "table_entry", passing) is None
    assert controller.read("table_entry", {"table_id": kept.table_id}) == [kept]
    assert controller.read("register_entry", register)[0].data.bitstring == b"held"
    both = [(INSERT, "table_entry", entry(controller, "named", exact(name))) for name in (b"eth19", b"one")]
    outcomes = controller.write_all(*both)
    assert [error.code if error else None for error in outcomes] == [None, P4RuntimeCode.RESOURCE_EXHAUSTED]
    assert insert(controller, entry(controller, "named", exact(b"two"))) is P4RuntimeCode.RESOURCE_EXHAUSTED


def packet_out(name: bytes) -> Message:
    sent = messages().StreamMessageRequest().packet
    for number, value in ((1, b"\x2a"), (2, name), (3, b"\0")):
        sent.metadata.add(metadata_id=number, value=value)
    sent.payload = b"\1rest"
    return sent


def test_texts_that_packets_out_named_make_room_for_others(controller: Controller) -> None:
    for number in range(9):
        controller.device.packet_out(controller.session, packet_out(b"out%d" % number))
    named = [insert(controller, entry(controller, "named", exact(b"eth%d" % n))) for n in range(4)]
    assert named == [None] * 3 + [
        P4RuntimeCode.RESOURCE_EXHAUSTED
    ]  # a register holds that of the last packet
    with pytest.raises(ControlError, match="4 texts stand for its values"):
        controller.device.packet_out(controller.session, packet_out(b"out9"))


def test_what_was_read_is_told_as_it_was_called_then(controller: Controller) -> None:
    names = [entry(controller, "named", exact(b"eth%d" % number)) for number in range(4)]
    assert [insert(controller, name) for name in names] == [None] * 4
    request = messages().ReadRequest()
    request.entities.append(messages().Entity(table_entry={"table_id": names[0].table_id}))
    found, _ = controller.device.read(request)
    assert controller.write(DELETE, "table_entry", names[1]) is None
    assert insert(controller, entry(controller, "named", exact(b"new"))) is None
    assert [entity.table_entry for entity in found] == names


def test_a_digest_that_waits_keeps_the_text_that_its_packet_came_with(controller: Controller) -> None:
    config = {"max_list_size": 9, "max_timeout_ns": 1000}
    digest = {"digest_id": controller.id("digest", "learn_t"), "config": config}
    assert controller.write(INSERT, "digest_entry", digest) is None
    controller.device.packet_out(controller.session, packet_out(b"sent"))
    controller.report()
    controller.received()
    register = {"register_id": controller.id("register", "names"), "data": {"bitstring": b"1"}}
    pair = {"struct": {"members": [{"bitstring": b"1"}, {"bitstring": b"\5"}]}}
    pairs = {"register_id": controller.id("register", "pairs"), "data": pair}
    for held in (register, pairs):
        assert controller.write(MODIFY, "register_entry", held) is None
    named = [insert(controller, entry(controller, "named", exact(b"eth%d" % n))) for n in range(3)]
    assert named == [None, None, P4RuntimeCode.RESOURCE_EXHAUSTED]
    controller.device.reports.on_timer(1000)
    (told,) = controller.received()
    assert told.digest.data[0].struct.members[0].bitstring == b"sent"


@pytest.mark.parametrize("places", [4, 2_000_000])
def test_registers_of_any_size_are_looked_at_for_their_texts(places: int) -> None:
    source = SOURCE.replace("register<name_t>(4) names", f"register<name_t>({places}) names")
    controller = Controller(compile_text(source).program)
    register = {"register_id": controller.id("register", "names"), "index": {"index": places - 1}}
    for name in (b"zero", b"held"):
        update = {**register, "data": {"bitstring": name}}
        assert controller.write(MODIFY, "register_entry", update) is None
    for number in range(9):
        passing = entry(controller, "named", exact(b"eth%d" % number))
        assert insert(controller, passing) is None
        assert controller.write(DELETE, "table_entry", passing) is None
    assert controller.read("register_entry", register)[0].data.bitstring == b"held"


def test_what_a_saved_program_has_not_taken_over_keeps_its_texts(
    controller: Controller, program: Program
) -> None:
    kept = entry(controller, "named", exact(b"key"))
    assert insert(controller, kept) is None
    configure = messages().SetForwardingPipelineConfigRequest
    save = configure(action=2, election_id=uint128(9))
    save.config.p4_device_config = program.to_json().encode()
    controller.device.set_config(save)
    for number in range(5):
        passing = entry(controller, "named", exact(b"eth%d" % number))
        assert insert(controller, passing) is None
        assert controller.write(DELETE, "table_entry", passing) is None
    assert (Exact(1),) in [item.matches for item in controller.engine.read("named")]
    assert insert(controller, kept) is None
    controller.device.set_config(configure(action=4, election_id=uint128(9)))
    assert controller.read("table_entry", {"table_id": kept.table_id}) == [kept]


def test_translations_of_one_uri_are_one() -> None:
    texts = Texts()
    first = ir.NewType("a_t", ir.Bits(9), True, "nicemu/name", 0)
    second = ir.NewType("b_t", ir.Bits(2), True, "nicemu/name", 0)
    assert texts.number(first, b"7", "x", allot=True) == 7
    assert texts.number(first, b"x", "x", allot=True) == texts.number(second, b"x", "x", allot=True) == 1
    with pytest.raises(ControlError) as refused:
        texts.number(second, b"7", "x", allot=True)
    assert refused.value.code is OUT_OF_RANGE
    assert texts.number(NAME, b"y", "x", allot=True) == 1


def test_a_client_writes_texts_as_they_are() -> None:
    assert parse_value("10.0.0.1", TEXT_BITS) == int.from_bytes(b"10.0.0.1", "big")
    with pytest.raises(ControlError):
        parse_value("", TEXT_BITS)


def test_a_deletion_does_not_look_at_the_data_of_its_action(controller: Controller) -> None:
    written = entry(controller, "named", exact(b"eth1"), action=send(controller, b"eth0", b"\7"))
    assert insert(controller, written) is None
    gone = entry(controller, "named", exact(b"eth1"), action=send(controller, b"unknown", b"\7" * 9))
    assert controller.read("table_entry", gone) == [written]
    assert controller.write(DELETE, "table_entry", gone) is None


def test_p4info_says_what_misses_run_at_first() -> None:
    default = "default_action = send((name_t) 2, (port_t) 300);"
    source = SOURCE.replace(
        "exact; } actions = { send; NoAction; }", "exact; } actions = { send; } " + default
    )
    info = info_message(compile_text(source).p4info)
    calls = {table.preamble.alias: table.initial_default_action for table in info.tables}
    given = [(argument.param_id, argument.value) for argument in calls["named"].arguments]
    send = next(action.preamble.id for action in info.actions if action.preamble.alias == "send")
    assert (calls["named"].action_id, given) == (send, [(1, b"2"), (2, b"\1\x2c")])
    assert (calls["maybe"].action_id, list(calls["maybe"].arguments)) == (21257015, [])
    assert info_message(p4info_of_message(info)) == info
