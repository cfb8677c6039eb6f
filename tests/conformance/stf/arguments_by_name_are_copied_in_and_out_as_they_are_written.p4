// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out".
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

void both(out bit<8> first, out bit<8> second) {
    first = 7;
    second = 8;
}

void add(in bit<8> by, inout bit<8> x) {
    x = x + by;
}

bit<8> added(in bit<8> by, inout bit<8> x) {
    x = x + by;
    return x;
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    action exits(in bit<8> by, inout bit<8> x) {
        x = x + by;
        exit;
    }

    apply {
        both(second = headers.h.a, first = headers.h.a);
        add(x = headers.h.b, by = next(headers.h.b));
        headers.h.c = added(x = headers.h.c, by = next(headers.h.c));
        exits(x = headers.h.d, by = next(headers.h.d));
        headers.h.d = 99;
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
