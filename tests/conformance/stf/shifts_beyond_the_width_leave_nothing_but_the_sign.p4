// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Operations on fixed-width signed integers".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; int<8> b; int<8> c; bit<8> d; }
struct headers_t { data_t h; }
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
        headers.h.a = headers.h.a << headers.h.d;
        headers.h.b = headers.h.b >> headers.h.d;
        headers.h.c = headers.h.c >> 1;
        headers.h.d = 8w0x81 >> headers.h.d;
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
