// SPDX-License-Identifier: Apache-2.0
// Faults of names, types and widths: all are reported in one run.
#include <core.p4>
#include <nicemu.p4>
header h_t { bit<8> a; bit<16> b; bit<7> c; }
struct headers_t { h_t h; }
struct m_t { bit<8> x; }
parser P(packet_in packet, out headers_t headers, inout m_t m, inout nic_metadata_t nic) {
    state start { packet.extrct(headers.h); transition select(headers.h.a) { 1: foo; 0x1ff: accept; } }
    state lost { transition accept; }
}
control C(inout headers_t hdr, inout m_t m, inout nic_metadata_t nic) {
    action a(bit<16> p) { send_to_prt(p); hdr.h.a = p; undefined = 3; }
    table t { key = { hdr.h.bb : exact; hdr.h.a: exac; } actions = { a; b; } default_action = a(70000); }
    apply { if (hdr.h.a) { t.apply(); }
       bit<8> z = hdr.h.a + 16w3; t.aply(); a(); hdr.h.a = 256; tuple<bit<8>> q; }
}
control D(packet_out packet, in headers_t headers, in m_t m) { apply { packet.emit(headers); headers.h.a = 1; } }
SmartNic(P(), C(), D()) main;
