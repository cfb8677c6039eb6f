// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out", "Actions".
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<8> c; }
struct headers_t { h_t h; }
struct metadata_t { }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    action both(in bit<8> r, in bit<8> t = 5) { h.h.b = r + t; }
    action data(in bit<8> r = 1, bit<8> d = 7) { h.h.c = r + d; }
    table bound { key = { h.h.a: exact; } actions = { both(h.h.a); NoAction; } default_action = both(h.h.a); }
    table given {
        key = { h.h.a: exact; }
        actions = { data; NoAction; }
        default_action = data();
        const entries = { 1: data(d = 9); 2: data(1, 3); }
    }
    apply { bound.apply(); given.apply(); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
