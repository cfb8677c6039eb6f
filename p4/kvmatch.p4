// SPDX-License-Identifier: Apache-2.0
// Compute NIC: a request whose session is in storage starts its fetch right here; everything else goes to the host.
#include <core.p4>
#include <nicemu.p4>
#include <kv.p4>

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    kv_t kv;
    chunk_missing_t missing;
}

struct metadata_t {}

// A prompt arrived for a session whose manifest lies at `manifest_address`.
struct follow_up_t {
    bit<64> request_id;
    bit<64> session_high;
    bit<64> session_low;
    bit<64> manifest_address;
    bit<32> manifest_bytes;
    bit<32> source_address;
    bit<16> source_port;
}

struct chunk_missing_event_t {
    bit<64> request_id;
    bit<64> key_high;
    bit<64> key_low;
}

parser KvMatchParser(packet_in packet, out headers_t headers, inout metadata_t metadata, inout nic_metadata_t nic) {
    state start {
        packet.extract(headers.ethernet);
        transition select(headers.ethernet.ethertype) {
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }
    state ipv4 {
        packet.extract(headers.ipv4);
        // Options and later fragments are the host's business.
        transition select(headers.ipv4.header_words, headers.ipv4.fragment_offset, headers.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): udp;
            default: accept;
        }
    }
    state udp {
        packet.extract(headers.udp);
        transition select(headers.udp.destination_port) {
            KV_PORT: kv_prefix;
            default: accept;
        }
    }
    state kv_prefix {
        transition select(packet.lookahead<bit<24>>()) {
            KV_MAGIC ++ KV_VERSION: kv;
            default: accept;
        }
    }
    state kv {
        packet.extract(headers.kv);
        transition select(headers.kv.kind) {
            KvKind.CHUNK_MISSING: missing;
            default: accept;
        }
    }
    state missing {
        packet.extract(headers.missing);
        transition accept;
    }
}

control KvMatch(inout headers_t headers, inout metadata_t metadata, inout nic_metadata_t nic) {
    TriggerCounter() hits;
    FirmwareEvent<follow_up_t>("kv_follow_up") follow_up;
    FirmwareEvent<chunk_missing_event_t>("kv_chunk_missing") chunk_missing;

    action fetch_session(bit<64> manifest_address, bit<32> manifest_bytes, bit<32> hits_counter) {
        hits.add(hits_counter, 1);
        follow_up.post({
            headers.kv.request_id,
            headers.kv.session[127:64],
            headers.kv.session[63:0],
            manifest_address,
            manifest_bytes,
            headers.ipv4.source,
            headers.udp.source_port
        });
        hold_packet();
    }

    table session {
        key = { headers.kv.session: exact; }
        actions = { fetch_session; NoAction; }
        default_action = NoAction();
        size = 4096;
    }

    apply {
        if (headers.missing.isValid()) {
            chunk_missing.post({
                headers.kv.request_id,
                headers.missing.chunk_key[127:64],
                headers.missing.chunk_key[63:0]
            });
            hold_packet();
        } else if (headers.kv.isValid() && headers.kv.kind == KvKind.REQUEST) {
            session.apply();
        }
    }
}

control KvMatchDeparser(packet_out packet, in headers_t headers, in metadata_t metadata, in nic_metadata_t nic) {
    apply {
        packet.emit(headers);
    }
}

SmartNic(KvMatchParser(), KvMatch(), KvMatchDeparser()) main;
