// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Arbitrary-precision integers", "Strings", "Restrictions on compile time and run
// time calls".
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

bit<8> scaled(int factor, in bit<8> value, string text) {
    log_msg(text);
    return value * (bit<8>) factor + (factor > 2 ? 8w1 : 0);
}

bit<8> twice_scaled(int factor, in bit<8> value) {
    return scaled(factor, scaled(factor + 1, value, "inner"), "outer");
}

void exchange(register<bit<8>> place, inout bit<8> value) {
    bit<8> old;
    place.read(old, 0);
    place.write(0, value);
    value = old;
}

void exchange_and_add(register<bit<8>> place, inout bit<8> value, int by) {
    exchange(place, value);
    value = value + (bit<8>) by;
}

control Keeper(register<bit<8>> place, inout bit<8> value) {
    apply {
        exchange_and_add(value = value, by = 32, place = place);
    }
}

control TheIngress(inout headers_t headers, inout metadata_t meta, inout standard_metadata_t standard) {
    register<bit<8>>(1) first;
    register<bit<8>>(1) second;
    Keeper() keeper;

    apply {
        headers.h.a = twice_scaled(1, headers.h.a);
        headers.h.b = scaled(text = "third", value = headers.h.b, factor = 3);
        exchange(first, headers.h.c);
        exchange_and_add(second, headers.h.d, 16);
        keeper.apply(first, headers.h.c);
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
