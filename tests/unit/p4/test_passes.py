# SPDX-License-Identifier: Apache-2.0
"""The passes make programs smaller and change no packet."""

from __future__ import annotations

from types import SimpleNamespace

from nicemu.p4.passes import drop_unreachable_states, settle_branches
from nicemu.pipeline import ir


def test_a_branch_over_a_constant_is_settled_everywhere(p4: SimpleNamespace) -> None:
    apply = "if (LIMIT > 3) { if (m.flag) { drop_packet(); } } else { send_to_host(); }"
    program = p4.compile(apply, top="const bit<8> LIMIT = 4;").program
    (statement,) = program.control("control").body
    assert isinstance(statement, ir.If)
    assert statement.then == (ir.CallFunction("drop_packet"),)
    assert settle_branches(program) == program


def test_states_that_nothing_reaches_are_left_out(p4: SimpleNamespace) -> None:
    states = """state start { transition select(m.mark) { 1: next; default: accept; } }
        state next { transition accept; } state lost { transition again; } state again { transition lost; }"""
    program = p4.compile(states=states).program
    assert [state.name for state in program.parser.states] == ["start", "next"]
    assert drop_unreachable_states(program) == program


def test_types_that_nothing_holds_are_left_out(p4: SimpleNamespace) -> None:
    top = "header unused_t { bit<8> a; } header used_t { bit<8> a; } struct held_t { used_t inside; }"
    program = p4.compile("held_t local;", top=top).program
    assert [header.name for header in program.headers] == ["tag_t", "used_t"]
    assert {struct.name for struct in program.structs} == {
        "nic_metadata_t",
        "headers_t",
        "metadata_t",
        "held_t",
    }


def test_a_type_that_only_lookahead_names_is_kept(p4: SimpleNamespace) -> None:
    states = "state start { m.mark = packet.lookahead<seen_t>().a; transition accept; }"
    program = p4.compile(states=states, top="header seen_t { bit<16> a; }").program
    assert "seen_t" in [header.name for header in program.headers]
