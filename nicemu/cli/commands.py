# SPDX-License-Identifier: Apache-2.0
"""The `nicemu` command: every command with the sentence that `--help` shows."""

from __future__ import annotations

import click

from nicemu import __version__

from .lazy_group import LazyCommand, LazyGroup

COMMANDS = {
    "demo": LazyCommand(
        "nicemu.cli.demo:demo", "Run the whole journey: a KV cache leaves, and the NICs bring it home."
    ),
    "up": LazyCommand("nicemu.cli.live:up", "Start the NICs of a topology file."),
    "down": LazyCommand("nicemu.cli.live:down", "Stop the NICs of a topology, or all of them."),
    "status": LazyCommand("nicemu.cli.live:status", "Show the NICs that run."),
    "load": LazyCommand("nicemu.cli.programs:load", "Compile a P4 program and have a NIC run it."),
    "stf": LazyCommand("nicemu.cli.stf:stf", "Run packet tests of P4 programs: scripts in STF."),
    "compile": LazyCommand(
        "nicemu.cli.programs:compile_", "Compile a P4 program; print its IR, P4Info or graph."
    ),
    "packet": LazyCommand("nicemu.cli.packet:packet", "Tell every step of a P4 program on one packet."),
    "switch": LazyCommand("nicemu.cli.switch:switch", "Run captures or interfaces through a P4 program."),
    "flash": LazyCommand("nicemu.cli.programs:flash", "Put a firmware script on a NIC."),
    "p4": LazyCommand("nicemu.cli.p4:p4", "Read and write counters, meters, registers, mirrors, multicast."),
    "table": LazyCommand("nicemu.cli.table:table", "List, add, modify and delete table entries."),
    "explore": LazyCommand(
        "nicemu.cli.explore:explore", "Run a test under many orders of what can happen in the stepper."
    ),
    "counter": LazyCommand("nicemu.cli.counter:counter", "List the trigger counters of a NIC."),
    "stats": LazyCommand("nicemu.cli.counter:stats", "Show what a NIC has counted."),
    "trace": LazyCommand("nicemu.cli.trace:trace", "Write what every block of the NICs does, for Perfetto."),
    "races": LazyCommand("nicemu.cli.races:races", "Report accesses that have no order."),
    "study": LazyCommand(
        "nicemu.cli.study:study", "Predict what triggered NICs would gain, under conditions that are told."
    ),
    "model": LazyCommand("nicemu.cli.model:model", "Show what the models take for given, and its sources."),
    "calibrate": LazyCommand(
        "nicemu.cli.calibrate:calibrate", "Measure this machine, for a profile of what it costs."
    ),
    "doctor": LazyCommand(
        "nicemu.cli.doctor:doctor", "Say what this machine can do, and the cure for each no."
    ),
    "conformance": LazyCommand(
        "nicemu.cli.conformance:conformance", "Try the rules of triggered operations on every backend here."
    ),
    "vm": LazyCommand(
        "nicemu.cli.vm:vm", "Run a command in a guest whose kernel has SoftRoCE; list its packages."
    ),
    "wire": LazyCommand("nicemu.cli.wire:wire", "Capture what passes on an interface, or between two ports."),
    "nic-process": LazyCommand("nicemu.cli.processes:nic_process", "Be one NIC.", hidden=True),
    "stream-process": LazyCommand("nicemu.cli.processes:stream_process", "Be one stream.", hidden=True),
    "compile-datapath": LazyCommand("nicemu.cli.processes:compile_datapath", "Fill the cache.", hidden=True),
}


@click.group(cls=LazyGroup, lazy=COMMANDS, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="nicemu")
def main() -> None:
    """Emulate SmartNICs: P4 match-action, trigger counters, RDMA, NVMe peer-to-peer and firmware.

    Start with `nicemu demo`.
    """
