# SPDX-License-Identifier: Apache-2.0
"""An engine whose program runs compiled, where kernels can do what it asks for.

The interpreter's engine goes on to define meaning: it checks every entry and holds it, and it runs what is
traced and what no kernel can. Packets and bytes that entries have counted are the sum of both.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from nicemu.errors import ResourceError
from nicemu.lookup import Memory
from nicemu.pipeline import (
    MAX_FRAME_BYTES,
    Arrival,
    Disposition,
    Effect,
    Engine,
    Layouts,
    Objects,
    Program,
    TableInfo,
    Verdict,
    reason_of,
)

from .compiled import MachineCode
from .effects import effect_of
from .expressions import NotCompiled
from .kernel import generate
from .kernel_objects import follow_profiles, held_arrays
from .kernel_tables import KernelTable
from .kernel_value_sets import KernelValueSet
from .records import (
    AFTER_INGRESS,
    DROPPED,
    HELD,
    PACKET,
    REASONS,
    TABLE_DEFAULT,
    TABLE_HITS,
    TABLE_MISSES,
    TABLE_STATE,
    TABLE_WORDS,
    TO_HOST,
    TO_PORT,
    TOLD,
    context_words,
    word_of_chance,
    word_of_effects,
    word_of_object,
    word_of_states,
    word_of_value_set,
)
from .table_keys import without_bits
from .v1_passes import Passes
from .v1_state import StateLayout

Packets = np.ndarray[Any, Any]


@dataclass(slots=True)
class _Batch:
    """Room for the effects of as many packets as run at once."""

    effects: np.ndarray[Any, Any]
    packets: int


class Kernel:
    """A program's machine code, with the memory that it works on."""

    def __init__(self, program: Program, optimised: bool = True) -> None:
        self.program = program
        self._layouts = Layouts(program)
        if name := without_bits(program):
            raise NotCompiled(f"{name} has a key of no bits")
        self.tables = {table.name: KernelTable(program, table) for table in program.tables}
        generated = generate(program, lambda table: self.tables[table.name].parameters_at)
        self._code = MachineCode(generated, optimised)
        self.sites = generated.sites
        self.headroom_bytes = generated.headroom_bytes
        self._begins = generated.begins
        self.value_sets = {item.name: KernelValueSet(program, item) for item in program.value_sets}
        self.context = np.zeros(context_words(program), np.uint64)
        self._context_at = int(self.context.ctypes.data)
        self._effects_at = word_of_effects(program)
        self._effect_words = generated.effect_words
        self._batch = _Batch(np.zeros(0, np.uint64), 0)
        self.makes_copies = generated.makes_copies
        """Whether what becomes of a packet may be left to the traffic manager; see `stage`."""
        self._state = np.zeros(StateLayout(program).words if generated.makes_copies else 0, np.uint64)
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
        manager is the last that is taken, and its state, too, is good until then. `fetch_ahead` says whether
        the lookups of a group of packets begin before they are needed; None: where there is more than one
        packet, and the first table's lookups can begin.
        """
        count = len(packets)
        ahead = self._begins and count > 1 if fetch_ahead is None else fetch_ahead
        if self._effect_words:
            if self._batch.packets < count:
                self._batch = _Batch(np.zeros(count * self._effect_words, np.uint64), count)
            self.context[self._effects_at] = self._batch.effects.ctypes.data
        if self.makes_copies:
            self.context[word_of_states(self.program)] = self._state.ctypes.data
        return int(self._code.run(self._context_at, packets.ctypes.data, count, int(ahead)))

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

    def hold(self, objects: Objects) -> None:
        """Have extern objects, value sets and chance lie where the kernel reads and writes them."""
        for number, (name, members) in enumerate(self.value_sets.items()):
            members.follow(objects.value_sets[name])
            self.context[word_of_value_set(self.program, number)] = members.state
        self.context[word_of_chance(self.program)] = objects.random.address
        self._chance = objects.random
        follow_profiles(self.tables.values(), objects)
        for number, array in held_arrays(self.program, objects).items():
            self._arrays.append(array.memory)
            self.context[word_of_object(self.program, number)] = array.memory.address

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


class CompiledEngine(Engine):
    """An engine that takes packets through compiled code; `interpreted_because` says why it does not.

    It is "" where it does. `optimised=False` compiles quickly code that runs slowly.
    """

    def __init__(self, seed: int = 0, optimised: bool = True) -> None:
        super().__init__(seed)
        self._optimised = optimised
        self.kernel: Kernel | None = None
        self.interpreted_because = "no program is loaded"
        self._passes: Passes | None = None
        self._one = np.zeros(1, PACKET)
        self._room = np.zeros(0, np.uint8)

    def load(self, program: Program) -> None:
        """Run `program` from the next frame on. Raises: ControlError."""
        super().load(program)
        self._compile(program)

    def adopt(self, other: Engine) -> None:
        """Run the program of another engine, with everything that its tables and objects hold."""
        super().adopt(other)
        if isinstance(other, CompiledEngine):
            self._take_kernel(other)
        elif self.program is not None:
            self._compile(self.program)

    def _take_kernel(self, other: CompiledEngine) -> None:
        self._give_up()
        self.kernel, other.kernel = other.kernel, None
        self.interpreted_because = other.interpreted_because
        self._passes, self._room = other._passes, other._room

    def staged(self, program: Program) -> CompiledEngine:
        """As an engine's: the program is compiled when it is adopted."""
        made = CompiledEngine(optimised=self._optimised)
        made.load(program)
        return made

    def _give_up(self) -> None:
        """Give back the kernel of a program that runs no longer."""
        old, self.kernel = self.kernel, None
        if old is not None:
            old.close()

    def _compile(self, program: Program) -> None:
        """Make the kernel of the program that runs, where there can be one, as full as tables and objects."""
        self._give_up()
        try:
            kernel = Kernel(program, self._optimised)
            kernel.hold(self.objects)
        except (NotCompiled, ResourceError) as reason:
            self.interpreted_because = str(reason)
            return
        for twin in kernel.tables.values():
            table = self.table(twin.spec.name)
            twin.refill(table.rows())
            twin.settle = kernel.settle
            twin.set_default(table.default)
            table.follower = twin
        self.kernel, self.interpreted_because = kernel, ""
        assert self._loaded is not None
        given = (
            program,
            self._loaded.tables,
            self.objects,
            kernel.stage,
            kernel.sites,
            kernel.headroom_bytes,
        )
        self._passes = Passes(*given) if kernel.makes_copies else None
        self._room = np.zeros(kernel.headroom_bytes + MAX_FRAME_BYTES + 64, np.uint8)

    def process(
        self, frame: bytes | memoryview, ingress_port: int, trace: bool = False, now_ns: int = 0
    ) -> Verdict:
        """Run one frame through the program; a traced one through the interpreter."""
        if self.kernel is None or trace or len(frame) > MAX_FRAME_BYTES:
            return super().process(frame, ingress_port, trace, now_ns)
        kernel, packet = self.kernel, self._one[0]
        room = self._room.ctypes.data + kernel.headroom_bytes
        ctypes.memmove(room, bytes(frame), len(frame))
        packet["address"], packet["length"], packet["port"] = room, len(frame), ingress_port & 0xFFFFFFFF
        packet["now_ns"] = now_ns
        self.tick(now_ns)
        kernel.run(self._one)
        verdict = self._verdict(packet, bytes(frame))
        if verdict.disposition is Disposition.DROP:
            self.drops[verdict.drop_reason] += 1
        return self._reported(verdict)

    def process_batch(self, packets: Packets) -> list[tuple[int, Verdict]]:
        """Run packets through the program, one after another. packets: PACKET[n], as `Slots` lays them out.

        What becomes of a packet stands in its record, but where that says TOLD. Those come back, by number:
        a listener has been told of them, and the verdict says what is left. Drops are counted by the caller.
        There must be a kernel.
        """
        kernel = self.kernel
        assert kernel is not None
        if len(packets) == 0:
            return []
        self.tick(int(packets["now_ns"].max()))
        found: list[tuple[int, Verdict]] = []
        first = 0
        while first < len(packets):
            taken = packets[first:]
            taken = taken[: kernel.run(taken)]
            for number in np.flatnonzero(self._to_be_told(taken)).tolist():
                packet = taken[number]
                frame = ctypes.string_at(int(packet["address"]), int(packet["length"]))
                found.append((first + number, self._reported(self._verdict(packet, frame))))
                packet["verdict"] = TOLD
            first += len(taken)
        return found

    def _to_be_told(self, packets: Packets) -> np.ndarray[Any, Any]:
        """Return of which packets, PACKET[n], the records do not say all, bool[n]."""
        told = np.zeros(len(packets), np.bool_)
        assert self.kernel is not None
        if self.kernel.makes_copies:
            told[-1] = packets[-1]["verdict"] >= AFTER_INGRESS
        if self.objects.digests:
            told |= packets["effects_count"] > 0
        if self._packet_in_bytes:
            told |= packets["verdict"] == TO_HOST
        return told

    def _verdict(self, packet: Any, frame: bytes) -> Verdict:  # noqa: ANN401
        kernel = self.kernel
        assert kernel is not None
        code, reason = int(packet["verdict"]), int(packet["reason"])
        effects = tuple(kernel.effects(packet))
        if code == DROPPED:
            return Verdict(Disposition.DROP, 0, frame, drop_reason(kernel.program, reason), effects)
        if code >= AFTER_INGRESS:
            assert self._passes is not None
            arrival = Arrival(frame, int(packet["port"]), int(packet["now_ns"]))
            return self._passes.finish(code, int(packet["state_at"]), arrival, effects)
        start = int(packet["address"]) + int(packet["out_offset"])
        left = ctypes.string_at(start, int(packet["out_length"]))
        return Verdict(_DISPOSITIONS[code], int(packet["out_port"]), left, "", effects)

    # Tables

    def tables(self) -> list[TableInfo]:
        """Return every table of the running program."""
        return [self._with_counts(info) for info in super().tables()]

    def _with_counts(self, info: TableInfo) -> TableInfo:
        if self.kernel is None:
            return info
        hits, misses = self.kernel.counts(self.kernel.tables[info.name])
        return replace(info, hits=info.hits + hits, misses=info.misses + misses)


_DISPOSITIONS = {TO_PORT: Disposition.PORT, TO_HOST: Disposition.HOST, HELD: Disposition.FIRMWARE}


def drop_reason(program: Program, reason: int) -> str:
    """Return what drops are counted under, from a packet's record."""
    return REASONS.get(reason) or reason_of(program.errors[reason - 1])
