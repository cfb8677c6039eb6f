# SPDX-License-Identifier: Apache-2.0
"""Tables with priorities: keys with masks, and ranges in them.

Entries with the same mask form a tuple. All tuples share one hash index, in which a key is the masked key
and the number of its tuple; entries that are equal there form a chain. Tuples lie in the order of their best
priority, so a lookup stops at the first that cannot win any more. A range belongs to the mask with the bits
that its ends have in common, and is compared entry by entry in a chain.

Where there are many tuples, further masks share some: the entries of such a tuple have its bits in their
masks and maybe more, which are compared in the chain, too. An entry goes where the fewest bits are taken and
its chain is not long, so that thousands of masks take some hundred tuples.

A change of the index, of a chain or of the list of tuples is one store; what a reader pieces together from
several of them holds if no change was completed meanwhile, else it looks up again.
Sources: V. Srinivasan, S. Suri, G. Varghese, "Packet Classification using Tuple Space Search" (SIGCOMM 1999);
J. Daly et al., "TupleMerge: Fast Software Packet Processing for Online Packet Classification" (IEEE/ACM
Transactions on Networking, 2019), for masks that share tuples.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from nicemu import hot as hot_room
from nicemu.errors import UsageError
from nicemu.hot import Int, hot
from nicemu.pcie import load_u64, store_u64

from . import chains
from .buckets import find_masked, index_of
from .chains import ADDED_AT, NEXT, ORDER, PRIORITY, VALUE, in_ranges
from .entries import (
    EIGHT,
    KEY,
    KIND,
    LIMBS,
    MISS,
    ONE,
    PRESENT,
    TWO,
    UPDATES,
    ZERO,
    hash_masked,
    same_masked,
    u64,
    whole_head,
)
from .memory import Memory
from .table import WORD_BITS, WORD_BYTES, Table, limbs_of
from .tuples import Tuples
from .words import fence_loads, load_word

Bounds: TypeAlias = tuple[int, int]
"""The ends of a range, both in it."""
MAX_PRIORITY = (1 << 64) - 1
OWN_TUPLES: Final = 32
"""Tuples from which on masks that are new share some."""
SHARED_GROUPS: Final = (16, 8, 4)
"""Of how many bits of the key a shared tuple takes all or none: what is tried first leaves most bits out."""
LONG_CHAIN: Final = 12
"""Entries from which on a chain takes no more, as long as a tuple with more bits can be had."""
_CHAIN_WORDS = int(VALUE) // WORD_BYTES
_SHARED_AT = u64(63)
_FOUND_BYTES = u64(16)


@hot
def find_ternary(state: Int, key: Int, limbs: Int) -> tuple[Int, Int]:
    """Return the address of the entry that wins for the `limbs` words at `key`, and its head.

    MISS and 0 are returned if none matches.
    """
    while True:
        updates = load_u64(state + UPDATES)
        entry, head = _search(state, key, limbs)
        fence_loads()
        if load_u64(state + UPDATES) == updates:
            return entry, head


@hot
def _search(state: Int, key: Int, limbs: Int) -> tuple[Int, Int]:
    index, added_at = index_of(state), load_word(state + ADDED_AT)
    best, best_head = MISS, ZERO
    best_priority, best_order = ZERO, ZERO
    about = u64(load_u64(state + KIND))
    tuple_bytes, own_bytes = (limbs + TWO) * EIGHT, limbs * EIGHT
    end = about + EIGHT + load_word(about) * tuple_bytes
    about += EIGHT
    while about != end and load_word(about) >= best_priority:
        number, mask = load_word(about + EIGHT), about + TWO * EIGHT
        entry, head = find_masked(index, key, mask, limbs, number, hash_masked(key, mask, limbs, number))
        while entry != MISS:
            added = entry + added_at
            priority, order = load_word(added + PRIORITY), load_word(added + ORDER)
            if priority < best_priority or (priority == best_priority and order > best_order):
                break
            own = added + VALUE
            is_whole = number >> _SHARED_AT == ZERO or same_masked(own, key, own + own_bytes, limbs)
            if is_whole and in_ranges(state, own + own_bytes + own_bytes, key):
                best, best_head, best_priority, best_order = entry, head, priority, order
                break
            entry = u64(load_u64(added + NEXT))
            if entry != MISS:
                head = whole_head(entry)
        about += tuple_bytes
    return best, best_head


@hot
def find_ternary_batch(state: Int, keys: Int, count: Int, found: Int) -> None:
    """Look up `count` keys, as `find_batch` does in an exact table."""
    limbs = load_word(state + LIMBS) - ONE
    if limbs == ONE:
        _find_batch(state, keys, count, found, ONE)
    elif limbs == TWO:
        _find_batch(state, keys, count, found, TWO)
    else:
        _find_batch(state, keys, count, found, limbs)


@hot
def _find_batch(state: Int, keys: Int, count: Int, found: Int, limbs: Int) -> None:
    for place in range(count):
        entry, head = find_ternary(state, keys + place * limbs * EIGHT, limbs)
        store_u64(found + place * _FOUND_BYTES, entry)
        store_u64(found + place * _FOUND_BYTES + EIGHT, head)


@hot
def find_ternary_key(state: Int, key: Int) -> Int:
    """Return the address of the entry that wins for the key at `key`, or MISS."""
    entry, _ = find_ternary(state, key, load_word(state + LIMBS) - ONE)
    return entry


@dataclass(frozen=True, slots=True)
class _Range:
    """A field of the key that entries give a range for."""

    offset_bits: int
    width_bits: int

    def common_mask(self, low: int, high: int) -> int:
        """Return the bits of the field, in the field, that all values from `low` to `high` have in common."""
        free = (low ^ high).bit_length()
        return (1 << self.width_bits) - 1 >> free << free

    def limbs(self, value: int, of_key: int) -> list[int]:
        """Return the limbs of the key that the field touches, with a value in the field."""
        first, last = self.touched(of_key)
        return limbs_of(value << self.offset_bits, of_key)[first : last + 1]

    def touched(self, of_key: int) -> tuple[int, int]:
        """Return the first and the last limb of the key that the field touches."""
        highest = self.offset_bits + self.width_bits - 1
        return of_key - 1 - highest // WORD_BITS, of_key - 1 - self.offset_bits // WORD_BITS


class TernaryTable(Table):
    """A table whose entries have a priority: the larger wins, then the entry that came first.

    An entry matches a key that equals its value under its mask. `ranges` are fields of the key, each as the
    offset of its lowest bit and its width, for which entries give a range instead. An optional field is one
    whose mask is all or nothing. A prefix beside exact fields is a mask with its length as priority.

    Beside what every table has, 2 * (16 + 8 * limbs) bytes of memory for every mask.
    """

    def __init__(
        self,
        size: int,
        key_bits: int,
        parameter_words: int = 0,
        ranges: Sequence[tuple[int, int]] = (),
        *,
        compiled: bool = hot_room.JIT,
    ) -> None:
        limbs = -(-key_bits // WORD_BITS)
        self._ranges = [_Range(*one) for one in ranges]
        if not all(0 <= at < at + width <= key_bits for at, width in ranges):
            raise UsageError(
                f"the ranges {list(ranges)} (offset, width) do not lie in a key of {key_bits} bits"
            )
        self._bound_words = sum(2 * len(one.limbs(0, limbs)) for one in self._ranges)
        own_words = 2 * limbs + self._bound_words
        added = 1 + _CHAIN_WORDS + own_words
        super().__init__(size, key_bits, parameter_words, added, compiled)
        self._find = self._run(find_ternary_key)
        self._delete = self._run(chains.unlink)
        self._link = self._run(chains.link)
        self._given_tuple = self._scratch + int(KEY) + limbs * WORD_BYTES
        self._is_long, self._is_chained = self._run(chains.is_long), self._run(chains.is_chained)
        self._added_at = self.parameters_at - (_CHAIN_WORDS + own_words) * WORD_BYTES
        self._given_added = u64(self._scratch + self._added_at)
        self._describe_ranges(own_words)
        self._homes: dict[int, Counter[int]] = {}
        """How many entries of a mask are in which tuples."""
        self._tuples = Tuples(self.state, size, limbs)

    def _describe_ranges(self, own_words: int) -> None:
        words: list[int] = []
        for one in self._ranges:
            first, _ = one.touched(self.limbs)
            masks = one.limbs((1 << one.width_bits) - 1, self.limbs)
            words += [first * WORD_BYTES, len(masks), *masks]
        self._described = Memory(max(1, len(words)) * WORD_BYTES)
        self._lay(self._described.address, words)
        for word, value in (
            (LIMBS, self.limbs + 1),
            (ADDED_AT, self._added_at),
            (chains.OWN_WORDS, own_words),
            (chains.RANGES, self._described.address),
            (chains.RANGE_COUNT, len(self._ranges)),
        ):
            store_u64(self.state + word, value)

    def insert(
        self,
        value: int,
        mask: int,
        priority: int,
        action: int,
        parameters: Sequence[int] = (),
        bounds: Sequence[Bounds] = (),
        now_ns: int = 0,
    ) -> int:
        """Insert an entry and return its number.

        `value` is 0 where `mask` does not select, and both are in the fields of `ranges`; `bounds` are the
        ranges in order, both ends in them.
        Raises: ResourceError if the table is full; UsageError if an equal entry of the same priority is
        there, or nothing fits.
        """
        if not 1 <= priority <= MAX_PRIORITY:
            raise UsageError(f"priority {priority} was given; 1 to {MAX_PRIORITY} can be had")
        if value & ~mask or not 0 <= mask < 1 << self.key_bits:
            raise UsageError(f"{value:#x} under mask {mask:#x} is no value and mask of {self.key_bits} bits")
        value, mask, ends = self._with_ranges(value, mask, bounds)
        self._refuse_full()
        self._give_parameters(action, parameters)
        own = [*limbs_of(value, self.limbs), *limbs_of(mask, self.limbs), *ends]
        self._lay(self._given_added, [priority, 0, 0, *own])
        of_tuple, is_shared = self._home_of(value, mask)
        number = int(PRESENT)
        if not self._is_elsewhere(value, mask, self._tuples.number_of(of_tuple, is_shared)):
            home = self._tuples.number_for(of_tuple, is_shared, priority)
            self._give_place(value & of_tuple, home)
            number = int(
                self._link(
                    self.state,
                    self._given_key,
                    self._given_added,
                    u64(action),
                    self._given_parameters,
                    u64(now_ns),
                )
            )
        if number == PRESENT:
            raise UsageError(
                f"{value:#x} under mask {mask:#x} has an entry of priority {priority}; modify it"
            )
        self._tuples.add(home, priority)
        self._homes.setdefault(mask, Counter())[home] += 1
        return number

    def _home_of(self, value: int, mask: int) -> tuple[int, bool]:
        """Return the mask of the tuple that an entry goes to, and whether others may share that."""
        if self._tuples.number_of(mask, False) is not None or len(self._tuples) < OWN_TUPLES:
            return mask, False
        for bits in SHARED_GROUPS:
            shared = _whole_groups(mask, bits)
            number = self._tuples.number_of(shared, True)
            if number is None:
                return shared, True
            self._give_place(value & shared, number)
            if not self._is_long(self.state, self._given_key, u64(LONG_CHAIN)):
                return shared, True
        return mask, False

    def _is_elsewhere(self, value: int, mask: int, chosen: int | None) -> bool:
        """Return whether the entry that was given is in another tuple than the chosen one already."""
        for number in self._homes.get(mask, ()):
            if number != chosen:
                self._give_place(value & self._tuples.mask_of(number), number)
                if self._is_chained(self.state, self._given_key, self._given_added):
                    return True
        return False

    def _give_place(self, value: int, number: int) -> None:
        """Lay a masked key and its tuple where hot functions are told to take them from."""
        self._give_key(value)
        self._lay(self._given_tuple, [number])

    def delete(self, number: int) -> None:
        """Delete an entry. Raises: UsageError if there is none of this number."""
        record = self._record(number)
        of_tuple = load_u64(record + int(KEY) + self.limbs * WORD_BYTES)
        priority = load_u64(record + self._added_at)
        mask = self._mask_of(record)
        super().delete(number)
        self._tuples.drop(of_tuple, priority)
        homes = self._homes[mask]
        homes[of_tuple] -= 1
        if not homes[of_tuple]:
            del homes[of_tuple]
        if not homes:
            del self._homes[mask]

    def _mask_of(self, record: int) -> int:
        """Return the mask of the entry in a record."""
        at, mask = record + self._added_at + int(VALUE) + self.limbs * WORD_BYTES, 0
        for place in range(self.limbs):
            mask = mask << WORD_BITS | load_u64(at + place * WORD_BYTES)
        return mask

    def close(self) -> None:
        """Give the memory back."""
        super().close()
        self._tuples.close()
        self._described.close()

    def _with_ranges(self, value: int, mask: int, bounds: Sequence[Bounds]) -> tuple[int, int, list[int]]:
        """Return value and mask with what the ends of each range have in common, and the ends as words."""
        if len(bounds) != len(self._ranges):
            raise UsageError(f"{len(bounds)} ranges were given; {len(self._ranges)} are expected")
        ends: list[int] = []
        for one, (low, high) in zip(self._ranges, bounds, strict=True):
            largest = (1 << one.width_bits) - 1
            if not 0 <= low <= high <= largest or mask >> one.offset_bits & largest:
                raise UsageError(
                    f"a range of {low:#x} to {high:#x} over mask {mask:#x} was given; the field at bit "
                    f"{one.offset_bits} has values up to {largest:#x}, and the mask is 0 there"
                )
            common = one.common_mask(low, high)
            value |= (low & common) << one.offset_bits
            mask |= common << one.offset_bits
            ends += one.limbs(low, self.limbs) + one.limbs(high, self.limbs)
        return value, mask, ends


def _whole_groups(mask: int, bits: int) -> int:
    """Return the bits of a mask that are in groups of so many, from the lowest on, of which it has all."""
    whole, group, place = 0, (1 << bits) - 1, 0
    while mask >> place:
        if mask >> place & group == group:
            whole |= group << place
        place += bits
    return whole
