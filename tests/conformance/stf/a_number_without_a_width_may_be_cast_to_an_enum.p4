// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Explicit casts", "Implicit casts".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

enum bit<8> Kind { ONE = 1, TWO = 2 }
enum int<8> Step { BACK = -1 }
const Step LEAST = (Step) -3;

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
        if ((Kind) headers.h.a == (Kind) 2) {
            headers.h.a = (Kind) 9;
            headers.h.b = (bit<8>) (int<8>) LEAST;
        }
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
