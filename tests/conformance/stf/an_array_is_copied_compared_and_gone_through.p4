// SPDX-License-Identifier: Apache-2.0
// The draft behind P4-16 1.2.5, "Array types" (p4-spec #1360).
#include <core.p4>
#include <v1model.p4>

header row_t { bit<8> sum; bit<8> same; bit<8> cells[3]; }
struct headers_t { row_t h; }
struct metadata_t { bit<8>[3] row; }

parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control Sums(inout headers_t h, inout metadata_t m) { apply { } }
control TheIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        m.row = { 1, 2, 3 };
        h.h.same = m.row == h.h.cells ? 8w1 : 0;
        m.row = h.h.cells;
        for (bit<8> one in m.row) { h.h.sum = h.h.sum + one; }
    }
}
control TheEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }

V1Switch(P(), Sums(), TheIngress(), TheEgress(), Sums(), D()) main;
