# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from nicemu.p4 import compile_text
from nicemu.pipeline import Engine

SWITCH = """
#include <core.p4>
#include <v1model.p4>
header byte_t { bit<8> port; }
struct headers_t { byte_t h; }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<48>>(16) times;
    apply {
        times.write((bit<32>) s.ingress_port, s.ingress_global_timestamp);
        if (h.h.port == 0xff) { mark_to_drop(s); }
        else if (h.h.port == 0xfe) { s.mcast_grp = 1; }
        else if (h.h.port == 0xfd) { s.egress_spec = 510; }
        else { s.egress_spec = (bit<9>) h.h.port; }
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
"""The first byte of a packet says where it goes: a port, 0xfd the host, 0xfe group 1, 0xff nowhere."""
PROGRAM = compile_text(SWITCH).program


@pytest.fixture
def engine() -> Engine:
    """An engine that runs SWITCH."""
    made = Engine()
    made.load(PROGRAM)
    return made
