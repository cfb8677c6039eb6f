// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Entries".
#include <core.p4>
#include <v1model.p4>

enum bit<16> Kind { Low = 10, High = 0xab00 }
header data_t { Kind a; bit<16> b; }
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
    action to(bit<9> port) { standard.egress_spec = port; }
    table t {
        key = { headers.h.a: ternary; }
        actions = { to; }
        default_action = to(9);
        const entries = {
            Kind.Low: to(1);
            ((bit<16>) Kind.High) &&& 0xff00: to(2);
        }
    }

    apply {
        t.apply();
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
