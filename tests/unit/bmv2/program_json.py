# SPDX-License-Identifier: Apache-2.0
"""BMv2 JSON as p4c-bm2-ss writes it, put together by hand, so that a test shows only what it is about."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from nicemu.bmv2 import Loaded, load_bmv2_text
from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.pipeline import Disposition, Engine, Verdict, program_of_json

Node = dict[str, Any]

STANDARD_FIELDS = (
    ("ingress_port", 9),
    ("egress_spec", 9),
    ("egress_port", 9),
    ("instance_type", 32),
    ("packet_length", 32),
    ("enq_timestamp", 32),
    ("enq_qdepth", 19),
    ("deq_timedelta", 32),
    ("deq_qdepth", 19),
    ("ingress_global_timestamp", 48),
    ("egress_global_timestamp", 48),
    ("mcast_grp", 16),
    ("egress_rid", 16),
    ("checksum_error", 1),
    ("parser_error", 32),
    ("priority", 3),
    ("_padding", 3),
)
ALIASES = {
    "queueing_metadata": ("enq_timestamp", "enq_qdepth", "deq_timedelta", "deq_qdepth"),
    "intrinsic_metadata": (
        "ingress_global_timestamp",
        "egress_global_timestamp",
        "mcast_grp",
        "egress_rid",
        "priority",
    ),
}
ERRORS = (
    "NoError",
    "PacketTooShort",
    "NoMatch",
    "StackOutOfBounds",
    "HeaderTooShort",
    "ParserTimeout",
    "ParserInvalidArgument",
)
SCALARS = (
    ("tmp", 8, False),
    ("tmp_0", 32, False),
    ("flag", 1, False),
    ("userMetadata._kept0", 8, False),
    ("userMetadata._lost1", 8, False),
    ("signed", 8, True),
)


# Values


def field(header: str, name: str) -> Node:
    return {"type": "field", "value": [header, name]}


def hexstr(number: int) -> Node:
    return {"type": "hexstr", "value": f"-0x{-number:x}" if number < 0 else f"0x{number:02x}"}


def boolean(value: bool) -> Node:
    return {"type": "bool", "value": value}


def named(kind: str, name: str) -> Node:
    return {"type": kind, "value": name}


def expression(op: str, left: Node | None, right: Node | int, **more: Node) -> Node:
    return {"type": "expression", "value": {"op": op, "left": left, "right": right, **more}}


def wrapped(value: Node) -> Node:
    """Return a value as p4c gives it to primitives: in an expression of its own."""
    return {"type": "expression", "value": value}


def masked(value: Node, width: int) -> Node:
    """Return a value as p4c cuts off a bit<width>."""
    return expression("&", value, hexstr((1 << width) - 1))


def valid(header: str) -> Node:
    return expression("d2b", None, field(header, "$valid$"))


def runtime_data(place: int) -> Node:
    return {"type": "runtime_data", "value": place}


def local(place: int) -> Node:
    return {"type": "local", "value": place}


# Declarations


def primitive(op: str, *parameters: object) -> Node:
    return {"op": op, "parameters": list(parameters)}


def assign(target: object, source: object) -> Node:
    return primitive("assign", target, source)


def set_port(number: int) -> Node:
    return assign(field("standard_metadata", "egress_spec"), hexstr(number))


def action(number: int, name: str, *primitives: Node, data: Sequence[tuple[str, int]] = ()) -> Node:
    given = [{"name": label, "bitwidth": width} for label, width in data]
    return {"name": name, "id": number, "runtime_data": given, "primitives": list(primitives)}


def key(kind: str, header: str, name: str, label: str, mask: str | None = None) -> Node:
    return {"match_type": kind, "name": label, "target": [header, name], "mask": mask}


def table(
    number: int,
    name: str,
    keys: Sequence[Node],
    actions: Sequence[Node],
    following: str | Node | None = None,
    default: Node | None = None,
    **more: object,
) -> Node:
    """Return a table of these `actions`; `following` is what comes next, or what does behind each action."""
    names = [item["name"] for item in actions]
    is_mapping = isinstance(following, dict)
    return {
        "name": name,
        "id": number,
        "key": list(keys),
        "match_type": next((item["match_type"] for item in keys if item["match_type"] != "exact"), "exact"),
        "type": "simple",
        "max_size": 1024,
        "with_counters": False,
        "support_timeout": False,
        "direct_meters": None,
        "action_ids": [item["id"] for item in actions],
        "actions": names,
        "base_default_next": None if is_mapping else following,
        "next_tables": following if is_mapping else dict.fromkeys(names, following),
        "default_entry": default or entry_of(actions[-1]),
        **more,
    }


def entry_of(called: Node, *data: str, const: bool = False) -> Node:
    """Return a default entry."""
    return {
        "action_id": called["id"],
        "action_const": const,
        "action_data": list(data),
        "action_entry_const": const,
    }


def made_up(number: int, called: Node, following: str | None = None) -> Node:
    """Return the table that p4c makes for an action which a control's body calls."""
    name = f"tbl_{called['name'].split('.')[-1]}"
    return table(number, name, [], [called], following, entry_of(called, const=True))


