// SPDX-License-Identifier: Apache-2.0
// Legal P4 that is refused by name.
#include <core.p4>
#include <nicemu.p4>

header h_t { bit<8> a; }
extern Own { Own(); abstract void f<T>(in T x); }
struct headers_t { h_t h; }
struct m_t { bit<8> a; }
parser P(packet_in packet, out headers_t headers, inout m_t m, inout nic_metadata_t nic) {
    value_set<bit<8>>(4) known;
    state start { transition accept; }
}
control C(inout headers_t headers, inout m_t m, inout nic_metadata_t nic) {
    Own() own = { void f<T>(in T x) { } };
    table t { key = { m.a: exact; } actions = { NoAction; } idle_timeout = true; }
    apply {
    }
}
control D(packet_out packet, in headers_t headers, in m_t m, in nic_metadata_t nic) { apply { } }
SmartNic(P(), C(), D()) main;
