// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Compile-time size determination".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

typedef tuple<bit<8>, bit<7>> both_t;
type bit<9> port_t;
enum bit<4> Kind { A = 1 }
struct pair_t<T> { T left; T right; }
struct bits_t { bit<(data_t.minSizeInBits())> all; }
const bool FITS = static_assert(bits_t.maxSizeInBytes() == data_t.maxSizeInBytes(), "too small");

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
        headers.h.a = data_t.minSizeInBytes();
        headers.h.b = both_t.minSizeInBits();
        headers.h.c = port_t.maxSizeInBytes() * 0x10 + Kind.minSizeInBits();
        headers.h.d = pair_t<port_t>.minSizeInBits();
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
