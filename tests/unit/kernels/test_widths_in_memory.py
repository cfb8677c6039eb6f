# SPDX-License-Identifier: Apache-2.0
"""Numbers of any width lie in memory as LLVM's passes and its code both take them to."""

from __future__ import annotations

from random import Random

import pytest

from nicemu.hot import JIT
from nicemu.kernels import CompiledEngine
from nicemu.p4 import compile_text
from nicemu.pipeline import Engine

pytestmark = pytest.mark.skipif(not JIT, reason="kernels need the compiler, which NICEMU_JIT=0 turns off")

WIDTHS = (1, 9, 33, 63, 64, 65, 70, 72, 80, 88, 95, 96, 97, 104, 120, 127, 128, 129, 160, 200)
SOURCE = """
#include <core.p4>
#include <v1model.p4>
{headers}
header which_t {{ bit<8> first; bit<8> second; }}
struct headers_t {{ which_t which; {stacks} }}
struct metadata_t {{ {arrays} }}
parser P(packet_in packet, out headers_t headers, inout metadata_t m, inout standard_metadata_t s) {{
    state start {{
        packet.extract(headers.which);
        transition select(headers.which.first) {{ 0: last; _: first; }}
    }}
    state first {{ {extracts} transition last; }}
    state last {{ {extracts} transition accept; }}
}}
control None(inout headers_t headers, inout metadata_t m) {{ apply {{ }} }}
control I(inout headers_t headers, inout metadata_t m, inout standard_metadata_t s) {{
    apply {{
        {stores}
        m.at = headers.which.first;
        {loads}
    }}
}}
control E(inout headers_t headers, inout metadata_t m, inout standard_metadata_t s) {{ apply {{ }} }}
control D(packet_out packet, in headers_t headers) {{ apply {{ packet.emit(headers); }} }}
V1Switch(P(), None(), I(), E(), None(), D()) main;
"""


def source(is_changed: bool) -> str:
    """A program with a stack of headers and an array of each width."""

    def each(text: str) -> str:
        return " ".join(text.format(width=width, rest=8 - width % 8) for width in WIDTHS)

    place = "headers.which.{at} & 1"
    first, second = place.format(at="first"), place.format(at="second")
    return SOURCE.format(
        headers=each("header h{width}_t {{ bit<{width}> f; bit<{rest}> p; }}"),
        stacks=each("h{width}_t[2] s{width};"),
        arrays=each("bit<{width}>[2] a{width};") + "bit<8> at;",
        extracts=each("packet.extract(headers.s{width}.next);"),
        stores=each(f"m.a{{width}}[{first}] = headers.s{{width}}[{second}].f;") if is_changed else "",
        loads=each(f"headers.s{{width}}[{second}].f = m.a{{width}}[m.at & 1];") if is_changed else "",
    )


@pytest.mark.parametrize("is_changed", [False, True])
@pytest.mark.parametrize("optimised", [False, True])
def test_stacks_and_arrays_of_numbers_of_any_width_hold_what_was_stored(
    is_changed: bool, optimised: bool
) -> None:
    program = compile_text(source(is_changed)).program
    plain, fast = Engine(), CompiledEngine(optimised=optimised)
    for engine in (plain, fast):
        engine.load(program)
    assert fast.kernel is not None, fast.interpreted_because
    chance = Random(3)
    for first in (0, 1, 0, 1):
        for second in (0, 1):
            frame = bytes([first, second]) + chance.randbytes(2 * sum(width // 8 + 1 for width in WIDTHS) + 9)
            assert fast.process(frame, 1).frame == plain.process(frame, 1).frame
