// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

bit<8> next(inout bit<8> n) {
    n = n + 1;
    return n;
}

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
    action set(in bit<8> first, in bit<8> second, inout bit<8> sum) {
        headers.h.b = first;
        headers.h.c = second;
        sum = sum + 16;
        if (first == 9) {
            exit;
        }
    }
    action outer() {
        set(second = next(headers.h.a), sum = headers.h.a, first = next(headers.h.a));
        headers.h.a = headers.h.a + 64;
    }
    table all {
        actions = { outer; }
        default_action = outer();
    }

    apply {
        if (headers.h.d == 0) {
            outer();
        } else {
            all.apply();
        }
        headers.h.d = 0xff;
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
