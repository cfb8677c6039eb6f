// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Function declarations".
#include <core.p4>
#include <v1model.p4>

struct pair_t { bit<8> x; bit<8> y; }
header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

pair_t pair(in bit<8> n) {
    return { n, n + 1 };
}
bit<8> sum(in pair_t p, in pair_t q) {
    return p.x + q.x;
}

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
        headers.h.c = sum(pair(headers.h.a), pair(headers.h.b));
        if (pair(headers.h.a) != pair(headers.h.b)) {
            headers.h.d = 1;
        }
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
