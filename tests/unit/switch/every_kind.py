# SPDX-License-Identifier: Apache-2.0
"""A program that has a table of every match kind and an object of every kind."""

from __future__ import annotations

from nicemu.p4 import compile_text

SOURCE = """
#include <core.p4>
#include <v1model.p4>
header h_t { bit<8> a; bit<8> b; bit<32> address; }
struct headers_t { h_t h; }
struct pair_t { bit<8> low; bit<32> high; }
struct metadata_t { bit<8> x; bit<8> colour; }
parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    value_set<bit<8>>(4) known;
    state start { b.extract(h.h); transition select(h.h.a) { known: accept; default: accept; } }
}
control V(inout headers_t h, inout metadata_t m) { apply { } }
control I(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    register<bit<8>>(16) seen;
    register<int<8>>(16) offset;
    register<bool>(16) flags;
    register<pair_t>(4) pairs;
    register<error>(4) faults;
    counter(8, CounterType.packets_and_bytes) counted;
    meter(4, MeterType.packets) rates;
    direct_meter<bit<8>>(MeterType.bytes) limit;
    action_selector(HashAlgorithm.crc32, 16, 32) choice;
    action send(bit<9> port) { s.egress_spec = port; }
    table plain { key = { h.h.a: exact; } actions = { send; NoAction; } }
    table route { key = { h.h.address: lpm; } actions = { send; NoAction; } }
    table acl {
        key = { h.h.a: ternary; h.h.b: range; m.x: optional; }
        actions = { send; NoAction; }
        const entries = { (1, 2, 3): NoAction(); }
    }
    table filter { key = { h.h.a: ternary; h.h.b: range; m.x: optional; } actions = { send; NoAction; } }
    table balance {
        key = { h.h.a: exact; h.h.b: selector; }
        actions = { send; NoAction; }
        implementation = choice;
    }
    table initial {
        key = { h.h.a: exact; }
        actions = { send; NoAction; }
        entries = { const 8w3: send(3); 8w1: send(1); 8w2: send(2); }
    }
    action mark(bit<9> port) { limit.read(m.colour); s.egress_spec = port; }
    table limited { key = { h.h.a: exact; } actions = { mark; NoAction; } meters = limit; }
    table aging { key = { h.h.a: exact; } actions = { NoAction; } support_timeout = true; }
    apply {
        plain.apply(); route.apply(); acl.apply(); filter.apply(); balance.apply(); aging.apply();
        initial.apply(); limited.apply();
        rates.execute_meter((bit<32>) h.h.b, m.x);
        seen.write((bit<32>) h.h.a, h.h.b);
        counted.count((bit<32>) h.h.a);
    }
}
control E(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t h, inout metadata_t m) { apply { } }
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
"""
PROGRAM = compile_text(SOURCE).program
