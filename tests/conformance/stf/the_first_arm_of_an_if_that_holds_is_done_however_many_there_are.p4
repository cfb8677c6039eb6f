// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Conditional statement".
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> value; }
struct headers_t { byte_t h; }
struct metadata_t { }

parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control Sums(inout headers_t h, inout metadata_t m) { apply { } }
control TheIngress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    apply {
        if (h.h.value == 0) {
            h.h.value = 3;
        } else if (h.h.value == 2) {
            h.h.value = 8;
        } else if (h.h.value == 4) {
            h.h.value = 13;
        } else if (h.h.value == 6) {
            h.h.value = 18;
        } else if (h.h.value == 8) {
            h.h.value = 23;
        } else if (h.h.value == 10) {
            h.h.value = 28;
        } else if (h.h.value == 12) {
            h.h.value = 33;
        } else if (h.h.value == 14) {
            h.h.value = 38;
        } else if (h.h.value == 16) {
            h.h.value = 43;
        } else if (h.h.value == 18) {
            h.h.value = 48;
        } else if (h.h.value == 20) {
            h.h.value = 53;
        } else if (h.h.value == 22) {
            h.h.value = 58;
        } else if (h.h.value == 24) {
            h.h.value = 63;
        } else if (h.h.value == 26) {
            h.h.value = 68;
        } else if (h.h.value == 28) {
            h.h.value = 73;
        } else if (h.h.value == 30) {
            h.h.value = 78;
        } else if (h.h.value == 32) {
            h.h.value = 83;
        } else if (h.h.value == 34) {
            h.h.value = 88;
        } else if (h.h.value == 36) {
            h.h.value = 93;
        } else if (h.h.value == 38) {
            h.h.value = 98;
        } else if (h.h.value == 40) {
            h.h.value = 103;
        } else if (h.h.value == 42) {
            h.h.value = 108;
        } else if (h.h.value == 44) {
            h.h.value = 113;
        } else if (h.h.value == 46) {
            h.h.value = 118;
        } else if (h.h.value == 48) {
            h.h.value = 123;
        } else if (h.h.value == 50) {
            h.h.value = 128;
        } else if (h.h.value == 52) {
            h.h.value = 133;
        } else if (h.h.value == 54) {
            h.h.value = 138;
        } else if (h.h.value == 56) {
            h.h.value = 143;
        } else if (h.h.value == 58) {
            h.h.value = 148;
        } else if (h.h.value == 60) {
            h.h.value = 153;
        } else if (h.h.value == 62) {
            h.h.value = 158;
        } else if (h.h.value == 64) {
            h.h.value = 163;
        } else if (h.h.value == 66) {
            h.h.value = 168;
        } else if (h.h.value == 68) {
            h.h.value = 173;
        } else if (h.h.value == 70) {
            h.h.value = 178;
        } else if (h.h.value == 72) {
            h.h.value = 183;
        } else if (h.h.value == 74) {
            h.h.value = 188;
        } else if (h.h.value == 76) {
            h.h.value = 193;
        } else if (h.h.value == 78) {
            h.h.value = 198;
        } else {
            h.h.value = 255;
        }
    }
}
control TheEgress(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }

V1Switch(P(), Sums(), TheIngress(), TheEgress(), Sums(), D()) main;
