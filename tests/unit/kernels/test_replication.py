# SPDX-License-Identifier: Apache-2.0
"""Clones, multicast, resubmission, recirculation and truncation: copies run compiled, too."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nicemu.hot import JIT
from nicemu.kernels import traffic_desk
from nicemu.pipeline import (
    MAX_AGAIN_BYTES,
    MAX_COPIES,
    CloneSession,
    DigestConfig,
    Engine,
    LogMessage,
    Replica,
)

from . import v1_programs
from .v1_programs import Engines, agree_in_batches, both

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

KEPT = "@field_list(1, 2) bit<8> kept; @field_list(2) bit<70> also; more_t held; bit<8> lost; "
SEEN = """h.h.value = m.kept + m.lost; h.h.sum = (bit<8>) s.instance_type ++ (bit<8>) s.egress_rid;
          h.h.long = (bit<64>) m.also; wide_of.write((bit<32>) s.instance_type, m.wide + 1);"""


def replicate(engine: Engine, chance: random.Random) -> None:
    """Give an engine groups and sessions, some of them empty, by chance."""
    replicas = [Replica(port, rid) for port in (1, 2, 510) for rid in (0, 7)]
    for number in range(4):
        chosen = tuple(chance.sample(replicas, chance.randint(0, 3)))
        engine.objects.multicast_groups[number] = chosen
        engine.objects.clone_sessions[number] = CloneSession(chosen, chance.choice((0, 0, 5, 100)))


def replicated(**pieces: str) -> Engines:
    pieces["metadata"] = KEPT + pieces.get("metadata", "")
    engines = both(**pieces)
    for engine in engines:
        replicate(engine, random.Random(5))
        engine.objects.multicast_groups[1] = (Replica(3, 1), Replica(4, 2), Replica(510, 3))
        engine.objects.clone_sessions[1] = CloneSession((Replica(8), Replica(9, 5)))
        engine.objects.clone_sessions[2] = CloneSession((Replica(8),), truncate_bytes=7)
    return engines


def agree(engines: Engines, seed: int = 1, packets: int = 40, step_ns: int = 0) -> None:
    """Send packets one by one, and others together."""
    v1_programs.agree(engines, seed, packets, step_ns)
    agree_in_batches(engines, seed + 1, packets)


def listener(reports: list[object]) -> Callable[[object], bool]:
    """Return a listener that keeps what it is told."""

    def took(report: object) -> bool:
        reports.append(report)
        return True

    return took


def test_a_clone_of_ingress_carries_the_kept_fields() -> None:
    engines = replicated(
        ingress="""m.kept = h.h.value + 1; m.lost = 50; m.also = (bit<70>) h.h.long; h.h.kind = h.h.kind + 1;
                   m.wide = 5; t.apply();
                   if (h.h.value == 0) { clone(CloneType.I2E, 1); }
                   if (h.h.value == 1) { clone_preserving_field_list(CloneType.I2E, 1, 1); }
                   if (h.h.value == 2) { clone_preserving_field_list(CloneType.I2E, 2, 2); }
                   if (h.h.value == 3) { clone_preserving_field_list(CloneType.I2E, (bit<32>) h.h.kind, 99); }
                   if (h.h.value == 4) { clone(CloneType.I2E, 1); clone(CloneType.I2E, 77); }
                   if (h.h.value == 6) { clone(CloneType.E2E, 1); }""",
        egress=SEEN,
    )
    agree(engines, packets=100)
    verdict = engines[1].process(bytes((0, 1, *bytes(10))), 0)
    assert [verdict.port, *(port for port, _ in verdict.copies)] == [8, 9, 0]
    assert verdict.frame[1] == 2


def test_a_clone_of_egress_is_the_packet_as_egress_left_it() -> None:
    engines = replicated(
        ingress='m.kept = 3; m.wide = 70w1 << 69; t.apply(); log_msg("in");',
        egress=SEEN
        + """if (s.instance_type == 0) {
                 h.s.push_front(1); h.s[0].setValid(); h.s[0].a = 0x123456; h.h.kind = h.h.kind + 1;
                 if (h.h.kind[0:0] == 1) { clone_preserving_field_list(CloneType.E2E, 1, 2); }
                 if (s.egress_port == 9) { mark_to_drop(s); }
                 h.h.kind = h.h.kind + 1;
             }
             log_msg("out");""",
        compute="h.h.sum = h.h.sum + 1;",
    )
    agree(engines, packets=100)


def test_a_multicast_group_replicates_before_egress() -> None:
    engines = replicated(
        ingress="""m.kept = h.h.kind; m.lost = h.h.value; m.wide = 9; s.mcast_grp = (bit<16>) h.h.value;
                   if (h.h.kind == 3) { s.egress_spec = 511; } seen.count(0);""",
        egress=SEEN + "if (s.egress_rid == 7) { mark_to_drop(s); } seen.count((bit<32>) s.egress_rid);",
    )
    agree(engines, packets=100)


def test_a_resubmitted_packet_begins_again_with_what_it_kept() -> None:
    engines = replicated(
        ingress="""m.kept = m.kept + 1; m.lost = m.lost + 1; m.also = m.also + 3; h.h.kind = 0;
                   if (m.kept <= h.h.value) { resubmit_preserving_field_list(1); }
                   if (h.h.value == 9) { resubmit_preserving_field_list(3); }
                   if (h.h.value == 6 && m.also < 90) {
                       resubmit_preserving_field_list(2); clone(CloneType.I2E, 1);
                   }""",
        egress=SEEN,
    )
    agree(engines, packets=60)
    expected, found = (engine.process(bytes((0, 9, *bytes(10))), 0) for engine in engines)
    assert found == expected
    assert found.drop_reason == "pipeline.too_many_rounds"


@pytest.mark.parametrize("place", ["egress", "compute", "deparser"])
def test_a_recirculated_packet_is_parsed_again_as_it_would_have_left(place: str) -> None:
    pieces = {"egress": SEEN, "compute": "", "deparser": "b.emit(h);"}
    asks = """if (h.h.isValid() && (h.h.kind < 5 || h.h.kind == 200)) {
                  recirculate_preserving_field_list(1);
              }"""
    pieces[place] = asks + pieces[place]
    engines = replicated(
        ingress="m.kept = m.kept + 1; if (h.h.kind != 200) { h.h.kind = h.h.kind + 2; t.apply(); }",
        **pieces,
    )
    agree(engines, packets=60)
    expected, found = (engine.process(bytes((200, *bytes(11))), 0) for engine in engines)
    assert found == expected
    assert found.drop_reason == "pipeline.too_many_rounds"


@pytest.mark.parametrize("rounds", [20, 31, 32, 200])
def test_a_packet_that_grows_in_every_round_may_leave_longer_than_any_that_comes(rounds: int) -> None:
    engines = replicated(
        metadata="bit<8> turn; ",
        types="header big_t { bit<4096> data; }",
        headers="big_t[1] bigs;",
        ingress="m.kept = m.kept + 1; h.bigs[0].setValid(); h.bigs[0].data = (bit<4096>) m.kept << 2000;",
        egress=f"if (m.kept < {rounds}) {{ recirculate_preserving_field_list(1); }}",
        deparser="b.emit(h.h); b.emit(h.bigs); b.emit(h.s);",
    )
    frame = bytes((0, 0, *range(10))) + bytes(9000)
    expected, found = (engine.process(frame, 0) for engine in engines)
    assert found == expected
    if len(frame) + (rounds - 1) * 512 <= MAX_AGAIN_BYTES:
        assert len(found.frame) == len(frame) + rounds * 512
    else:
        assert found.drop_reason == "pipeline.oversized"


@pytest.mark.parametrize("again", ["resubmit", "recirculate"])
def test_a_packet_whose_parser_does_not_end_again_is_dropped(again: str) -> None:
    """Its first round goes on as for simple_switch, with ParserTimeout; so many states a round are enough."""
    ask, place = f"{again}_preserving_field_list(1);", "ingress" if again == "resubmit" else "egress"
    pieces = {
        "parser": "transition select(m.kept, h.h.kind) { (2, 1): round; default: known; } }"
        " state round { m.x = m.x + 1; transition round; } state last {",
        place: f"m.kept = m.kept + 1; if (m.kept < 5) {{ {ask} }}",
    }
    engines = replicated(**pieces)
    agree(engines, packets=30)
    verdict = engines[1].process(bytes((1, *bytes(11))), 0)
    assert verdict.drop_reason == "parser.too_many_states"
    assert engines[1].process(bytes((3, *bytes(11))), 0).drop_reason == ""


@pytest.mark.parametrize("copies", ["", "clone(CloneType.I2E, 1);"])
def test_a_truncated_packet_leaves_with_its_first_bytes(copies: str) -> None:
    engines = replicated(
        ingress=f"""{copies} if (h.h.kind == 0) {{ truncate((bit<32>) h.h.value * 4); }}
                    if (h.h.value == 9) {{ truncate(7); }}""",
        egress="h.s.push_front(1); h.s[0].setValid(); if (h.h.value == 5) { truncate(3); }",
    )
    agree(engines, packets=60)


def test_effects_of_copies_stand_in_the_order_of_their_passes() -> None:
    engines = replicated(
        ingress='log_msg("in {}", { h.h.value }); s.mcast_grp = 1; clone(CloneType.I2E, 1);',
        egress='log_msg("out {}", { s.egress_rid });',
        compute='log_msg("sum");',
        deparser='log_msg("left"); b.emit(h);',
    )
    agree(engines)
    texts = [
        effect.text for effect in engines[1].process(bytes(12), 0).effects if isinstance(effect, LogMessage)
    ]
    assert texts == ["in 0", *(text for rid in (0, 5, 1, 2, 3) for text in (f"out {rid}", "sum", "left"))]


def test_a_copy_that_is_stuck_is_dropped_alone() -> None:
    engines = replicated(
        ingress="s.mcast_grp = 1; t.apply();",
        egress="""for (bit<32> i = 0; s.egress_rid == 2 && i < 0xffffffff; i += 1) { m.x = m.x + 1; }
                  assert(s.egress_rid != 3);""",
    )
    expected, found = (engine.process(bytes(12), 0) for engine in engines)
    assert found == expected
    assert (found.port, found.copies, found.drop_reason) == (3, (), "")


def test_direct_meters_mark_a_packet_and_not_its_copies() -> None:
    engines = replicated(
        parts="direct_meter<bit<8>>(MeterType.packets) limit;",
        action="limit.read(m.x);",
        properties="meters = limit;",
        ingress="""t.apply(); m.kept = m.x;
                   if (h.h.value == 3) { clone_preserving_field_list(CloneType.I2E, 1, 1); }""",
        egress=SEEN,
    )
    agree(engines, step_ns=1000)


def test_varbits_and_stacks_of_a_copy_are_the_packets() -> None:
    engines = replicated(
        types="header open_t { bit<8> a; varbit<320> v; }",
        headers="open_t o; either_t either;",
        parser="b.extract(h.o, (bit<32>) h.h.value << 3);",
        ingress="""h.either.head.setValid(); h.either.head = h.h; s.mcast_grp = 1; m.held = h.s[0];
                   m.kept = h.o.a;""",
        egress="if (s.egress_rid == 2) { h.s.pop_front(1); h.o.a = m.kept + 1; h.either.more.setValid(); }",
    )
    agree(engines, packets=80)


@pytest.mark.parametrize(
    ("more", "at_once"),
    [
        ({}, True),
        ({"compute": "digest<seen_t>(2, { h.h.kind });"}, False),
        ({"ingress": "if (h.h.value == 6) { resubmit_preserving_field_list(3); }"}, False),
    ],
)
def test_digests_of_packets_that_become_others_are_told_in_order(more: dict[str, str], at_once: bool) -> None:
    pieces = {
        "types": "struct seen_t { bit<8> kind; }",
        "ingress": """s.mcast_grp = 1; t.apply(); if (h.h.kind == 2) { s.mcast_grp = 0; }
                      if (h.h.value < 3) { digest<seen_t>(1, { h.h.value }); }""",
        "egress": SEEN,
    }
    engines = replicated(**pieces | {name: pieces.get(name, "") + text for name, text in more.items()})
    told: tuple[list[object], list[object]] = ([], [])
    for engine, reports in zip(engines, told, strict=True):
        engine.objects.digests["seen_t"] = DigestConfig()
        engine.listen(listener(reports))
    agree(engines, packets=80)
    assert told[0] == told[1]
    assert told[0]
    kernel = engines[1].kernel
    assert kernel is not None
    assert (kernel.desk(engines[1].objects, digested=True) is not None) is at_once


def test_copies_for_the_controller_are_told_in_order() -> None:
    engines = replicated(
        types='@controller_header("packet_in") header in_t { bit<16> port; }',
        headers="in_t i;",
        ingress="""s.mcast_grp = (bit<16>) h.h.kind; t.apply(); seen.count(0);
                   if (h.h.value < 3) { clone(CloneType.I2E, (bit<32>) h.h.value); }""",
        egress=SEEN + "if (s.egress_port == 510) { h.i.setValid(); h.i.port = s.egress_rid; }",
        deparser="b.emit(h.i); if (h.h.value != 7) { b.emit(h.h); }",
    )
    told: tuple[list[object], list[object]] = ([], [])
    for engine, reports in zip(engines, told, strict=True):
        engine.objects.multicast_groups[2] = (Replica(510, 4), Replica(510, 5))
        engine.objects.clone_sessions[2] = CloneSession((Replica(510, 6),), 1)
        engine.listen(listener(reports))
    agree(engines, packets=80)
    assert told[0] == told[1]
    assert engines[0].drops["pipeline.no_packet_in_header"] > 0


@pytest.mark.parametrize("name", ["LEFT_MOST", "ROOM_BYTES"])
def test_a_packet_without_surely_room_for_its_copies_is_taken_by_itself(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = {"LEFT_MOST": MAX_COPIES + 4, "ROOM_BYTES": (MAX_COPIES + 1) * 200}
    monkeypatch.setattr(traffic_desk, name, most[name])
    engines = replicated(ingress="s.mcast_grp = 1; m.kept = 4; seen.count(1);", egress=SEEN)
    agree_in_batches(engines, packets=60, at_once=30)


WAYS = {
    "groups": {"ingress": "s.mcast_grp = 1; m.kept = 4; seen.count(1);", "egress": SEEN},
    "clones of ingress": {"ingress": "s.egress_spec = 2; clone(CloneType.I2E, 1);", "egress": SEEN},
    "clones of both": {
        "ingress": "s.egress_spec = 2; clone(CloneType.I2E, 1);",
        "egress": "if (s.instance_type == 0) { clone(CloneType.E2E, 2); }" + SEEN,
    },
    "rounds": {
        "ingress": "m.kept = m.kept + 1; s.mcast_grp = 1;",
        "egress": "if (m.kept < 3) { recirculate_preserving_field_list(1); } h.h.value = m.kept;",
    },
}


@pytest.mark.parametrize("pieces", WAYS.values(), ids=WAYS)
def test_what_has_left_makes_room_for_what_comes(
    pieces: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(traffic_desk, "LEFT_MOST", MAX_COPIES + 4)
    engines = replicated(**pieces)
    monkeypatch.setattr(engines[1], "_verdict", lambda *_: pytest.fail("one was taken by itself"))
    agree_in_batches(engines, packets=60, at_once=30)


def test_many_headers_leave_room_for_copies() -> None:
    engines = replicated(
        ingress="s.egress_spec = 2; clone(CloneType.I2E, 1);",
        egress="if (s.instance_type == 1) { h.hops.push_front(3); h.hops[0].setValid(); h.hops[0].a = 7; }",
        types="header hop_t { bit<256> a; }",
        headers="hop_t[60] hops;",
        deparser="b.emit(h.hops); b.emit(h.h);",
    )
    engines[1]._verdict = lambda *_: pytest.fail("one was taken by itself")  # type: ignore[method-assign]
    agree_in_batches(engines, packets=60, at_once=30)


def test_a_packet_may_become_as_many_as_there_may_be_and_no_more() -> None:
    engines = replicated(
        ingress="s.mcast_grp = 9; m.kept = m.kept + 1;",
        egress="if (s.egress_rid < 40) { recirculate_preserving_field_list(1); } h.h.value = m.kept;",
    )
    for engine in engines:
        engine.objects.multicast_groups[9] = tuple(Replica(port, 39 + port % 2) for port in range(90))
    passed = agree_in_batches(engines, packets=3)
    assert passed.dropped["pipeline.too_many_copies"] == 3
    assert passed.out.total() > 3 * MAX_COPIES // 3


def test_groups_and_sessions_may_change_between_two_batches() -> None:
    engines = replicated(ingress="s.mcast_grp = 1; clone(CloneType.I2E, 2);", egress=SEEN)
    for replicas in ((Replica(5),), (), (Replica(6, 2), Replica(7))):
        for engine in engines:
            engine.objects.multicast_groups[1] = replicas
            engine.objects.clone_sessions[2] = CloneSession(replicas[:1], 9)
        agree_in_batches(engines, len(replicas))
    for engine in engines:
        del engine.objects.multicast_groups[1], engine.objects.clone_sessions[2]
    assert agree_in_batches(engines).dropped["pipeline.no_multicast_group"] == 40


_ENGINES: list[Engines] = []


@settings(max_examples=20)
@given(st.integers(0, 1 << 32))
def test_any_packets_and_groups_do_the_same_to_both(seed: int) -> None:
    if not _ENGINES:
        _ENGINES.append(
            replicated(
                ingress="""t.apply(); m.kept = m.kept + h.h.kind; m.also = (bit<70>) h.h.long; m.lost = 3;
                           seen.count((bit<32>) s.instance_type);
                           if (h.h.long[0:0] == 1) { s.mcast_grp = (bit<16>) h.h.long[5:4]; }
                           if (h.h.long[1:1] == 1 && s.instance_type == 0) {
                               clone_preserving_field_list(CloneType.I2E, (bit<32>) h.h.long[7:6], 2);
                           }
                           if (h.h.long[3:2] == 1 && s.instance_type == 0) {
                               resubmit_preserving_field_list(1);
                           }
                           random(m.x, 8w0, 8w255);""",
                egress=SEEN
                + """if (h.h.kind == 1 && s.instance_type == 0) {
                         clone(CloneType.E2E, (bit<32>) m.kept & 3);
                     }
                     if (m.kept == 2 && s.egress_rid == 0) { recirculate_preserving_field_list(2); }
                     h.h.kind = m.x; digest(1, { h.h.kind, h.s }); if (m.x == 9) { truncate(9); }""",
            )
        )
    for engine in _ENGINES[0]:
        replicate(engine, random.Random(seed))
    agree(_ENGINES[0], seed, 10)


@pytest.mark.parametrize(
    "statement",
    [
        "s = (standard_metadata_t) { 0, 1, 0, 0, 4, 0, 0, 0, 0, 0, 0, 1, 0, 0, error.NoError, 0 };",
        "standard_metadata_t t = s; t.mcast_grp = 1; s = t;",
        "whole(s);",
        "wholes.read(s, 0);",
    ],
)
def test_a_group_may_be_set_with_all_of_the_standard_metadata(statement: str) -> None:
    engines = replicated(
        objects="register<standard_metadata_t>(1) wholes;",
        types="""void whole(out standard_metadata_t s) {
                     s = { 0, 1, 0, 0, 4, 0, 0, 0, 0, 0, 0, 1, 0, 0, error.NoError, 0 };
                 }""",
        ingress=statement,
    )
    for engine in engines:
        assert engine.program is not None
        (whole,) = [struct for struct in engine.program.structs if struct.name == "standard_metadata_t"]
        fields = {part.name: int(part.name == "mcast_grp") for part in whole.fields}
        engine.objects.register("wholes").write(0, fields)
    agree(engines)
    assert engines[1].process(bytes(12), 0).copies
