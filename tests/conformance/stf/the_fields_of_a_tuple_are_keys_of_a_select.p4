// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Select expressions".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<16> b; bit<8> c; }
struct headers_t { data_t h; }
struct metadata_t { bit<8> way; }

const tuple<bit<8>, bit<16>> KNOWN = { 3, 0x0304 };

tuple<bit<8>, bit<8>> counted(inout bit<8> count, in bit<8> other) {
    count = count + 1;
    return { count, other };
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    tuple<bit<8>, bit<16>> pair;
    bit<8> count = 0;
    value_set<tuple<bit<8>, bit<16>>>(4) none;
    state start {
        packet.extract(headers.h);
        pair = { headers.h.a, headers.h.b };
        transition select(pair) {
            { 1, 0x0506 }: first;
            (2, 0x0100 .. 0x01ff): second;
            KNOWN: third;
            none: reject;
            (9, _): reject;
            _: again;
        }
    }
    state again {
        transition select({ headers.h.a, headers.h.b }, headers.h.c) {
            ({ 4, 0x0101 }, 1): fourth;
            (_, 2): fifth;
            (KNOWN, _): reject;
            default: call;
        }
    }
    state call {
        transition select(count, counted(count, headers.h.c), count) {
            (0, { 1, 7 }, 1): sixth;
            default: ahead;
        }
    }
    state ahead {
        transition select(packet.lookahead<tuple<bit<4>, bool>>()) {
            { 0xf, true }: seventh;
            default: accept;
        }
    }
    state first { meta.way = 1; transition accept; }
    state second { meta.way = 2; transition accept; }
    state third { meta.way = 3; transition accept; }
    state fourth { meta.way = 4; transition accept; }
    state fifth { meta.way = 5; transition accept; }
    state sixth { meta.way = count ++ headers.h.c == 0x107 ? 8w6 : 0; transition accept; }
    state seventh { meta.way = 7; transition accept; }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        headers.h.c = meta.way;
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
