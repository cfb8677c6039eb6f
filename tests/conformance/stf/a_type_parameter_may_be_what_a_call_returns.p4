// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Parser type declarations".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; }
struct headers_t { data_t h; data_t g; }
struct metadata_t { }

parser See<T>(packet_in packet, out T first, out T second) {
    state start {
        T seen = packet.lookahead<T>();
        first = seen;
        second = packet.lookahead<T>();
        transition accept;
    }
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    See<data_t>() see;
    state start {
        see.apply(packet, headers.h, headers.g);
        packet.advance(16);
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
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
