# SPDX-License-Identifier: Apache-2.0
"""Value sets, parsers that are applied under a condition, and functions of one name."""

from __future__ import annotations

import pytest

from nicemu.errors import ControlError
from nicemu.p4 import CompileError, compile_text
from nicemu.pipeline import Disposition, Engine, Exact, Lpm, Range, Ternary, program_of_json

SOURCE = """
#include <core.p4>
#include <nicemu.p4>
header byte_t {{ bit<8> value; }}
struct headers_t {{ byte_t a; byte_t b; byte_t c; }}
struct m_t {{ bit<8> x; }}
{outside}
parser P(packet_in packet, out headers_t h, inout m_t m, inout nic_metadata_t nic) {{
    {parts}
    state start {{ packet.extract(h.a); {start} }}
    state more {{ packet.extract(h.b); transition accept; }}
}}
control C(inout headers_t h, inout m_t m, inout nic_metadata_t nic) {{
    apply {{ send_to_port(1); if (!h.b.isValid()) {{ drop_packet(); }} {apply} }}
}}
control D(packet_out p, in headers_t h, in m_t m, in nic_metadata_t nic) {{ apply {{ p.emit(h); }} }}
SmartNic(P(), C(), D()) main;
"""


def loaded(start: str, parts: str = "", outside: str = "", apply: str = "") -> Engine:
    text = SOURCE.format(start=start, parts=parts, outside=outside, apply=apply)
    engine = Engine()
    engine.load(program_of_json(compile_text(text).program.to_json()))
    return engine


def parses_more(engine: Engine, *values: int) -> bool:
    return engine.process(bytes(values), 0).disposition is Disposition.PORT


ONE = "transition select(h.a.value) { known: more; _: accept; }"


def test_a_value_set_holds_nothing_until_the_control_plane_says_what() -> None:
    engine = loaded(ONE, "value_set<bit<8>>(2) known;")
    assert not parses_more(engine, 0, 0)
    engine.objects.value_set("known").replace([(Exact(5),), (Exact(6),)])
    assert [parses_more(engine, value, 0) for value in (4, 5, 6)] == [False, True, True]
    engine.objects.value_set("P.known").replace([])
    assert not parses_more(engine, 5, 0)


@pytest.mark.parametrize(
    ("key", "kind"), [("h.a.value == 5", "bool"), ("h.a.value == 5 ? Side.RIGHT : Side.LEFT", "Side")]
)
def test_a_value_set_may_hold_bools_and_enums(key: str, kind: str) -> None:
    start = f"transition select({key}) {{ known: more; _: accept; }}"
    engine = loaded(start, f"value_set<{kind}>(2) known;", "enum Side { LEFT, RIGHT }")
    engine.objects.value_set("known").replace([(Exact(1),)])
    assert [parses_more(engine, value, 0) for value in (4, 5)] == [False, True]


@pytest.mark.parametrize("label", ["Op.READ", "5", "8w5", "5 &&& 255", "4 .. 5"])
def test_a_label_of_a_select_over_a_serializable_enum_is_a_member_or_a_number(label: str) -> None:
    """p4c #5348: it is of the enum, or of its representation."""
    start = f"transition select((Op) h.a.value) {{ Op.WRITE: accept; {label}: more; _: accept; }}"
    engine = loaded(start, outside="enum bit<8> Op { READ = 5, WRITE = 6 }")
    assert [parses_more(engine, value, 0) for value in (3, 5, 6)] == [False, True, False]


@pytest.mark.parametrize("label", ["9w5", "true", "Other.READ"])
def test_another_label_of_such_a_select_is_refused(label: str) -> None:
    start = f"transition select((Op) h.a.value) {{ {label}: more; _: accept; }}"
    with pytest.raises(CompileError, match="enum Op was expected"):
        loaded(start, outside="enum bit<8> Op { READ = 5, WRITE = 6 } enum bit<8> Other { READ = 5 }")


def test_a_value_set_stands_beside_other_keysets() -> None:
    start = "transition select(h.a.value, nic.ingress_port) { (known, 0): more; _: accept; }"
    engine = loaded(start, "value_set<bit<8>>(2) known;")
    engine.objects.value_set("known").replace([(Exact(5),)])
    assert [parses_more(engine, value, 0) for value in (4, 5)] == [False, True]


def test_a_value_set_of_structs_stands_for_all_keys_and_compares_each_field_in_its_way() -> None:
    engine = loaded(
        "transition select(h.a.value, nic.ingress_port, h.a.value) { known: more; _: accept; }",
        "value_set<key_t>(4) known;",
        "struct key_t { @match(ternary) bit<8> a; @match(range) bit<16> port; @match(lpm) bit<8> b; }",
    )
    engine.objects.value_set("known").replace([(Ternary(1, 1), Range(0, 3), Lpm(0x40, 4))])
    assert [parses_more(engine, value, 0) for value in (0x41, 0x40, 0x51)] == [True, False, False]


