// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Unsigned integers (bit-strings)", "Operations on fixed-width bit types".
#include <core.p4>
#include <v1model.p4>

typedef bit<0> none_t;
header data_t { none_t front; bit<8> a; bit<4> b; none_t middle; bit<4> c; bit<8> d; none_t back; }
header empty_t { none_t only; }
struct headers_t { empty_t e; data_t h; }
struct metadata_t { none_t none; bit<8> some; }

none_t turned(in none_t value) {
    return ~value - 1;
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.e);
        packet.extract(headers.h);
        transition select(headers.h.middle, packet.lookahead<none_t>()) {
            (0, _): more;
            default: reject;
        }
    }
    state more {
        meta.some = 1;
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    register<none_t>(4) kept;
    action set(none_t unused, bit<8> value) {
        headers.h.d = value ++ unused;
    }
    table t {
        key = { headers.h.a: exact; }
        actions = { set; NoAction; }
        const entries = { 1: set(0w0, 0x77); }
        default_action = NoAction();
    }
    apply {
        t.apply();
        kept.write(1, ~meta.none);
        kept.read(headers.h.front, 1);
        meta.none = turned(headers.h.front) |+| (none_t) headers.h.a;
        if (meta.none == 0 && !(meta.none < 0w0) && meta.none << 3 == 0w0) {
            headers.h.b = headers.h.back ++ 4w9;
        }
        switch (meta.none) {
            0: { headers.h.c = (bit<4>) ~meta.none + 5; }
            default: { headers.h.c = 0; }
        }
        hash(headers.h.a, HashAlgorithm.identity, 8w0, { headers.h.front, meta.some, meta.none }, 9w256);
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
