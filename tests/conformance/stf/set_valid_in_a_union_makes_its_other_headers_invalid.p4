// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Header unions".
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> v; }
header word_t { bit<16> v; }
header_union either_t { byte_t byte; word_t word; }
struct headers_t { byte_t h; either_t u; }
struct metadata_t { }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.h);
        transition select(headers.h.v) {
            1: byte;
            2: word;
            3: both;
            default: accept;
        }
    }
    state byte { packet.extract(headers.u.byte); transition accept; }
    state word { packet.extract(headers.u.word); transition accept; }
    state both { packet.extract(headers.u.byte); packet.extract(headers.u.word); transition accept; }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        headers.u.word.setValid();
        headers.u.word.v = 0x1234;
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
