// SPDX-License-Identifier: Apache-2.0
// A small IPv4 router: longest prefix, next hop, a counter for each port, and a copy of what is watched.
#include <core.p4>
#include <v1model.p4>

header ethernet_t { bit<48> destination; bit<48> source; bit<16> kind; }
header ipv4_t {
    bit<4> version; bit<4> words; bit<8> service; bit<16> length;
    bit<16> identification; bit<3> flags; bit<13> offset;
    bit<8> ttl; bit<8> protocol; bit<16> checksum; bit<32> source; bit<32> destination;
}
struct headers_t { ethernet_t ethernet; ipv4_t ipv4; }
struct metadata_t { }

parser RouterParser(packet_in packet, out headers_t headers, inout metadata_t m, inout standard_metadata_t s) {
    state start {
        packet.extract(headers.ethernet);
        transition select(headers.ethernet.kind) {
            0x0800: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(headers.ipv4);
        transition accept;
    }
}

control RouterVerify(inout headers_t headers, inout metadata_t m) { apply { } }

control Router(inout headers_t headers, inout metadata_t m, inout standard_metadata_t s) {
    counter(512, CounterType.packets_and_bytes) routed;
    register<bit<32>>(1) expired;

    action drop() { mark_to_drop(s); }
    action route(bit<48> next_hop, bit<9> port) {
        headers.ethernet.source = headers.ethernet.destination;
        headers.ethernet.destination = next_hop;
        headers.ipv4.ttl = headers.ipv4.ttl - 1;
        s.egress_spec = port;
        routed.count((bit<32>) port);
    }
    action watch() { clone(CloneType.I2E, 1); }

    table routes {
        key = { headers.ipv4.destination: lpm; }
        actions = { route; drop; }
        default_action = drop;
    }
    table watched {
        key = { headers.ipv4.source: ternary; headers.ipv4.protocol: range; }
        actions = { watch; NoAction; }
        default_action = NoAction;
    }

    apply {
        if (!headers.ipv4.isValid()) {
            drop();
        } else if (headers.ipv4.ttl <= 1) {
            bit<32> count;
            expired.read(count, 0);
            expired.write(0, count + 1);
            drop();
        } else {
            routes.apply();
            watched.apply();
        }
    }
}

control RouterEgress(inout headers_t headers, inout metadata_t m, inout standard_metadata_t s) { apply { } }

control RouterCompute(inout headers_t headers, inout metadata_t m) {
    apply {
        update_checksum(headers.ipv4.isValid(),
            { headers.ipv4.version, headers.ipv4.words, headers.ipv4.service, headers.ipv4.length,
              headers.ipv4.identification, headers.ipv4.flags, headers.ipv4.offset, headers.ipv4.ttl,
              headers.ipv4.protocol, headers.ipv4.source, headers.ipv4.destination },
            headers.ipv4.checksum, HashAlgorithm.csum16);
    }
}

control RouterDeparser(packet_out packet, in headers_t headers) { apply { packet.emit(headers); } }

V1Switch(RouterParser(), RouterVerify(), Router(), RouterEgress(), RouterCompute(), RouterDeparser()) main;
