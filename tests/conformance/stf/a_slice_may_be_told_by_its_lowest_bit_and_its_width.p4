// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification, the draft behind 1.2.5, "Operations on fixed-width bit types (unsigned integers)".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
const int LOW = 3;
struct metadata_t { }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.h);
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        headers.h.a[4+:3] = 3w2;
        headers.h.b[0+:4] = headers.h.a[LOW + 1 +: 4];
        headers.h.c[1 +: 4] = 4w6;
        headers.h.d[0+:8][0+:4] = headers.h.d[4 +: (2 + 2)] ^ 4w15;
    }
}

control TheEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
}

control Computation(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheDeparser(packet_out packet, in headers_t headers) {
    apply {
        packet.emit(headers);
    }
}

V1Switch(TheParser(), Verification(), TheIngress(), TheEgress(), Computation(), TheDeparser()) main;
