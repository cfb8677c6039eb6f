// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Operations on tuple expressions".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<16> b; }
struct headers_t { data_t h; }
struct pair_t { bit<8> a; bit<16> b; }
const tuple<bit<8>, bit<16>> FIXED = { 3, 16w0x400 };
const pair_t SAME = FIXED;

tuple<bit<8>, bit<16>> next(inout bit<8> count) {
    count = count + 1;
    return { count, (bit<16>) count };
}

bit<16> sum(in pair_t pair) {
    return (bit<16>) pair.a + pair.b;
}

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
        tuple<bit<8>, bit<16>> both = { headers.h.a, headers.h.b };
        pair_t pair = both;
        bit<8> count = pair.a;
        pair = next(count); // once: count is one more
        headers.h.b = sum(pair) + sum(both) + SAME.b;
        tuple<tuple<bit<8>, bit<16>>, bool> inner = { { count, 1 }, true };
        pair_t other = inner[1] ? inner[0] : both;
        headers.h.a = other.a + SAME.a;
        data_t copy = both;
        if (copy.isValid() && copy.a == 1) {
            headers.h = both;
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
