# SPDX-License-Identifier: Apache-2.0
"""Programs with a copy of v1model.p4 of their own, as their switch has it: other fields, members, orders.

Fields of standard_metadata_t and members of enums are known by their names, as BMv2 knows the fields.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import CompileError, compile_text
from nicemu.pipeline import Engine
from nicemu.programs import programs_root

SHIPPED = (programs_root() / "p4" / "include" / "v1model.p4").read_text(encoding="utf-8")
PROGRAM = """
#include <core.p4>
#include "v1model.p4"
header h_t { bit<8> a; bit<16> b; }
struct headers_t { h_t h; }
struct metadata_t { }
parser P(packet_in p, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { p.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { s.egress_spec = s.ingress_port + 1; APPLY }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out p, in headers_t h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
PRIORITY = '    @alias("intrinsic_metadata.priority") bit<3> priority;\n'
METHODS = "crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16"
IDENTITY = "hash(h.h.b, HashAlgorithm.identity, 16w0, { h.h.a }, 16w0x1000);"


def changed(*changes: tuple[str, str]) -> str:
    """Return v1model.p4 with something else in it."""
    text = SHIPPED
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def leaves(tmp_path: Path, declarations: str, apply: str) -> tuple[int, str]:
    """Return the port and bytes with which a frame leaves, the same from both engines."""
    (tmp_path / "v1model.p4").write_text(declarations, encoding="utf-8")
    program = compile_text(PROGRAM.replace("APPLY", apply), include_paths=[tmp_path]).program
    found = set()
    for make in (Engine, CompiledEngine) if JIT else (Engine,):
        engine = make()
        engine.load(program)
        if isinstance(engine, CompiledEngine):
            assert engine.interpreted_because == ""
        verdict = engine.process(bytes.fromhex("05ffff"), 2)
        assert verdict.frame is not None
        found.add((verdict.port, verdict.frame.hex()))
    (only,) = found
    return only


@pytest.mark.parametrize(
    ("changes", "apply", "expected"),
    [
        ([(PRIORITY, "")], "", "05ffff"),
        ([(PRIORITY, PRIORITY + "bit<5> qid;")], "s.qid = 7; h.h.b = (bit<16>) s.qid;", "050007"),
        ([(PRIORITY, ""), ("    bit<32> instance_type;", PRIORITY + "bit<1> drop; bit<32> instance_type;")],
         "s.priority = 5; s.drop = 1; h.h.b = s.drop ++ s.priority ++ (bit<12>) s.packet_length;", "05d003"),
        ([(PRIORITY, "bit<16> more;")], "s.more = 9; standard_metadata_t t = s; h.h.b = t.more;", "050009"),
        ([(PRIORITY, "bit<16> more;")],
         "s.more = 9; standard_metadata_t t = { more = s.more + 1, ... }; h.h.b = t.more;", "05000a"),
        ([(METHODS, "xor16, target_default, identity, crc16")], IDENTITY, "050005"),
        ([(METHODS, f"target_default, {METHODS}")], IDENTITY, "050005"),
        ([("{ I2E, E2E }", "{ E2E, I2E }")], "clone(CloneType.I2E, 1);", "05ffff"),
    ],
)  # fmt: skip
def test_what_a_copy_of_the_declarations_has_otherwise_is_known_by_its_names(
    tmp_path: Path, changes: list[tuple[str, str]], apply: str, expected: str
) -> None:
    assert leaves(tmp_path, changed(*changes), apply) == (3, expected)


def test_a_copy_of_the_declarations_may_lack_what_the_program_does_not_use(tmp_path: Path) -> None:
    """Those of v1model's first years had no enum MeterType, for there were no meters."""
    text = re.sub(r"extern (direct_)?meter\b[^{]*\{.*?\n\}", "", SHIPPED, flags=re.DOTALL)
    text = text.replace("enum MeterType { packets, bytes }\n", "")
    assert "MeterType" not in text
    assert leaves(tmp_path, text, "") == (3, "05ffff")


@pytest.mark.parametrize(
    ("changes", "apply", "message"),
    [
        (
            [("bit<16> mcast_grp", "bit<8> mcast_grp")],
            "",
            "field mcast_grp of struct standard_metadata_t is bit<8>; the architecture's is bit<16>",
        ),
        (
            [(METHODS, f"target_default, {METHODS}")],
            IDENTITY.replace("identity", "target_default"),
            "not supported by nicemu yet: target_default of enum HashAlgorithm",
        ),
        ([(METHODS, "other")], "", "enum HashAlgorithm is not the architecture's"),
        (
            [(PRIORITY, "")],
            "if ({ s, h.h.a } == { s, h.h.a }) { }",
            "of which fields are not declared here",
        ),
        (
            [
                (PRIORITY, ""),
                ("extern void truncate", "extern standard_metadata_t mk(); extern void truncate"),
            ],
            "s = mk();",
            "struct standard_metadata_t as the result of mk",
        ),
        (
            [(PRIORITY, "")],
            "standard_metadata_t t = s; if (t == s) { }",
            "comparing struct standard_metadata_t, of which fields are not declared here",
        ),
        (
            [(PRIORITY, "")],
            "hash(h.h.b, HashAlgorithm.identity, 16w0, { h.h.a, s }, 16w0x1000);",
            "of which fields are not declared here, as an argument of hash",
        ),
        (
            [("extern void truncate", "extern void resubmit<T>(in T data); extern void truncate")],
            "resubmit(h.h.a);",
            "not supported by nicemu yet: resubmit with data",
        ),
        ([(f"enum HashAlgorithm {{ {METHODS} }}", "typedef bit<8> HashAlgorithm;")], "", "HashAlgorithm"),
    ],
)
def test_what_the_engine_does_not_know_is_refused(
    tmp_path: Path, changes: list[tuple[str, str]], apply: str, message: str
) -> None:
    with pytest.raises(CompileError) as caught:
        leaves(tmp_path, changed(*changes), apply)
    assert message in str(caught.value)


def test_a_struct_that_is_called_otherwise_is_refused_once_at_its_place(tmp_path: Path) -> None:
    program = PROGRAM.replace("standard_metadata_t", "std_t").replace("APPLY", "")
    (tmp_path / "v1model.p4").write_text(SHIPPED.replace("standard_metadata_t", "std_t"), encoding="utf-8")
    with pytest.raises(CompileError) as caught:
        compile_text(program, include_paths=[tmp_path])
    what = "struct std_t is not the architecture's, which is struct standard_metadata_t"
    assert str(caught.value).count(f"program.p4:7:72: error: {what}") == 1
    assert str(caught.value).count("error:") == 1


def test_an_enum_of_another_architecture_s_name_has_its_own_order() -> None:
    text = """#include <core.p4>
        #include <nicemu.p4>
        enum CloneType { A, I2E }
        struct headers_t { } struct m_t { CloneType c; }
        parser P(packet_in p, out headers_t h, inout m_t m, inout nic_metadata_t n) {
            state start { m.c = CloneType.A; transition accept; }
        }
        control C(inout headers_t h, inout m_t m, inout nic_metadata_t n) { apply { } }
        control D(packet_out p, in headers_t h, in m_t m, in nic_metadata_t n) { apply { } }
        SmartNic(P(), C(), D()) main;"""
    (enum,) = [item for item in compile_text(text).program.enums if item.name == "CloneType"]
    assert [(member.name, member.value) for member in enum.members] == [("A", 0), ("I2E", 1)]


def test_a_package_may_be_called_as_another_architecture_s(tmp_path: Path) -> None:
    program = PROGRAM.replace("header h_t", "package SmartNic(bit<8> a);\nheader h_t").replace("APPLY", "")
    (tmp_path / "v1model.p4").write_text(SHIPPED, encoding="utf-8")
    assert compile_text(program, include_paths=[tmp_path]).program.architecture == "v1model"
