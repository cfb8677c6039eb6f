// SPDX-License-Identifier: Apache-2.0
// Faults of syntax: the compiler goes on behind each.
#include <core.p4>
#include <nicemu.p4>

hedaer wrong_t { bit<8> a; }
header h_t {
    bit<8> a
    bit<8> b;
}
struct headers_t { h_t h; }
parser P(packet_in packet, out headers_t headers, inout headers_t m, inout nic_metadata_t nic) {
    state start {
        packet.extract(headers.h;
        transition select(headers.h.a { default: accept; }
    }
}
control C(inout headers_t headers) {
    table t { kee = { headers.h.a: exact; } actions { NoAction; } }
    apply {
        if headers.h.a == 1 { }
        headers.h.a = ;
        headers.h.b = 1 +;
    }
