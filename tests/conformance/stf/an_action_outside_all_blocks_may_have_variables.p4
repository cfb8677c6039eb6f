// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Actions".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
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

action add_twice(inout bit<8> x, in bit<8> by) {
    bit<8> before = x;
    bit<8> sum = before + by;
    sum = sum + by;
    x = sum;
}

action of_header(inout data_t h, bit<8> by) {
    data_t copy = h;
    bit<8> before = copy.b;
    add_twice(copy.b, by);
    for (bit<8> i in 0 .. 1) {
        bit<8> doubled = i * 2;
        copy.c = copy.c + doubled;
    }
    h = copy;
    h.d = before;
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    table t {
        actions = { of_header(headers.h); }
        default_action = of_header(headers.h, 5);
    }

    apply {
        add_twice(headers.h.a, 3);
        t.apply();
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
