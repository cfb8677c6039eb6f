// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Operations on header stacks".
#include <core.p4>
#include <v1model.p4>

header open_t { bit<8> tag; varbit<32> data; }
struct headers_t { open_t[2] s; }
struct metadata_t { }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
     packet.extract(headers.s.next, 16);
     packet.extract(headers.s.next, 16);
     transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        open_t[2] copy;
        copy[0] = headers.s[0];
        copy[1] = headers.s[1];
        standard.egress_spec = copy == headers.s ? 9w1 : 2;
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
