// SPDX-License-Identifier: Apache-2.0
// The KV request protocol: UDP port 19286, big-endian, a kv_t and a body that depends on its kind. Both NICs parse it.
#ifndef KV_P4
#define KV_P4

const bit<16> ETHERTYPE_IPV4 = 0x0800;
const bit<8> PROTOCOL_UDP = 17;
const bit<16> KV_PORT = 19286;
const bit<16> KV_MAGIC = 0x4B56;  // "KV"
const bit<8> KV_VERSION = 1;

enum bit<8> KvKind {
    REQUEST = 1,        // a client's prompt
    ANSWER = 2,
    FETCH_CHUNK = 3,    // compute NIC to storage NIC
    CHUNK_MISSING = 4   // storage NIC to compute NIC
}

header ethernet_t {
    bit<48> destination;
    bit<48> source;
    bit<16> ethertype;
}

header ipv4_t {
    bit<4> version;
    bit<4> header_words;
    bit<8> traffic_class;
    bit<16> total_bytes;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> time_to_live;
    bit<8> protocol;
    bit<16> checksum;
    bit<32> source;
    bit<32> destination;
}

header udp_t {
    bit<16> source_port;
    bit<16> destination_port;
    bit<16> length_bytes;
    bit<16> checksum;
}

header kv_t {
    bit<16> magic;
    bit<8> version;
    KvKind kind;
    bit<16> body_bytes;
    bit<16> flags;
    bit<64> request_id;
    bit<128> session;
}

header fetch_chunk_t {
    bit<128> chunk_key;
    bit<64> landing_k;  // where keys and values go in the requester's memory
    bit<64> landing_v;
    bit<32> rkey;
    bit<32> arrival_counter;
    bit<32> segment_bytes;
    bit<32> requester;  // the number that the storage NIC knows the requester by
}

header chunk_missing_t {
    bit<128> chunk_key;
}

#endif