def conditional(number: int, name: str, test: Node, yes: str | None, no: str | None) -> Node:
    return {"name": name, "id": number, "expression": test, "true_next": yes, "false_next": no}


def pipeline(
    number: int,
    name: str,
    first: str | None = None,
    tables: Sequence[Node] = (),
    conditionals: Sequence[Node] = (),
    profiles: Sequence[Node] = (),
) -> Node:
    return {
        "name": name,
        "id": number,
        "init_table": first,
        "tables": list(tables),
        "action_profiles": list(profiles),
        "conditionals": list(conditionals),
    }


def operation(op: str, *parameters: object) -> Node:
    return {"op": op, "parameters": list(parameters)}


def extract(header: str) -> Node:
    return operation("extract", named("regular", header))


def state(
    number: int,
    name: str,
    *operations: Node,
    keys: Sequence[Node] = (),
    transitions: Sequence[Node] = (),
    following: str | None = None,
) -> Node:
    """Return a parser state that goes on to `following` where no transition is taken."""
    otherwise = {"type": "default", "value": None, "mask": None, "next_state": following}
    return {
        "name": name,
        "id": number,
        "parser_ops": list(operations),
        "transition_key": list(keys),
        "transitions": [*transitions, otherwise],
    }


def transition(value: str, following: str | None, mask: str | None = None) -> Node:
    return {"type": "hexstr", "value": value, "mask": mask, "next_state": following}


TAG = [["kind", 8, False], ["value", 8, False], ["small", 8, True], ["five", 5, False], ["three", 3, False]]


