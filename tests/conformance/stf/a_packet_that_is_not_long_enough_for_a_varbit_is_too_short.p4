// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Variable-size extraction".
#include <core.p4>
#include <v1model.p4>

header fixed_t { bit<8> length; }
header open_t { bit<8> tag; varbit<32> data; }
struct headers_t { fixed_t h; open_t o; }
struct metadata_t { }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
     packet.extract(headers.h);
     packet.extract(headers.o, (bit<32>) headers.h.length * 8);
     transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        if (standard.parser_error == error.PacketTooShort && !headers.o.isValid()) {
            standard.egress_spec = 3;
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
