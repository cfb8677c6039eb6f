// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Entries".
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
    action put(bit<8> value) {
        headers.h.b = value;
    }
    action mark(bit<8> valid, bit<8> value) {
        headers.h.c = valid;
        headers.h.d = value;
    }
    table t {
        key = { headers.h.a: exact; headers.h.d: ternary; }
        actions = { put; }
        const entries = {
            (0x01, 0x14 &&& 0x0f): put(1);
            (0x06, _): put(6);
            _: put(9);
        }
    }
    table u {
        key = { headers.h.isValid(): exact; headers.h.a: exact; }
        actions = { mark; }
        const entries = {
            (_, 1): mark(1, 2);
            (true, _): mark(1, 9);
        }
    }

    apply {
        t.apply();
        u.apply();
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
