# SPDX-License-Identifier: Apache-2.0
"""Packets of v1model that the traffic manager has in hand: their blocks run as compiled code, one by one.

Between two blocks a packet is a state in memory. The traffic manager is `nicemu.pipeline`'s, which sees the
variables that it asks for as the interpreter's values.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from struct import Struct
from typing import Any

from nicemu.pipeline import (
    ARCHITECTURES,
    MAX_EFFECTS,
    MAX_FRAME_BYTES,
    Arrival,
    Clone,
    Effect,
    Interpreter,
    Journey,
    Objects,
    PacketState,
    Program,
    Stuck,
    Table,
    V1Outcome,
    Verdict,
)

from .effects import Site, effect_of
from .records import AFTER_INGRESS, PACKET, REASONS, offset_of
from .v1_externs import STANDARD
from .v1_requests import ASKED, CLONES, REQUESTS, WITH_LIST
from .v1_stages import STAGES
from .v1_state import CURSOR, EFFECTS, FAILED, FIRST_REQUEST, PORT, RESULT, TURNS, StateLayout
from .value_words import decoded, encoded, word_count

_GIVEN = Struct("=QIIQ")
"""The first fields of a packet's record, up to the time."""
_LEFT = Struct("=iIII")
"""Its fields from `out_offset` on."""
Words = ctypes.Array[ctypes.c_uint64]
Stage = Callable[[int, int, int, int], None]
"""Takes a packet through a block: where effects go, its record, its state, the number of the block."""


class _Standard(dict[str, Any]):
    """Fields of the standard metadata that were asked for; each is one word of the packet's state."""

    def __init__(self, layout: StateLayout, words: Words) -> None:
        super().__init__()
        self._fields, self._words = layout.standard, words

    def __missing__(self, name: str) -> int:
        value = self[name] = self._words[self._fields[name]]
        return value

    def items(self) -> Any:  # noqa: ANN401
        """Return all fields, as those who copy a struct want them."""
        return [(name, self[name]) for name in self._fields]

    def settle(self) -> None:
        """Have the state hold what was asked for, and perhaps changed."""
        fields, words = self._fields, self._words
        for name, value in super().items():
            words[fields[name]] = value


class _Variables(dict[str, Any]):
    """Variables of a packet that were asked for; others lie in its state until they are."""

    def __init__(self, layout: StateLayout, words: Words) -> None:
        super().__init__()
        self._layout, self._words = layout, words

    def __missing__(self, name: str) -> Any:  # noqa: ANN401
        layout, words = self._layout, self._words
        value: Any
        if name == STANDARD:
            value = _Standard(layout, words)
        else:
            at, kind = layout.variables[name]
            end = at + word_count(layout.layouts, kind)
            value = decoded(layout.layouts, kind, iter(words[at:end]))
        self[name] = value
        return value

    def settle(self) -> None:
        """Have the state hold what was asked for, and perhaps changed."""
        for name, value in self.items():
            if isinstance(value, _Standard):
                value.settle()
                continue
            at, kind = self._layout.variables[name]
            for place, word in enumerate(encoded(self._layout.layouts, kind, value), start=at):
                self._words[place] = word
        self.clear()


class KernelPacket(PacketState):
    """A packet between two blocks; `words` are its state."""

    def __init__(
        self, layout: StateLayout, frame: bytes, outcome: V1Outcome, now_ns: int, words: Words
    ) -> None:
        super().__init__(frame, _Variables(layout, words), outcome, now_ns=now_ns)
        self._layout, self.words = layout, words
        self.left = b""

    def settle(self) -> None:
        """Have the state hold all that is known of the packet."""
        places, words, outcome = self.places, self.words, self.outcome
        assert isinstance(places, _Variables)
        places.settle()
        words[CURSOR], words[TURNS] = self.cursor_bytes, self.turns
        words[EFFECTS], words[FAILED] = len(outcome.effects), outcome.failed_assertion
        if outcome.clones or (outcome.resubmit, outcome.recirculate, outcome.truncate_bytes) != _NOTHING:
            for name, number in _asked(outcome).items():
                words[self._layout.requests[name]] = number
        else:
            ctypes.memset(ctypes.addressof(words) + 8 * FIRST_REQUEST, 0, 8 * len(REQUESTS))

    def learn(self) -> None:
        """Take over what the state says of the packet's way, and what it has asked for."""
        words, outcome = self.words, self.outcome
        self.cursor_bytes, self.turns = words[CURSOR], words[TURNS]
        outcome.failed_assertion = bool(words[FAILED])
        if not any(words[FIRST_REQUEST : FIRST_REQUEST + len(REQUESTS)]):
            outcome.clones = {}
            outcome.resubmit, outcome.recirculate, outcome.truncate_bytes = _NOTHING
            return
        asked = {name: int(words[at]) for name, at in self._layout.requests.items()}
        outcome.clones = {
            number: Clone(
                asked[f"{name}.session"], asked[f"{name}.list"] if asked[name] == WITH_LIST else None
            )
            for number, name in enumerate(CLONES)
            if asked[name]
        }
        outcome.resubmit = asked["resubmit.list"] if asked["resubmit"] else None
        outcome.recirculate = asked["recirculate.list"] if asked["recirculate"] else None
        outcome.truncate_bytes = asked["truncate.bytes"] if asked["truncate"] else None

    def twin(self, outcome: V1Outcome) -> KernelPacket:
        """Return a packet in the same state, which has asked for `outcome` alone."""
        self.settle()
        words = type(self.words).from_buffer_copy(self.words)
        for at in self._layout.colours.values():
            words[at] = 0
        made = KernelPacket(self._layout, self.frame, outcome, self.now_ns, words)
        made.cursor_bytes = self.cursor_bytes
        return made


