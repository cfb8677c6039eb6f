# SPDX-License-Identifier: Apache-2.0
"""A frame around small pieces of P4, so that a test shows only what it is about."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from nicemu.p4 import Compiled, CompileError, compile_text
from nicemu.pipeline import Engine, Verdict

TOP = """#include <core.p4>
#include <nicemu.p4>
header tag_t {{ bit<8> kind; bit<16> number; int<8> small; }}
{types}
struct headers_t {{ tag_t tag; tag_t inner; {members} }}
struct metadata_t {{ bit<16> mark; bool flag; }}
struct event_t {{ bit<16> number; bit<8> kind; }}
"""
STATE = "state start { packet.extract(headers.tag); transition accept; }"


def source(
    apply: str = "",
    parts: str = "",
    top: str = "",
    states: str = STATE,
    emit: str = "packet.emit(headers);",
    types: str = "",
    members: str = "",
) -> str:
    """Return a whole program: `apply` is the control's body, `parts` its declarations, `top` stands before
    all blocks, `types` before the struct of headers, which has `members` too.
    """
    return f"""{TOP.format(types=types, members=members)}{top}
parser P(packet_in packet, out headers_t headers, inout metadata_t m, inout nic_metadata_t nic) {{
{states}
}}
control C(inout headers_t headers, inout metadata_t m, inout nic_metadata_t nic) {{
{parts}
apply {{
{apply}
}}
}}
control D(packet_out packet, in headers_t headers, in metadata_t m, in nic_metadata_t nic) {{ apply {{ {emit}
}} }} SmartNic(P(), C(), D()) main;
"""


@pytest.fixture(scope="module")
def p4() -> SimpleNamespace:
    """Return tools: `source`, `compile`, `run(frame, ...)`, and `refusal(...)`, the text of all messages."""

    def compiled(apply: str = "", **parts: str) -> Compiled:
        return compile_text(source(apply, **parts), "test.p4")

    def run(frame: bytes, apply: str = "", **parts: str) -> Verdict:
        engine = Engine()
        engine.load(compiled(apply, **parts).program)
        return engine.process(frame, 1)

    def refusal(apply: str = "", **parts: str) -> str:
        with pytest.raises(CompileError) as caught:
            compiled(apply, **parts)
        return str(caught.value)

    return SimpleNamespace(
        source=source, compile=compiled, compile_text=compile_text, run=run, refusal=refusal
    )
