// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Lookahead".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
header half_t { bit<4> high; bit<4> low; }
struct ahead_t { bit<8> first; half_t[2] halves; }
struct headers_t { data_t h; }
struct metadata_t { half_t[3] ahead; ahead_t other; bit<8> last; }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        meta.ahead = packet.lookahead<half_t[3]>();
        meta.other = packet.lookahead<ahead_t>();
        meta.last = packet.lookahead<data_t[1]>()[0].d;
        packet.extract(headers.h);
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        headers.h.a = meta.ahead[0].low ++ meta.ahead[2].high;
        headers.h.b = meta.other.first;
        headers.h.c = meta.other.halves[1].high ++ meta.other.halves[0].low;
        headers.h.d = meta.last + (meta.ahead[1].isValid() && meta.other.halves[1].isValid() ? 8w1 : 0);
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
