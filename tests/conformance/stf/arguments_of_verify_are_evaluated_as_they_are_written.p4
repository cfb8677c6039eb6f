// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Calling convention: call by copy in/copy out".
#include <core.p4>
#include <v1model.p4>
error { Mine8, Mine9 }
header g_t { bit<8> x; bit<8> y; }
struct H { g_t h; } struct M { bit<8> m8; }
bool fb(inout bit<8> i) { i = i + 1; return false; }
error fe(inout bit<8> i) { i = i + 1; error e = error.Mine9; if (i == 1) { e = error.Mine8; } return e; }
parser P(packet_in p, out H hdr, inout M meta, inout standard_metadata_t s) {
 state start { p.extract(hdr.h); verify(toSignal = fe(meta.m8), check = fb(meta.m8)); transition accept; } }
control V(inout H h, inout M m) { apply { } }
control I(inout H hdr, inout M m, inout standard_metadata_t s) { apply { if (s.parser_error == error.Mine8) { hdr.h.x = 8; } else if (s.parser_error == error.Mine9) { hdr.h.x = 9; } } }
control E(inout H h, inout M m, inout standard_metadata_t s) { apply { } }
control C1(inout H h, inout M m) { apply { } }
control D(packet_out p, in H h) { apply { p.emit(h); } }
V1Switch(P(), V(), I(), E(), C1(), D()) main;
