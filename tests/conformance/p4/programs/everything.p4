// SPDX-License-Identifier: Apache-2.0
// Every construct that the compiler takes, once.
#include <core.p4>
#include <nicemu.p4>
#define W 16
#define MIX(a, b) ((a) ^ (b))
typedef bit<W> num_t;
enum Color { RED, GREEN }
enum bit<8> Kind { A = 1, B = 2 }
header eth_t { bit<48> d; bit<48> s; num_t t; }
header x_t { Kind k; int<8> i; num_t n; bit<4> lo; bit<4> hi; }
struct headers_t { eth_t e; x_t x; x_t y; }
struct m_t { num_t n; bool b; Color c; x_t copy; bit<32> w; }
struct ev_t { bit<32> a; bit<8> b; }
error { BadKind }
const num_t LIMIT = (1 << 4) + 2 * 3;
parser P(packet_in packet, out headers_t headers, inout m_t m, inout nic_metadata_t nic) {
    bit<8> left = 3;
    x_t tmp;
    state start {
        packet.extract(headers.e);
        m.n = packet.lookahead<num_t>();
        transition select(headers.e.t, m.n[3:0]) {
            (0x0800 &&& 0xff00, 1 .. 3): more;
            (LIMIT, _): skip;
            (0x1234, default): more;
            default: accept;
        }
    }
    state skip { packet.advance(16); left = left - 1; transition select(left) { 0: accept; default: skip; } }
    state more {
        tmp = packet.lookahead<x_t>();
        verify(tmp.k == Kind.A || tmp.k == Kind.B, error.BadKind);
        packet.extract(headers.x);
        transition accept;
    }
}
control C(inout headers_t h, inout m_t m, inout nic_metadata_t nic) {
    TriggerCounter() hits;
    FirmwareEvent<ev_t>("ev") ev;
    num_t local = 5;
    action add(inout num_t acc, in num_t by, num_t data) { acc = acc + by + data; if (acc == 0) { exit; } }
    action swap(inout num_t a, inout num_t b) { num_t t = a; a = b; b = t; return; }
    action post() { ev.post({ b = 1, a = (bit<32>) h.x.n }); hits.add(7, 1); }
    action drop() { drop_packet(); }
    table exact_t { key = { h.x.n : exact; h.x.k: exact @name("kind"); } actions = { add(m.n, local); post; @defaultonly NoAction; } size = 8; }
    table lpm_t { key = { h.e.d : lpm; } actions = { drop; post; NoAction; } const default_action = NoAction;
        const entries = { 0x112233000000 &&& 0xffffff000000: drop(); _: post; } }
    table tern_t { key = { h.x.n : ternary; h.x.i : range @name("i"); h.x.isValid(): exact; }
        actions = { add(m.n, 3); drop; } default_action = add(m.n, 3, 4);
        entries = { priority = 2: (0x1 &&& 0xf, _, true): drop; const priority = 10: (_, _, false) : add(m.n, 3, 7); } }
    apply {
        m.w = h.e.d[31:0] ++ h.e.s[47:48-W] |+| 5 > 3 ? 32w1 : 32w2;
        m.b = h.x.isValid() && !(m.n > LIMIT) || h.x.i < -3;
        m.n = MIX(m.n, 0xff) << 3 >> 1;
        h.x.n[7:0] = (bit<8>) h.x.k;
        m.c = Color.GREEN;
        m.copy = h.x;
        h.y.setValid();
        h.y = { Kind.B, -1, 5, 6, 7 };
        if (m.copy == h.x && m.c != Color.RED) { local += 2; } else if (m.b) local = ~local;
        if (exact_t.apply().hit) { swap(m.n, local); } else { add(m.n, local, 9); }
        switch (tern_t.apply().action_run) { drop: { h.y.setInvalid(); } add: {} default: { return; } }
        lpm_t.apply();
        send_to_port((bit<16>) ((h.x.i == 5 ? 8s1 : 8s2)[0:0] ++ 8w3));
    }
}
control D(packet_out packet, in headers_t headers, in m_t m, in nic_metadata_t nic) {
    apply { packet.emit(headers.e); if (m.b) { packet.emit(headers.x); } packet.emit(headers.y); }
}
SmartNic(P(), C(), D()) main;
