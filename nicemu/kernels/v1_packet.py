# SPDX-License-Identifier: Apache-2.0
"""A packet through v1model: one way from parser to deparser, for programs that make no copies.

A program that may ask for clones, for replicas, or for a packet to come again, is interpreted.
"""

from __future__ import annotations

from llvmlite import ir as llvm

from nicemu.pipeline import HOST_PORT, Program, ir

from .expressions import NotCompiled
from .externs import Externs
from .one_packet import OnePacket
from .places import INDEX, WORD, Number
from .records import ASSERTION, DROP_PORT, TO_HOST, TO_PORT
from .statements import Ends
from .v1_externs import STANDARD, V1Externs
from .writes import targets_in


class V1Packet(OnePacket):
    """Egress follows ingress at once; a packet that the parser rejects goes on."""

    place = STANDARD
    given = (("ingress_port", "port"), ("packet_length", "length"))

    def before_table(self, made: Externs) -> None:
        """Make what comes before the first table."""
        assert isinstance(made, V1Externs)
        end = self.quiet_end(made)
        self._parse(made)
        for control in self.program.controls[:2]:
            made.body(control.body)
        made.go(end)
        made.builder.ret_void()

    def process(self) -> llvm.Function:
        """Make the function that processes a packet."""
        _refuse_replication(self.program)
        made = self.begin("process")
        assert isinstance(made, V1Externs)
        builder = made.builder
        verify, ingress, egress, compute, deparser = self.program.controls
        stuck, failed, dropped = made.block("stuck"), made.block("failed"), made.block("dropped")
        made.forget_origins()
        made.forget_failures()
        made.forget_colours()
        self._store(made, "ingress_global_timestamp", self._microseconds(made))
        self._parse(made)
        for control in (verify, ingress):
            self._control(made, control, stuck)
        self._check(made, failed, dropped)
        port = made.places.load(made.standard("egress_spec"), builder)
        self._store(made, "egress_port", port)
        self._store(made, "egress_spec", WORD(0))
        self._store(made, "instance_type", WORD(0))
        self._store(made, "egress_global_timestamp", self._microseconds(made))
        self._store(made, "packet_length", made.length)
        made.keep_effects()
        made.forget_turns()
        self._control(made, egress, stuck)
        self._check(made, failed, dropped)
        made.keep_effects()
        self._control(made, compute, stuck)
        start, length = made.deparse(deparser.body)
        builder.store(builder.zext(port, INDEX), made.out_port)
        to_host = builder.icmp_unsigned("==", port, port.type(HOST_PORT))
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
        builder = made.builder
        holds, stays = made.block("holds"), made.block("stays")
        builder.cbranch(builder.load(made.failed), failed, holds)
        builder.position_at_end(holds)
        spec = made.places.load(made.standard("egress_spec"), builder)
        builder.cbranch(builder.icmp_unsigned("==", spec, spec.type(DROP_PORT)), dropped, stays)
        builder.position_at_end(stays)

    def _store(self, made: V1Externs, field: str, number: Number) -> None:
        place = made.standard(field)
        made.places.store(place, made.resized(number, ir.Bits(number.type.width), place.type), made.builder)

    def _microseconds(self, made: V1Externs) -> Number:
        return made.builder.udiv(made.now_ns, WORD(1000))


def _refuse_replication(program: Program) -> None:
    """Raise NotCompiled for a program that sets the multicast group itself."""
    for target in targets_in(program):
        node = target
        while isinstance(node, ir.Member | ir.Slice):
            if isinstance(node, ir.Member) and node.field == "mcast_grp":
                raise NotCompiled("it sets a multicast group")
            node = node.base
