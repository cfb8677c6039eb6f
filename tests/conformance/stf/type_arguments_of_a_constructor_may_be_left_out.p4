// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Parameterization"; p4lang/p4c infers the types of constructors as of calls.
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<16> b; bit<8> c; }
struct headers_t { data_t h; }
struct metadata_t { }

control Step<T>(inout T x);
control Set<T>(inout T x)(T value) { apply { x = value; } }
control Same<T>(inout T x) { apply { T y = x; x = y; } }
control Around<T>(inout T x)(T value, Step<T> step) {
    Set(value) set;
    apply {
        set.apply(x);
        step.apply(x);
    }
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.h);
        transition accept;
    }
}

control Checksum<H, M>(inout H headers, inout M meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    Set(8w7) seven;
    Set(value = 16w9) nine;
    Around<bit<8>>(5, Same()) around;

    apply {
        seven.apply(headers.h.a);
        nine.apply(headers.h.b);
        around.apply(headers.h.c);
    }
}

control TheEgress<H, M>(inout H headers, inout M meta, inout standard_metadata_t standard) {
    apply { }
}

control TheDeparser<H>(packet_out packet, in H headers) {
    apply {
        packet.emit(headers);
    }
}

V1Switch(TheParser(), Checksum(), TheIngress(), TheEgress(), Checksum(), TheDeparser()) main;
