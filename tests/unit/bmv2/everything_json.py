# SPDX-License-Identifier: Apache-2.0
"""A program that has everything which the router has not: it means nothing, and is there to be spoilt."""

from __future__ import annotations

import json

from tests.unit.bmv2.program_json import (
    Node,
    action,
    assign,
    expression,
    field,
    hexstr,
    key,
    made_up,
    named,
    operation,
    pipeline,
    primitive,
    program,
    runtime_data,
    state,
    table,
    wrapped,
)


def everything_json() -> Node:
    """Return the program."""
    hashed = primitive(
        "modify_field_with_hash_based_offset",
        field("h", "kind"),
        hexstr(0),
        named("calculation", "calc"),
        hexstr(9),
    )
    item = expression("dereference_header_stack", named("header_stack", "s"), field("h", "three"))
    vector = {"type": "parameters_vector", "value": [field("h", "kind")]}
    every = action(
        0,
        "C.every",
        primitive("_jump_if_zero", runtime_data(0), hexstr(2)),
        primitive("add_header", named("header", "g")),
        primitive("assign_header", named("header", "g"), named("header", "h")),
        primitive("push", named("header_stack", "s"), hexstr(1)),
        primitive("assign_VL", field("w", "rest"), field("v", "rest")),
        primitive("assign_union", named("header_union", "us[0]"), named("header_union", "us[1]")),
        assign(wrapped(expression("access_field", item, 0)), hexstr(1)),
        hashed,
        primitive("modify_field_rng_uniform", field("h", "kind"), hexstr(0), hexstr(9)),
        primitive("generate_digest", hexstr(1), hexstr(1)),
        primitive("clone_ingress_pkt_to_egress", hexstr(1), hexstr(1)),
        primitive("count", named("counter_array", "C.counted"), hexstr(0)),
        primitive("execute_meter", named("meter_array", "C.metered"), hexstr(0), field("h", "value")),
        primitive("register_read", field("h", "value"), named("register_array", "C.r"), hexstr(0)),
        primitive("log_msg", {"type": "string", "value": "{}"}, vector),
        primitive("truncate", hexstr(9)),
        primitive("assert", wrapped(expression("valid_union", None, named("header_union", "u")))),
        data=[("x", 8)],
    )
    chosen = table(
        0,
        "C.t",
        [key("ternary", "h", "kind", "k", mask="0x0f"), key("range", "h", "value", "v")],
        [every],
        type="indirect_ws",
        action_profile="C.p",
        direct_meters="C.direct",
        with_counters=True,
    )
    del chosen["default_entry"]
    selector = {"algo": "crc16", "input": [field("h", "kind")]}
    profile = {"name": "C.p", "id": 0, "max_size": 8, "selector": selector}
    document = program(
        actions=[every],
        pipelines=[
            pipeline(0, "ingress", "C.t", [chosen], profiles=[profile]),
            pipeline(1, "egress"),
        ],
        calculations=[{"name": "calc", "id": 0, "algo": "xor16", "input": [named("header", "h")]}],
        learn_lists=[{"id": 1, "name": "learn_t", "elements": [field("h", "kind"), hexstr(3)]}],
        field_lists=[{"id": 1, "name": "fl", "elements": [field("scalars", "tmp")]}],
        counter_arrays=[
            {"name": "C.counted", "id": 0, "size": 4, "is_direct": False},
            {"name": "C.own", "id": 1, "is_direct": True, "binding": "C.t"},
        ],
        meter_arrays=[
            {"name": "C.metered", "id": 0, "is_direct": False, "rate_count": 2, "type": "bytes", "size": 4},
            {
                "name": "C.direct",
                "id": 1,
                "is_direct": True,
                "rate_count": 2,
                "type": "packets",
                "size": 4,
                "binding": "C.t",
                "result_target": ["scalars", "tmp"],
            },
        ],
        register_arrays=[{"name": "C.r", "id": 0, "size": 4, "bitwidth": 16}],
        parse_vsets=[{"name": "P.set", "id": 0, "compressed_bitwidth": 8}],
    )
    document["header_types"].append(
        {"name": "var_t", "id": 9, "fields": [["count", 8, False], ["rest", "*"]], "max_length": 5}
    )
    document["headers"] += [
        {"name": name, "id": 20 + place, "header_type": "var_t", "metadata": False}
        for place, name in enumerate(("v", "w"))
    ] + [
        {"name": f"us[{place}].{name}", "id": 30 + 2 * place + part, "header_type": kind, "metadata": False}
        for place in range(2)
        for part, (name, kind) in enumerate((("a", "item_t"), ("b", "tag_t")))
    ]
    document["header_unions"] += [
        {
            "name": f"us[{place}]",
            "id": 1 + place,
            "union_type": "u_t",
            "header_ids": [30 + 2 * place, 31 + 2 * place],
        }
        for place in range(2)
    ]
    document["header_union_stacks"] = [
        {"name": "us", "id": 0, "union_type": "u_t", "header_union_ids": [1, 2]}
    ]
    ahead = {"type": "lookahead", "value": [0, 8]}
    last = {"type": "stack_field", "value": ["s", "value"]}
    in_set = {"type": "parse_vset", "value": "P.set", "mask": None, "next_state": "more"}
    document["parsers"][0]["parse_states"] = [
        state(
            0,
            "start",
            operation("extract_VL", named("regular", "v"), wrapped(expression("*", ahead, hexstr(8)))),
            operation("extract", named("stack", "s")),
            operation("set", field("scalars", "tmp"), last),
            operation("advance", hexstr(8)),
            keys=[ahead],
            transitions=[in_set],
        ),
        state(
            1,
            "more",
            operation("extract", {"type": "union_stack", "value": ["us", "a"]}),
            operation("primitive", primitive("add_header", named("header", "h"))),
        ),
    ]
    document["actions"].append(action(1, "late", primitive("recirculate", hexstr(1))))
    document["pipelines"][1] = pipeline(1, "egress", "tbl_late", [made_up(1, document["actions"][1])])
    return json.loads(json.dumps(document))  # type: ignore[no-any-return]
