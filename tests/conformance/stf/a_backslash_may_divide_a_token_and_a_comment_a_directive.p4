// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Preprocessing".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

#define FIVE 2 /* two
   and */ + /*

   three */ 3
#define SIX (FI\
VE + 1) // five and
/* no directive:
#define SIX 1 */

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
    @name("wri\
tten") action write() {
        headers.h.d = 0x\
1\
2;
    }
    table writes {
        actions = { write; }
        default_action = write;
    }
    apply {
        headers.h.a = FIVE;
        head\
ers.h.b = SIX;
        if (headers.h.a == 5 &\
& headers.h.b == 6) {
            headers.h.c = 8\
w7;
        }
        writes.apply();
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
