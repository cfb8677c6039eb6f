// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Parameterization".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

control Sum(inout bit<8> v, register<bit<8>> place) {
    bit<8> held;
    action add(bit<8> more) {
        place.read(held, 1);
        v = held + v + more;
    }
    apply {
        add(1);
        place.write(1, v);
    }
}

control Both(inout bit<8> v, register<bit<8>> one, register<bit<8>> other) {
    Sum() sum;
    apply {
        sum.apply(v, one);
        sum.apply(v, other);
    }
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
    register<bit<8>>(4) first;
    register<bit<8>>(4) second;
    Sum() sum;
    Both() both;

    apply {
        sum.apply(headers.h.a, first);
        sum.apply(headers.h.b, second);
        sum.apply(headers.h.c, first);
        both.apply(headers.h.d, second, first);
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
