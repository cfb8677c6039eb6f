// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Invoking actions".
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
    action both(tuple<bit<8>, bool> pair) {
        headers.h.c = pair[1] ? pair[0] : 0;
    }
    action set(data_t whole, data_t[2] stack, bit<8> last) {
        headers.h.a = whole.a;
        headers.h.b = stack[0].a;
        headers.h.d = last;
    }

    apply {
        set({ 3, 2, 1, 0 }, { { 9, 0, 0, 0 }, headers.h }, headers.h.d + 1);
        both({ 7, true });
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
