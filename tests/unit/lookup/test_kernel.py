# SPDX-License-Identifier: Apache-2.0
"""What the door gives is enough for a kernel: a batch in three steps, whole entries, counters."""

from __future__ import annotations

from collections import Counter

import numpy as np

from nicemu.hot import Int, hot, interpreted
from nicemu.lookup import (
    BATCH,
    MISS,
    ExactTable,
    action_of,
    count_packet,
    find,
    hash_of,
    index_of,
    pack_keys,
    prefetch_bucket,
    prefetch_entry,
    unchanged,
)
from nicemu.pcie import load_u64, store_u64

LIMBS, PARAMETERS_AT = np.uint64(2), np.uint64(48)
"""Constants of a kernel for keys of 128 bits."""
EIGHT, KEY_BYTES, BEHIND = np.uint64(8), np.uint64(16), np.uint64((1 << 64) - 1)
SEND = np.uint64(1)


@hot
def forward(state: Int, keys: Int, count: Int, digests: Int, ports: Int, now_ns: Int) -> None:
    """Write for each key the port that its entry's action SEND has; all ones for other actions and misses.

    Every packet has 64 bytes. `digests` is room for a word a key.
    """
    index = index_of(state)
    for place in range(count):
        digest = hash_of(keys + place * KEY_BYTES, LIMBS)
        prefetch_bucket(index, digest)
        store_u64(digests + place * EIGHT, digest)
    for place in range(count):
        prefetch_entry(index, load_u64(digests + place * EIGHT))
    for place in range(count):
        port = BEHIND
        while True:
            entry, head = find(index, keys + place * KEY_BYTES, LIMBS, load_u64(digests + place * EIGHT))
            if entry == MISS:
                break
            parameter = load_u64(entry + PARAMETERS_AT)
            if unchanged(entry, head):
                if action_of(head) == SEND:
                    port = parameter
                count_packet(entry, np.uint64(64), now_ns)
                break
        store_u64(ports + place * EIGHT, port)


def test_a_kernel_runs_the_actions_of_a_batch_and_counts_its_packets(compiled: bool) -> None:
    table = ExactTable(100, 128, 2, compiled=compiled)
    assert table.parameters_at == PARAMETERS_AT
    assert table.stride == 64
    numbers = {key: table.insert(key << 70, key % 2, (key + 1000,)) for key in range(0, 60, 3)}
    packets = [place * place % 61 for place in range(BATCH)]
    keys = pack_keys([key << 70 for key in packets], 2)
    digests, ports = np.zeros(BATCH, np.uint64), np.zeros(BATCH, np.uint64)
    run = forward if compiled else interpreted(forward)
    places = keys.ctypes.data, BATCH, digests.ctypes.data, ports.ctypes.data, 77
    run(table.state, *map(np.uint64, places))
    sent = [key + 1000 if key in numbers and key % 2 else int(BEHIND) for key in packets]
    assert ports.tolist() == sent
    seen = Counter(packets)
    for key, number in numbers.items():
        entry = table.entry(number)
        assert (entry.packets, entry.bytes, entry.hit_ns) == (
            seen[key],
            64 * seen[key],
            77 if seen[key] else 0,
        )
    table.close()
