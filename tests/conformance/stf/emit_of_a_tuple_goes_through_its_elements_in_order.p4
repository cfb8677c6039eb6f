// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Data emission"; p4lang/p4c takes tuples as it does structs.
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; }
struct headers_t { data_t h; data_t g; data_t[2] stack; }
struct metadata_t { }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.h);
        packet.extract(headers.stack.next);
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
        packet.emit({ headers.stack, { headers.g, headers.h } });
    }
}

V1Switch(TheParser(), Verification(), TheIngress(), TheEgress(), Computation(), TheDeparser()) main;
