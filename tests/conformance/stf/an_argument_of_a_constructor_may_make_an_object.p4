// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Constructor invocations", "Control plane names".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

control Counting(inout bit<8> value)(register<bit<8>> seen) {
    apply {
        bit<8> before;
        seen.read(before, 0);
        value = value + before;
        seen.write(0, value);
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
    Counting(register<bit<8>>(1)) first;
    Counting(register<bit<8>>(1)) second;
    apply {
        first.apply(headers.h.a);
        first.apply(headers.h.b);
        second.apply(headers.h.c);
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
