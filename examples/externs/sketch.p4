// SPDX-License-Identifier: Apache-2.0
// A block of hardware that no architecture has: flows are counted in a count-min sketch, and those that send more than
// two packets are marked. sketch.py does what the extern does.
//   nicemu stf examples/externs --externs examples/externs/sketch.py
#include <core.p4>
#include <v1model.p4>

extern CountMinSketch<K> {
    CountMinSketch(bit<32> rows, bit<32> columns);
    bit<32> add(in K key);               // counts the key, and returns how often it was seen, at most
}
extern void swap<T>(inout T left, inout T right);

header ports_t {
    bit<16> source;
    bit<16> destination;
    bit<8> is_heavy;
}
struct headers_t { ports_t ports; }
struct metadata_t { }
struct flow_t {
    bit<16> source;
    bit<16> destination;
}

parser TheParser(packet_in packet, out headers_t headers, inout metadata_t m, inout standard_metadata_t standard) {
    state start {
        packet.extract(headers.ports);
        transition accept;
    }
}

control Sums(inout headers_t headers, inout metadata_t m) { apply { } }

control Heavy(inout headers_t headers, inout metadata_t m, inout standard_metadata_t standard) {
    CountMinSketch<flow_t>(4, 1024) flows;

    apply {
        bit<32> seen = flows.add({ headers.ports.source, headers.ports.destination });
        if (seen > 2) {
            headers.ports.is_heavy = 1;
        }
        swap(headers.ports.source, headers.ports.destination);    // back to where it came from
        standard.egress_spec = standard.ingress_port;
    }
}

control Nothing(inout headers_t headers, inout metadata_t m, inout standard_metadata_t standard) { apply { } }

control TheDeparser(packet_out packet, in headers_t headers) { apply { packet.emit(headers); } }

V1Switch(TheParser(), Sums(), Heavy(), Nothing(), Sums(), TheDeparser()) main;
