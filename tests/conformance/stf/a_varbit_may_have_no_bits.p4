// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Reading uninitialized values and writing fields of invalid headers".
#include <core.p4>
#include <v1model.p4>
header data_t { bit<8> a; varbit<0> v; bit<8> b; }
header none_t { varbit<0> v; }
struct headers_t { none_t none; data_t h; }
struct metadata_t { varbit<0> v; }
parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.none, 0);
        packet.extract(headers.h, 0);
        transition select(headers.h.a) {
            2: more;
            default: accept;
        }
    }
    state more {
        packet.extract(headers.h, 8);
        transition accept;
    }
}
control Verification(inout headers_t headers, inout metadata_t meta) { apply { } }
control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        meta.v = headers.h.v;
        if (meta.v == headers.h.v && headers.none.isValid()) {
            headers.h.b = headers.h.a + (bit<8>) headers.h.maxSizeInBits();
        }
        if (standard.parser_error == error.HeaderTooShort) {
            headers.h.a = 0xff;
        }
    }
}
control TheEgress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) { apply { } }
control Computation(inout headers_t headers, inout metadata_t meta) { apply { } }
control TheDeparser(packet_out packet, in headers_t headers) { apply { packet.emit(headers); } }
V1Switch(TheParser(), Verification(), TheIngress(), TheEgress(), Computation(), TheDeparser()) main;
