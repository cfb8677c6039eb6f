// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Operations on headers", "Header stack expressions".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; data_t g; data_t[2] s; }
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
        bool bare = {#} == headers.g && {#} != headers.h;
        headers.s[0] = { 1, 2, 3, 4 };
        headers.h.a = (bit<8>) (bit<1>) bare;
        headers.h.b = (bit<8>) (bit<1>) ({ { 1, 2, 3, 4 }, {#} } == headers.s);
        headers.h.c = (bit<8>) (bit<1>) ({ {#}, {#} } == headers.s);
        headers.s[0].setInvalid();
        headers.h.d = (bit<8>) (bit<1>) ({#} == headers.h);
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
