// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Conditional operator", "Implicit casts".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
header more_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct pair_t { bit<8> x; bit<8> y; }
enum bit<8> kind_t { NONE = 0, ONE = 7 }
enum bit<8> other_t { TEN = 10 }
struct headers_t { data_t h; more_t m; }
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
        bool first = headers.h.a == 1;
        pair_t pair = first ? { y = 2, x = 1 } : { 5, headers.h.b };
        tuple<bit<8>, bit<8>> two = first ? ... : { 3, 4 };
        headers.m = first ? { 4, 3, 4, 5 } : {#};
        headers.h.a = first ? two[1] : pair.x;
        headers.h.b = first ? pair.y : headers.h.b;
        headers.h.c = first ? kind_t.ONE : other_t.TEN;
        headers.h.d = first ? 3 : (kind_t) 1;
        headers.m = first ? headers.m : {#};
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
