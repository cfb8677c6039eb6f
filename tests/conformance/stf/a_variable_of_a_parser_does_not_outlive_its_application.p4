// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Sub-parsers".
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> v; }
struct headers_t { byte_t h; byte_t g; }
struct metadata_t { }

parser Count(packet_in packet, out byte_t h) {
    bit<8> n = 0;
    state start {
        packet.extract(h);
        n = n + 1;
        h.v = n;
        transition accept;
    }
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    Count() count;

    state start {
     count.apply(packet, headers.h);
     count.apply(packet, headers.g);
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
