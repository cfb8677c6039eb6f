// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Method invocations and function calls".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

bit<8> next(inout bit<8> n) {
    n = n + 1;
    return n;
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
    register<bit<8>>(8) seen;

    apply {
        seen.write(value = next(headers.h.a), index = (bit<32>) next(headers.h.a));
        bit<8> n = 0;
        seen.read(index = (bit<32>) next(n), result = headers.h.b);
        headers.h.b = headers.h.b + headers.h.a;
        seen.read(headers.h.c, 3);
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
