// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Assignment statement".
#include <core.p4>
#include <v1model.p4>
header g_t { bit<8> x; bit<8> y; }
struct H { g_t[4] s; g_t h; } struct M { bit<8> m8; }
bit<8> f(inout bit<8> i) { i = i + 1; return i; }
bit<8> hh(inout bit<32> i) { i = 2; return 10; }
parser P(packet_in p, out H h, inout M m, inout standard_metadata_t s) { state start { p.extract(h.h); transition accept; } }
control V(inout H h, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t s) {
  apply { hdr.s[0].setValid(); hdr.s[1].setValid(); hdr.s[2].setValid(); hdr.s[3].setValid();
   bit<8> k = 0; bit<32> i = 0;
   hdr.s[0] = {1,0}; hdr.s[1]={1,0}; hdr.s[2]={2,0}; hdr.s[3] = {0,0};
   hdr.s[f(k)].x += hdr.s[f(k)].x;   // s1.x=3 k=2
   hdr.s[3].y = k;
   hdr.s[2].y = 4;
   hdr.s[0].y = 1;
   hdr.s[i].y += hh(i) + hdr.s[i].y;  // s0.y = 1+10+4 = 15
   hdr.s[3].x[3:0] += hdr.s[3].y[3:0];
   bit<8> q = 0x35; bit<8> w = 4;
   q[w+:4] += q[3:0];  // 3+5=8 -> 0x85
   hdr.h.x = q;
 } }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control C1(inout H h, inout M m) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C1(), D()) main;
