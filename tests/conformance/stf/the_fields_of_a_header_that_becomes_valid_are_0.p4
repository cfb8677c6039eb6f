// SPDX-License-Identifier: Apache-2.0
// Undefined in P4-16; p4lang/behavioral-model, primitive add_header of simple_switch.
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; }
header word_t { bit<16> w; }
header_union either_t { data_t data; word_t word; }
struct headers_t { data_t h; data_t[2] stack; either_t u; }
struct metadata_t { }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.h);
        packet.extract(headers.stack.next);
        packet.extract(headers.u.data);
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        headers.h.setValid();
        bit<8> i = headers.h.a;
        headers.stack[i].setInvalid();
        headers.stack[i].a = 5;
        headers.stack[i].setValid();
        headers.stack[i].b = 7;
        headers.u.word.setValid();
        headers.u.data.setValid();
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
