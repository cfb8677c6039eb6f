// SPDX-License-Identifier: Apache-2.0
// v1model.p4, "resubmit_preserving_field_list"; the draft behind P4-16 1.2.5, "Array types" (p4-spec #1360).
#define V1MODEL_VERSION 20200408
#include <core.p4>
#include <v1model.p4>

header seen_t { bit<8> kept; bit<8> lost; }
struct pair_t { @field_list(1) bit<8> a; bit<8> b; }
struct headers_t { seen_t h; }
struct metadata_t { pair_t[2] pairs; }

parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control Sums(inout headers_t h, inout metadata_t m) { apply { } }
control TheIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        if (s.instance_type == 0) {
            m.pairs[1] = { 3, 4 };
            resubmit_preserving_field_list(1);
        } else {
            h.h = { m.pairs[1].a, m.pairs[1].b };
        }
    }
}
control TheEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }

V1Switch(P(), Sums(), TheIngress(), TheEgress(), Sums(), D()) main;
