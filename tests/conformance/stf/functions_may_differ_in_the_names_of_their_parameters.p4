// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Extern objects", "Method invocations and function calls".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

bit<8> sum(in bit<8> left, in bit<8> right) {
    return left + right;
}
bit<8> sum(in bit<8> left, in bit<16> wide) {
    return left + wide[7:0];
}
bit<8> sum<T>(in T same, in bit<8> left) {
    return left + 1;
}
bit<8> sum(in bit<8> left) {
    return left;
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
        headers.h.b = sum(right = headers.h.b, left = headers.h.a);
        headers.h.c = sum(left = headers.h.a, wide = 0x105);
        headers.h.d = sum(left = headers.h.a, same = headers.h);
        headers.h.a = sum(headers.h.a) + sum(left = 1);
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
