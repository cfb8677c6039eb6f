// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Match-action unit execution semantics", leaves the value open; simple_switch takes 0.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t first; h_t[2] more; }
struct metadata_t { bit<8> seen; }

parser P(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { packet.extract(h.first); packet.extract(h.more.next); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action tell(bit<8> n) { m.seen = n; }
    table whole { key = { h.more[0].a: exact; } actions = { tell; } const default_action = tell(0); }
    table part { key = { h.more[0].a[3:0]: exact @name("low"); } actions = { tell; } const default_action = tell(0); }
    table masked { key = { h.more[0].a & 0xf0: ternary @name("high"); } actions = { tell; } const default_action = tell(0); }
    table mirrored { key = { 0xf0 & h.more[0].a: exact @name("top"); } actions = { tell; } const default_action = tell(0); }
    table computed { key = { h.more[0].a + 1: exact @name("next"); } actions = { tell; } const default_action = tell(0); }
    apply {
        if (h.first.a == 1) h.more[0].setInvalid();
        whole.apply();
        h.first.a = m.seen;
        part.apply();
        h.first.a = h.first.a + m.seen;
        masked.apply();
        h.first.a = h.first.a + m.seen;
        mirrored.apply();
        h.first.a = h.first.a + m.seen;
        computed.apply();
        h.first.b = m.seen;
        s.egress_spec = 1;
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out packet, in headers_t h) { apply { packet.emit(h.first); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
