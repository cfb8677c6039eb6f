// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Operations on header stacks".
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> value; }
struct headers_t { byte_t[4] s; byte_t seen; }
struct metadata_t { }

parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        b.extract(h.s.next);
        transition select(h.s.last.value) { 0: accept; default: start; }
    }
}
control Sums(inout headers_t h, inout metadata_t m) { apply { } }
control TheIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        h.seen.setValid();
        h.seen.value = (bit<8>) h.s.lastIndex;
        if (h.s.size != 4) { h.seen.value = 0xff; }
    }
}
control TheEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }

V1Switch(P(), Sums(), TheIngress(), TheEgress(), Sums(), D()) main;
