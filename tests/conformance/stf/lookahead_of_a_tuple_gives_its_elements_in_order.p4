// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Lookahead".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct pair_t { bit<8> first; bit<8> second; }
struct headers_t { data_t h; }
struct metadata_t { tuple<bit<4>, bit<4>, pair_t> ahead; }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        meta.ahead = packet.lookahead<tuple<bit<4>, bit<4>, pair_t>>();
        packet.extract(headers.h);
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        headers.h.a = meta.ahead[1] ++ meta.ahead[0];
        headers.h.b = meta.ahead[2].second;
        headers.h.c = meta.ahead[2].first;
        headers.h.d = headers.h.d + 1;
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
