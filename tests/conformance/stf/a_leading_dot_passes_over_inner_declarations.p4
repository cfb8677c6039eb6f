// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Name resolution".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

const bit<8> N = 3;
register<bit<8>>(1) kept;
action put(inout bit<8> x) { x = 7; }
bit<8> next(in bit<8> x) { return x + 1; }

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
    bit<8> N = 9;
    register<bit<8>>(1) kept;
    action put(inout bit<8> x) { x = 8; }
    action next(inout bit<8> x) { x = 50; }
    table t {
        actions = { .put(headers.h.a); }
        default_action = .put(headers.h.a);
    }

    apply {
        t.apply();
        .kept.write(0, .next(.N));
        kept.write(0, 99);
        .kept.read(headers.h.b, 0);
        .put(headers.h.c);
        next(headers.h.d);
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
