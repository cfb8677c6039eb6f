// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Expression evaluation order", "Calling convention: call by copy in/copy out".
#include <core.p4>
#include <v1model.p4>
error { Mine8, Mine9 }
header g_t { bit<8> x; bit<8> y; bit<8> z; }
header v_t { bit<8> n; varbit<64> v; }
struct H { g_t h; v_t[2] s; } struct M { bit<8> m8; bit<16> r; }
error fe(inout bit<8> i) { i = i + 1; return error.Mine8; }
bit<32> g(inout bit<8> i) { i = i + 1; return (bit<32>) i; }
bit<16> k(inout bit<8> i) { i = i + 1; return (bit<16>) i; }
bool b(inout bit<8> i) { i = i + 1; return false; }
parser P(packet_in p, out H hdr, inout M meta, inout standard_metadata_t s) {
 state start { p.extract(hdr.h); verify(true, fe(meta.m8)); hdr.h.x = meta.m8;
   meta.m8 = 255; p.extract(hdr.s[g(meta.m8)], g(meta.m8) * 8); hdr.h.y = meta.m8;
   transition accept; } }
control V(inout H h, inout M m) { apply { verify_checksum(b(m.m8), { k(m.m8) }, m.r, HashAlgorithm.csum16); } }
control I(inout H hdr, inout M meta, inout standard_metadata_t s) { apply { 
   hdr.h.y = meta.m8; meta.m8 = 0;
   hash(meta.r, HashAlgorithm.identity, k(meta.m8), { k(meta.m8) * 16 }, k(meta.m8) - 3); // base 1, data 32, max 0
   hdr.h.z = meta.m8 * 16 + (bit<8>) meta.r[3:0];
} }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control C1(inout H h, inout M m) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C1(), D()) main;
