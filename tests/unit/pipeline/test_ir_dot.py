# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import re

import pytest

from nicemu.p4 import compile_program, compile_text
from nicemu.pipeline import dot_of
from nicemu.programs import find_program

NODE = re.compile(r'"((?:[^"\\]|\\.)*)" \[label="((?:[^"\\]|\\.)*)"(?:, shape=(\w+))?\]')
EDGE = re.compile(r'"((?:[^"\\]|\\.)*)" -> "((?:[^"\\]|\\.)*)"(?: \[label="((?:[^"\\]|\\.)*)"\])?')
CLUSTER = re.compile(r'subgraph "cluster_(\w+)" \{')
SOURCE = """
#include <core.p4>
#include <nicemu.p4>
header byte_t { bit<8> a; bit<8> b; }
struct headers_t { byte_t h; }
struct metadata_t { bit<8> x; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
    state start {
        b.extract(h.h);
        transition select(h.h.a, h.h.b) { (1, 2 .. 3): more; (4 &&& 6, _): reject; }
    }
    state more { transition accept; }
}
control Inner(inout headers_t h) {
    apply { if (h.h.a == 9) { return; } h.h.b = 1; }
}
control C(inout headers_t h, inout metadata_t m, inout nic_metadata_t nic) {
    Inner() inner;
    action one() { m.x = 1; }
    table t { key = { h.h.a: exact; } actions = { one; NoAction; } }
    apply {
        inner.apply(h);
        switch (t.apply().action_run) { one: { m.x = 7; m.x = 8; } default: { exit; } }
        switch (h.h.a) { 1: 2: { m.x = 2; } }
        for (bit<8> i = 0; i < 9; i += 1) {
            if (i == 4) { break; }
            if (i == 3) { continue; }
            h.h.b = h.h.b + 1;
        }
        for (bit<8> j in 1 .. 3) { m.x = j; }
    }
}
control D(packet_out b, in headers_t h, in metadata_t m, in nic_metadata_t nic) { apply { b.emit(h); } }
SmartNic(P(), C(), D()) main;
"""


class Graph:
    """What the text says: nodes with their labels by cluster, and edges by the labels of their ends."""

    def __init__(self, text: str) -> None:
        self.clusters: dict[str, dict[str, str]] = {}
        self.shapes: dict[str, str] = {}
        self.edges: list[tuple[str, str, str]] = []
        nodes: dict[str, str] = {}
        ends: list[tuple[str, str, str, dict[str, str]]] = []
        for line in text.splitlines():
            if found := CLUSTER.search(line):
                nodes = self.clusters[found[1]] = {}
            elif found := EDGE.fullmatch(line.strip()):
                ends.append((found[1], found[2], found[3] or "", nodes))
            elif found := NODE.fullmatch(line.strip()):
                assert found[1] not in nodes
                nodes[found[1]] = found[2]
                self.shapes[found[2]] = found[3] or "box"
            else:
                assert re.fullmatch(
                    r'digraph "\w+" \{|\}|node \[.*\]|edge \[.*\]|label=".*"', line.strip()
                ), line
        for at, to, label, inside in ends:
            assert at in inside
            assert to in inside, "an edge stays in its cluster"
            self.edges.append((inside[at], inside[to], label))
        assert text.count("{\n") == len(re.findall(r"^\s*\}$", text, re.MULTILINE))


@pytest.fixture(scope="module")
def graph() -> Graph:
    return Graph(dot_of(compile_text(SOURCE).program))


def test_there_is_a_cluster_for_the_parser_and_each_control(graph: Graph) -> None:
    assert list(graph.clusters) == ["parser", "control", "deparser"]


def test_states_are_joined_by_the_cases_of_their_selects(graph: Graph) -> None:
    start = r"start\lextract(h.h)\lselect(h.h.a, h.h.b)\l"
    assert graph.edges[:4] == [
        (start, "more", "(0x1, 0x2 .. 0x3)"),
        (start, "reject", "(0x4 &&& 0x6, _)"),
        (start, "reject", "no match"),
        ("more", "accept", ""),
    ]


def test_a_table_shows_keys_and_actions_and_is_left_by_the_action_that_ran(graph: Graph) -> None:
    table = r"table C.t\lh.h.a: exact\l- C.one\l- NoAction\l"
    left = {(to, label) for at, to, label in graph.edges if at == table}
    assert left == {(r"m.x = 7\lm.x = 8\l", "C.one"), ("end", "default")}


def test_a_return_of_an_inner_control_goes_on_behind_it(graph: Graph) -> None:
    condition, assignment = "h.h.a == 9", "h.h.b = 1"
    table = r"table C.t\lh.h.a: exact\l- C.one\l- NoAction\l"
    assert (condition, table, "true") in graph.edges
    assert (condition, assignment, "false") in graph.edges
    assert (assignment, table, "") in graph.edges


def test_loops_go_back_and_breaks_leave_them(graph: Graph) -> None:
    (head,) = [label for label in graph.shapes if label.endswith("< 9")]
    stop, again = (
        next(label for label in graph.shapes if label.endswith(f"== {number}")) for number in (4, 3)
    )
    (other,) = [label for label in graph.shapes if label.startswith("for ")]
    assert (head, stop, "again") in graph.edges
    assert (head, other, "done") in graph.edges
    assert (stop, other, "true") in graph.edges
    assert (stop, again, "false") in graph.edges
    assert (again, head, "true") in graph.edges
    assert (other, "end", "done") in graph.edges


def test_every_node_but_the_first_is_reached(graph: Graph) -> None:
    reached = {to for _, to, _ in graph.edges} | {"begin"}
    labels = {label for nodes in graph.clusters.values() for label in nodes.values()}
    assert {label for label in labels - reached if not label.startswith("start")} == set()


@pytest.mark.parametrize("path", ["p4/kvmatch.p4", "p4/kvserve.p4"])
def test_the_shipped_programs_have_graphs(path: str) -> None:
    assert Graph(dot_of(compile_program(find_program(path)).program)).edges
