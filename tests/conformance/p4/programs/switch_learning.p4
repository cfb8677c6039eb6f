// SPDX-License-Identifier: Apache-2.0
// A port forwarder: exact, lpm and ternary tables, const entries, hit and action_run.
#include <core.p4>
#include <nicemu.p4>

header ethernet_t { bit<48> destination; bit<48> source; bit<16> ethertype; }
header ipv4_t {
    bit<8> version; bit<8> traffic_class; bit<16> total_bytes; bit<32> fragment; bit<8> time_to_live;
    bit<8> protocol; bit<16> checksum; bit<32> source; bit<32> destination;
}
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata_t { bit<16> next_port; }

parser P(packet_in packet, out headers_t headers, inout metadata_t m, inout nic_metadata_t nic) {
    state start {
        packet.extract(headers.ethernet);
        transition select(headers.ethernet.ethertype) { 0x0800: ipv4; default: accept; }
    }
    state ipv4 { packet.extract(headers.ipv4); transition accept; }
}

control Forward(inout headers_t headers, inout metadata_t m, inout nic_metadata_t nic) {
    action route(bit<16> port, bit<48> next_hop) {
        m.next_port = port;
        headers.ethernet.source = headers.ethernet.destination;
        headers.ethernet.destination = next_hop;
        headers.ipv4.time_to_live = headers.ipv4.time_to_live - 1;
    }
    action deny() { drop_packet(); exit; }

    table routes {
        key = { headers.ipv4.destination: lpm; }
        actions = { route; @defaultonly deny; }
        default_action = deny();
        size = 512;
    }
    @id(0x77)
    table filter {
        key = { headers.ipv4.source: ternary; headers.ipv4.protocol: range @name("protocol"); }
        actions = { deny; NoAction; }
        const entries = {
            (0x0A000000 &&& 0xFF000000, 1 .. 5): deny();
            (_, 17): NoAction();
        }
    }

    apply {
        if (!headers.ipv4.isValid()) { send_to_host(); return; }
        filter.apply();
        switch (routes.apply().action_run) {
            route: { if (headers.ipv4.time_to_live == 0) { deny(); } send_to_port(m.next_port); }
        }
    }
}

control D(packet_out packet, in headers_t headers, in metadata_t m, in nic_metadata_t nic) {
    apply { packet.emit(headers); }
}

SmartNic(P(), Forward(), D()) main;
