# SPDX-License-Identifier: Apache-2.0
"""What a program of deferred work would run into on a target, said before anything runs.

Sources of what Cassini takes: fi_cxi(7), "Triggered Operation" and "Counters"; the provider's checks of
deferred work. What is said of other targets follows from their `Limits`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from nicemu.errors import counted

from .counting import find_cycles, find_early_counts
from .finding import Finding, Findings, Severity
from .limits import Limits
from .publishing import find_unordered_tellings, find_untrue_tellings
from .work import DeferredWork, Opcode

__all__ = ["Finding", "Severity", "check_program"]

RENDEZVOUS_BYTES = 2048
"""Messages from this size on need software at the receiver. Source: fi_cxi(7), FI_CXI_RDZV_THRESHOLD."""

TAG_BITS = 48
"""What a message's tag has on Slingshot. Source: fi_cxi(7); fi_endpoint(3), mem_tag_format."""

_SENDS = (Opcode.SEND, Opcode.SEND_WITH_IMM, Opcode.TAGGED_SEND)
_TAGGED = (Opcode.TAGGED_SEND, Opcode.TAGGED_RECV)
_RECEIVES = (Opcode.RECV, Opcode.TAGGED_RECV)
_OURS = (Opcode.NVME_READ, Opcode.NVME_WRITE, Opcode.FIRMWARE_EVENT)
_COUNTER_OPERATIONS = (Opcode.COUNTER_ADD, Opcode.COUNTER_SET)


def check_program(
    work: Sequence[DeferredWork], target: str | Limits = "cassini", names: Mapping[int, str] | None = None
) -> list[Finding]:
    """Return what of `work` would not work on a target: a profile's name, or limits. Errors come first.

    What is true of several steps is one finding. `names`: what people call the counters.
    Raises: UsageError for a profile that is not known.
    """
    limits = Limits.named(target) if isinstance(target, str) else target
    known = names or {}
    called = {item: known.get(item) or f"counter {item}" for item in _counters(work)}
    findings = Findings()
    _entries(findings, len(work), limits)
    for step, item in enumerate(work):
        _widths(findings, step, item, limits)
        _shape(findings, step, item, limits)
        if limits.profile == "cassini":
            _progress(findings, step, item)
            _through_libfabric(findings, step, item)
    find_cycles(findings, work, called)
    if not limits.stall_on_error:
        find_untrue_tellings(findings, work, called, queue_pairs_stop=limits.profile == "unlimited")
    find_early_counts(findings, work)
    find_unordered_tellings(findings, work, called)
    return findings.found()


def _counters(work: Sequence[DeferredWork]) -> set[int]:
    found = {item.trigger for item in work}
    found.update(item.target for item in work if item.opcode in _COUNTER_OPERATIONS)
    found.update(item.completion for item in work if item.completion is not None)
    return found


def _entries(findings: Findings, count: int, limits: Limits) -> None:
    room = limits.host_slots
    if count > room:
        findings.say(
            Severity.ERROR,
            "R19",
            (),
            f"{counted(count, 'operation')}; {limits.profile} has {counted(room, 'trigger slot')} for all "
            f"processes of a service (ENOSPC). Arm a window: program.window({min(64, room)})",
        )
    elif count > room // 2 and room < 1 << 16:
        findings.say(
            Severity.WARNING,
            "R19",
            (),
            f"{count} of {counted(room, 'trigger slot')}: only one such program fits at a time, and other "
            "processes of the service share them. Arm a window, or fewer operations",
        )


def _widths(findings: Findings, step: int, item: DeferredWork, limits: Limits) -> None:
    maximum = limits.max_success
    for what, value in (("threshold", item.threshold), ("operand", item.value)):
        if value > maximum and (what == "threshold" or item.opcode in _COUNTER_OPERATIONS):
            findings.say(
                Severity.ERROR,
                "R2",
                (step,),
                f"{what} {{number}}; a counter holds at most {maximum} (EINVAL). Count from a lower start",
                number=value,
            )


def _shape(findings: Findings, step: int, item: DeferredWork, limits: Limits) -> None:
    profile = limits.profile
    pieces = len(item.work.sges) if item.work is not None else 0
    if pieces > limits.local_pieces:
        findings.say(
            Severity.ERROR,
            "R21",
            (step,),
            f"{{number}} local pieces; {profile} takes {limits.local_pieces} (EINVAL). Split it in two, or "
            "lay the pieces side by side",
            number=pieces,
        )
    if item.work is not None and item.work.length_bytes > limits.max_message_bytes:
        findings.say(
            Severity.ERROR,
            "R15",
            (step,),
            f"{{number}} bytes; at most {limits.max_message_bytes} in one operation (EINVAL). Split it",
            number=item.work.length_bytes,
        )
    if item.opcode in _RECEIVES and limits.receives_at_zero and item.threshold:
        findings.say(
            Severity.ERROR,
            "R21",
            (step,),
            f"a deferred receive at threshold {{number}}; {profile} posts receives at 0 only (EINVAL). "
            "Post it beforehand",
            number=item.threshold,
        )
    if item.opcode in _OURS and profile != "unlimited":
        findings.say(
            Severity.ERROR,
            "R15",
            (step,),
            f"{item.opcode.name} is an operation of nicemu alone; {profile} has none such (ENOSYS)",
        )


def _progress(findings: Findings, step: int, item: DeferredWork) -> None:
    if item.opcode in _RECEIVES:
        findings.say(Severity.WARNING, "R35", (step,), "a receive needs software progress: a CPU has to poll")
    elif item.opcode in _SENDS and item.work is not None and item.work.length_bytes >= RENDEZVOUS_BYTES:
        findings.say(
            Severity.WARNING,
            "R35",
            (step,),
            f"sent by rendezvous, {{number}} bytes (from {RENDEZVOUS_BYTES} bytes on), which needs a CPU at "
            "both ends; use a write and a counter",
            number=item.work.length_bytes,
        )


def _through_libfabric(findings: Findings, step: int, item: DeferredWork) -> None:
    """Say what nicemu's own NIC carries under this profile, and libfabric's provider of the hardware not."""
    if item.opcode is Opcode.RDMA_WRITE_WITH_IMM:
        findings.say(
            Severity.WARNING,
            "R15",
            (step,),
            "a write with an immediate; nicemu's NIC carries it, but libfabric's provider cxi refuses "
            "writes with remote data (ENOSYS). There, write without one, and have the arrival counted by the "
            "memory's counter, or send a message with the immediate on the same queue pair",
        )
    if item.opcode in _TAGGED and item.work is not None and item.work.tag >> TAG_BITS:
        findings.say(
            Severity.WARNING,
            "R15",
            (step,),
            f"a tag of more than {TAG_BITS} bits; nicemu's NIC carries 64, but libfabric's provider cxi "
            "refuses it (EINVAL). Number messages lower",
        )
