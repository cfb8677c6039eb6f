# SPDX-License-Identifier: Apache-2.0
"""An engine whose program runs compiled, where kernels can do what it asks for.

The interpreter's engine goes on to define meaning: it checks every entry and holds it, and it runs what is
traced and what no kernel can. Packets and bytes that entries have counted are the sum of both. What makes
kernels is imported when the first one is made.
"""

from __future__ import annotations

import ctypes
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from nicemu.errors import ResourceError
from nicemu.pipeline import (
    HOST_PORT,
    MAX_FRAME_BYTES,
    Arrival,
    Disposition,
    Engine,
    Program,
    TableStatus,
    Verdict,
    reason_of,
)

from .not_compiled import NotCompiled
from .records import AFTER_EGRESS, AFTER_INGRESS, DROPPED, HELD, PACKET, REASONS, TO_HOST, TO_PORT, TOLD

if TYPE_CHECKING:
    from .loaded import Kernel
    from .traffic_desk import Desk
    from .v1_passes import Passes

Packets = np.ndarray[Any, Any]


class CompiledEngine(Engine):
    """An engine that takes packets through compiled code; `interpreted_because` says why it does not.

    It is "" where it does. `optimised=False` compiles quickly code that runs slowly.
    """

    def __init__(
        self,
        seed: int = 0,
        optimised: bool = True,
        drops: Counter[str] | None = None,
        externs: Iterable[Callable[..., Any]] = (),
        *,
        cpu_port: int = HOST_PORT,
    ) -> None:
        super().__init__(seed, drops, externs, cpu_port=cpu_port)
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
        self.give_up()
        self.kernel, other.kernel = other.kernel, None
        self.interpreted_because = other.interpreted_because
        self._passes, self._room = other._passes, other._room

    def staged(self, program: Program) -> Engine:
        """As an engine's: the program is compiled when it is adopted."""
        made = CompiledEngine(optimised=self._optimised, cpu_port=self._cpu_port)
        made.use_externs(self._own_externs)
        made.load(program)
        return made

    def give_up(self) -> None:
        """Give back the kernel of a program that runs no longer."""
        old, self.kernel = self.kernel, None
        if old is not None:
            old.close()

    def _compile(self, program: Program) -> None:
        """Make the kernel of the program that runs, where there can be one, as full as tables and objects."""
        from .loaded import Kernel

        self.give_up()
        try:
            self.use(Kernel(program, self._optimised, self._cpu_port))
        except (NotCompiled, ResourceError) as reason:
            self.interpreted_because = str(reason)
        except RuntimeError as error:  # of LLVM: the program is interpreted rather than half there
            self.interpreted_because = f"LLVM does not take it: {str(error).partition(chr(10))[0]}"

    def use(self, kernel: Kernel) -> None:
        """Run on a kernel of the program that runs. Raises: NotCompiled, ResourceError."""
        from .v1_passes import Passes

        kernel.hold(self.objects)
        for twin in kernel.tables.values():
            table = self.table(twin.spec.name)
            twin.refill(table.rows())
            twin.settle = kernel.settle
            twin.set_default(table.default)
            table.follower = twin
        self.kernel, self.interpreted_because = kernel, ""
        assert self._loaded is not None
        given = (
            kernel.program,
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

    def process_batch(self, packets: Packets) -> tuple[int, Packets, list[tuple[int, Verdict]]]:
        """Run packets through the program, one after another. packets: PACKET[n], as `Slots` lays them out.

        Returns how many were taken: all, or as many as there was room for of what they have become. Then
        their records, and behind each that says SPLIT those of what leaves of it. What becomes of a
        packet stands there, but where a record says TOLD. Those come back, too, by their numbers: a listener
        has been told of them, and the verdict says what is left. Drops are counted by the caller. There must
        be a kernel. Records and frames are good until the next call.
        """
        kernel = self.kernel
        assert kernel is not None
        if len(packets) == 0:
            return 0, packets, []
        self.tick(int(packets["now_ns"].max()))
        desk = kernel.desk(self.objects, bool(self.objects.digests))
        found: list[tuple[int, Verdict]] = []
        first = 0
        while first < len(packets):
            if desk is None:
                end = first + kernel.run(packets[first:])
            else:
                end = kernel.forward(desk, packets, first)
            is_left = end > first and packets[end - 1]["verdict"] in (AFTER_INGRESS, AFTER_EGRESS)
            upcoming = first
            for number in (np.flatnonzero(self._to_be_told(packets[first:end])) + first).tolist():
                self._tell_of_copies(desk, upcoming, number)
                packet, upcoming = packets[number], number
                frame = ctypes.string_at(int(packet["address"]), int(packet["length"]))
                found.append((number, self._reported(self._verdict(packet, frame))))
                packet["verdict"] = TOLD
            self._tell_of_copies(desk, upcoming, end)
            first = end
            if not is_left:
                break
        packets = packets[:first]
        if desk is None or len(desk.copies) == 0:
            return first, packets, found
        before = desk.copies["port"]
        told = [(number + int(np.searchsorted(before, number)), verdict) for number, verdict in found]
        return first, desk.merged(packets), told

    def _tell_of_copies(self, desk: Desk | None, first: int, end: int) -> None:
        """Tell the listener of copies for the controller that come of packets `first` to `end`.

        As where packets go one by one, the first of them leaves for the host, too, if nothing else leaves.
        """
        if desk is None or not self._packet_in_bytes:
            return
        copies = desk.copies
        copies = copies[slice(*np.searchsorted(copies["port"], (first, end)))]
        for number in np.unique(copies["port"][copies["verdict"] == TO_HOST]).tolist():
            siblings = copies[slice(*np.searchsorted(copies["port"], (number, number + 1)))]
            for_host = siblings["verdict"] == TO_HOST
            for copy in siblings[for_host]:
                start = int(copy["address"]) + int(copy["out_offset"])
                self._packet_in(ctypes.string_at(start, int(copy["out_length"])))
            siblings["verdict"][for_host] = TOLD
            if for_host.all():
                siblings["verdict"][0] = TO_HOST

    def _to_be_told(self, packets: Packets) -> np.ndarray[Any, Any]:
        """Return of which packets, PACKET[n], the records do not say all, bool[n]."""
        told = np.zeros(len(packets), np.bool_)
        assert self.kernel is not None
        if self.kernel.makes_copies and len(packets):
            told[-1] = packets[-1]["verdict"] in (AFTER_INGRESS, AFTER_EGRESS)
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
            arrival = Arrival(frame, int(packet["port"]), int(packet["now_ns"]), cpu_port=self._cpu_port)
            return self._passes.finish(code, int(packet["state_at"]), arrival, effects)
        start = int(packet["address"]) + int(packet["out_offset"])
        left = ctypes.string_at(start, int(packet["out_length"]))
        return Verdict(_DISPOSITIONS[code], int(packet["out_port"]), left, "", effects)

    # Tables

    def tables(self) -> list[TableStatus]:
        """Return every table of the running program."""
        return [self._with_counts(info) for info in super().tables()]

    def _with_counts(self, info: TableStatus) -> TableStatus:
        if self.kernel is None:
            return info
        hits, misses = self.kernel.counts(self.kernel.tables[info.name])
        return replace(info, hits=info.hits + hits, misses=info.misses + misses)


_DISPOSITIONS = {TO_PORT: Disposition.PORT, TO_HOST: Disposition.HOST, HELD: Disposition.FIRMWARE}


def drop_reason(program: Program, reason: int) -> str:
    """Return what drops are counted under, from a packet's record."""
    return REASONS.get(reason) or reason_of(program.errors[reason - 1])
