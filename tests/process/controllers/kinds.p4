// A program with a table of every kind of match, and several kinds in one.
#include <core.p4>
#include <v1model.p4>

header flow_t { bit<32> dst; bit<32> src; bit<16> port; bit<12> tag; bit<4> rest; }
struct headers_t { flow_t flow; }
struct metadata_t { }

parser P(packet_in packet, out headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    state start { packet.extract(hdr.flow); transition accept; }
}
control V(inout headers_t hdr, inout metadata_t m) { apply { } }
control I(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) {
    action send(bit<9> port) { s.egress_spec = port; }
    action drop() { mark_to_drop(s); }
    table by_exact {
        key = { hdr.flow.dst: exact; hdr.flow.tag: exact; }
        actions = { send; drop; }
        default_action = drop();
    }
    table by_lpm {
        key = { hdr.flow.dst: lpm; }
        actions = { send; drop; }
        default_action = drop();
    }
    table by_ternary {
        key = { hdr.flow.src: ternary; hdr.flow.tag: ternary; }
        actions = { send; drop; }
        default_action = drop();
    }
    table by_range {
        key = { hdr.flow.port: range; }
        actions = { send; drop; }
        default_action = drop();
    }
    table by_optional {
        key = { hdr.flow.tag: optional; }
        actions = { send; drop; }
        default_action = drop();
    }
    table by_all {
        key = { hdr.flow.rest: exact; hdr.flow.dst: lpm; hdr.flow.src: ternary; hdr.flow.port: range; hdr.flow.tag: optional; }
        actions = { send; drop; }
        const default_action = drop();
    }
    table fixed {
        key = { hdr.flow.rest: exact; }
        actions = { send; @defaultonly drop; }
        default_action = drop();
        const entries = { 1: send(1); 2: send(2); }
    }
    apply {
        by_exact.apply(); by_lpm.apply(); by_ternary.apply(); by_range.apply(); by_optional.apply(); by_all.apply();
        fixed.apply();
    }
}
control E(inout headers_t hdr, inout metadata_t m, inout standard_metadata_t s) { apply { } }
control C(inout headers_t hdr, inout metadata_t m) { apply { } }
control D(packet_out packet, in headers_t hdr) { apply { packet.emit(hdr); } }
V1Switch(P(), V(), I(), E(), C(), D()) main;
