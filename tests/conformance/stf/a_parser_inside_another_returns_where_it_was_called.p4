// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Invoking subparsers".
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> v; }
struct headers_t { byte_t h; byte_t[8] s; }
struct metadata_t { bit<8> first; bit<8> second; }

parser Some(packet_in packet, inout byte_t[8] stack, out bit<8> count) {
    bit<8> left;
    state start {
        left = packet.lookahead<bit<8>>();
        count = left;
        packet.advance(8);
        transition more;
    }
    state more {
        transition select(left) {
            0: accept;
            default: one;
        }
    }
    state one {
        packet.extract(stack.next);
        left = left - 1;
        transition more;
    }
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    Some() some;

    state start {
     some.apply(packet, headers.s, meta.first);
     some.apply(packet, headers.s, meta.second);
     transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        headers.h.setValid();
        headers.h.v = meta.first + meta.second;
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
