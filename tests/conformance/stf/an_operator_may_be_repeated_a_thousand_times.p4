// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Expressions".
#include <core.p4>
#include <v1model.p4>

#define TEN(x) x x x x x x x x x x
#define THOUSAND(x) TEN(TEN(TEN(x)))

header data_t { bit<8> a; bit<16> sum; bit<16> difference; bit<8> product; bit<8> any; bit<8> all; bit<8> odd; bit<16> bits; bit<16> calls; }
struct headers_t { data_t h; }
struct metadata_t { }

const bit<32> NUMBER = 1 THOUSAND(+ 3);

bit<16> doubled(inout bit<16> value) {
    value = value + value;
    return value;
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
    apply {
        bit<16> b = (bit<16>) headers.h.a;
        bit<1> low = headers.h.a[0:0];
        bool is_one = headers.h.a == 1;
        headers.h.sum = b THOUSAND(+ b);
        headers.h.difference = 0 THOUSAND(- b + 3 - 2);
        headers.h.product = 1 THOUSAND(* headers.h.a);
        headers.h.any = THOUSAND(is_one ||) headers.h.a == 2 ? 8w1 : 0;
        headers.h.all = THOUSAND(is_one &&) NUMBER == 3001 ? 8w1 : 0;
        headers.h.odd = 0 THOUSAND(^ headers.h.a) ^ headers.h.a;
        headers.h.bits = (low THOUSAND(++ low))[1000:985];
        b = 1;
        headers.h.calls = 0 TEN(- doubled(b)) TEN(+ b) + doubled(b);
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