_NOTHING = (None, None, None)


def _asked(outcome: V1Outcome) -> dict[str, int]:
    """Return what a packet has asked for as numbers by their names."""
    asked: dict[str, int] = {}
    for number, name in enumerate(CLONES):
        clone = outcome.clones.get(number)
        has_list = clone is not None and clone.field_list is not None
        asked[name] = 0 if clone is None else WITH_LIST if has_list else ASKED
        asked[f"{name}.session"] = clone.session if clone is not None else 0
        asked[f"{name}.list"] = (clone.field_list or 0) if clone is not None else 0
    for name, field, given in (
        ("resubmit", "list", outcome.resubmit),
        ("recirculate", "list", outcome.recirculate),
        ("truncate", "bytes", outcome.truncate_bytes),
    ):
        asked[name], asked[f"{name}.{field}"] = int(given is not None), given or 0
    return asked


class Passes(Interpreter):
    """Runs the blocks of a program as compiled code; `sites` say what effects are."""

    def __init__(
        self,
        program: Program,
        tables: Mapping[str, Table],
        objects: Objects,
        stage: Stage,
        sites: Sequence[Site],
        headroom_bytes: int,
    ) -> None:
        super().__init__(program, ARCHITECTURES[program.architecture], tables, objects)
        self._stage, self._sites = stage, sites
        self._layout = StateLayout(program)
        self._kind = ctypes.c_uint64 * self._layout.words
        self._empty = {control.role for control in program.controls if not control.body}
        self._record = ctypes.create_string_buffer(PACKET.itemsize)
        self._record_at = ctypes.addressof(self._record)
        self._headroom_bytes = headroom_bytes
        self._room = ctypes.create_string_buffer(headroom_bytes + MAX_FRAME_BYTES)
        words = MAX_EFFECTS * max((site.words for site in sites), default=1)
        self._effects = (ctypes.c_uint64 * words)()
        self._effects_at = ctypes.addressof(self._effects)

    def finish(self, verdict: int, state: int, arrival: Arrival, effects: Sequence[Effect]) -> Verdict:
        """Return what comes of a packet that compiled code has left in a state, with its effects so far."""
        words = self._kind.from_buffer_copy(self._kind.from_address(state))
        packet = KernelPacket(self._layout, arrival.frame, V1Outcome(), arrival.now_ns, words)
        packet.learn()
        packet.outcome.effects = list(effects)
        journey = Journey(self, arrival)
        if verdict == AFTER_INGRESS:
            return journey.verdict_after_ingress(packet)
        return journey.verdict_after_egress(packet, int(words[PORT]))

    # As the interpreter does it

    def packet(
        self,
        frame: bytes,
        outcome: Any,  # noqa: ANN401
        trace: Any = None,  # noqa: ANN401
        now_ns: int = 0,
    ) -> KernelPacket:
        """Return a packet before the parser, every variable at its zero."""
        return KernelPacket(self._layout, frame, outcome, now_ns, self._kind())

    def parse(self, packet: PacketState) -> str | None:
        """Run the parser; return the error that it ends in, None where it accepts."""
        result = self._run_block(packet, "parse")
        return self.errors[result - 1] if result else None

    def control(self, packet: PacketState, role: str) -> None:
        """Run the control in a role. Raises: Stuck."""
        if role in self._empty and role != "deparser":
            return
        result = self._run_block(packet, role)
        if result:
            raise Stuck(REASONS[result])

    def departing(self, packet: PacketState) -> bytes:
        """Return the frame that leaves when the deparser has run."""
        assert isinstance(packet, KernelPacket)
        return packet.left

    def copied(self, packet: PacketState, outcome: Any) -> KernelPacket:  # noqa: ANN401
        """Return a packet with the same headers and metadata, which has asked for `outcome` alone."""
        assert isinstance(packet, KernelPacket)
        return packet.twin(outcome)

    def _run_block(self, packet: PacketState, block: str) -> int:
        """Take a packet through a block; return what its state says is the result."""
        assert isinstance(packet, KernelPacket)
        frame = packet.frame
        if len(self._room) < self._headroom_bytes + len(frame):  # one that grows from round to round
            self._room = ctypes.create_string_buffer(self._headroom_bytes + 2 * len(frame))
        room = ctypes.addressof(self._room) + self._headroom_bytes
        ctypes.memmove(room, frame, len(frame))
        _GIVEN.pack_into(self._record, 0, room, len(frame), 0, packet.now_ns)
        packet.settle()
        words = packet.words
        self._stage(self._effects_at, self._record_at, ctypes.addressof(words), STAGES.index(block))
        packet.learn()
        offset, length, _, count = _LEFT.unpack_from(self._record, offset_of("out_offset"))
        if block == "deparser":
            packet.left = ctypes.string_at(room + offset, length)
        place = 0
        for _ in range(count):
            site = self._sites[self._effects[place]]
            left = iter(self._effects[place + 1 : place + site.words])
            packet.outcome.effects.append(effect_of(self._program, self._layout.layouts, site, left))
            place += site.words
        return words[RESULT]
