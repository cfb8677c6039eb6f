// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "For statement", "Operations on lists".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }
struct pair_t { bit<8> left; bit<8> right; }

const list<bit<8>> POWERS = (list<bit<8>>) { 1, 2, 4, 8, 16 };

bit<8> counted(inout bit<8> value) {
    value = value + 1;
    return value;
}

control Sum(inout bit<8> total)(list<pair_t> pairs) {
    apply {
        for (pair_t pair in pairs) {
            total = total + pair.left * pair.right;
        }
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
    Sum((list<pair_t>) { { 2, 3 }, { right = 5, left = 4 } }) sum;
    Sum((list<pair_t>) { }) nothing;
    apply {
        headers.h.a = 0;
        for (bit<8> power in POWERS) {
            if (power == 2) { continue; }
            if (power == 16) { break; }
            headers.h.a = headers.h.a + power;
        }
        for (bit<8> value in (list<bit<8>>) { headers.h.b, counted(headers.h.b), headers.h.b, 1 }) {
            headers.h.b = 0x80;
            headers.h.c = (headers.h.c << 2) + value;
        }
        sum.apply(headers.h.d);
        nothing.apply(headers.h.d);
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
