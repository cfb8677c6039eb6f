# SPDX-License-Identifier: Apache-2.0
"""A packet through v1model: one way from parser to deparser.

A packet that becomes several, or comes again, is left in the middle, in a state that the traffic manager goes
on with.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir as llvm

from nicemu.pipeline import DROP_PORT, HOST_PORT, ir

from .externs import Externs
from .places import BIT, INDEX, WORD, Number
from .records import AFTER_EGRESS, AFTER_INGRESS, ASSERTION, TO_HOST, TO_PORT, word_of_states
from .statements import Ends
from .v1_externs import STANDARD, V1Externs
from .v1_requests import CLONES, makes_copies, recirculates_late, sets_multicast_group
from .v1_state import PORT, V1State


class V1Packet(V1State):
    """Egress follows ingress at once; a packet that the parser rejects goes on."""

    place = STANDARD
    given = (("ingress_port", "port"), ("packet_length", "length"))

    def __init__(self, *arguments: Any) -> None:  # noqa: ANN401
        super().__init__(*arguments)
        self.makes_copies = makes_copies(self.program)

    def before_table(self, made: Externs) -> None:
        """Make what comes before the first table."""
        assert isinstance(made, V1Externs)
        end = self.quiet_end(made)
        self._parse(made)
        for control in self.program.controls[:2]:
            if not made.builder.block.is_terminated:  # as behind one that always ends by exit or return
                made.body(control.body)
        made.go(end)
        made.builder.ret(WORD(0))

    def process(self) -> llvm.Function:
        """Make the function that processes a packet."""
        made = self.begin("process")
        assert isinstance(made, V1Externs)
        builder = made.builder
        verify, ingress, egress, compute, deparser = self.program.controls
        stuck, failed, dropped = made.block("stuck"), made.block("failed"), made.block("dropped")
        made.forget_origins()
        made.forget_failures()
        made.forget_colours()
        made.forget_requests()
        self._store(made, "ingress_global_timestamp", self._microseconds(made))
        self._parse(made)
        for control in (verify, ingress):
            self._control(made, control, stuck)
        if self.makes_copies:
            self._leave_if(made, self._asks_after_ingress(made), AFTER_INGRESS)
        self._check(made, failed, dropped)
        port = made.places.load(made.standard("egress_spec"), builder)
        self._store(made, "egress_port", port)
        self._store(made, "egress_spec", WORD(0))
        self._store(made, "instance_type", WORD(0))
        for field in ("egress_global_timestamp", "enq_timestamp"):
            self._store(made, field, self._microseconds(made))
        for field in ("enq_qdepth", "deq_timedelta", "deq_qdepth"):
            self._store(made, field, WORD(0))
        self._store(made, "packet_length", made.length)
        made.keep_effects()
        made.forget_turns()
        self._control(made, egress, stuck)
        if self.makes_copies:
            asks = builder.or_(made.asks(CLONES[1]), made.asks("recirculate"))
            asks = builder.or_(asks, BIT(recirculates_late(self.program)))
            self._leave_if(made, asks, AFTER_EGRESS, port)
        self._check(made, failed, dropped)
        made.keep_effects()
        self._control(made, compute, stuck)
        self._check_assertions(made, failed)
        start, length = self.deparse(made, deparser)
        length = self._cut(made, length)
        to_host = builder.or_(
            *(builder.icmp_unsigned("==", port, port.type(one)) for one in (HOST_PORT, self._cpu_port))
        )
        left_by = builder.select(to_host, INDEX(HOST_PORT), builder.zext(port, INDEX))
        builder.store(left_by, made.out_port)
        verdict = builder.select(to_host, INDEX(TO_HOST), INDEX(TO_PORT))
        self.finish(made, verdict, INDEX(0), start, length)
        for block, reason in ((failed, INDEX(ASSERTION)), (dropped, INDEX(0))):
            builder.position_at_end(block)
            self.drop(made, reason)
        builder.position_at_end(stuck)
        made.forget_effects()
        self.drop(made, builder.load(made.given_up))
        self.done(made, deparser)
        return builder.function

    def _asks_after_ingress(self, made: V1Externs) -> Number:
        """Return whether a packet needs the traffic manager when ingress has ended."""
        builder = made.builder
        asks = builder.or_(made.asks(CLONES[0]), made.asks("resubmit"))
        if not sets_multicast_group(self.program):
            return asks
        group = made.places.load(made.standard("mcast_grp"), builder)
        return builder.or_(asks, builder.icmp_unsigned("!=", group, group.type(0)))

    def _leave_if(self, made: V1Externs, condition: Number, verdict: int, port: Number = None) -> None:
        """Leave the packet to the traffic manager where a condition holds."""
        builder = made.builder
        leaves, stays = made.block("leaves"), made.block("goes_on")
        builder.cbranch(condition, leaves, stays)
        builder.position_at_end(leaves)
        upcoming = made.at(made.context, 8 * word_of_states(self.program))
        address = builder.load(upcoming)
        builder.store(made.address(address, 8 * self.state.words), upcoming)
        self.store_state(made, address)
        if port is not None:
            builder.store(builder.zext(port, WORD), made.at(address, 8 * PORT))
        builder.store(address, self._field(builder, "state_at", WORD))
        self.finish(made, INDEX(verdict), INDEX(0), made.frame, made.length)
        builder.position_at_end(stays)

    def _cut(self, made: V1Externs, length: Number) -> Number:
        """Return the bytes of a frame that leaves, at most as many as were asked for."""
        builder = made.builder
        most = builder.zext(builder.load(made.request("truncate.bytes")), WORD)
        is_longer = builder.and_(made.asks("truncate"), builder.icmp_unsigned(">", length, most))
        return builder.select(is_longer, most, length)

    def _parse(self, made: V1Externs) -> None:
        """Make the parser; its error is in the metadata, and the packet goes on."""
        made.parse()
        parsed = made.block("parsed")
        made.builder.branch(parsed)
        made.builder.position_at_end(made.rejected)
        self._store(made, "parser_error", made.builder.load(made.error))
        made.go(parsed)

    def _control(self, made: V1Externs, control: ir.Control, stuck: object) -> None:
        end = made.block(f"{control.role}.end")
        made.ends = Ends(end, end, stuck=stuck)
        made.body(control.body)
        made.go(end)

    def _check(self, made: V1Externs, failed: object, dropped: object) -> None:
        """Make what stands behind ingress and egress: a failed assertion and egress_spec 511 drop."""
        self._check_assertions(made, failed)
        builder, stays = made.builder, made.block("stays")
        spec = made.places.load(made.standard("egress_spec"), builder)
        builder.cbranch(builder.icmp_unsigned("==", spec, spec.type(DROP_PORT)), dropped, stays)
        builder.position_at_end(stays)

    def _check_assertions(self, made: V1Externs, failed: object) -> None:
        builder, holds = made.builder, made.block("holds")
        builder.cbranch(builder.load(made.failed), failed, holds)
        builder.position_at_end(holds)

    def _store(self, made: V1Externs, field: str, number: Number) -> None:
        place = made.standard(field)
        made.places.store(place, made.resized(number, ir.Bits(number.type.width), place.type), made.builder)

    def _microseconds(self, made: V1Externs) -> Number:
        return made.builder.udiv(made.now_ns, WORD(1000))
