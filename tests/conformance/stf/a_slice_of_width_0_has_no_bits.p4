// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Operations on fixed-width bit types (unsigned integers)".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<16> b; }
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
        bit<0> none = headers.h.b[3+:0];
        headers.h.b = none ++ (headers.h.b + 1) ++ headers.h.a[8+:0];
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
