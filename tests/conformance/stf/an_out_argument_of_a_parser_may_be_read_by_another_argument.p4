// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Invoking subparsers", "Calling convention: call by copy in/copy out".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { bit<8> mark; }

parser Inner(out bit<8> fresh, in bit<8> given, out bit<8> seen) {
    state start {
        seen = given;
        fresh = fresh + 1;
        transition accept;
    }
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    Inner() inner;
    bit<8> value;
    bit<8> seen;
    state start {
        packet.extract(headers.h);
        value = headers.h.a;
        inner.apply(value, value + 1, seen);
        headers.h.b = value;
        headers.h.c = seen;
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
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
