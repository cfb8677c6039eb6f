// SPDX-License-Identifier: Apache-2.0
// behavioral-model, simple_switch: a clone of ingress is parsed again, and told what it is behind that.
#include <core.p4>
#include <v1model.p4>

header h_t { bit<8> a; bit<8> b; }
struct headers_t { h_t h; }
struct metadata_t { }

parser TheParser(packet_in packet, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(h.h);
        transition select(s.instance_type) {
            0: accept;
            default: other;
        }
    }
    state other {
        h.h.a = 0xee;
        transition accept;
    }
}

control Verification(inout headers_t h, inout metadata_t m) { apply { } }

control TheIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        s.egress_spec = 1;
        clone(CloneType.I2E, 5);
    }
}

control TheEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply { h.h.b = (bit<8>) s.instance_type; }
}

control Computation(inout headers_t h, inout metadata_t m) { apply { } }

control TheDeparser(packet_out packet, in headers_t h) {
    apply { packet.emit(h); }
}

V1Switch(TheParser(), Verification(), TheIngress(), TheEgress(), Computation(), TheDeparser()) main;
