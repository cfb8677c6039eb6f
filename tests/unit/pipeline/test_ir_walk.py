# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from nicemu.pipeline import ir, nodes_of

BYTE = ir.Bits(8)


def test_every_node_below_is_found_with_its_types() -> None:
    name, one = ir.Name("x", BYTE), ir.Constant(1, BYTE)
    call = ir.CallAction("act", (name,))
    body = (ir.If(ir.IsValid(ir.Name("h", ir.Named("h_t"))), (call,)), ir.Assign(name, one))
    found = list(nodes_of(body))
    assert found.count(name) == 2
    assert found.count(BYTE) == 3
    for node in (*body, call, one, ir.Named("h_t"), ir.BOOL):
        assert node in found


def test_a_table_is_walked_to_its_entries() -> None:
    entry = ir.Entry((ir.KeyMask(1, 255),), ir.ActionCall("a", (3,)))
    key = ir.Key("k", ir.Name("x", BYTE), ir.MatchKind.EXACT)
    table = ir.Table("t", (key,), (ir.ActionRef("a"),), ir.ActionCall("a"), 4, entries=(entry,))
    found = list(nodes_of(table))
    assert found[0] is table
    for node in (entry, key, entry.keysets[0], entry.call):
        assert node in found


def test_only_what_is_wanted_is_found_and_it_is_found_at_any_depth() -> None:
    name, one = ir.Name("x", BYTE), ir.Constant(1, BYTE)
    call = ir.Call("f", (ir.Unary("-", ir.Call("g", (one,), BYTE), BYTE),), BYTE)
    inner = ir.If(ir.IsValid(ir.Name("h", ir.Named("h_t"))), (ir.Assign(name, call),))
    body = (ir.If(ir.Constant(1, ir.BOOL), (inner, ir.CallAction("a", (name,)))),)
    assert {node.function for node in nodes_of(body, ir.Call)} == {"f", "g"}
    assert [node.name for node in nodes_of(body, ir.Named)] == ["h_t"]
    assert sorted(type(node).__name__ for node in nodes_of(body, ir.CallAction, ir.If)) == [
        "CallAction",
        "If",
        "If",
    ]
