// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Expression evaluation order".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; bit<8> e; bit<8> f; }
struct headers_t { data_t h; }
struct metadata_t { }

bit<8> mark(inout bit<8> n) {
    n = 1;
    return 2;
}

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
        bit<8> nothing;
        nothing = 8w0 & mark(headers.h.a);
        nothing = 8w0 * mark(headers.h.b);
        nothing = 8w0 >> mark(headers.h.c);
        nothing = 8w255 | mark(headers.h.d);
        nothing = 8w255 |+| mark(headers.h.e);
        nothing = (16w1 ++ mark(headers.h.f))[15:8];
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
