// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Compile-time size determination".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
header open_t { bit<8> l; varbit<32> v; }
header word_t { bit<16> v; }
header_union either_t { open_t open; word_t word; }
struct headers_t { data_t h; open_t o; either_t u; word_t[2] s; }
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
        headers.h.a = headers.o.minSizeInBytes();
        headers.h.b = headers.o.maxSizeInBytes();
        headers.h.c = headers.u.minSizeInBits();
        headers.h.d = headers.s.maxSizeInBytes();
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
