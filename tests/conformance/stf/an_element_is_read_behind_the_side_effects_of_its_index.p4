// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Expression evaluation order".
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> v; }
struct headers_t { byte_t h; byte_t[3] s; }
struct metadata_t { }

bit<8> pop(inout byte_t[3] s) {
    s.pop_front(1);
    return 0;
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
     packet.extract(headers.h);
     packet.extract(headers.s.next);
     packet.extract(headers.s.next);
     packet.extract(headers.s.next);
     transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        headers.h.v = headers.s[pop(headers.s)].v;
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
