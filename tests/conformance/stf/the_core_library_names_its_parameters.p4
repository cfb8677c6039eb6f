// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "P4 core library".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; }
header more_t { varbit<16> rest; }
struct headers_t { data_t h; more_t m; }
struct metadata_t { }

const bool KNOWN = static_assert(check = true, message = "true is true");

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(hdr = headers.h);
        packet.advance(sizeInBits = 8);
        verify(toSignal = error.NoMatch, check = headers.h.a == 1);
        packet.extract(variableFieldSizeInBits = 16, variableSizeHeader = headers.m);
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        headers.h.b = standard.parser_error == error.NoMatch ? 8w9 : 0;
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
        packet.emit(hdr = headers);
    }
}

V1Switch(TheParser(), Verification(), TheIngress(), TheEgress(), Computation(), TheDeparser()) main;
