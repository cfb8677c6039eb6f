// SPDX-License-Identifier: Apache-2.0
// The nicemu SmartNIC architecture: one pipeline of parser, control and deparser. Its shape follows the Portable NIC
// Architecture, its size does not.
#ifndef __NICEMU_NICEMU_P4
#define __NICEMU_NICEMU_P4

#include <core.p4>

match_kind {
    range,
    optional,
    selector  // not compared: hashed, to choose a member of an action selector's group
}

// What the NIC knows of a frame before the program runs.
struct nic_metadata_t {
    bit<16> ingress_port;   // 0; of what the host or the controller sends 510
    bit<32> packet_length;  // bytes
}

// Where the frame goes. The last call counts; without one it goes to the host, and what the host sends to the network.
extern void send_to_port(in bit<16> port);
extern void send_to_host();
extern void drop_packet();
// The frame stays with the firmware event that the program posted.
extern void hold_packet();

// The NIC's trigger counters, which deferred work waits for.
extern TriggerCounter {
    TriggerCounter();
    // Add `value` to the success count of counter number `counter`.
    void add(in bit<32> counter, in bit<64> value);
}

enum CounterType { packets, bytes, packets_and_bytes }
enum MeterType { packets, bytes }
enum HashAlgorithm { crc32, crc32_custom, crc16, crc16_custom, random, identity, csum16, xor16 }

// Arrays, as v1model has them: controllers read and write them. Outside an array's size nothing is counted or
// written, and 0 is read. A meter's result is 0 for green, 1 for yellow, 2 for red.
extern counter {
    counter(bit<32> size, CounterType type);
    void count(in bit<32> index);
}
extern meter {
    meter(bit<32> size, MeterType type);
    void execute_meter<T>(in bit<32> index, out T result);
}
extern register<T> {
    register(bit<32> size);
    void read(out T result, in bit<32> index);
    void write(in bit<32> index, in T value);
}

// Of a table's entries: `counters = name;` and `meters = name;` in the table. Every hit counts, called or not.
extern direct_counter {
    direct_counter(CounterType type);
    void count();
}
extern direct_meter<T> {
    direct_meter(MeterType type);
    void read(out T result);
}

// Where the actions of a table's entries lie: `implementation = action_profile(size);`
extern action_profile {
    action_profile(bit<32> size);
}
extern action_selector {
    action_selector(HashAlgorithm algorithm, bit<32> size, bit<32> outputWidth);
}

// result = base + hash(data) % max, or base where max is 0.
extern void hash<O, T, D, M>(out O result, in HashAlgorithm algo, in T base, in D data, in M max);
extern void random<T>(out T result, in T lo, in T hi);

// The checksum of IPv4, UDP and TCP.
extern Checksum16 {
    Checksum16();
    bit<16> get<D>(in D data);
}

// A named event for the NIC's firmware; T is a struct of numbers.
extern FirmwareEvent<T> {
    FirmwareEvent(string name);
    void post(in T event);
}

// Work that the NIC's firmware has prepared under a name, such as an RDMA write (nic.prepare_write).
extern DeferredWork {
    DeferredWork(string name);
    // Have it wait, and fire once, when counter `counter` of the firmware (success plus errors) reaches `threshold`.
    void arm(in bit<32> counter, in bit<64> threshold);
}

parser NicParser<H, M>(packet_in packet, out H headers, inout M metadata, inout nic_metadata_t nic);
control NicControl<H, M>(inout H headers, inout M metadata, inout nic_metadata_t nic);
control NicDeparser<H, M>(packet_out packet, in H headers, in M metadata, in nic_metadata_t nic);

// `process` takes what comes from the network, and it goes to the host unless something else is said. `host_to_net`, if
// there is one, takes what the host sends, and it goes to the network; without one that passes no program.
package SmartNic<H, M>(
    NicParser<H, M> parse,
    NicControl<H, M> process,
    NicDeparser<H, M> deparse,
    @optional NicControl<H, M> host_to_net);

#endif
