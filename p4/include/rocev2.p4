// SPDX-License-Identifier: Apache-2.0
// RoCEv2: what stands behind a UDP header with destination port 4791, big-endian. Works with every architecture.
// Source: InfiniBand Architecture Specification Volume 1, "Packet Formats" and "Transport Layer"; Annex A17, "RoCEv2".
#ifndef ROCEV2_P4
#define ROCEV2_P4

#include <core.p4>

const bit<16> ROCEV2_PORT = 4791;

// Of reliable connections (RC), unreliable datagrams (UD), and congestion notification (CNP).
enum bit<8> RoceOpcode {
    RC_SEND_FIRST = 0x00,
    RC_SEND_MIDDLE = 0x01,
    RC_SEND_LAST = 0x02,
    RC_SEND_LAST_WITH_IMMEDIATE = 0x03,
    RC_SEND_ONLY = 0x04,
    RC_SEND_ONLY_WITH_IMMEDIATE = 0x05,
    RC_RDMA_WRITE_FIRST = 0x06,
    RC_RDMA_WRITE_MIDDLE = 0x07,
    RC_RDMA_WRITE_LAST = 0x08,
    RC_RDMA_WRITE_LAST_WITH_IMMEDIATE = 0x09,
    RC_RDMA_WRITE_ONLY = 0x0A,
    RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE = 0x0B,
    RC_RDMA_READ_REQUEST = 0x0C,
    RC_RDMA_READ_RESPONSE_FIRST = 0x0D,
    RC_RDMA_READ_RESPONSE_MIDDLE = 0x0E,
    RC_RDMA_READ_RESPONSE_LAST = 0x0F,
    RC_RDMA_READ_RESPONSE_ONLY = 0x10,
    RC_ACKNOWLEDGE = 0x11,
    RC_ATOMIC_ACKNOWLEDGE = 0x12,
    RC_COMPARE_SWAP = 0x13,
    RC_FETCH_ADD = 0x14,
    UD_SEND_ONLY = 0x64,
    UD_SEND_ONLY_WITH_IMMEDIATE = 0x65,
    CNP = 0x81
}

header bth_t {                  // base transport header
    RoceOpcode opcode;
    bit<1> solicited;
    bit<1> migration_request;
    bit<2> pad_count;
    bit<4> version;
    bit<16> partition_key;
    bit<1> fecn;
    bit<1> becn;
    bit<6> reserved_6;
    bit<24> destination_qp;
    bit<1> ack_request;
    bit<7> reserved_7;
    bit<24> psn;
}

header deth_t {                 // datagram extended transport header
    bit<32> q_key;
    bit<8> reserved;
    bit<24> source_qp;
}

header reth_t {                 // RDMA extended transport header
    bit<64> address;
    bit<32> rkey;
    bit<32> dma_length;
}

header atomic_eth_t {
    bit<64> address;
    bit<32> rkey;
    bit<64> swap_add;
    bit<64> compare;
}

header aeth_t {                 // acknowledge extended transport header
    bit<8> syndrome;
    bit<24> msn;
}

header atomic_ack_eth_t {
    bit<64> original;
}

header immediate_t {
    bit<32> data;
}

struct roce_t {
    bth_t bth;
    deth_t deth;
    reth_t reth;
    atomic_eth_t atomic_eth;
    aeth_t aeth;
    atomic_ack_eth_t atomic_ack_eth;
    immediate_t immediate;
}

// Takes the headers of a packet, as its opcode says. What follows is its payload, with pad bytes and the ICRC; a program
// that changes what the ICRC covers makes it wrong.
parser RoceParser(packet_in packet, out roce_t roce) {
    state start {
        packet.extract(roce.bth);
        transition select(roce.bth.opcode) {
            RoceOpcode.RC_SEND_LAST_WITH_IMMEDIATE: immediate;
            RoceOpcode.RC_SEND_ONLY_WITH_IMMEDIATE: immediate;
            RoceOpcode.RC_RDMA_WRITE_FIRST: reth;
            RoceOpcode.RC_RDMA_WRITE_LAST_WITH_IMMEDIATE: immediate;
            RoceOpcode.RC_RDMA_WRITE_ONLY: reth;
            RoceOpcode.RC_RDMA_WRITE_ONLY_WITH_IMMEDIATE: reth_and_immediate;
            RoceOpcode.RC_RDMA_READ_REQUEST: reth;
            RoceOpcode.RC_RDMA_READ_RESPONSE_FIRST: aeth;
            RoceOpcode.RC_RDMA_READ_RESPONSE_LAST: aeth;
            RoceOpcode.RC_RDMA_READ_RESPONSE_ONLY: aeth;
            RoceOpcode.RC_ACKNOWLEDGE: aeth;
            RoceOpcode.RC_ATOMIC_ACKNOWLEDGE: aeth_and_atomic;
            RoceOpcode.RC_COMPARE_SWAP: atomic_eth;
            RoceOpcode.RC_FETCH_ADD: atomic_eth;
            RoceOpcode.UD_SEND_ONLY: deth;
            RoceOpcode.UD_SEND_ONLY_WITH_IMMEDIATE: deth_and_immediate;
            default: accept;
        }
    }
    state reth {
        packet.extract(roce.reth);
        transition accept;
    }
    state reth_and_immediate {
        packet.extract(roce.reth);
        transition immediate;
    }
    state atomic_eth {
        packet.extract(roce.atomic_eth);
        transition accept;
    }
    state aeth {
        packet.extract(roce.aeth);
        transition accept;
    }
    state aeth_and_atomic {
        packet.extract(roce.aeth);
        packet.extract(roce.atomic_ack_eth);
        transition accept;
    }
    state deth {
        packet.extract(roce.deth);
        transition accept;
    }
    state deth_and_immediate {
        packet.extract(roce.deth);
        transition immediate;
    }
    state immediate {
        packet.extract(roce.immediate);
        transition accept;
    }
}

#endif
