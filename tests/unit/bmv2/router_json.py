# SPDX-License-Identifier: Apache-2.0
"""One program twice: as P4-16, and as the JSON that p4c-bm2-ss writes for it, put together by hand.

It has what a router has: labels in a stack, a checksum, an lpm table, const entries, a switch over the action
that ran, an action called in a control's body, an exit, a register, a hash, saturating and signed arithmetic.
"""

from __future__ import annotations

from tests.unit.bmv2.program_json import (
    ALIASES,
    ERRORS,
    STANDARD_FIELDS,
    Node,
    action,
    assign,
    boolean,
    conditional,
    entry_of,
    expression,
    extract,
    field,
    hexstr,
    key,
    local,
    made_up,
    masked,
    named,
    operation,
    pipeline,
    primitive,
    runtime_data,
    state,
    table,
    transition,
    valid,
    wrapped,
)

ROUTER_P4 = """
#include <core.p4>
#include <v1model.p4>
error { BadVersion }
header eth_t { bit<16> dst; bit<16> src; bit<8> kind; }
header label_t { bit<7> label; bit<1> bottom; }
header ip_t { bit<4> version; bit<4> words; bit<8> ttl; bit<16> sum; int<16> src; bit<16> dst; }
struct headers_t { eth_t eth; label_t[3] labels; ip_t ip; }
struct metadata_t { bit<8> depth; bit<16> mark; bool low; }

parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.eth);
        m.mark = 0xf0;
        transition select(h.eth.kind) { 0x08: ip; 0x40 &&& 0xf0: labels; default: accept; }
    }
    state labels {
        b.extract(h.labels.next);
        m.depth = m.depth + 1;
        transition select(h.labels.last.bottom) { 1: ip; default: labels; }
    }
    state ip {
        b.extract(h.ip);
        verify(h.ip.version == 4, error.BadVersion);
        transition accept;
    }
}
control V(inout headers_t h, inout metadata_t m) {
    apply {
        verify_checksum(h.ip.isValid(), { h.ip.version, h.ip.words, h.ip.ttl, h.ip.src, h.ip.dst }, h.ip.sum,
            HashAlgorithm.csum16);
    }
}
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<8>>(256) seen;
    bit<8> count;
    action drop() { mark_to_drop(s); }
    action forward(bit<16> dst, bit<9> port) {
        h.eth.src = h.eth.dst;
        h.eth.dst = dst;
        h.ip.ttl = h.ip.ttl - 1;
        s.egress_spec = port;
    }
    action mark(bit<16> value) {
        m.mark = value |+| (bit<16>) m.depth;
        h.ip.src = (int<16>) (m.mark << 3) >> 2;
    }
    action pop() { h.labels.pop_front(1); }
    table route {
        key = { h.ip.dst: lpm; }
        actions = { forward; drop; NoAction; }
        size = 64;
        default_action = NoAction();
    }
    table acl {
        key = { h.ip.dst: ternary; h.eth.kind: exact; }
        actions = { drop; mark; NoAction; }
        size = 3;
        const entries = {
            (0x0100 &&& 0xff00, 0x08): drop();
            (0x0002 &&& 0x000f, 0x08): mark(0xfff0);
            (_, 0x41): mark(5);
        }
        default_action = NoAction();
    }
    table known {
        key = { h.labels[0].label: exact @name("first"); h.labels[1].isValid(): exact @name("second"); }
        actions = { pop; NoAction; }
        default_action = NoAction();
    }
    apply {
        if (h.ip.isValid() && s.checksum_error == 0) {
            if (h.ip.ttl < 2) {
                drop();
                exit;
            }
            switch (route.apply().action_run) {
                forward: { acl.apply(); }
                drop: { m.mark = 9; }
            }
            m.low = h.ip.src < 10;
        } else if (known.apply().hit) {
            m.mark = 7;
        }
        seen.read(count, (bit<32>) h.eth.kind);
        seen.write((bit<32>) h.eth.kind, count + 1);
        hash(m.depth, HashAlgorithm.crc16, 8w1, { h.eth.src, h.eth.kind }, 16w100);
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        if (m.low || s.parser_error == error.BadVersion || !h.ip.isValid()) {
            h.eth.src = h.eth.src ^ m.mark;
        }
        h.eth.dst[15:8] = m.depth;
    }
}
control C(inout headers_t h, inout metadata_t m) {
    apply {
        update_checksum(h.ip.isValid(), { h.ip.version, h.ip.words, h.ip.ttl, h.ip.src, h.ip.dst }, h.ip.sum,
            HashAlgorithm.csum16);
    }
}
control D(packet_out b, in headers_t h) { apply { b.emit(h.eth); b.emit(h.labels); b.emit(h.ip); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""

DEPTH = field("scalars", "userMetadata._depth0")
MARK = field("scalars", "userMetadata._mark1")
LOW = field("scalars", "userMetadata._low2")
COUNT = field("scalars", "I.count")
SUMMED = [field("ip", name) for name in ("version", "words", "ttl", "src", "dst")]
NAMES = ("eth", "ip", "labels[0]", "labels[1]", "labels[2]")


def router_json() -> Node:
    """Return the program as p4c writes it."""
    actions = _actions()
    return {
        "header_types": [
            {
                "name": "scalars_0",
                "id": 0,
                "fields": [
                    ["I.count", 8, False],
                    ["userMetadata._depth0", 8, False],
                    ["userMetadata._mark1", 16, False],
                    ["userMetadata._low2", 1, False],
                    ["_padding_0", 7, False],
                ],
            },
            {
                "name": "standard_metadata",
                "id": 1,
                "fields": [[name, width, False] for name, width in STANDARD_FIELDS],
            },
            {
                "name": "eth_t",
                "id": 2,
                "fields": [["dst", 16, False], ["src", 16, False], ["kind", 8, False]],
            },
            {
                "name": "ip_t",
                "id": 3,
                "fields": [
                    ["version", 4, False],
                    ["words", 4, False],
                    ["ttl", 8, False],
                    ["sum", 16, False],
                    ["src", 16, True],
                    ["dst", 16, False],
                ],
            },
            {"name": "label_t", "id": 4, "fields": [["label", 7, False], ["bottom", 1, False]]},
        ],
        "headers": [
            {"name": "scalars", "id": 0, "header_type": "scalars_0", "metadata": True, "pi_omit": True},
            {
                "name": "standard_metadata",
                "id": 1,
                "header_type": "standard_metadata",
                "metadata": True,
                "pi_omit": True,
            },
            *(
                {"name": name, "id": 2 + place, "header_type": kind, "metadata": False, "pi_omit": True}
                for place, (name, kind) in enumerate(
                    zip(NAMES, ("eth_t", "ip_t", *["label_t"] * 3), strict=True)
                )
            ),
        ],
        "header_stacks": [
            {"name": "labels", "id": 0, "header_type": "label_t", "size": 3, "header_ids": [4, 5, 6]}
        ],
        "header_union_types": [],
        "header_unions": [],
        "header_union_stacks": [],
        "field_lists": [],
        "errors": [[name, number] for number, name in enumerate((*ERRORS, "BadVersion"))],
        "enums": [],
        "parsers": [{"name": "parser", "id": 0, "init_state": "start", "parse_states": _states()}],
        "parse_vsets": [],
        "deparsers": [
            {
                "name": "deparser",
                "id": 0,
                "order": ["eth", "labels[0]", "labels[1]", "labels[2]", "ip"],
                "primitives": [],
            }
        ],
        "meter_arrays": [],
        "counter_arrays": [],
        "register_arrays": [{"name": "I.seen", "id": 0, "size": 256, "bitwidth": 8}],
        "calculations": [
            {
                "name": "calc_",
                "id": 0,
                "algo": "crc16",
                "input": [field("eth", "src"), field("eth", "kind")],
            },
            {"name": "calc_0", "id": 1, "algo": "csum16", "input": SUMMED},
            {"name": "calc_1", "id": 2, "algo": "csum16", "input": SUMMED},
        ],
        "learn_lists": [],
        "actions": actions,
        "pipelines": [_ingress(actions), _egress(actions)],
        "checksums": [_checksum(0, "calc_0", update=True), _checksum(1, "calc_1", update=False)],
        "force_arith": [],
        "extern_instances": [],
        "field_aliases": [
            [f"{header}.{name}", ["standard_metadata", name]]
            for header, names in ALIASES.items()
            for name in names
        ],
        "program": "router.p4i",
        "__meta__": {"version": [2, 23], "compiler": "https://github.com/p4lang/p4c"},
    }


def _states() -> list[Node]:
    deeper = masked(expression("+", DEPTH, hexstr(1)), 8)
    holds = expression("==", field("ip", "version"), hexstr(4))
    return [
        state(
            0,
            "start",
            extract("eth"),
            operation("set", DEPTH, hexstr(0)),
            operation("set", MARK, hexstr(0xF0)),
            operation("set", LOW, wrapped(expression("b2d", None, boolean(False)))),
            keys=[field("eth", "kind")],
            transitions=[transition("0x08", "ip"), transition("0x40", "labels", "0xf0")],
        ),
        state(
            1,
            "labels",
            operation("extract", named("stack", "labels")),
            operation("set", DEPTH, wrapped(deeper)),
            keys=[{"type": "stack_field", "value": ["labels", "bottom"]}],
            transitions=[transition("0x01", "ip")],
            following="labels",
        ),
        state(2, "ip", extract("ip"), operation("verify", holds, hexstr(7))),
    ]


def _actions() -> list[Node]:
    drop = primitive("mark_to_drop", named("header", "standard_metadata"))
    less = masked(expression("+", field("ip", "ttl"), hexstr(0xFF)), 8)
    more = expression("usat_cast", expression("+", local(0), masked(DEPTH, 16)), hexstr(16))
    signed = expression("two_comp_mod", masked(expression("<<", MARK, hexstr(3)), 16), hexstr(16))
    low = expression("<", field("ip", "src"), hexstr(10))
    counted = masked(expression("+", COUNT, hexstr(1)), 8)
    depth = masked(expression("<<", masked(DEPTH, 16), hexstr(8)), 16)
    sliced = expression(
        "|",
        masked(expression("&", field("eth", "dst"), hexstr(0x00FF)), 16),
        expression("&", depth, hexstr(0xFF00)),
    )
    forward = [
        assign(field("eth", "src"), field("eth", "dst")),
        assign(field("eth", "dst"), runtime_data(0)),
        assign(field("ip", "ttl"), wrapped(less)),
        assign(field("standard_metadata", "egress_spec"), runtime_data(1)),
    ]
    bodies: list[tuple[str, list[Node], list[tuple[str, int]]]] = [
        ("NoAction", [], []),
        ("NoAction", [], []),
        ("NoAction", [], []),
        ("I.drop", [drop], []),
        ("I.drop", [drop], []),
        ("I.drop", [drop], []),
        ("I.forward", forward, [("dst", 16), ("port", 9)]),
        (
            "I.mark",
            [
                assign(MARK, wrapped(more)),
                assign(
                    field("ip", "src"),
                    wrapped(expression("two_comp_mod", expression(">>", signed, hexstr(2)), hexstr(16))),
                ),
            ],
            [("value", 16)],
        ),
        ("I.pop", [primitive("pop", named("header_stack", "labels"), hexstr(1))], []),
        ("router72", [primitive("exit")], []),
        ("router76", [assign(MARK, hexstr(9))], []),
        ("router78", [assign(LOW, wrapped(expression("b2d", None, low)))], []),
        ("router80", [assign(MARK, hexstr(7))], []),
        (
            "router82",
            [
                primitive("register_read", COUNT, named("register_array", "I.seen"), field("eth", "kind")),
                primitive(
                    "register_write",
                    named("register_array", "I.seen"),
                    field("eth", "kind"),
                    wrapped(counted),
                ),
                primitive(
                    "modify_field_with_hash_based_offset",
                    DEPTH,
                    hexstr(1),
                    named("calculation", "calc_"),
                    hexstr(100),
                ),
            ],
            [],
        ),
        ("router90", [assign(field("eth", "src"), wrapped(expression("^", field("eth", "src"), MARK)))], []),
        ("router92", [assign(field("eth", "dst"), wrapped(sliced))], []),
    ]
    return [action(number, name, *body, data=data) for number, (name, body, data) in enumerate(bodies)]


def _ingress(actions: list[Node]) -> Node:
    by_number = dict(enumerate(actions))
    is_whole = expression(
        "and",
        valid("ip"),
        expression("==", field("standard_metadata", "checksum_error"), hexstr(0)),
    )
    tables = [
        made_up(0, by_number[3], "tbl_router72"),
        made_up(1, by_number[9], "I.route"),
        table(
            2,
            "I.route",
            [key("lpm", "ip", "dst", "h.ip.dst")],
            [by_number[6], by_number[4], by_number[0]],
            {"I.forward": "I.acl", "I.drop": "tbl_router76", "NoAction": "tbl_router78"},
            entry_of(by_number[0]),
            max_size=64,
            base_default_next="tbl_router78",
        ),
        table(
            3,
            "I.acl",
            [key("ternary", "ip", "dst", "h.ip.dst"), key("exact", "eth", "kind", "h.eth.kind")],
            [by_number[5], by_number[7], by_number[1]],
            "tbl_router78",
            entry_of(by_number[1]),
            max_size=3,
            entries=[
                _entry(1, "0x0100", "0xff00", "0x08", 5),
                _entry(2, "0x0002", "0x000f", "0x08", 7, "0xfff0"),
                _entry(3, "0x0000", "0x0000", "0x41", 7, "0x5"),
            ],
        ),
        made_up(4, by_number[10], "tbl_router78"),
        made_up(5, by_number[11], "tbl_router82"),
        table(
            6,
            "I.known",
            [
                key("exact", "labels[0]", "label", "first"),
                key("exact", "labels[1]", "$valid$", "second"),
            ],
            [by_number[8], by_number[2]],
            {"__HIT__": "tbl_router80", "__MISS__": "tbl_router82"},
            entry_of(by_number[2]),
        ),
        made_up(7, by_number[12], "tbl_router82"),
        made_up(8, by_number[13]),
    ]
    conditionals = [
        conditional(0, "node_2", is_whole, "node_3", "I.known"),
        conditional(1, "node_3", expression("<", field("ip", "ttl"), hexstr(2)), "tbl_drop", "I.route"),
    ]
    return pipeline(0, "ingress", "node_2", tables, conditionals)


def _egress(actions: list[Node]) -> Node:
    is_marked = expression(
        "or",
        expression(
            "or",
            expression("d2b", None, LOW),
            expression("==", field("standard_metadata", "parser_error"), hexstr(7)),
        ),
        expression("not", None, valid("ip")),
    )
    return pipeline(
        1,
        "egress",
        "node_17",
        [made_up(9, actions[14], "tbl_router92"), made_up(10, actions[15])],
        [conditional(2, "node_17", is_marked, "tbl_router90", "tbl_router92")],
    )


def _entry(priority: int, value: str, mask: str, kind: str, called: int, *data: str) -> Node:
    return {
        "match_key": [
            {"match_type": "ternary", "key": value, "mask": mask},
            {"match_type": "exact", "key": kind},
        ],
        "action_entry": {"action_id": called, "action_data": list(data)},
        "priority": priority,
    }


def _checksum(number: int, calculation: str, update: bool) -> Node:
    return {
        "name": f"cksum_{number}",
        "id": number,
        "target": ["ip", "sum"],
        "type": "generic",
        "calculation": calculation,
        "verify": not update,
        "update": update,
        "if_cond": valid("ip"),
    }
