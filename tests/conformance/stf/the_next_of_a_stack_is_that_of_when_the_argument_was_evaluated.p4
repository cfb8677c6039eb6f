// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out".
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<8> c; bit<8> d; }
header g_t { bit<8> x; bit<8> y; }
 header v_t { bit<8> n; varbit<64> v; }

struct H { h_t h; g_t[2] s; }
struct M { bit<8> x; bit<32> i; }
bit<8> inc(inout bit<8> v) { v = v + 1; return v; }
bit<32> idx(inout bit<8> v) { v = v + 1; return (bit<32>) v; }
error er(inout bit<8> v) { v = v + 1; return error.NoMatch; }
bool fa(inout bit<8> v) { v = v + 1; return false; }
parser SubS(packet_in b, inout g_t[2] s, out g_t g) { state start { b.extract(s.next); g.setValid(); g.x = 0x77; transition accept; } }

parser P(packet_in b, out H h, inout M m, inout standard_metadata_t s) { SubS() c; state start { b.extract(h.h); c.apply(b, h.s, h.s.next); transition accept; } }
control V(inout H h, inout M m) {  apply {  } }
control I(inout H h, inout M m, inout standard_metadata_t s) {  apply {  } }
control E(inout H h, inout M m, inout standard_metadata_t s) {  apply {  } }
control C(inout H h, inout M m) { apply {  } }
control D(packet_out b, in H h) {  apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
