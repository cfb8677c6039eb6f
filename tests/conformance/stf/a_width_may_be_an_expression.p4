// SPDX-License-Identifier: Apache-2.0
// The draft behind P4-16 1.2.5, "Base types"; p4c #5590.
#include <core.p4>
#include <v1model.p4>

const int W = 4;
header data_t { bit<W+4> a; bit<W*2-1> b; bit<W==4?1:9> c; bit<W<<1> d; bit<(W>3?8:1)> e; }
struct headers_t { data_t h; }
struct metadata_t { }

parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control Sums(inout headers_t h, inout metadata_t m) { apply { } }
control TheIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        h.h.d = (bit<W + W>) h.h.a;
        h.h.e = (bit<8>) h.h.b;
    }
}
control TheEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }

V1Switch(P(), Sums(), TheIngress(), TheEgress(), Sums(), D()) main;
