// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out", "Parameterization".
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<8> c; }
struct headers_t { h_t h; }
struct metadata_t { }
control Less_t(in bit<8> x, in bit<8> y, out bit<8> r, in bit<8> more = 4);
control Less(in bit<8> y, in bit<8> x, out bit<8> rest, in bit<8> m = 9) { apply { rest = y - x + m; } }
control Around(inout bit<8> v)(Less_t less) { apply { less.apply(r = v, y = 3, x = 5); } }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    Less() less;
    Around(less) around;
    apply { around.apply(h.h.a); less.apply(x = 1, y = 2, rest = h.h.b); }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
