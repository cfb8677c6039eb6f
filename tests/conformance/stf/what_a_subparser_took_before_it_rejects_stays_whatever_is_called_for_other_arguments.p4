// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Invoking subparsers".
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; bit<8> b; }
struct headers_t { data_t first; data_t second; data_t third; }
struct metadata_t { bit<8> count; }

bit<32> twice(in bit<32> number, inout bit<8> count) {
    count = count + 1;
    return 2 * number;
}

parser Inner(packet_in packet, out data_t taken, in bool given, in bit<32> length, in bit<8> ahead) {
    state start {
        packet.extract(taken);
        transition select(given, length, ahead) {
            (true, 12, 0x22): reject;
            default: accept;
        }
    }
}

parser Middle(packet_in packet, out data_t first, out data_t second, inout bit<8> count) {
    Inner() inner;
    state start {
        packet.extract(first);
        inner.apply(packet, second, first.isValid(), twice(packet.length(), count), packet.lookahead<bit<8>>());
        transition accept;
    }
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    Middle() middle;
    state start {
        middle.apply(packet, headers.first, headers.second, meta.count);
        packet.extract(headers.third);
        transition accept;
    }
}

control Verification(inout headers_t headers, inout metadata_t meta) {
    apply { }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    apply {
        standard.egress_spec = 1;
        headers.first.b = headers.first.b + meta.count;
        headers.second.b = headers.second.b + 1;
        headers.third.b = headers.third.b + 1;
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
