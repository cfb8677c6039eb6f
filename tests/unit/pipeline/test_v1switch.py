# SPDX-License-Identifier: Apache-2.0
"""v1model: what simple_switch does with a packet behind ingress and egress, and what its externs compute."""

from __future__ import annotations

import random
import zlib
from dataclasses import replace

import pytest
from scapy.utils import checksum as scapy_checksum

from nicemu.errors import ControlError
from nicemu.p4 import compile_text
from nicemu.pipeline import (
    CloneSession,
    DigestConfig,
    DigestPosted,
    DigestReport,
    Disposition,
    Engine,
    Exact,
    Listener,
    LogMessage,
    PacketIn,
    Replica,
    Report,
    TableEntry,
    Verdict,
    program_of_json,
)

FRAME = """
#include <core.p4>
#include <v1model.p4>
header byte_t {{ bit<8> kind; bit<8> value; bit<16> sum; }}
struct headers_t {{ byte_t h; byte_t g; }}
struct inner_t {{ @field_list(2) bit<8> deep; }}
struct metadata_t {{ @field_list(1, 2) bit<8> kept; bit<8> lost; inner_t inner; }}
{outside}
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    state start {{ b.extract(h.h); {parse} transition accept; }}
}}
control V(inout headers_t h, inout metadata_t m) {{ apply {{ {verify} }} }}
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    {parts}
    apply {{ {ingress} }}
}}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ {egress} }} }}
control C(inout headers_t h, inout metadata_t m) {{ apply {{ {compute} }} }}
control D(packet_out b, in headers_t h) {{ apply {{ b.emit(h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
PIECES = ("outside", "parse", "verify", "parts", "ingress", "egress", "compute")


def switch(**pieces: str) -> Engine:
    text = FRAME.format(**{name: pieces.get(name, "") for name in PIECES})
    engine = Engine(seed=7)
    engine.load(program_of_json(compile_text(text).program.to_json()))
    return engine


def send(engine: Engine, text: str = "01 02 0000 ff", port: int = 3, now_ns: int = 0) -> Verdict:
    return engine.process(bytes.fromhex(text), port, now_ns=now_ns)


def frames(verdict: Verdict) -> list[tuple[int, str]]:
    if verdict.disposition is Disposition.DROP:
        return []
    return [(port, frame.hex()) for port, frame in ((verdict.port, verdict.frame), *verdict.copies)]


def test_a_packet_leaves_by_egress_spec_which_is_0_at_first() -> None:
    assert frames(send(switch())) == [(0, "01020000ff")]
    assert frames(send(switch(ingress="s.egress_spec = 9;"))) == [(9, "01020000ff")]


@pytest.mark.parametrize("where", ["ingress", "egress"])
@pytest.mark.parametrize("how", ["mark_to_drop(s);", "mark_to_drop();", "s.egress_spec = 511;"])
def test_egress_spec_511_drops_behind_ingress_and_behind_egress(where: str, how: str) -> None:
    verdict = send(switch(**{where: how}))
    assert (verdict.disposition, verdict.drop_reason) == (Disposition.DROP, "pipeline.dropped")


def test_egress_sees_its_port_and_a_fresh_egress_spec() -> None:
    egress = "h.h.kind = (bit<8>) s.egress_port; h.h.value = (bit<8>) s.egress_spec;"
    assert frames(send(switch(ingress="s.egress_spec = 9;", egress=egress))) == [(9, "09000000ff")]


def test_what_the_switch_tells_of_a_packet() -> None:
    ingress = """h.h.kind = (bit<8>) s.ingress_port; h.h.value = (bit<8>) s.packet_length;
                 h.h.sum = (bit<16>) s.ingress_global_timestamp;"""
    assert frames(send(switch(ingress=ingress), now_ns=0x1234_000)) == [
        (0, "0305" + f"{0x1234000 // 1000:04x}" + "ff")
    ]


def test_a_packet_is_enqueued_behind_ingress_in_an_empty_queue() -> None:
    ingress = "s.enq_timestamp = 1; s.enq_qdepth = 2; s.deq_timedelta = 3; s.deq_qdepth = 4;"
    egress = """h.h.sum = (bit<16>) s.enq_timestamp; h.h.kind = (bit<8>) s.deq_timedelta;
                h.h.value = (bit<8>) (s.enq_qdepth + s.deq_qdepth);"""
    engine = switch(ingress=ingress, egress=egress)
    assert frames(send(engine, now_ns=0x1234_000)) == [(0, "0000" + f"{0x1234000 // 1000:04x}" + "ff")]


def test_a_packet_that_the_parser_rejects_goes_on_with_its_error() -> None:
    ingress = "if (s.parser_error == error.PacketTooShort) { s.egress_spec = 5; }"
    engine = switch(parse="b.extract(h.g);", ingress=ingress)
    assert frames(send(engine)) == [(5, "01020000ff")]
    assert frames(send(engine, "01020000 03040000")) == [(0, "0102000003040000")]


def test_a_custom_error_of_verify_reaches_ingress() -> None:
    engine = switch(
        outside="error { Odd }",
        parse="verify(h.h.kind == 2, error.Odd);",
        ingress="if (s.parser_error == error.Odd) { s.egress_spec = 6; }",
    )
    assert frames(send(engine)) == [(6, "01020000ff")]


def test_a_checksum_that_is_wrong_sets_checksum_error_only() -> None:
    data = "{ h.h.kind, h.h.value }"
    engine = switch(
        verify=f"verify_checksum(true, {data}, h.h.sum, HashAlgorithm.csum16);",
        ingress="s.egress_spec = (bit<9>) s.checksum_error;",
    )
    assert frames(send(engine, "0102 fefd ff")) == [(0, "0102fefdff")]
    assert frames(send(engine, "0102 fefe ff")) == [(1, "0102fefeff")]


def test_a_checksum_is_verified_and_updated_only_under_its_condition() -> None:
    data = "{ h.h.kind, h.h.value }, h.h.sum, HashAlgorithm.csum16"
    engine = switch(
        verify=f"verify_checksum(h.h.kind == 2, {data});",
        ingress="s.egress_spec = (bit<9>) s.checksum_error;",
        compute=f"update_checksum(h.h.value == 2, {data});",
    )
    assert frames(send(engine, "0102 0000")) == [(0, "0102fefd")]
    assert frames(send(engine, "0103 0000")) == [(0, "01030000")]
    assert frames(send(engine, "0202 0000")) == [(1, "0202fdfd")]


def test_a_checksum_with_payload_covers_what_the_parser_has_not_taken() -> None:
    compute = "update_checksum_with_payload(true, { h.h.kind, h.h.value }, h.h.sum, HashAlgorithm.csum16);"
    for payload in (b"", b"\x01", b"\x01\x02\x03", bytes(range(200))):
        expected = scapy_checksum(b"\x01\x02" + payload)
        (_, frame), *_ = frames(send(switch(compute=compute), "01020000" + payload.hex()))
        assert int(frame[4:8], 16) == expected


@pytest.mark.parametrize(
    ("algorithm", "data", "expected"),
    [
        ("crc32", "bytes_of", zlib.crc32(b"123456789")),
        ("crc32_custom", "bytes_of", zlib.crc32(b"123456789")),
        ("crc16", "bytes_of", 0xBB3D),  # the check value of CRC-16/ARC
        ("crc16_custom", "bytes_of", 0xBB3D),
        ("identity", "bytes_of", int.from_bytes(b"12345678", "big")),
        ("xor16", "bytes_of", 0x3132 ^ 0x3334 ^ 0x3536 ^ 0x3738 ^ 0x3900),
        ("csum16", "bytes_of", scapy_checksum(b"123456789")),
        ("identity", "{ 4w0xa, 8w0xbc }", 0xABC0),  # filled up behind the last bit
    ],
)
def test_hash_computes_what_bmv2_computes(algorithm: str, data: str, expected: int) -> None:
    given = "{ 72w0x313233343536373839 }" if data == "bytes_of" else data
    ingress = f"""bit<64> r; hash(r, HashAlgorithm.{algorithm}, 64w0, {given}, 64w0xffffffffffffffff);
                  log_msg("{{}}", {{ r }});"""
    assert send(switch(ingress=ingress)).effects == (LogMessage(str(expected % 0xFFFFFFFFFFFFFFFF)),)


def test_hash_stays_between_its_base_and_its_maximum() -> None:
    ingress = (
        "hash(m.lost, HashAlgorithm.crc32, 8w{}, {{ h.h.kind }}, 8w{}); s.egress_spec = (bit<9>) m.lost;"
    )
    assert 10 <= send(switch(ingress=ingress.format(10, 4))).port < 14
    assert send(switch(ingress=ingress.format(10, 0))).port == 10


def test_random_stays_between_its_bounds_and_is_the_same_for_the_same_seed() -> None:
    ingress = "random(m.lost, 8w5, 8w9); s.egress_spec = (bit<9>) m.lost;"
    first, second = switch(ingress=ingress), switch(ingress=ingress)
    ports = [send(first).port for _ in range(50)]
    assert set(ports) == {5, 6, 7, 8, 9}
    assert ports == [send(second).port for _ in range(50)]


def test_registers_remember_and_are_zero_outside() -> None:
    engine = switch(
        parts="register<bit<8>>(4) seen;",
        ingress="bit<8> n; seen.read(n, 3); seen.write(3, n + 1); seen.write(4, 9); seen.read(m.lost, 4);"
        "h.h.value = n; h.h.kind = m.lost;",
    )
    assert [frames(send(engine))[0][1] for _ in range(3)] == ["00000000ff", "00010000ff", "00020000ff"]
    assert engine.objects.register("seen").values == {3: 3}


def test_counters_count_packets_and_bytes_by_index() -> None:
    engine = switch(
        outside="counter(4, CounterType.packets_and_bytes) seen;", ingress="seen.count((bit<32>) h.h.kind);"
    )
    for text in ("01020000", "01020000ff", "04020000"):
        send(engine, text)
    (index, count), *others = engine.objects.counter("seen").counts.items()
    assert (index, count.packets, count.bytes, others) == (1, 2, 9, [])


def test_a_meter_marks_green_yellow_red_as_rfc_2698_says() -> None:
    from nicemu.pipeline.meters import Meter, MeterConfig

    engine = switch(
        parts="meter(2, MeterType.packets) rate;",
        ingress="rate.execute_meter(1, m.lost); h.h.value = m.lost;",
    )
    meter = engine.objects.meter("rate").meters.setdefault(1, Meter())
    meter.configure(MeterConfig(1, 1, 1, 2), now_ns=0)
    colours = [frames(send(engine, now_ns=at))[0][1][2:4] for at in (0, 0, 0, 1_000_000_000)]
    assert colours == ["00", "01", "02", "00"]


def test_a_clone_of_ingress_is_the_packet_as_it_came_with_the_fields_of_its_list() -> None:
    engine = switch(
        ingress="""h.h.value = 9; m.kept = 7; m.lost = 8; m.inner.deep = 6; s.egress_spec = 4;
                   clone_preserving_field_list(CloneType.I2E, 5, 1);""",
        egress="h.h.kind = (bit<8>) s.instance_type; h.h.sum = m.kept ++ (m.lost | m.inner.deep);",
    )
    engine.objects.clone_sessions[5] = CloneSession((Replica(8),))
    assert frames(send(engine)) == [(8, "01020700ff"), (4, "0009070eff")]


def test_a_clone_of_ingress_has_no_metadata_but_those_of_its_list() -> None:
    engine = switch(
        parse="m.lost = 3; m.kept = 4; verify(s.ingress_port == 0, error.NoMatch);",
        ingress="clone_preserving_field_list(CloneType.I2E, 5, 1);",
        egress="""h.h.kind = m.lost; h.h.value = m.kept;
                  h.h.sum = (bit<16>) s.ingress_port + (s.parser_error == error.NoMatch ? 16w0x100 : 0);""",
    )
    engine.objects.clone_sessions[5] = CloneSession((Replica(8),))
    assert frames(send(engine, port=7)) == [(8, "00040000ff"), (0, "03040107ff")]


def test_a_clone_without_its_session_is_not_made() -> None:
    assert frames(send(switch(ingress="clone(CloneType.I2E, 5);"))) == [(0, "01020000ff")]


def test_a_clone_is_made_of_a_packet_that_is_dropped() -> None:
    engine = switch(ingress="mark_to_drop(s); clone(CloneType.I2E, 5);")
    engine.objects.clone_sessions[5] = CloneSession((Replica(8), Replica(9)), truncate_bytes=2)
    assert frames(send(engine)) == [(8, "0102"), (9, "0102")]


def test_a_clone_of_egress_keeps_the_headers_and_goes_through_egress_again() -> None:
    engine = switch(
        ingress="s.egress_spec = 4; m.kept = 3; m.lost = 2;",
        egress="""h.h.value = h.h.value + 1;
                  if (s.instance_type == 0) { clone_preserving_field_list(CloneType.E2E, 5, 1); }
                  else { h.h.kind = (bit<8>) s.instance_type; h.h.sum = m.kept ++ m.lost; }""",
    )
    engine.objects.clone_sessions[5] = CloneSession((Replica(8),))
    assert frames(send(engine)) == [(4, "01030000ff"), (8, "02040300ff")]


def test_a_packet_that_is_resubmitted_comes_again_as_it_came() -> None:
    engine = switch(
        ingress="""if (s.instance_type == 0) { h.h.value = 9; m.kept = 5; m.lost = 4;
                       mark_to_drop(s); resubmit_preserving_field_list(1); }
                   else { h.h.sum = m.kept ++ m.lost; h.h.kind = (bit<8>) s.instance_type; }""",
    )
    assert frames(send(engine)) == [(0, "06020500ff")]


@pytest.mark.parametrize(
    ("ingress", "egress"),
    [
        ("resubmit_preserving_field_list(0);", ""),
        ("", "recirculate_preserving_field_list(0);"),
    ],
)
def test_a_packet_that_comes_again_has_no_port_and_no_time_of_arrival(ingress: str, egress: str) -> None:
    seen = "h.h.kind = h.h.kind + (bit<8>) s.ingress_port; h.h.value = (bit<8>) s.ingress_global_timestamp;"
    engine = switch(
        parts="register<bit<8>>(1) again;",
        ingress=f"{seen} bit<8> n; again.read(n, 0); again.write(0, 1); if (n == 0) {{ {ingress} }}",
        egress=egress and f"if (h.h.kind == 8) {{ h.h.kind = 1; {egress} }}",
    )
    assert frames(send(engine, port=7, now_ns=9000)) == [(0, "01000000ff")]


def test_a_packet_that_is_recirculated_comes_again_as_it_left() -> None:
    engine = switch(
        ingress="h.h.kind = (bit<8>) s.instance_type;",
        egress="""if (m.inner.deep == 0) { h.h.value = 9; m.inner.deep = 1; m.lost = 1;
                                           recirculate_preserving_field_list(2); }
                  else { h.h.value = h.h.value + m.inner.deep + m.lost; }""",
    )
    assert frames(send(engine)) == [(0, "040a0000ff")]  # in egress it is a normal packet again


@pytest.mark.parametrize(
    "again",
    ["resubmit_preserving_field_list(0);", "recirculate_preserving_field_list(0);"],
)
def test_a_packet_that_comes_again_without_end_is_dropped(again: str) -> None:
    verdict = send(switch(ingress=again))
    assert verdict.drop_reason == "pipeline.too_many_rounds"


def test_clones_of_clones_end() -> None:
    engine = switch(egress="clone(CloneType.E2E, 1);")
    engine.objects.clone_sessions[1] = CloneSession((Replica(1), Replica(2)))
    assert len(frames(send(engine))) <= 4096


def test_a_multicast_packet_leaves_once_for_each_replica_and_not_by_its_egress_spec() -> None:
    engine = switch(
        ingress="s.mcast_grp = 2; s.egress_spec = 9;",
        egress="h.h.kind = (bit<8>) s.egress_rid; h.h.value = (bit<8>) s.instance_type;",
    )
    assert send(engine).drop_reason == "pipeline.no_multicast_group"
    engine.objects.multicast_groups[2] = (Replica(4, 1), Replica(5, 2))
    assert frames(send(engine)) == [(4, "01050000ff"), (5, "02050000ff")]


def test_a_replica_that_egress_drops_leaves_the_others_alone() -> None:
    engine = switch(ingress="s.mcast_grp = 1;", egress="if (s.egress_rid == 1) { mark_to_drop(s); }")
    engine.objects.multicast_groups[1] = (Replica(4, 1), Replica(5, 2))
    assert frames(send(engine)) == [(5, "01020000ff")]


def test_a_truncated_packet_leaves_with_its_first_bytes() -> None:
    assert frames(send(switch(ingress="truncate(3);"))) == [(0, "010200")]


def test_the_shortest_truncation_counts() -> None:
    assert frames(send(switch(ingress="truncate(3);", egress="truncate(4);"))) == [(0, "010200")]
    assert frames(send(switch(ingress="truncate(3);", egress="truncate(2);"))) == [(0, "0102")]


@pytest.mark.parametrize(
    ("ingress", "egress", "others"),
    [
        ("clone(CloneType.I2E, 5);", "", [(0, "010200"), (8, "01020000ff")]),
        ("", "if (s.instance_type == 0) { clone(CloneType.E2E, 5); }", [(0, "010200"), (8, "01020000ff")]),
        ("s.mcast_grp = 1;", "", [(4, "01020000ff")]),
    ],
)
def test_copies_of_a_truncated_packet_are_whole(
    ingress: str, egress: str, others: list[tuple[int, str]]
) -> None:
    engine = switch(ingress=f"truncate(3); {ingress}", egress=egress)
    engine.objects.clone_sessions[5] = CloneSession((Replica(8),))
    engine.objects.multicast_groups[1] = (Replica(4),)
    assert sorted(frames(send(engine))) == others


def test_a_truncated_packet_is_recirculated_whole() -> None:
    engine = switch(
        ingress="if (h.h.value == 2) { truncate(3); }",
        egress="if (h.h.value == 2) { h.h.value = 3; recirculate_preserving_field_list(0); }",
    )
    assert frames(send(engine)) == [(0, "01030000ff")]


def test_a_digest_carries_the_bits_of_its_data() -> None:
    effects = send(
        switch(outside="struct d_t { bit<8> a; bit<4> b; }", ingress="digest<d_t>(1, { h.h.value, 4w7 });")
    )
    assert effects.effects == (DigestPosted("d_t", 1, 12, 0x27),)


def test_an_assertion_that_fails_drops_the_packet() -> None:
    engine = switch(ingress="assert(h.h.kind == 1); assume(true);")
    assert frames(send(engine)) == [(0, "01020000ff")]
    assert send(engine, "02020000").drop_reason == "pipeline.assertion"


@pytest.mark.parametrize("where", ["verify", "ingress", "egress", "compute"])
def test_an_assertion_drops_the_packet_wherever_it_stands(where: str) -> None:
    engine = switch(**{where: 'log_msg("seen"); assert(h.h.kind == 1);'})
    assert frames(send(engine)) == [(0, "01020000ff")]
    verdict = send(engine, "02020000")
    assert (verdict.drop_reason, verdict.effects) == ("pipeline.assertion", (LogMessage("seen"),))


def test_exit_in_ingress_ends_ingress_alone() -> None:
    assert frames(
        send(switch(ingress="s.egress_spec = 3; exit; s.egress_spec = 4;", egress="h.h.kind = 7;"))
    ) == [(3, "07020000ff")]


def test_an_extern_gives_back_into_a_slice_and_a_stack_element() -> None:
    ingress = "register_of.write(0, 0xa); register_of.read(h.h.value[7:4], 0);"
    engine = switch(outside="register<bit<4>>(1) register_of;", ingress=ingress)
    assert frames(send(engine)) == [(0, "01a20000ff")]


def test_the_newer_declarations_let_an_index_have_any_width() -> None:
    text = FRAME.format(
        **dict.fromkeys(PIECES, "")
        | {
            "outside": "register<bit<8>, bit<2>>(4) r; counter<bit<3>>(4, CounterType.bytes) c;",
            "ingress": """r.write(2w1, 5); r.read(h.h.value, 2w1); c.count(3w1);
                          PortId_t p = 4; s.egress_spec = p;""",
        }
    )
    engine = Engine()
    engine.load(compile_text("#define V1MODEL_VERSION 20200408\n" + text).program)
    assert frames(send(engine)) == [(4, "01050000ff")]


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        (
            {"ingress": "bit<8> r; hash(r, HashAlgorithm.crc16, 0, { h.h.kind }, 8w4);"},
            "a number without a width",
        ),
        (
            {"ingress": "clone_preserving_field_list(CloneType.I2E, 1, h.h.kind);"},
            "must be known at compile time",
        ),
        ({"ingress": "mark_to_drop(m);"}, "struct standard_metadata_t was expected"),
        ({"parts": "register<headers_t>(4) r;"}, "a number, or a struct of numbers was expected"),
        (
            {"parts": "@id(3) register<bit<8>>(4) r; @id(0x16000003) register<bit<8>>(4) q;"},
            "two registers have the number 3",
        ),
        ({"parts": "counter(4) c;"}, "counter takes 2 arguments; 1 is given"),
        ({"parts": "counter(4, CounterType.frames) c;"}, "has no member frames"),
    ],
)
def test_what_v1model_does_not_have_is_refused(pieces: dict[str, str], words: str) -> None:
    from nicemu.p4 import CompileError

    with pytest.raises(CompileError, match=words):
        switch(**pieces)


def test_an_array_beyond_the_bound_is_refused_when_the_program_is_loaded() -> None:
    program = switch(outside="register<bit<8>>(16) r;").program
    assert program is not None
    larger = tuple(replace(item, arguments=(0xFFFFFFFF,)) for item in program.externs)
    with pytest.raises(ControlError, match=r"externs.*r has 4294967295 places"):
        Engine().load(replace(program, externs=larger))


def test_any_bytes_are_taken() -> None:
    engine = switch(parse="b.extract(h.g);", ingress="s.mcast_grp = 1; clone(CloneType.I2E, 1);")
    engine.objects.multicast_groups[1] = (Replica(4, 1), Replica(5, 2))
    chance = random.Random(1)
    for length in (*range(20), 9216):
        assert len(frames(engine.process(chance.randbytes(length), 600))) == 2


def test_tables_of_ingress_and_egress_are_the_controllers() -> None:
    engine = switch(
        parts="""action go(bit<9> p) { s.egress_spec = p; }
                 table t { key = { h.h.kind: exact; } actions = { go; } }""",
        ingress="t.apply();",
    )
    engine.insert("t", TableEntry((Exact(1),), "go", (12,)))
    assert send(engine).port == 12


PACKET_IN = '@controller_header("packet_in") header in_t { bit<16> port; }'


def noting(told: list[Report]) -> Listener:
    """Return a listener that takes everything."""

    def note(report: Report) -> bool:
        told.append(report)
        return True

    return note


def punting(ingress: str) -> tuple[Engine, list[Report]]:
    engine = switch(outside=PACKET_IN, ingress=ingress)
    told: list[Report] = []
    engine.listen(noting(told))
    return engine, told


def test_what_leaves_by_the_host_s_port_is_the_controller_s_where_a_program_has_a_header_for_it() -> None:
    engine, told = punting("s.egress_spec = 510;")
    verdict = send(engine)
    assert (verdict.disposition, verdict.copies) == (Disposition.CONTROLLER, ())
    assert told == [PacketIn(bytes.fromhex("01020000ff"))]
    engine.listen(None)
    send(engine)
    assert engine.drops["pipeline.no_controller"] == 1


def test_copies_for_the_controller_leave_the_others_as_they_are() -> None:
    engine, told = punting("s.mcast_grp = 1;")
    engine.objects.multicast_groups[1] = (Replica(510), Replica(4), Replica(510), Replica(5))
    verdict = send(engine)
    assert (verdict.disposition, verdict.port) == (Disposition.PORT, 4)
    assert [port for port, _ in verdict.copies] == [5]
    assert len(told) == 2


def test_a_frame_too_short_for_the_controller_s_header_is_dropped() -> None:
    engine, told = punting("s.egress_spec = 510; truncate(1);")
    assert send(engine).disposition is Disposition.CONTROLLER
    assert (told, engine.drops["pipeline.no_packet_in_header"]) == ([], 1)


def test_digests_are_reported_once_the_controller_wants_them() -> None:
    engine = switch(outside="struct d_t { bit<8> kind; }", ingress="digest<d_t>(1, { h.h.kind });")
    told: list[Report] = []
    engine.listen(noting(told))
    send(engine)
    engine.objects.digests["d_t"] = DigestConfig(max_list_size=3)
    send(engine)
    assert told == [DigestReport(DigestPosted("d_t", 1, 8, 1), DigestConfig(max_list_size=3))]


def test_reports_that_nobody_has_room_for_are_counted() -> None:
    engine, _ = punting("s.egress_spec = 510;")
    engine.listen(lambda report: False)
    send(engine)
    assert engine.drops["pipeline.controller_queue_full"] == 1
