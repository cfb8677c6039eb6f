# SPDX-License-Identifier: Apache-2.0
"""Table lookups alone, in batches, with random keys: what a compiled match-action kernel spends on them.

Exact tables of 1 k to 1 M entries with keys of 128 bits, beside C compiled in the same run by the system's
`cc`, where there is one: C looks up in the very same memory (`in_c`), and in a table of the plain layout,
64-byte entries in a half-full hash table (`in_c_direct`). Tables with priorities of 10 k entries under 32
masks: priorities by mask, and at random, where no lookup can stop early; under 2,500 masks; ranges alone.
Tables of prefixes: values at random, lengths about as in the routes of the internet. Thread CPU time, medians
over rounds; sides alternate. Prints `name value unit` lines.
Run: python benchmarks/lookups.py [--json]
"""

from __future__ import annotations

import ctypes
import mmap
import random
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from itertools import pairwise, product
from pathlib import Path
from statistics import median
from typing import Any, Final

import numpy as np

from nicemu.errors import UsageError
from nicemu.hot import Int, hot
from nicemu.lookup import (
    ExactTable,
    LpmTable,
    TernaryTable,
    find_batch,
    find_lpm_batch,
    find_ternary_batch,
    pack_keys,
)
from nicemu.programs import load_module

reports = load_module(Path(__file__).with_name("rig") / "report.py")

ROUNDS: Final = 11
LOOKUPS: Final = 1 << 19
ROOM, PART_BYTES = np.uint64(256), np.uint64(256 * 16)
EXACT_SIZES: Final = {"1k": 1 << 10, "16k": 1 << 14, "64k": 1 << 16, "256k": 1 << 18, "1m": 1 << 20}
C_SHARE_GOAL: Final = 0.6
INSERTS: Final = 100_000
INSERT_GOAL_S: Final = 0.5
SINGLE_INSERTS: Final = 10_000
TERNARY_ENTRIES: Final = 10_000
RANGES: Final = 1_000
TERNARY_GOAL: Final = 5.0
LPM_SIZES: Final = {"1k": 1000, "64k": 1 << 16, "1m": 1_000_000}
LPM_GOAL: Final = 30.0
ROUTE_LENGTHS: Final = {16: 2, 17: 1, 18: 2, 19: 3, 20: 5, 21: 5, 22: 12, 23: 10, 24: 58, 28: 1, 32: 1}
IPV6_ROUTE_LENGTHS: Final = {29: 5, 32: 15, 36: 3, 40: 6, 44: 8, 48: 50, 56: 3, 64: 10}
"""Shares of prefix lengths, about as in the routes of the internet."""
Words = np.ndarray[Any, np.dtype[np.uint64]]


def cpu_s() -> float:
    """Return the CPU time of this thread."""
    return time.clock_gettime(time.CLOCK_THREAD_CPUTIME_ID)


def spent_s(call: Callable[[], object]) -> float:
    """Return the CPU time of a call."""
    begun = cpu_s()
    call()
    return cpu_s() - begun


def million_a_second(samples: list[float]) -> list[float]:
    """Return rates of rounds that took so many seconds."""
    return [LOOKUPS / seconds / 1e6 for seconds in samples]


