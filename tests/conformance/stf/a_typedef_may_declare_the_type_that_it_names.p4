// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "typedef".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
typedef struct one_s { bit<8> x; } one_t;
typedef one_s also_t;
typedef header other_h { bit<8> value; } other_t;
typedef enum Kind { A, B } kind_t;
typedef enum bit<8> Op { READ = 1, WRITE = 2 } op_t;
struct headers_t { data_t h; other_t g; }
struct metadata_t { one_t one; also_t also; kind_t kind; }

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
    apply {
        meta.one.x = headers.h.a;
        meta.also = meta.one;
        meta.kind = Kind.B;
        if (meta.kind == kind_t.B) {
            headers.h.b = Op.WRITE;
        }
        headers.g = { meta.also.x };
        op_t op = op_t.READ;
        headers.h.c = op;
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
