// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Invoking subparsers".
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> v; }
struct headers_t { byte_t h; byte_t g; }
struct metadata_t { }

error { Seven }
parser Inner(packet_in packet, out byte_t h) {
    state start {
        packet.extract(h);
        verify(h.v != 7, error.Seven);
        transition accept;
    }
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    Inner() inner;

    state start {
     inner.apply(packet, headers.h);
     packet.extract(headers.g);
     transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = headers.g.isValid() ? 9w1 : 2;
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
