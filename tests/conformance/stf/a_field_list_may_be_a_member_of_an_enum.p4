// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Compile-time known and local compile-time known values"; v1model.p4, @field_list.
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }

const bit<8> THIRD = 3;
enum bit<8> Kept { FIRST = 1, SECOND = 0x2 }
struct metadata_t {
    @field_list(Kept.FIRST) bit<8> a;
    @field_list(THIRD, 8w2) bit<8> b;
    @field_list(Kept.SECOND + 1) @field_list(1) bit<8> c;
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
        if (standard.instance_type == 0) {
            meta.a = 0xaa;
            meta.b = 0xbb;
            meta.c = 0xcc;
            if (headers.h.a == 1) {
                resubmit_preserving_field_list(Kept.FIRST);
            } else if (headers.h.a == 2) {
                resubmit_preserving_field_list(Kept.SECOND);
            } else {
                resubmit_preserving_field_list(THIRD);
            }
        }
        headers.h.b = meta.a;
        headers.h.c = meta.b;
        headers.h.d = meta.c;
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
