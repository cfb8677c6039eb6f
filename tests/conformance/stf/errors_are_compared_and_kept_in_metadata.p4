// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "The error type".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { error seen; }

error { Seven }
error { Eight }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
     packet.extract(headers.h);
     verify(headers.h.a != 7, error.Seven);
     transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        meta.seen = standard.parser_error;
    }
}

control TheEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        headers.h.b = meta.seen == error.Seven ? 8w1 : (meta.seen == error.NoError ? 8w2 : 3);
    }
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
