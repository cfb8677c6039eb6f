// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Ranges", "Entries".
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

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    action put(bit<8> value) {
        headers.h.a = value;
    }
    table t {
        key = {
            (int<8>) headers.h.a: range @name("a");
            (int<8>) headers.h.b: range @name("b");
        }
        actions = { put; }
        size = 2;
        const entries = {
            (-5 .. 6, -1 .. 3): put(9);
            (_, -128 .. 127): put(8);
        }
    }

    apply {
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
