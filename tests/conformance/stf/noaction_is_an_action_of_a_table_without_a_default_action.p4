// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Tables", "Switch statement with `action_run` expression".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

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
    action one() { headers.h.b = 1; }
    action two() { headers.h.b = 2; }
    action three() { headers.h.b = 3; }
    table t { key = { headers.h.a: exact; } actions = { one; two; three; } }

    apply {
        switch (t.apply().action_run) {
            one:
            two: { headers.h.c = 10; }
            three: { headers.h.c = 11; }
            NoAction: { headers.h.c = 12; }
            default: { headers.h.c = 13; }
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
