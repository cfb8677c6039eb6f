// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Data insertion into packets".
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> v; }
header word_t { bit<16> v; }
header_union either_t { byte_t byte; word_t word; }
struct inner_t { byte_t[2] s; either_t u; }
struct headers_t { byte_t h; inner_t inner; }
struct metadata_t { }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
     packet.extract(headers.h);
     packet.extract(headers.inner.s.next);
     packet.extract(headers.inner.s.next);
     packet.extract(headers.inner.u.byte);
     transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply { }
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
