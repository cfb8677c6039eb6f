# SPDX-License-Identifier: Apache-2.0
"""A P4 program as large as one wants, of what programs for switches are made of."""

from __future__ import annotations

_BEGIN = """// A switch with {features} features, each with a header, metadata, a counter and three tables.
#include <core.p4>
#include <v1model.p4>

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_VLAN 0x8100
#define DROP_PORT 511
const bit<8> PROTOCOL_UDP = 17;
typedef bit<48> mac_t;
typedef bit<32> ipv4_t;
typedef bit<9> port_t;

header ethernet_h {{
    mac_t destination;
    mac_t source;
    bit<16> ethertype;
}}

header vlan_h {{
    bit<3> priority;
    bit<1> drop_eligible;
    bit<12> id;
    bit<16> ethertype;
}}

header ipv4_h {{
    bit<4> version;
    bit<4> words;
    bit<8> traffic_class;
    bit<16> total_bytes;
    bit<16> identification;
    bit<3> flags;
    bit<13> fragment_offset;
    bit<8> time_to_live;
    bit<8> protocol;
    bit<16> checksum;
    ipv4_t source;
    ipv4_t destination;
}}

header udp_h {{
    bit<16> source_port;
    bit<16> destination_port;
    bit<16> length_bytes;
    bit<16> checksum;
}}
"""
_HEADER = """
header tunnel{n}_h {{
    bit<8> version;
    bit<8> flags;
    bit<16> next_protocol;
    bit<24> tenant;
    bit<8> reserved;
}}

struct feature{n}_t {{
    bit<16> class;
    bit<32> flow;
    bit<8> colour;
    bool seen;
}}
"""
_STATE = """
    state tunnel{n} {{
        packet.extract(headers.tunnel{n});
        transition select(headers.tunnel{n}.next_protocol) {{
            ETHERTYPE_IPV4: accept;
            0x1000 &&& 0xf000: accept;
            default: accept;
        }}
    }}
"""
_FEATURE = """
control Feature{n}(inout headers_t headers, inout metadata_t metadata, inout standard_metadata_t standard) {{
    counter(1024, CounterType.packets_and_bytes) hits;
    register<bit<32>>(4096) flows;

    action drop() {{
        mark_to_drop(standard);
    }}

    // Remembers the class of a flow, and how often it came.
    action classify(bit<16> class, bit<8> colour) {{
        bit<32> index;
        bit<32> count;
        metadata.feature{n}.class = class;
        metadata.feature{n}.colour = colour;
        hash(index, HashAlgorithm.crc32, 32w0, {{ headers.ipv4.source, headers.ipv4.destination }}, 32w4096);
        flows.read(count, index);
        count = count + 1;
        flows.write(index, count);
        metadata.feature{n}.flow = index;
    }}

    action route(port_t port, mac_t next_hop) {{
        standard.egress_spec = port;
        headers.ethernet.source = headers.ethernet.destination;
        headers.ethernet.destination = next_hop;
        headers.ipv4.time_to_live = headers.ipv4.time_to_live - 1;
    }}

    action encapsulate(bit<24> tenant) {{
        headers.tunnel{n}.setValid();
        headers.tunnel{n} = {{ 1, 0, ETHERTYPE_IPV4, tenant, 0 }};
        headers.udp.length_bytes = headers.udp.length_bytes + 8;
    }}

    table classes {{
        key = {{
            headers.ipv4.source: ternary;
            headers.ipv4.destination: ternary;
            headers.udp.destination_port: range;
        }}
        actions = {{ classify; drop; NoAction; }}
        default_action = NoAction();
        size = 2048;
    }}

    table routes {{
        key = {{ headers.ipv4.destination: lpm; }}
        actions = {{ route; drop; }}
        default_action = drop();
        size = 65536;
    }}

    table tenants {{
        key = {{
            metadata.feature{n}.class: exact;
            standard.ingress_port: exact;
        }}
        actions = {{ encapsulate; NoAction; }}
        const default_action = NoAction();
        size = 1024;
    }}

    apply {{
        if (headers.ipv4.isValid() && headers.ipv4.time_to_live > 1) {{
            switch (classes.apply().action_run) {{
                classify: {{
                    if (metadata.feature{n}.colour == 2 || (metadata.feature{n}.flow & 0xff) == {n}) {{
                        hits.count(metadata.feature{n}.flow[9:0] ++ 22w0);
                    }}
                }}
                default: {{ }}
            }}
            if (!routes.apply().hit) {{
                metadata.feature{n}.seen = true;
            }} else if (tenants.apply().hit) {{
                metadata.feature{n}.flow = (bit<32>) headers.tunnel{n}.tenant << 8;
            }}
        }}
    }}
}}
"""


