// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Name resolution".
#include <core.p4>
#include <v1model.p4>

typedef bit<8> byte_t;
typedef .byte_t octet_t;
type .byte_t number_t;
enum .byte_t kind_t { ONE = 1, TWO = 2 }
struct pair_t<T> { T left; .byte_t right; }
header data_t { .byte_t a; .octet_t b; bit<8> c; bit<8> d; }
struct headers_t { .data_t h; }
struct metadata_t { }

const .byte_t SEVEN = 7;

.byte_t next(in .byte_t x) { return x + 1; }

control Add(inout .byte_t x)(.byte_t n) { apply { x = x + n; } }
control Same<byte_t>(inout byte_t x) { apply { .byte_t y = 1; x = x; } }

.register<.byte_t>(2) kept;

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    .byte_t seen = 3;
    state start {
        packet.extract<.data_t>(headers.h);
        .byte_t first = seen;
        headers.h.b = first;
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    .Add(2) add;
    action set(.byte_t v) { headers.h.d = v; }

    apply {
        .pair_t<bit<8>> p = { 4, .SEVEN };
        add.apply(headers.h.a);
        .Same<.byte_t>.apply(headers.h.a);
        kept.write(0, .next(p.right));
        kept.read(headers.h.c, 0);
        set((bit<8>) (.number_t) .kind_t.TWO);
        for (.byte_t i in 8w1 .. 3) {
            headers.h.b = headers.h.b + i;
        }
        bit<16> octet_t = 0x0101;
        headers.h.c = headers.h.c + (.octet_t) octet_t;
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
