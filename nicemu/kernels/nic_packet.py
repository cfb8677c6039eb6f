# SPDX-License-Identifier: Apache-2.0
"""A packet through the SmartNIC architecture: parser, control, deparser."""

from __future__ import annotations

from llvmlite import ir as llvm

from nicemu.pipeline import HOST_PORT, ir

from .externs import Externs
from .nic_externs import NicExterns
from .one_packet import OnePacket
from .places import INDEX, WORD, Number
from .records import DROPPED, TO_HOST, TO_PORT
from .statements import Ends


class NicPacket(OnePacket):
    """A frame goes to the host unless the program says something else; one that is rejected is dropped."""

    place = ir.NIC
    given = (("ingress_port", "port"), ("packet_length", "length"))

    def before_table(self, made: Externs) -> None:
        """Make what comes before the first table."""
        end = self.quiet_end(made)
        made.parse()
        if len(self.program.controls) > 2:  # of what the host sends no lookup begins ahead
            others, host = made.block("others"), made.block("host")
            made.builder.cbranch(self._is_from_host(made), host, others)
            made.builder.position_at_end(host)
            made.builder.ret(WORD(0))
            made.builder.position_at_end(others)
        made.body(self.program.controls[0].body)
        made.go(end)
        made.builder.ret(WORD(0))
        made.builder.position_at_end(made.rejected)
        made.builder.ret(WORD(0))

    def _is_from_host(self, made: Externs) -> Number:
        port = self._load(made.builder, "port", INDEX)
        return made.builder.icmp_unsigned("==", port, INDEX(HOST_PORT))

    def process(self) -> llvm.Function:
        """Make the function that processes a packet."""
        made = self.begin("process")
        assert isinstance(made, NicExterns)
        builder = made.builder
        builder.store(INDEX(TO_HOST), made.verdict)
        made.forget_origins()
        made.forget_colours()
        made.parse()
        control, deparser, *from_host = self.program.controls
        controlled, stuck = made.block("controlled"), made.block("stuck")
        made.ends = Ends(controlled, controlled, stuck=stuck)
        if from_host:
            others, host = made.block("others"), made.block("host")
            builder.cbranch(self._is_from_host(made), host, others)
            builder.position_at_end(host)
            builder.store(INDEX(TO_PORT), made.verdict)
            made.body(from_host[0].body)
            made.go(controlled)
            builder.position_at_end(others)
        made.body(control.body)
        made.go(controlled)
        is_only_seen = made.is_only_seen(deparser.body)
        if not is_only_seen:  # such a one may be without end, whatever becomes of the packet
            start, length = self.deparse(made, deparser)
        dropped, leaves = made.block("dropped"), made.block("leaves")
        verdict = builder.load(made.verdict)
        is_dropped = builder.icmp_unsigned("==", verdict, INDEX(DROPPED))
        builder.cbranch(is_dropped, dropped, leaves)
        builder.position_at_end(leaves)
        if is_only_seen:
            start, length = self.deparse(made, deparser)
        self.finish(made, verdict, INDEX(0), start, length)
        builder.position_at_end(dropped)
        self.finish(made, INDEX(DROPPED), INDEX(0), made.frame, made.length)
        builder.position_at_end(made.rejected)
        made.forget_effects()
        self.drop(made, builder.add(builder.load(made.error), INDEX(1)))
        builder.position_at_end(stuck)
        made.forget_effects()
        self.drop(made, builder.load(made.given_up))
        self.done(made, deparser)
        return builder.function
