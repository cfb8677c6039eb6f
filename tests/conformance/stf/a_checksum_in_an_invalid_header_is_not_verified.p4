// SPDX-License-Identifier: Apache-2.0
// p4lang/behavioral-model, "The BMv2 Simple Switch target".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<16> c; bit<16> sum; }
header first_t { bit<8> kind; }
struct headers_t { first_t first; data_t h; }
struct metadata_t { }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.first);
        transition select(headers.first.kind) {
            1: with_h;
            _: accept;
        }
    }
    state with_h {
        packet.extract(headers.h);
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply {
        verify_checksum(true, { headers.h.a, headers.h.b, headers.h.c }, headers.h.sum, HashAlgorithm.csum16);
    }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = standard.checksum_error == 1 ? 9w2 : 1;
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
