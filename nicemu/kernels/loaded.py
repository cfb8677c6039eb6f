# SPDX-License-Identifier: Apache-2.0
"""A program's machine code, with the memory that it works on: tables, extern objects, effects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from nicemu.errors import UsageError
from nicemu.lookup import Memory
from nicemu.pipeline import HOST_PORT, MAX_EFFECTS, Effect, Layouts, Objects, Program

from .compiled import MachineCode
from .effects import Site, effect_of, name_of
from .kernel import generate
from .kernel_objects import follow_profiles, held_arrays
from .kernel_tables import KernelTable
from .kernel_value_sets import KernelValueSet
from .not_compiled import NotCompiled
from .records import (
    PACKET,
    TABLE_DEFAULT,
    TABLE_HITS,
    TABLE_MISSES,
    TABLE_STATE,
    TABLE_WORDS,
    context_words,
    word_of_chance,
    word_of_effects,
    word_of_object,
    word_of_states,
    word_of_value_set,
)
from .table_keys import without_bits
from .traffic import forward
from .traffic_desk import Desk, have_words
from .v1_requests import digests_at_first
from .v1_state import StateLayout

Packets = np.ndarray[Any, Any]
MAX_EFFECT_BYTES = 256 << 20
"""Memory for the effects of packets that run at once; there are so few of them, where each may have many."""


@dataclass(slots=True)
class _Batch:
    """Room for the effects of as many packets as run at once."""

    effects: np.ndarray[Any, Any]
    packets: int


class Kernel:
    """A program's machine code, with the memory that it works on."""

    def __init__(self, program: Program, optimised: bool = True, cpu_port: int = HOST_PORT) -> None:
        self.program = program
        self._layouts = Layouts(program)
        if name := without_bits(program):
            raise NotCompiled(f"{name} has a key of no bits")
        self.tables = {table.name: KernelTable(program, table) for table in program.tables}
        generated = generate(program, lambda table: self.tables[table.name].parameters_at, cpu_port)
        self._code = MachineCode(generated, optimised)
        self.sites = generated.sites
        self.headroom_bytes = generated.headroom_bytes
        self._begins = generated.begins
        self.value_sets = {item.name: KernelValueSet(program, item) for item in program.value_sets}
        self.context = np.zeros(context_words(program), np.uint64)
        self._context_at = int(self.context.ctypes.data)
        self._effects_at = word_of_effects(program)
        self._effect_words = generated.effect_words
        if 8 * self._effect_words > MAX_EFFECT_BYTES:
            raise NotCompiled("what one packet may tell takes too much memory")
        self._batch = _Batch(np.zeros(0, np.uint64), 0)
        self.makes_copies = generated.makes_copies
        """Whether what becomes of a packet may be left to the traffic manager; see `stage`."""
        self._state = np.zeros(StateLayout(program).words if generated.makes_copies else 0, np.uint64)
        self._cpu_port = cpu_port
        self._desk: Desk | None = None
        self._forwards = generated.makes_copies and have_words(program.field_lists, StateLayout(program))
        self._digests_at_first = digests_at_first(program)
        self._arrays: list[Memory] = []
        for table in self.tables.values():
            self.settle(table)

    def settle(self, table: KernelTable) -> None:
        """Have the kernel see where a table's entries and default action lie."""
        first = TABLE_WORDS * self.program.tables.index(table.spec)
        self.context[first + TABLE_STATE] = table.state
        self.context[first + TABLE_DEFAULT] = table.default

    def counts(self, table: KernelTable) -> tuple[int, int]:
        """Return how many lookups of a table have hit and missed."""
        first = TABLE_WORDS * self.program.tables.index(table.spec)
        return int(self.context[first + TABLE_HITS]), int(self.context[first + TABLE_MISSES])

    def run(self, packets: Packets, fetch_ahead: bool | None = None) -> int:
        """Take packets through the program; return how many of them it has taken.

        packets: PACKET[n], each with `headroom_bytes` before its frame. What becomes of each stands in its
        record, and its effects where `effects` finds them until the next run. One that is left to the traffic
        manager is the last that is taken, and its state, too, is good until then; so is one behind which
        there is no more room for effects. `fetch_ahead` says whether the lookups of a group of packets begin
        before they are needed; None: where there is more than one packet, and the first table's lookups can
        begin.
        Raises: UsageError if these are no records one behind the other.
        """
        _require_records(packets)
        count = self._most_at_once(len(packets))
        ahead = self._begins and count > 1 if fetch_ahead is None else fetch_ahead
        self._make_room(count)
        if self.makes_copies:
            self.context[word_of_states(self.program)] = self._state.ctypes.data
        return int(self._code.run(self._context_at, packets.ctypes.data, count, int(ahead)))

    def has_room_for(self, count: int) -> bool:
        """Return whether so many packets can run at once."""
        return self._most_at_once(count) == count

    def _most_at_once(self, count: int) -> int:
        return min(count, MAX_EFFECT_BYTES // (8 * self._effect_words)) if self._effect_words else count

    def _make_room(self, count: int) -> None:
        """Have the effects of so many packets be written from the first place on."""
        if self._effect_words:
            if self._batch.packets < count:
                self._batch = _Batch(np.zeros(count * self._effect_words, np.uint64), count)
            self.context[self._effects_at] = self._batch.effects.ctypes.data

    def call_for(self, count: int) -> np.ndarray[Any, Any]:
        """Return what `run_kernel` needs to take so many packets at once, uint64[CALL_WORDS].

        It is good as long as the kernel, which runs no more packets at once meanwhile. There must be room.
        """
        assert not self.makes_copies
        assert self.has_room_for(count)
        self._make_room(count)
        effects = self._batch.effects.ctypes.data
        next_effect = self._context_at + 8 * self._effects_at
        return np.array([self._code.run_at, self._context_at, next_effect, effects, self._begins], np.uint64)

    def desk(self, objects: Objects, digested: bool) -> Desk | None:
        """Return the memory of the traffic manager, which replicates as `objects` say; nothing has left yet.

        There is none where no packet becomes others, and where they are `digested`, that is somebody wants
        digests, and not all of them are posted at first: those that come later are lost in `forward`.
        """
        if not self._forwards or (digested and not self._digests_at_first):
            return None
        if self._desk is None:
            effect_words = MAX_EFFECTS * max((site.words for site in self.sites), default=0)
            self._desk = Desk(self.program, self.headroom_bytes, self._cpu_port, effect_words)
            self._desk.connect(
                run=self._code.run_at,
                stage=self._code.stage_at,
                context=self._context_at,
                next_state=self._context_at + 8 * word_of_states(self.program),
                state=self._state.ctypes.data,
                next_effect=self._context_at + 8 * self._effects_at,
            )
        self._desk.follow(objects)
        self._desk.clear(digested)
        return self._desk

    def forward(self, desk: Desk, packets: Packets, first: int) -> int:
        """Take packets from number `first` on through the program and the traffic manager.

        Returns the number behind the last that was taken: all, or as many as there is room for, or one that
        the traffic manager has had no room for, or those before whose copies are to leave first. The records
        of what leaves of those that have become others are the desk's `copies`.
        """
        _require_records(packets)
        end = first + self._most_at_once(len(packets) - first)
        self._make_room(end - first)
        desk.expect(int(packets["length"].max()))
        ahead = self._begins and end - first > 1
        given = desk.address, packets.ctypes.data, first, end, ahead
        return int(forward(*[np.uint64(word) for word in given]))

    def stage(self, effects_at: int, packet: int, state: int, block: int) -> None:
        """Take a packet in a state through one block of its program; all but the last are addresses."""
        self.context[self._effects_at] = effects_at
        assert self._code.stage is not None
        self._code.stage(self._context_at, packet, state, block)

    def effects(self, packet: Any) -> list[Effect]:  # noqa: ANN401
        """Return the effects of a packet's record after `run`."""
        start = int(self._batch.effects.ctypes.data) & 0xFFFFFFFF
        at = (int(packet["effects_at"]) - start & 0xFFFFFFFF) // 8 if self._effect_words else 0
        found = []
        for _ in range(int(packet["effects_count"])):
            site = self.sites[int(self._batch.effects[at])]
            words = iter(self._batch.effects[at + 1 : at + site.words].tolist())
            found.append(effect_of(self.program, self._layouts, site, words))
            at += site.words
        return found

    @property
    def effects_memory(self) -> np.ndarray[Any, Any]:
        """Where effects of the packets that ran last stand, uint64[]; a run of more may move it."""
        return self._batch.effects

    def event_of(self, site: Site) -> str:
        """Return the name under which a site posts an event or arms work."""
        return name_of(self.program, site)

    def hold(self, objects: Objects) -> None:
        """Have extern objects, value sets and chance lie where the kernel reads and writes them.

        Raises: ResourceError if there is not so much memory; nothing has changed.
        """
        for number, array in held_arrays(self.program, objects).items():
            self._arrays.append(array.memory)
            self.context[word_of_object(self.program, number)] = array.memory.address
        for number, (name, members) in enumerate(self.value_sets.items()):
            members.follow(objects.value_sets[name])
            self.context[word_of_value_set(self.program, number)] = members.state
        self.context[word_of_chance(self.program)] = objects.random.address
        self._chance = objects.random
        follow_profiles(self.tables.values(), objects)

    def close(self) -> None:
        """Give the memory back."""
        for table in self.tables.values():
            table.close()
        for members in self.value_sets.values():
            members.close()
        for memory in self._arrays:
            memory.close()


def kernel_text(program: Program) -> str:
    """Return a program's kernel as LLVM IR, before lookups are taken in. Raises: NotCompiled."""
    tables = {table.name: KernelTable(program, table) for table in program.tables}
    try:
        return generate(program, lambda table: tables[table.name].parameters_at).text
    finally:
        for table in tables.values():
            table.close()


def _require_records(packets: Packets) -> None:
    """Raises: UsageError if these are no records one behind the other; NumPy joins them to others."""
    if packets.dtype != PACKET or not packets.flags.c_contiguous:
        raise UsageError("packets must be an array of PACKET, one behind the other")
