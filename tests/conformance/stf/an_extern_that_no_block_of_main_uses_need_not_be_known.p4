// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Architecture description"; p4lang/p4c drops what main does not reach.
#include <core.p4>
#include <v1model.p4>

header data_t { bit<8> a; }
struct headers_t { data_t h; }
struct metadata_t { }

extern Lookup<T> {
    Lookup(bit<32> size);
    T get(in bit<32> index);
}
extern void announce(in bit<8> value);

control Unused<T>(inout T x)(bit<8> n) {
    Lookup<T>(4) entries;
    action tell() { announce(n); }
    table t {
        actions = { tell; }
        default_action = tell;
    }
    apply {
        t.apply();
        x = entries.get(0);
    }
}

parser UnusedToo(packet_in packet) {
    state start {
        announce(1);
        transition accept;
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
    apply {
        headers.h.a = headers.h.a + 1;
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