def compiled_c(folder: Path) -> ctypes.CDLL | None:
    """Return the C side, or None where the system has no compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    source, library = Path(__file__).with_name("rig") / "lookup.c", folder / "lookup.so"
    command = [compiler, "-O3", "-march=native", "-shared", "-fPIC", "-o", str(library), str(source)]
    subprocess.run(command, check=True)
    return ctypes.CDLL(str(library))


def huge(count: int) -> Words:
    """Return zeroed words on huge pages, at a multiple of 64."""
    memory = mmap.mmap(-1, count * 8, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_HUGEPAGE)
    words = np.frombuffer(memory, np.uint64)
    words[:] = 0
    return words


@hot
def look_up(state: Int, keys: Int, count: Int, found: Int) -> None:
    """Look keys of two limbs up in an exact table; keep what is found for ROOM of them, as a kernel does."""
    for part in range(count // ROOM):
        find_batch(state, keys + np.uint64(part) * PART_BYTES, ROOM, found)


class Lookups:
    """Random keys of a table, and room for what is found."""

    def __init__(self, keys: Words, seed: int = 7) -> None:
        self.keys = huge(LOOKUPS * keys.shape[1]).reshape(LOOKUPS, keys.shape[1])
        self.keys[:] = keys[np.random.default_rng(seed).integers(0, len(keys), LOOKUPS)]
        self.found = huge(LOOKUPS * 2).reshape(LOOKUPS, 2)

    def places(self) -> tuple[np.uint64, np.uint64, np.uint64]:
        """Return address of the keys, their count, address of what is found."""
        return np.uint64(self.keys.ctypes.data), np.uint64(LOOKUPS), np.uint64(self.found.ctypes.data)


def number(value: int) -> ctypes.c_uint64:
    """Return a number as C takes it."""
    return ctypes.c_uint64(int(value))


def in_alternation(sides: dict[str, Callable[[], object]]) -> dict[str, list[float]]:
    """Return the CPU time of each side, by round; the first round warms up and does not count."""
    samples: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(ROUNDS + 1):
        for name, side in sides.items():
            seconds = spent_s(side)
            if turn:
                samples[name].append(seconds)
    return samples


def random_keys(count: int, limbs: int = 2) -> Words:
    """Return keys that have no order."""
    return np.random.default_rng(1).integers(0, 1 << 63, (count, limbs), np.uint64)


def fill(size: int, keys: Words) -> ExactTable:
    """Return a full exact table."""
    table = ExactTable(size, 128, 2)
    count = len(keys)
    table.insert_many(keys, np.ones(count, np.uint64), np.ones((count, 2), np.uint64))
    return table


def measure_exact(
    report: Any,  # noqa: ANN401 - loaded by path
    name: str,
    size: int,
    c_side: ctypes.CDLL | None,
) -> None:
    """Add the figures of one size."""
    keys = random_keys(size)
    table, lookups = fill(size, keys), Lookups(keys)
    places = lookups.places()
    find_batch(table.state, *places)
    if not lookups.found[:, 0].all():
        raise SystemExit(f"exact_{name}: some keys were not found")
    sides: dict[str, Callable[[], object]] = {"": lambda: look_up(table.state, *places)}
    if c_side is not None:
        slots = 1 << (2 * size - 1).bit_length()
        direct = huge(slots * 8)
        mask, place = number(slots - 1), number(direct.ctypes.data)
        c_side.fill_direct(place, mask, number(keys.ctypes.data), number(size))
        given = tuple(map(number, places))
        sides["_in_c"] = lambda: c_side.in_buckets(number(table.state), *given)
        sides["_in_c_direct"] = lambda: c_side.direct(place, mask, *given)
    samples = in_alternation(sides)
    for side, taken in samples.items():
        report.add_rounds(f"exact_{name}{side}", million_a_second(taken), "M/s")
    if c_side is not None:
        ratio = median(c / ours for c, ours in zip(samples["_in_c"], samples[""], strict=True))
        report.add_goal(f"exact_{name}_against_c", ratio, "ratio", C_SHARE_GOAL)
    table.close()


def measure_inserts(report: Any) -> None:  # noqa: ANN401 - loaded by path
    """Add what it costs to fill an exact table, in bulk and one by one."""
    keys = random_keys(INSERTS)
    fill(INSERTS, keys).close()
    samples = [spent_s(lambda: fill(INSERTS, keys).close()) for _ in range(ROUNDS)]
    report.add_goal("exact_100k_inserts", median(samples), "s", INSERT_GOAL_S, at_most=True)
    numbers = [
        sum(limb << 64 * place for place, limb in enumerate(map(int, row))) for row in keys[:SINGLE_INSERTS]
    ]
    table = ExactTable(INSERTS, 128, 2)

    def one_by_one() -> None:
        for key in numbers:
            table.insert(key, 1, (1, 2))

    report.add("exact_insert", spent_s(one_by_one) / SINGLE_INSERTS * 1e6, "us")
    table.close()


def masks_of_flows() -> list[int]:
    """Return 32 masks of addresses, protocol and ports, as packet filters have them, the narrowest first."""
    return masks_with([(32, 32), (32, 24), (24, 32), (24, 24), (24, 16), (16, 24), (16, 16), (8, 8)])


def masks_with(lengths: Sequence[tuple[int, int]]) -> list[int]:
    """Return masks of addresses with prefixes of these lengths, four of protocol and ports for each."""
    addresses = [prefix(source) << 32 | prefix(target) for source, target in lengths]
    others = (0xFFFFFFFFFF, 0xFF0000FFFF, 0xFFFFFF0000, 0xFF00000000)
    return [address << 40 | other for other in others for address in addresses]


def prefix(length: int) -> int:
    """Return the mask of an IPv4 prefix."""
    return 0xFFFFFFFF & -1 << 32 - length


def measure_ternary(
    report: Any,  # noqa: ANN401 - loaded by path
    name: str,
    masks: Sequence[int],
    *,
    banded: bool,
    goal: float | None = None,
) -> None:
    """Add lookups among 10 k entries under some masks; priorities are `banded` by mask, or random."""
    rng = random.Random(3)
    table = TernaryTable(TERNARY_ENTRIES, 104, 1)
    matching = []
    for entry in range(TERNARY_ENTRIES):
        place = entry % len(masks)
        key, mask = rng.getrandbits(104), masks[place]
        priority = rng.randrange(1000) + (1000 * (len(masks) - place) if banded else 1)
        matching.append(key)
        with suppress(UsageError):  # a wide mask may have this value already
            table.insert(key & mask, mask, priority, 0)
    lookups = Lookups(pack_keys(matching, 2))
    places = lookups.places()
    samples = in_alternation({name: lambda: find_ternary_batch(table.state, *places)})[name]
    if not lookups.found[:, 0].all():
        raise SystemExit(f"{name}: some keys were not found")
    if goal is None:
        report.add_rounds(name, million_a_second(samples), "M/s")
    else:
        report.add_goal(name, median(million_a_second(samples)), "M/s", goal)
    table.close()


def measure_ranges(report: Any) -> None:  # noqa: ANN401 - loaded by path
    """Add lookups of ports among 1 k ranges that part all ports, priorities at random."""
    rng, table = random.Random(4), TernaryTable(RANGES, 16, ranges=[(0, 16)])
    starts = [0, *sorted(rng.sample(range(1, 1 << 16), RANGES - 1)), 1 << 16]
    for low, behind in pairwise(starts):
        table.insert(0, 0, rng.randrange(1, 100), 0, bounds=[(low, behind - 1)])
    lookups = Lookups(pack_keys(range(1 << 16), 1))
    places = lookups.places()
    samples = in_alternation({"": lambda: find_ternary_batch(table.state, *places)})[""]
    if not lookups.found[:, 0].all():
        raise SystemExit("ranges_1k: some ports were not found")
    report.add_rounds("ranges_1k", million_a_second(samples), "M/s")
    table.close()


def random_prefixes(count: int, width: int, shares: dict[int, int]) -> tuple[Words, Words]:
    """Return distinct prefixes in limbs, and their lengths: drawn by their shares, values without order."""
    rng = random.Random(5)
    lengths = rng.choices(list(shares), list(shares.values()), k=2 * count)
    drawn = {(rng.getrandbits(length) << width - length, length) for length in lengths}
    prefixes = rng.sample(sorted(drawn), count)
    keys = pack_keys([key for key, _ in prefixes], -(-width // 64))
    return keys, np.array([length for _, length in prefixes], np.uint64)


def fill_prefixes(table: LpmTable, keys: Words, lengths: Words) -> None:
    """Insert prefixes."""
    zeros = np.zeros(len(keys), np.uint64)
    table.insert_many(keys, lengths, zeros, zeros.reshape(len(keys), 1))


def measure_lpm(report: Any, name: str, keys: Words, lengths: Words, width: int) -> LpmTable:  # noqa: ANN401
    """Add lookups of random keys with these prefixes, and return the table."""
    table = LpmTable(len(keys), width, 1)
    fill_prefixes(table, keys, lengths)
    behind = keys.copy()
    behind[lengths < width, -1] |= np.uint64(1)
    lookups = Lookups(behind)
    places = lookups.places()
    samples = in_alternation({name: lambda: find_lpm_batch(table.state, *places)})[name]
    if not lookups.found[:, 0].all():
        raise SystemExit(f"{name}: some keys were not found")
    report.add_rounds(name, million_a_second(samples), "M/s")
    return table


def measure_routes(report: Any) -> None:  # noqa: ANN401 - loaded by path
    """Add lookups among IPv4 and IPv6 prefixes, and what it costs to change the largest table."""
    for name, size in LPM_SIZES.items():
        keys, lengths = random_prefixes(size, 32, ROUTE_LENGTHS)
        table = measure_lpm(report, f"lpm_{name}", keys, lengths, 32)
    report.add(f"lpm_{name}_goal", LPM_GOAL, "M/s")
    numbers = range(0, size, size // SINGLE_INSERTS)

    def again() -> None:
        for number in numbers:
            table.delete(number)
            table.insert(int(keys[number, 0]), int(lengths[number]), 0)

    report.add(f"lpm_{name}_delete_and_insert", spent_s(again) / len(numbers) * 1e6, "us")
    table.close()
    with_room = LpmTable(size, 32, 1)
    seconds = spent_s(lambda: fill_prefixes(with_room, keys, lengths))
    report.add(f"lpm_{name}_insert_in_bulk", seconds / size * 1e6, "us")
    with_room.close()
    keys, lengths = random_prefixes(1 << 16, 128, IPV6_ROUTE_LENGTHS)
    measure_lpm(report, "lpm_ipv6_64k", keys, lengths, 128).close()


def main() -> None:
    """Measure and print."""
    report = reports.Report("lookups")
    with tempfile.TemporaryDirectory() as folder:
        c_side = compiled_c(Path(folder))
        if c_side is None:
            print("there is no C compiler (cc): nothing stands beside the figures", file=sys.stderr)
        for name, size in EXACT_SIZES.items():
            measure_exact(report, name, size, c_side)
    measure_inserts(report)
    few, name = masks_of_flows(), "ternary_10k_32_masks"
    measure_ternary(report, name, few, banded=True, goal=TERNARY_GOAL)
    measure_ternary(report, f"{name}_random_priorities", few, banded=False, goal=TERNARY_GOAL)
    many = masks_with(list(product(range(8, 33), repeat=2)))
    measure_ternary(report, f"ternary_10k_{len(many)}_masks_random_priorities", many, banded=False)
    measure_ranges(report)
    measure_routes(report)
    report.write()


if __name__ == "__main__":
    main()