def large_program(line_count: int) -> str:
    """Return a program for v1model of about so many lines, at least 300."""
    each = sum(part.count("\n") for part in (_HEADER, _STATE, _FEATURE)) + 5
    features = max(1, (line_count - 120) // each)
    numbers = range(features)
    text = _BEGIN.format(features=features)
    text += "".join(_HEADER.format(n=n) for n in numbers)
    text += (
        "\nstruct headers_t {\n    ethernet_h ethernet;\n    vlan_h vlan;\n    ipv4_h ipv4;\n    udp_h udp;\n"
    )
    text += "".join(f"    tunnel{n}_h tunnel{n};\n" for n in numbers) + "}\n"
    text += "\nstruct metadata_t {\n" + "".join(f"    feature{n}_t feature{n};\n" for n in numbers) + "}\n"
    text += _parser(features)
    text += "".join(_FEATURE.format(n=n) for n in numbers)
    return text + _controls(features)


def _parser(features: int) -> str:
    metadata = "inout metadata_t metadata, inout standard_metadata_t standard"
    text = f"\nparser SwitchParser(packet_in packet, out headers_t headers, {metadata}) {{\n"
    text += """    state start {
        packet.extract(headers.ethernet);
        transition select(headers.ethernet.ethertype) {
            ETHERTYPE_VLAN: vlan;
            ETHERTYPE_IPV4: ipv4;
            default: accept;
        }
    }

    state vlan {
        packet.extract(headers.vlan);
        transition select(headers.vlan.ethertype) { ETHERTYPE_IPV4: ipv4; default: accept; }
    }

    state ipv4 {
        packet.extract(headers.ipv4);
        transition select(headers.ipv4.words, headers.ipv4.protocol) {
            (5, PROTOCOL_UDP): udp;
            default: accept;
        }
    }

    state udp {
        packet.extract(headers.udp);
        transition select(headers.udp.destination_port) {
"""
    text += "".join(f"            {4000 + n}: tunnel{n};\n" for n in range(features))
    text += "            default: accept;\n        }\n    }\n"
    return text + "".join(_STATE.format(n=n) for n in range(features)) + "}\n"


def _controls(features: int) -> str:
    instances = "".join(f"    Feature{n}() feature{n};\n" for n in range(features))
    applied = "".join(f"        feature{n}.apply(headers, metadata, standard);\n" for n in range(features))
    blocks = "inout headers_t headers, inout metadata_t metadata"
    return f"""
control SwitchVerify({blocks}) {{ apply {{ }} }}
control SwitchIngress({blocks}, inout standard_metadata_t standard) {{
{instances}
    apply {{
{applied}    }}
}}
control SwitchEgress({blocks}, inout standard_metadata_t standard) {{ apply {{ }} }}
control SwitchCompute({blocks}) {{
    apply {{
        update_checksum(headers.ipv4.isValid(),
            {{ headers.ipv4.version, headers.ipv4.words, headers.ipv4.traffic_class, headers.ipv4.total_bytes,
               headers.ipv4.identification, headers.ipv4.flags, headers.ipv4.fragment_offset,
               headers.ipv4.time_to_live, headers.ipv4.protocol, headers.ipv4.source,
               headers.ipv4.destination }},
            headers.ipv4.checksum, HashAlgorithm.csum16);
    }}
}}
control SwitchDeparser(packet_out packet, in headers_t headers) {{ apply {{ packet.emit(headers); }} }}
V1Switch(
    SwitchParser(), SwitchVerify(), SwitchIngress(), SwitchEgress(), SwitchCompute(), SwitchDeparser()
) main;
"""
