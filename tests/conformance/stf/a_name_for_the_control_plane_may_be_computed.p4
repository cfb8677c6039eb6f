// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Control-plane API annotations".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
struct headers_t { data_t h; }
struct metadata_t { }

const string PREFIX = "front";
const string SET = PREFIX ++ "_set";


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
    const string LAST = "_table";
    @name(PREFIX ++ "_register") register<bit<8>>(4) numbers;
    @name(SET) action set(bit<8> value) {
        headers.h.b = value;
        numbers.write(1, value);
    }
    @name("." ++ PREFIX ++ LAST) table forward {
        key = { headers.h.a: exact @name(PREFIX ++ ("_" ++ "key")); headers.h.c: exact @name(LAST); }
        actions = { set; NoAction; }
    }
    apply {
        forward.apply();
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
