# SPDX-License-Identifier: Apache-2.0
"""The v1model architecture's way for a packet: ingress, traffic manager, egress, and round again.

A packet that the parser rejects goes on with `parser_error` set. Times are integer nanoseconds outside the
program and microseconds inside; queues are empty, so a packet leaves its queue when it comes, and depths and
delays are 0.
Source: p4lang/behavioral-model, "The BMv2 Simple Switch target", "Pseudocode for what happens at the end of
ingress and egress processing".
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from . import ir
from .architecture import HOST_PORT, Architecture, Arrival, Role
from .externs import Stuck
from .interpreter import Interpreter
from .objects import CloneSession, Replica
from .packet_state import PacketState
from .shared_externs import SHARED_OBJECTS
from .trace import Cloned, Departed, Dropped, EgressBegun, Event, IngressBegun, Replicated, SentAgain
from .v1model import (
    DROP_PORT,
    ENUMS,
    FUNCTIONS,
    PLACE,
    STANDARD_METADATA,
    Clone,
    CloneType,
    InstanceType,
    V1Outcome,
)
from .values import Value, copied
from .verdict import Disposition, Verdict

MAX_ROUNDS = 1024
"""How often one packet may come again: as a clone of a clone, resubmitted, recirculated."""

MAX_AGAIN_BYTES = 24 << 10
"""Length of a frame that comes again: it may have become longer than those that come from outside."""

MAX_COPIES = 4096
"""Packets that one packet may become."""

_WORD = (1 << 32) - 1
_AGAIN = {InstanceType.RECIRC: "recirculated", InstanceType.RESUBMIT: "resubmitted"}
_HOW = {InstanceType.RECIRC: "recirculate", InstanceType.RESUBMIT: "resubmit"}


def run(interpreter: Interpreter, arrival: Arrival) -> Verdict:
    """Take one frame through the switch; the first frame that leaves is the verdict's, others are copies."""
    return Journey(interpreter, arrival).verdict()