def program(**parts: object) -> Node:
    """Return a whole program: it extracts `h`, of type tag_t, and emits `h`, `g` and the stack `s`.

    `parts` take the place of parts of the file. `actions` that stand in no pipeline are called by ingress,
    one behind the other.
    """
    headers = [
        {"name": "scalars", "id": 0, "header_type": "scalars_0", "metadata": True, "pi_omit": True},
        {
            "name": "standard_metadata",
            "id": 1,
            "header_type": "standard_metadata",
            "metadata": True,
            "pi_omit": True,
        },
        *(
            {"name": name, "id": 2 + place, "header_type": "tag_t", "metadata": False, "pi_omit": True}
            for place, name in enumerate(("h", "g"))
        ),
        *(
            {"name": f"s[{place}]", "id": 4 + place, "header_type": "item_t", "metadata": False}
            for place in range(3)
        ),
        {"name": "u.a", "id": 7, "header_type": "item_t", "metadata": False},
        {"name": "u.b", "id": 8, "header_type": "tag_t", "metadata": False},
    ]
    actions: list[Node] = parts.get("actions", [])  # type: ignore[assignment]
    called = [made_up(place, item) for place, item in enumerate(actions)]
    for one, behind in pairwise(called):
        one["base_default_next"] = behind["name"]
        one["next_tables"] = dict.fromkeys(one["next_tables"], behind["name"])
    ingress = pipeline(0, "ingress", called[0]["name"] if called else None, called)
    base: Node = {
        "header_types": [
            {"name": "scalars_0", "id": 0, "fields": [list(item) for item in SCALARS]},
            {
                "name": "standard_metadata",
                "id": 1,
                "fields": [[name, width, False] for name, width in STANDARD_FIELDS],
            },
            {"name": "tag_t", "id": 2, "fields": TAG},
            {"name": "item_t", "id": 3, "fields": [["value", 8, False]]},
        ],
        "headers": headers,
        "header_stacks": [
            {"name": "s", "id": 0, "header_type": "item_t", "size": 3, "header_ids": [4, 5, 6]}
        ],
        "header_union_types": [{"name": "u_t", "id": 0, "headers": [["a", "item_t"], ["b", "tag_t"]]}],
        "header_unions": [{"name": "u", "id": 0, "union_type": "u_t", "header_ids": [7, 8]}],
        "header_union_stacks": [],
        "field_lists": [],
        "errors": [[name, number] for number, name in enumerate(ERRORS)],
        "enums": [],
        "parsers": [
            {
                "name": "parser",
                "id": 0,
                "init_state": "start",
                "parse_states": [state(0, "start", extract("h"))],
            }
        ],
        "parse_vsets": [],
        "deparsers": [
            {
                "name": "deparser",
                "id": 0,
                "order": ["h", "g", "s[0]", "s[1]", "s[2]", "u.a", "u.b"],
                "primitives": [],
            }
        ],
        "meter_arrays": [],
        "counter_arrays": [],
        "register_arrays": [],
        "calculations": [],
        "learn_lists": [],
        "actions": actions,
        "pipelines": [ingress, pipeline(1, "egress")],
        "checksums": [],
        "force_arith": [],
        "extern_instances": [],
        "field_aliases": [
            [f"{header}.{name}", ["standard_metadata", name]]
            for header, names in ALIASES.items()
            for name in names
        ],
        "program": "test.p4i",
        "__meta__": {"version": [2, 23], "compiler": "https://github.com/p4lang/p4c"},
    }
    return {**base, **parts}


def load(document: Node, name: str = "test.json") -> Loaded:
    return load_bmv2_text(json.dumps(document), name)


def engine_of(document: Node) -> Engine:
    """Return an engine that runs a program, which has gone through the IR's JSON as on the way to a NIC."""
    engine = Engine(seed=7)
    engine.load(program_of_json(load(document).program.to_json()))
    return engine


def either_engine(kind: str, document: Node) -> Engine:
    """Return the interpreter or the kernel with a program."""
    if kind == "kernel" and not JIT:
        pytest.skip("kernels need the compiler, which NICEMU_JIT=0 turns off")
    engine = CompiledEngine(optimised=False) if kind == "kernel" else Engine()
    engine.load(load(document).program)
    assert not getattr(engine, "interpreted_because", "")
    return engine


def send(engine: Engine, text: str = "01 02 03 0c ff", port: int = 3, now_ns: int = 0) -> Verdict:
    return engine.process(bytes.fromhex(text), port, now_ns=now_ns, trace=True)


def frames(verdict: Verdict) -> list[tuple[int, str]]:
    if verdict.disposition is Disposition.DROP:
        return []
    return [(port, frame.hex()) for port, frame in ((verdict.port, verdict.frame), *verdict.copies)]


def outcome(document: Node, text: str = "01 02 03 0c ff") -> list[tuple[int, str]]:
    """Return what a program makes of one frame."""
    return frames(send(engine_of(document), text))
