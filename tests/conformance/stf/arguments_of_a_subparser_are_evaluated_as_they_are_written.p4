// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out".
#include <core.p4>
#include <v1model.p4>
header g_t { bit<8> x; bit<8> y; }
struct H { g_t h; g_t[4] s; } struct M { bit<8> m8; }
bit<8> f(inout bit<8> i) { i = i + 1; return i; }
bit<32> g(inout bit<8> i) { i = i + 1; return (bit<32>) i; }
parser Sub(packet_in p, in bit<8> a, inout g_t h) { state start { h.x = a; h.y = h.y + 9; transition accept; } }
parser Sub2(packet_in p, in bit<8> a, in bit<8> b, out bit<8> c) { state start { c = a*16+b; transition accept; } }
parser Sub3(packet_in p, out bit<8> a, out bit<8> b) { state start { a = 3; b = 4; transition accept; } }
parser P(packet_in p, out H hdr, inout M meta, inout standard_metadata_t s) {
 Sub() s1; Sub2() s2; Sub3() s3; Sub() s4;
 state start { p.extract(hdr.h); 
  hdr.s[0].setValid(); hdr.s[1].setValid(); hdr.s[2].setValid(); hdr.s[3].setValid();
  hdr.s[0] = {0,0}; hdr.s[1]={0,0}; hdr.s[2]={0,1}; hdr.s[3]={0,0}; meta.m8 = 0;
  s1.apply(p, f(meta.m8), hdr.s[g(meta.m8)]);     // s2 = 1, 10
  meta.m8 = 0;
  s4.apply(p, meta.m8, hdr.s[g(meta.m8)+2]);   // s3 = 0, 9
  meta.m8 = 0;
  s2.apply(p=p, b=f(meta.m8), a=f(meta.m8), c=hdr.h.x);   // 0x21
  s3.apply(p=p, b=hdr.h.y, a=hdr.h.y);  // 3
  transition accept; } }
control V(inout H h, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t s) { apply { } }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control C1(inout H h, inout M m) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C1(), D()) main;
