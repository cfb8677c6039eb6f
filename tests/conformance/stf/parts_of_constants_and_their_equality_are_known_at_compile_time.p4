// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Compile-time known and local compile-time known values".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

struct inner_t { bit<8> p; bool q; }
struct outer_t { bit<8> a; inner_t inner; tuple<bit<8>, inner_t> pair; data_t[2] stack; }

const outer_t ONE = { 5, { 6, true }, { 8, { 7, false } }, { { 9, 0, 0, 0 }, {#} } };
const outer_t OTHER = { a = 5, ... };
const outer_t CHOSEN = ONE == OTHER ? OTHER : ONE;
const inner_t INNER = CHOSEN.inner;
const bool SAME = static_assert(OTHER.inner == { 0, false } && ONE.stack != OTHER.stack, "not the same");
typedef bit<(ONE.pair[0])> byte_t;

control Step(inout byte_t value)(outer_t by) {
    const bit<8> START = by.stack[0].a;
    apply {
        if (value == 4 && by == ONE) {
            value = START;
        } else {
            value = by.pair[0];
        }
    }
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
    Step(ONE) step;

    apply {
        headers.h.a = CHOSEN.a;
        headers.h.b = INNER.p;
        headers.h.c = CHOSEN.pair[1].p;
        step.apply(headers.h.d);
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
