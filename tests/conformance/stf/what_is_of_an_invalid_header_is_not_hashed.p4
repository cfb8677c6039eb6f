// SPDX-License-Identifier: Apache-2.0
// p4lang/behavioral-model, "The BMv2 Simple Switch target".
#include <core.p4>
#include <v1model.p4>

header kind_t { bit<7> other; bit<1> has_x; }
header x_t { bit<4> u; bit<12> v; }
header y_t { bit<16> w; }
header result_t { bit<64> fields; bit<64> headers; bit<64> cast_; bit<64> stack; }
struct headers_t { kind_t kind; x_t x; y_t y; x_t[2] stack; result_t result; }
struct metadata_t { x_t kept; }

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.kind);
        transition select(headers.kind.has_x) {
            1: with_x;
            0: with_y;
        }
    }
    state with_x {
        packet.extract(headers.x);
        packet.extract(headers.stack.next);
        transition with_y;
    }
    state with_y {
        packet.extract(headers.y);
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        meta.kept = headers.x;
        headers.result.setValid();
        hash(headers.result.fields, HashAlgorithm.identity, 64w0,
            { headers.kind.other, headers.x.v, headers.y.w, { headers.x.u, true }, meta.kept.u }, 64w0xffffffffffffffff);
        hash(headers.result.headers, HashAlgorithm.identity, 64w0, { headers.x, headers.y }, 64w0xffffffffffffffff);
        hash(headers.result.cast_, HashAlgorithm.identity, 64w0,
            { (bit<16>) headers.x.v, headers.y.w }, 64w0xffffffffffffffff);
        hash(headers.result.stack, HashAlgorithm.identity, 64w0, headers.stack, 64w0xffffffffffffffff);
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
