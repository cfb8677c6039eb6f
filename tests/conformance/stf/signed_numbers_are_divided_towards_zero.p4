// SPDX-License-Identifier: Apache-2.0
// p4-spec #1327: P4-16 has no such division, p4c does.
#include <core.p4>
#include <v1model.p4>

header data_t { int<8> a; int<8> b; int<8> c; int<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control Sums(inout headers_t h, inout metadata_t m) { apply { } }
control TheIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        h.h.c = h.h.a / h.h.b;
        h.h.d = h.h.a % h.h.b;
    }
}
control TheEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }

V1Switch(P(), Sums(), TheIngress(), TheEgress(), Sums(), D()) main;
