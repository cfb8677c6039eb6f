// SPDX-License-Identifier: Apache-2.0
// P4-16 Language Specification 1.2.5, "Control plane names": a control made in the arguments of main is an instance of
// its own; the second one of a type takes the name of the parameter that it is given for.
#include <core.p4>
#include <v1model.p4>

header byte_t { bit<8> value; }
struct headers_t { byte_t h; }
struct metadata_t { }

parser P(packet_in b, out headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    state start { b.extract(h.h); transition accept; }
}
control Sums(inout headers_t h, inout metadata_t m) { apply { } }
control Both(inout headers_t h, inout metadata_t m, inout standard_metadata_t s) {
    counter(4, CounterType.packets) added;
    action add(bit<8> more) {
        h.h.value = h.h.value + more;
        added.count(1);
    }
    table t {
        key = { h.h.value: exact; }
        actions = { add; }
        const default_action = add(1);
    }
    apply {
        s.egress_spec = 1;
        t.apply();
    }
}
control D(packet_out b, in headers_t h) { apply { b.emit(h); } }

V1Switch(P(), Sums(), Both(), Both(), Sums(), D()) main;
