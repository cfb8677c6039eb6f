# SPDX-License-Identifier: Apache-2.0
"""A v1model program around small pieces of P4, and scripts run on it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import SimpleNamespace

import pytest

from nicemu.p4 import compile_text
from nicemu.pipeline import Program
from nicemu.stf import Report, ScriptError, parse_script, run_script

SWITCH = """
#include <core.p4>
#include <v1model.p4>
header pair_t {{ bit<8> a; bit<8> b; }}
header nibbles_t {{ bit<4> x; bit<12> y; }}
struct headers_t {{ pair_t h; nibbles_t[2] ns; }}
struct metadata_t {{ int<8> i; bit<32> ip; }}
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    state start {{ b.extract(h.h); transition select(h.h.a) {{ 0xee: two; default: accept; }} }}
    state two {{ b.extract(h.ns.next); b.extract(h.ns.next); transition accept; }}
}}
control V(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{
    action send(bit<9> port) {{ s.egress_spec = port; }}
    action mark(bit<8> value, bit<9> port) {{ h.h.b = value; s.egress_spec = port; }}
    action add_to_b(int<8> value) {{ h.h.b = h.h.b + (bit<8>) value; s.egress_spec = 5; }}
    action drop() {{ mark_to_drop(s); }}
    {parts}
    apply {{ {ingress} }}
}}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ {egress} }} }}
control C(inout headers_t h, inout metadata_t m) {{ apply {{ }} }}
control D(packet_out b, in headers_t h) {{ apply {{ b.emit(h); }} }}
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
TABLE = "table t {{ key = {{ {} }} actions = {{ send; mark; add_to_b; drop; }} default_action = drop; }}"


def run(
    script: str,
    ingress: str = "",
    parts: str = "",
    egress: str = "",
    trace: bool = False,
    kernel: bool = False,
) -> Report:
    """Run a script on the switch with these pieces."""
    text = SWITCH.format(ingress=ingress, parts=parts, egress=egress)
    return run_script(compiled(text), parse_script(script), trace, kernel)


@cache
def compiled(text: str) -> Program:
    """Compile a program once."""
    return compile_text(text).program


@pytest.fixture(scope="module")
def stf() -> SimpleNamespace:
    """Return tools: `run`, `failures` (the messages of one), `table` with keys, `with_keys`, `refusal` of a
    script's text.
    """

    def failures(script: str, ingress: str = "", parts: str = "", egress: str = "") -> list[str]:
        return [failure.diagnostic.message for failure in run(script, ingress, parts, egress).failures]

    def with_keys(keys: str) -> Callable[[str], list[str]]:
        pieces = {"parts": TABLE.format(keys), "ingress": "t.apply();"}
        return lambda script: failures(script, **pieces)

    def refusal(text: str) -> ScriptError:
        with pytest.raises(ScriptError) as caught:
            parse_script(text)
        return caught.value

    return SimpleNamespace(
        run=run, failures=failures, table=TABLE.format, with_keys=with_keys, refusal=refusal
    )
