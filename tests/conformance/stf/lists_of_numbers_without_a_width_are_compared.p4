// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Operations on tuple expressions", "Operations on structure-valued expressions".
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
    apply {
        bit<8> a = headers.h.a;
        bit<8> b = headers.h.b;
        headers.h.a = { a, 2 } == { 1, 2 } ? 8w1 : 0;
        headers.h.b = { -1, { 1 << 70, 2 } } == { -1, { 1 << 70, 2 } } ? 8w1 : 0;
        headers.h.c = { a, -1 } == { 1, 255 } ? 8w1 : 0;
        headers.h.d = { a, { 3, true } } != { 1, { 2, true } } ? 8w1 : 0;
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
