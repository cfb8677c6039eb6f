// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Don't care types", "Method invocations and function calls".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

struct pair_t<A, B> { A first; B second; }

B second<A, B>(in pair_t<A, B> both) {
    return both.second;
}

bit<8> sum<A, B>(in A left, in B right) {
    return 9;
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract<_>(headers.h);
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        pair_t<bit<16>, bit<8>> both = { 16w7, headers.h.b };
        headers.h.a = second<_, _>(both);
        headers.h.c = headers.h.c + sum<bit<4>, _>(9, headers.h.c);
        hash<_, _, _, _>(headers.h.d, HashAlgorithm.identity, 8w9, { 8w0 }, 8w1);
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