class Journey:
    """One arrival and all that comes of it. What is waiting is done in order.

    `interpreter` runs the program's blocks, or has compiled code run them.
    """

    def __init__(self, interpreter: Interpreter, arrival: Arrival) -> None:
        self._interpreter = interpreter
        self._objects = interpreter.objects
        self._arrival = arrival
        self._waiting: deque[Callable[[], None]] = deque()
        self._left: list[tuple[int, bytes]] = []
        self._reason = self._limit = ""
        self._effects: list[Any] = []
        self._trace = arrival.trace
        self._copies = 0

    def verdict(self) -> Verdict:
        """Return what comes of the arrival."""
        self._enqueue(lambda: self._ingress(self._arrival.frame, InstanceType.NORMAL, {}, 0))
        return self._drain()

    def verdict_after_ingress(self, packet: PacketState) -> Verdict:
        """Return what comes of the arrival, whose packet ingress has just left."""
        self._enqueue(lambda: self._after_ingress(packet, 0))
        return self._drain()

    def verdict_after_egress(self, packet: PacketState, port: int) -> Verdict:
        """Return what comes of the arrival, whose packet egress to a port has just left."""
        self._copies += 1
        self._enqueue(lambda: self._after_egress(packet, port, 0))
        return self._drain()

    def _drain(self) -> Verdict:
        """Do what is waiting until nothing is; return what has come of it."""
        while self._waiting:
            step = self._waiting.popleft()
            try:
                step()
            except Stuck as stuck:
                self._stop(stuck.reason)
        trace, effects = tuple(self._trace or ()), tuple(self._effects)
        if not self._left:
            frame = self._arrival.frame
            return Verdict(Disposition.DROP, 0, frame, self._reason or "pipeline.dropped", effects, trace)
        port, frame = self._left[0]
        where = Disposition.HOST if port == HOST_PORT else Disposition.PORT
        return Verdict(where, port, frame, "", effects, trace, tuple(self._left[1:]), self._limit)

    def _enqueue(self, step: Callable[[], None]) -> None:
        self._copies += 1
        if self._copies > MAX_COPIES:
            self._stop("pipeline.too_many_copies")
        else:
            self._waiting.append(step)

    def _drop(self, reason: str) -> None:
        self._reason = self._reason or reason
        self._note(Dropped, reason)

    def _stop(self, limit: str) -> None:
        """Drop what has passed a limit of the engine."""
        self._limit = self._limit or limit
        self._drop(limit)

    def _note(self, event: Callable[..., Event], *told: object) -> None:
        """Add an event to the trace, where there is one."""
        if self._trace is not None:
            self._trace.append(event(*told))

    # Ingress

    def _parsed(
        self, frame: bytes, instance_type: InstanceType, kept: dict[ir.Expression, Value]
    ) -> tuple[PacketState, str | None]:
        """Return a packet behind its parser, and the error there.

        A packet that comes again has no port and no time of arrival.
        """
        packet = self._interpreter.packet(frame, V1Outcome(), self._trace, self._arrival.now_ns)
        standard = packet.places[PLACE]
        if instance_type not in _AGAIN:
            standard["ingress_port"] = self._arrival.port & DROP_PORT
            standard["ingress_global_timestamp"] = self._microseconds()
        standard["packet_length"] = len(frame)
        standard["instance_type"] = instance_type
        self._restore(packet, kept)
        error = self._interpreter.parse(packet)
        if error is not None:
            packet.places[PLACE]["parser_error"] = self._interpreter.errors.index(error)
        return packet, error

    def _ingress(
        self, frame: bytes, instance_type: InstanceType, kept: dict[ir.Expression, Value], rounds: int
    ) -> None:
        self._note(IngressBegun, self._arrival.port, len(frame), _AGAIN.get(instance_type, ""))
        packet, error = self._parsed(frame, instance_type, kept)
        if rounds and error == "ParserTimeout":  # which would take its time in all rounds
            self._stop("parser.too_many_states")
            return
        self._interpreter.control(packet, "verify")
        self._interpreter.control(packet, "ingress")
        self._after_ingress(packet, rounds)

    def _after_ingress(self, packet: PacketState, rounds: int) -> None:
        outcome: V1Outcome = packet.outcome
        standard = packet.places[PLACE]
        clone = outcome.clones.pop(CloneType.I2E, None)
        if clone is not None:
            self._clone_of_ingress(packet, clone, rounds)
        self._effects += outcome.effects
        outcome.effects = []
        if outcome.failed_assertion:
            self._drop("pipeline.assertion")
        elif outcome.resubmit is not None:
            again = self._kept(packet, outcome.resubmit)
            frame = packet.frame
            self._reinject(frame, InstanceType.RESUBMIT, again, rounds)
        elif standard["mcast_grp"]:
            group = self._objects.multicast_groups.get(standard["mcast_grp"], ())
            self._note(Replicated, standard["mcast_grp"], tuple(replica.port for replica in group))
            if not group:
                self._drop("pipeline.no_multicast_group")
            standard["instance_type"] = InstanceType.REPLICATION
            self._replicate(packet, group, 0, rounds)
        elif standard["egress_spec"] == DROP_PORT:
            self._drop("pipeline.dropped")
        else:
            port = standard["egress_spec"]
            standard["instance_type"] = InstanceType.NORMAL
            self._enqueue_egress(packet, port, rounds)

    def _clone_of_ingress(self, packet: PacketState, clone: Clone, rounds: int) -> None:
        session = self._objects.clone_sessions.get(clone.session)
        self._note(Cloned, clone.session, _ports(session))
        if session is None:
            return
        kept = {} if clone.field_list is None else self._kept(packet, clone.field_list)
        made, _ = self._parsed(packet.frame, InstanceType.NORMAL, {})  # what it is, its parser does not see
        self._interpreter.clear_metadata(made)
        self._restore(made, kept)
        made.places[PLACE]["instance_type"] = InstanceType.INGRESS_CLONE
        self._replicate(made, session.replicas, session.truncate_bytes, rounds)

    # Traffic manager

    def _reinject(
        self, frame: bytes, instance_type: InstanceType, kept: dict[ir.Expression, Value], rounds: int
    ) -> None:
        """Have a frame begin again, with what a field list has kept."""
        self._note(SentAgain, _HOW[instance_type])
        if rounds >= MAX_ROUNDS:
            self._stop("pipeline.too_many_rounds")
        elif len(frame) > MAX_AGAIN_BYTES:
            self._stop("pipeline.oversized")
        else:
            self._enqueue(lambda: self._ingress(frame, instance_type, kept, rounds + 1))

    def _replicate(
        self, packet: PacketState, replicas: tuple[Replica, ...], truncate_bytes: int, rounds: int
    ) -> None:
        """Send copies to egress, which are cut to so many bytes; 0 leaves them whole."""
        for replica in replicas:
            copy = self._interpreter.copied(packet, V1Outcome(truncate_bytes=truncate_bytes or None))
            copy.places[PLACE]["egress_rid"] = replica.rid
            self._enqueue_egress(copy, replica.port, rounds)

    def _enqueue_egress(self, packet: PacketState, port: int, rounds: int) -> None:
        self._enqueue(lambda: self._egress(packet, port, rounds))

    # Egress

    def _egress(self, packet: PacketState, port: int, rounds: int) -> None:
        standard = packet.places[PLACE]
        standard["egress_port"], standard["egress_spec"] = port, 0
        standard["egress_global_timestamp"] = self._microseconds()
        standard["enq_timestamp"] = self._microseconds() & _WORD
        standard["enq_qdepth"] = standard["deq_timedelta"] = standard["deq_qdepth"] = 0
        standard["packet_length"] = len(packet.frame)
        self._note(EgressBegun, port, standard["egress_rid"])
        packet.turns = 0
        self._interpreter.control(packet, "egress")
        self._after_egress(packet, port, rounds)

    def _after_egress(self, packet: PacketState, port: int, rounds: int) -> None:
        outcome: V1Outcome = packet.outcome
        clone = outcome.clones.pop(CloneType.E2E, None)
        if clone is not None:
            self._clone_of_egress(packet, clone, rounds)
        self._effects += outcome.effects
        outcome.effects = []
        if outcome.failed_assertion:
            self._drop("pipeline.assertion")
            return
        if packet.places[PLACE]["egress_spec"] == DROP_PORT:
            self._drop("pipeline.dropped")
            return
        self._interpreter.control(packet, "compute")
        if outcome.failed_assertion:
            self._effects += outcome.effects
            self._drop("pipeline.assertion")
            return
        self._interpreter.control(packet, "deparser")
        self._effects += outcome.effects
        frame = self._interpreter.departing(packet)
        if outcome.recirculate is not None:
            kept = self._kept(packet, outcome.recirculate)
            self._reinject(frame, InstanceType.RECIRC, kept, rounds)
            return
        frame = frame[: outcome.truncate_bytes]
        if port == self._arrival.cpu_port:
            port = HOST_PORT
        where = Disposition.HOST if port == HOST_PORT else Disposition.PORT
        self._note(Departed, where.value, port, frame)
        self._left.append((port, frame))

    def _clone_of_egress(self, packet: PacketState, clone: Clone, rounds: int) -> None:
        session = self._objects.clone_sessions.get(clone.session)
        self._note(Cloned, clone.session, _ports(session))
        if session is None:
            return
        if rounds >= MAX_ROUNDS:
            self._stop("pipeline.too_many_rounds")
            return
        made = self._interpreter.copied(packet, V1Outcome())
        self._interpreter.clear_metadata(made)
        if clone.field_list is not None:
            self._restore(made, self._kept(packet, clone.field_list))
        made.places[PLACE]["instance_type"] = InstanceType.EGRESS_CLONE
        self._replicate(made, session.replicas, session.truncate_bytes, rounds + 1)

    # Metadata

    def _kept(self, packet: PacketState, index: int) -> dict[ir.Expression, Value]:
        return self._interpreter.field_list(packet, index)

    def _restore(self, packet: PacketState, kept: dict[ir.Expression, Value]) -> None:
        for place, value in kept.items():
            self._interpreter.store(packet, place, copied(value))

    def _microseconds(self) -> int:
        return self._arrival.now_ns // 1000 & ((1 << 48) - 1)


def _ports(session: CloneSession | None) -> tuple[int, ...] | None:
    return None if session is None else tuple(replica.port for replica in session.replicas)


V1MODEL = Architecture(
    "v1model",
    "V1Switch",
    "v1model.p4",
    STANDARD_METADATA,
    PLACE,
    (
        Role("verify", "control"),
        Role("ingress", "control"),
        Role("egress", "control"),
        Role("compute", "control"),
        Role("deparser", "deparser"),
    ),
    FUNCTIONS,
    SHARED_OBJECTS,
    ENUMS,
)
"""BMv2's simple_switch, of p4/include/v1model.p4."""
