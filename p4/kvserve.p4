// SPDX-License-Identifier: Apache-2.0
// Storage NIC: a chunk request becomes a read of the chunk's blocks; nothing else is served here.
#include <core.p4>
#include <nicemu.p4>
#include <kv.p4>

error {
    NotAChunkRequest
}

struct headers_t {
    ethernet_t ethernet;
    ipv4_t ipv4;
    udp_t udp;
    kv_t kv;
    fetch_chunk_t fetch;
}

struct metadata_t {}

// Read `nlb` blocks from `slba` on and write them to the landing addresses of the requester.
struct chunk_request_t {
    bit<64> request_id;
    bit<64> session_high;
    bit<64> session_low;
    bit<64> key_high;
    bit<64> key_low;
    bit<64> landing_k;
    bit<64> landing_v;
    bit<32> rkey;
    bit<32> arrival_counter;
    bit<32> segment_bytes;
    bit<32> requester;
    bit<32> nsid;
    bit<64> slba;
    bit<32> nlb;
    bit<32> crc;
    bit<32> source_address;
    bit<16> source_port;
}

struct chunk_unknown_t {
    bit<64> request_id;
    bit<64> session_high;
    bit<64> session_low;
    bit<64> key_high;
    bit<64> key_low;
    bit<32> requester;
    bit<32> source_address;
    bit<16> source_port;
}

parser KvServeParser(packet_in packet, out headers_t headers, inout metadata_t metadata, inout nic_metadata_t nic) {
    state start {
        packet.extract(headers.ethernet);
        verify(headers.ethernet.ethertype == ETHERTYPE_IPV4, error.NotAChunkRequest);
        packet.extract(headers.ipv4);
        // Neither options nor later fragments: the UDP header must follow.
        transition select(headers.ipv4.header_words, headers.ipv4.fragment_offset, headers.ipv4.protocol) {
            (5, 0, PROTOCOL_UDP): udp;
            default: refuse;
        }
    }
    state udp {
        packet.extract(headers.udp);
        verify(headers.udp.destination_port == KV_PORT, error.NotAChunkRequest);
        packet.extract(headers.kv);
        transition select(headers.kv.magic, headers.kv.version, headers.kv.kind) {
            (KV_MAGIC, KV_VERSION, KvKind.FETCH_CHUNK): fetch;
            default: refuse;
        }
    }
    state fetch {
        packet.extract(headers.fetch);
        transition accept;
    }
    state refuse {
        verify(false, error.NotAChunkRequest);
        transition reject;
    }
}

control KvServe(inout headers_t headers, inout metadata_t metadata, inout nic_metadata_t nic) {
    FirmwareEvent<chunk_request_t>("kv_chunk_request") request;
    FirmwareEvent<chunk_unknown_t>("kv_chunk_unknown") unknown_chunk;

    action serve(bit<32> nsid, bit<64> slba, bit<32> nlb, bit<32> crc) {
        request.post({
            headers.kv.request_id,
            headers.kv.session[127:64],
            headers.kv.session[63:0],
            headers.fetch.chunk_key[127:64],
            headers.fetch.chunk_key[63:0],
            headers.fetch.landing_k,
            headers.fetch.landing_v,
            headers.fetch.rkey,
            headers.fetch.arrival_counter,
            headers.fetch.segment_bytes,
            headers.fetch.requester,
            nsid,
            slba,
            nlb,
            crc,
            headers.ipv4.source,
            headers.udp.source_port
        });
        hold_packet();
    }

    action unknown() {
        unknown_chunk.post({
            headers.kv.request_id,
            headers.kv.session[127:64],
            headers.kv.session[63:0],
            headers.fetch.chunk_key[127:64],
            headers.fetch.chunk_key[63:0],
            headers.fetch.requester,
            headers.ipv4.source,
            headers.udp.source_port
        });
        hold_packet();
    }

    table chunk {
        key = { headers.fetch.chunk_key: exact; }
        actions = { serve; @defaultonly unknown; }
        default_action = unknown();
        size = 65536;
    }

    apply {
        chunk.apply();
    }
}

control KvServeDeparser(packet_out packet, in headers_t headers, in metadata_t metadata, in nic_metadata_t nic) {
    apply {
        packet.emit(headers);
    }
}

SmartNic(KvServeParser(), KvServe(), KvServeDeparser()) main;