@pytest.mark.parametrize(
    "keys", ["h.a.value, nic.ingress_port, h.a.value", "{ h.a.value, nic.ingress_port }, h.a.value"]
)
def test_a_value_set_of_structs_in_structs_compares_the_fields_of_all(keys: str) -> None:
    engine = loaded(
        f"transition select({keys}) {{ known: more; _: accept; }}",
        "value_set<key_t>(4) known;",
        """struct inner_t { @match(ternary) bit<8> a; @match(range) bit<16> port; }
           struct key_t { inner_t inner; @match(lpm) bit<8> b; }""",
    )
    known = engine.objects.value_set("known")
    assert [key.name for key in known.keys] == ["inner.a", "inner.port", "b"]
    known.replace([(Ternary(1, 1), Range(0, 3), Lpm(0x40, 4))])
    assert [parses_more(engine, value, 0) for value in (0x41, 0x40, 0x51)] == [True, False, False]


@pytest.mark.parametrize(
    ("members", "words"),
    [
        ([(Exact(1),)] * 3, "room for 2 members; 3 given"),
        ([(Exact(256),)], r"bit<8>; 0x100 does not fit"),
        ([(Ternary(1, 1),)], "field f is exact; the match given is ternary"),
        ([(Exact(1), Exact(2))], "2 matches given; it has 1 fields"),
    ],
)
def test_members_that_cannot_be_change_nothing(members: list[tuple[object, ...]], words: str) -> None:
    engine = loaded(ONE, "value_set<bit<8>>(2) known;")
    known = engine.objects.value_set("known")
    known.replace([(Exact(5),)])
    with pytest.raises(ControlError, match=words):
        known.replace(members)  # type: ignore[arg-type]
    assert known.members == [(Exact(5),)]


@pytest.mark.parametrize(
    ("parts", "start", "words"),
    [
        ("value_set<bit<9>>(2) known;", ONE, "P.known holds bit<9>; the keys are bit<8>"),
        ("value_set<headers_t>(2) known;", ONE, "a number or a struct of such was expected"),
        ("value_set<bit<8>>(0) known;", ONE, "a size of 0; 1 to"),
        ("value_set<bit<8>>(2) known;", "m.x = known; transition more;", "known is no value"),
    ],
)
def test_a_value_set_that_cannot_be_is_refused(parts: str, start: str, words: str) -> None:
    with pytest.raises(CompileError, match=words):
        loaded(start, parts)


INNER = """
parser Inner(packet_in packet, out byte_t found, in bit<8> wanted) {
    state start {
        packet.extract(found);
        transition select(found.value) { wanted: accept; _: reject; }
    }
}
""".replace("wanted: accept", "7: accept")


@pytest.mark.parametrize(
    ("values", "passes"),
    [((1, 7), True), ((1, 8), False), ((2, 9, 7), True), ((2, 9, 8), False), ((3,), False)],
)
def test_a_parser_can_be_applied_under_a_condition(values: tuple[int, ...], passes: bool) -> None:
    engine = loaded(
        """if (h.a.value == 1) { inner.apply(packet, h.b, 7); m.x = 1; }
           else if (h.a.value == 2) { { packet.extract(h.c); } inner.apply(packet, h.b, 7); m.x = 2; }
           m.x = m.x + 1;
           transition accept;""",
        "Inner() inner;",
        INNER,
        "if (m.x != h.a.value + 1) { drop_packet(); }",
    )
    assert parses_more(engine, *values) is passes


def test_a_parser_can_be_applied_under_each_of_many_conditions() -> None:
    arms = " else ".join(
        f"if (h.a.value == {n}) {{ inner.apply(packet, h.b, 7); m.x = {n}; }}" for n in range(90)
    )
    engine = loaded(
        f"{arms} transition accept;",
        "Inner() inner;",
        INNER,
        "if (m.x != h.a.value) { drop_packet(); }",
    )
    assert parses_more(engine, 89, 7)
    assert not parses_more(engine, 89, 8)


def test_functions_of_one_name_differ_in_how_many_arguments_they_take() -> None:
    engine = loaded(
        "transition more;",
        outside="""bit<8> sum(in bit<8> a) { return a; }
                   bit<8> sum(in bit<8> a, in bit<8> b) { return a + b; }
                   T sum<T>(in T a, in T b, in T c) { return c; }""",
        apply="h.a.value = sum(sum(1, 2), sum(4)) + sum(8w1, 8w2, 8w3);",
    )
    assert engine.process(b"\0\0", 0).frame[0] == 10


def test_two_functions_with_one_name_and_as_many_parameters_are_refused() -> None:
    with pytest.raises(CompileError, match="sum is declared twice"):
        loaded(
            "transition more;",
            outside="void sum(in bit<8> a) { } void sum(in bit<9> a) { }",
        )
