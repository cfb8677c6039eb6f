# SPDX-License-Identifier: Apache-2.0
"""What is said of programs before they run: what is a finding, what is none, and how many lines it takes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from nicemu.abi import AtomicOperation, Condition, Finding, Limits, Program, RemoteSpan, Severity, Span, Step

LOCAL = Span(0x1000, 1 << 16, 1)
DATA, WORD = LOCAL[0:4096], LOCAL[4096:4104]
PEER = RemoteSpan(1, 0x9000, 1 << 16, 7)
BESIDE = RemoteSpan(2, 0x9000, 1 << 16, 7)
"""The same memory as PEER's, by another queue pair."""
ELSEWHERE = RemoteSpan(3, 0x9000, 1 << 16, 8)


@dataclass(frozen=True)
class Named:
    index: int
    name: str

    def __ge__(self, threshold: int) -> Condition:
        return Condition(self.index, threshold, self.name)


go, landed, done, after = (
    Named(number, name) for number, name in enumerate(("go", "landed", "done", "next"), 1)
)


def checked(write: Callable[[Program], object], target: str | Limits = "unlimited") -> list[str]:
    program = Program("checked")
    write(program)
    return [str(finding) for finding in program.check(target)]


def rules(write: Callable[[Program], object], target: str | Limits = "unlimited") -> list[str]:
    program = Program("checked")
    write(program)
    return [finding.rule for finding in program.check(target)]


# What waits for a fetch

FETCHES: dict[str, Callable[[Step], None]] = {
    "read": lambda step: step.read(DATA, PEER[0:4096], then=landed),
    "fetch and add": lambda step: step.fetch_add(WORD, PEER[0:8], 1, then=landed),
    "compare and swap": lambda step: step.compare_swap(WORD, PEER[0:8], 1, 2, then=landed),
    "atomic that returns the old value": lambda step: step.atomic(
        AtomicOperation.COMPARE_SWAP, PEER[0:8], 1, swap=2, old=WORD, then=landed
    ),
    "NVMe read": lambda step: step.nvme_read(DATA, 1, 0, then=landed),
    "receive": lambda step: step.receive(DATA, 1, then=landed),
    "tagged receive": lambda step: step.tagged_receive(DATA, 1, 5, then=landed),
}
PUBLISHED: dict[str, Callable[[Step], None]] = {
    "write": lambda step: step.write(DATA, ELSEWHERE[0:4096]),
    "send": lambda step: step.send(DATA, 3),
    "atomic": lambda step: step.atomic(AtomicOperation.SUM, ELSEWHERE[0:8], 1),
    "NVMe write": lambda step: step.nvme_write(DATA, 1, 0),
    "count": lambda step: step.add(done),
}


@pytest.mark.parametrize("fetch", FETCHES.values(), ids=FETCHES)
@pytest.mark.parametrize("publish", PUBLISHED.values(), ids=PUBLISHED)
def test_what_others_see_behind_a_fetch_that_may_have_failed_is_found(
    fetch: Callable[[Step], None], publish: Callable[[Step], None]
) -> None:
    def write(program: Program) -> None:
        fetch(program.when(go >= 1))
        publish(program.when(landed >= 1))

    (told,) = checked(write)
    assert told.startswith(
        "warning [R27] step 1: fired when successes plus errors of landed reach 1, so also if a fetch failed "
        "(step 0); look at the errors first"
    )


def test_an_atomic_that_returns_nothing_is_no_fetch() -> None:
    def write(program: Program) -> None:
        program.when(go >= 1).atomic(AtomicOperation.SUM, PEER[0:8], 1, then=landed)
        program.when(landed >= 1).write(DATA, ELSEWHERE[0:4096])

    assert checked(write) == []


def test_a_failed_fetch_is_seen_through_counts_that_carry_it_on() -> None:
    def write(program: Program) -> None:
        program.when(go >= 1).read(DATA, PEER[0:4096], then=landed)
        program.when(landed >= 1).set(done, 5)
        program.when(done >= 5).add(after)
        program.when(after >= 1).send(DATA, 3)

    (told,) = checked(write)
    assert "steps 1 and 3: fired when successes plus errors of landed and next reach 1," in told
    assert "(step 0)" in told


def test_where_a_failed_queue_pair_sends_nothing_more_what_is_behind_it_is_no_finding() -> None:
    """nicemu's own: Cassini's endpoints go on after an operation that failed."""

    def write(program: Program) -> None:
        program.when(go >= 1).read(DATA, PEER[0:4096], then=landed)
        program.when(landed >= 1).write(DATA, PEER[4096:8192])

    assert rules(write) == []
    assert rules(write, "cassini") == ["R27"]


def test_where_errors_fire_nothing_nothing_is_found() -> None:
    def write(program: Program) -> None:
        program.when(go >= 1).read(DATA, PEER[0:4096], then=landed)
        program.when(landed >= 1).write(DATA, ELSEWHERE[0:4096])
        program.when(go >= 1).write(DATA, PEER[0:4096], then=done)
        program.when(done >= 1).write(WORD, BESIDE[4096:4104])

    assert checked(write, Limits(stall_on_error=True)) == []


# What tells of data

TELLINGS: dict[str, Callable[[Step], None]] = {
    "flag beside the data": lambda step: step.write(WORD, BESIDE[4096:4104]),
    "flag elsewhere": lambda step: step.write(WORD, ELSEWHERE[0:8]),
    "immediate": lambda step: step.write((), RemoteSpan(3, 0, 0, 0), imm_data=1),
    "message": lambda step: step.send(WORD, 3),
    "message with nothing but an immediate": lambda step: step.send((), 3, imm_data=1),
    "tagged message": lambda step: step.tagged_send(WORD, 3, 5),
    "atomic": lambda step: step.atomic(AtomicOperation.SUM, ELSEWHERE[0:8], 1),
}


@pytest.mark.parametrize("tell", TELLINGS.values(), ids=TELLINGS)
@pytest.mark.parametrize("target", ["unlimited", "cassini"])
def test_data_that_are_announced_behind_their_delivery_though_they_may_have_failed_are_found(
    tell: Callable[[Step], None], target: str
) -> None:
    def write(program: Program) -> None:
        program.when(go >= 1).write(DATA, PEER[0:4096], then=done)
        tell(program.when(done >= 1))

    (told,) = [told for told in checked(write, target) if "libfabric" not in told]
    assert told.startswith(
        "warning [R27] step 1: fired when successes plus errors of done reach 1, so the data are announced "
        "also if they did not arrive (step 0); announce them from the host behind counter.wait()"
    )
    assert ("put both on one queue pair" in told) is (target == "unlimited")


@pytest.mark.parametrize("tell", TELLINGS.values(), ids=TELLINGS)
def test_data_that_are_announced_at_their_own_count_by_another_queue_pair_are_found(
    tell: Callable[[Step], None],
) -> None:
    def write(program: Program) -> None:
        program.when(go >= 1).write(DATA, PEER[0:4096], then=done)
        tell(program.when(go >= 1))

    (told,) = checked(write)
    assert told.startswith(
        "warning [R26] steps 0 and 1: due at one count (go at 1) on different queue pairs, which keep no"
    )
    assert told.endswith("Put both on one queue pair")


def test_of_two_words_in_one_memory_region_the_later_one_is_taken_for_the_flag() -> None:
    def at_one_count(program: Program) -> None:
        program.when(go >= 1).write(WORD, PEER[0:8])
        program.when(go >= 1).write(WORD, BESIDE[8:16])

    def behind_delivery(program: Program) -> None:
        program.when(go >= 1).write(WORD, PEER[0:8], then=done)
        program.when(done >= 1).write(WORD, BESIDE[8:16])

    assert rules(at_one_count) == ["R26"]
    assert rules(behind_delivery) == ["R27"]


def written_by_one_queue_pair(program: Program) -> None:
    program.when(go >= 1).write(DATA, PEER[0:4096], then=done)
    program.when(go >= 1).write(WORD, PEER[4096:4104])
    program.when(done >= 1).send(WORD, 1)


def data_that_tell_of_themselves(program: Program) -> None:
    for peer in (PEER, ELSEWHERE):
        program.when(go >= 1).write(DATA, peer[0:4096], imm_data=1, then=done)


def one_word_for_two_peers(program: Program) -> None:
    for peer in (PEER, ELSEWHERE):
        program.when(go >= 1).write(WORD, peer[0:8])


def a_second_copy_behind_the_first(program: Program) -> None:
    program.when(go >= 1).write(DATA, PEER[0:4096], then=done)
    program.when(done >= 1).write(DATA, ELSEWHERE[0:4096])


def a_flag_that_the_host_rings(program: Program) -> None:
    program.when(go >= 1).write(DATA, PEER[0:4096], then=done)
    program.when(go >= 2).write(WORD, BESIDE[4096:4104])


def data_behind_a_flag(program: Program) -> None:
    program.when(go >= 1).write(WORD, BESIDE[0:8], then=done)
    program.when(done >= 1).write(DATA, PEER[0:4096])


def counted_for_the_host(program: Program) -> None:
    program.when(go >= 1).write(DATA, PEER[0:4096], then=done)
    program.when(done >= 1).add(after)


@pytest.mark.parametrize(
    "write",
    [
        written_by_one_queue_pair,
        data_that_tell_of_themselves,
        one_word_for_two_peers,
        a_second_copy_behind_the_first,
        a_flag_that_the_host_rings,
        data_behind_a_flag,
        counted_for_the_host,
    ],
)
def test_what_is_in_order_or_tells_of_nothing_is_no_finding(write: Callable[[Program], None]) -> None:
    assert checked(write) == []


# Counts

AND_ENDS = "which ends only because each entry fires once; re-armed in a window or a loop it does not end"


def test_a_counter_that_counts_its_own_work_is_named() -> None:
    def write(program: Program) -> None:
        for threshold in (1, 2, 3):
            program.when(go >= threshold).write(DATA, PEER[0:4096], then=go)

    assert checked(write) == [
        f"warning [R30] steps 0 to 2: work behind go counts at the same counter: a cycle, {AND_ENDS}"
    ]


def test_an_end_that_counts_at_its_own_trigger_to_be_written_back_is_no_finding() -> None:
    """The use of `write_back`: its entry waits for one count more, which is the operation's own end."""

    def write(program: Program) -> None:
        program.when(go >= 1).write(DATA, PEER[0:4096], then=go, write_back=True)
        program.when(go >= 1).read(DATA, PEER[0:4096], then=go, write_back=True)

    def drives_itself(program: Program) -> None:
        for threshold in (1, 2):
            program.when(go >= threshold).write(DATA, PEER[0:4096], then=go, write_back=True)

    assert checked(write) == []
    assert checked(drives_itself) == [
        f"warning [R30] step 0: work behind go counts at the same counter: a cycle, {AND_ENDS}"
    ]


def test_a_cycle_of_two_counters_is_one_finding_that_names_both_and_its_steps() -> None:
    def write(program: Program) -> None:
        program.when(go >= 1).add(landed)
        program.when(after >= 1).add(go)
        program.when(landed >= 1).write(DATA, PEER[0:4096], then=go)
        program.when(go >= 2).add(done)

    assert checked(write) == [
        "warning [R30] steps 0 and 2: work behind go counts at landed, and work behind landed counts at go: "
        f"a cycle, {AND_ENDS}"
    ]


def test_a_cycle_of_three_counters_says_the_whole_way_round() -> None:
    def write(program: Program) -> None:
        for one, other in ((go, landed), (landed, after), (after, go)):
            program.when(one >= 1).add(other)

    (told,) = checked(write)
    assert "behind go counts at landed, and work behind landed counts at next, and work behind next" in told


def test_counters_on_a_way_round_that_is_not_the_shortest_are_named_too() -> None:
    def write(program: Program) -> None:
        for one, other in ((go, landed), (landed, go), (landed, after), (after, go), (go, done)):
            program.when(one >= 1).add(other)

    (told,) = checked(write)
    assert told.startswith(
        "warning [R30] steps 0 to 3: work behind go counts at landed, and work behind landed"
    )
    assert "(so too by way of next)" in told


def test_a_name_with_braces_is_told_as_it_is() -> None:
    strange, other = Named(8, "{number}"), Named(9, "{0}")

    def write(program: Program) -> None:
        program.when(strange >= 1).add(other)
        program.when(other >= 1).add(strange)
        program.when(strange >= 2).add(strange)

    told = checked(write)
    assert "work behind {number} counts at the same counter" in told[0]
    assert "work behind {number} counts at {0}" in told[1]


def test_a_count_beside_the_data_that_it_counts_is_found() -> None:
    def write(program: Program) -> None:
        for threshold in (1, 2):
            program.when(go >= threshold).write(DATA, PEER[0:4096])
            program.when(go >= threshold).add(done)

    (told,) = checked(write)
    assert told.startswith("warning [R30] steps 0 to 3: initiated in this order; the count does not wait")


# One finding for all steps that it is true of


def test_a_program_of_a_thousand_fetches_is_one_finding() -> None:
    def write(program: Program) -> None:
        for threshold in range(1, 1001):
            program.when(go >= threshold).read(DATA, PEER[0:4096], then=landed)
        for threshold in range(1, 1001):
            program.when(landed >= threshold).write(DATA, ELSEWHERE[0:4096])

    (told,) = checked(write)
    assert told.startswith(
        "warning [R27] steps 1000 to 1999: fired when successes plus errors of landed reach 1 to"
    )
    assert "(steps 0 to 999)" in told


def test_a_finding_names_the_counters_that_it_is_true_of() -> None:
    def write(program: Program) -> None:
        for number in range(10, 18):
            counter = Named(number, f"lane {number}")
            program.when(go >= 1).read(DATA, PEER[0:4096], then=counter)
            program.when(counter >= 1).write(DATA, ELSEWHERE[0:4096])

    (told,) = checked(write)
    assert "errors of lane 10, lane 11, lane 12, lane 13, lane 14, lane 15 and 2 more reach 1," in told


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ((), "error [R2] too wide"),
        ((4,), "error [R2] step 4: too wide"),
        ((4, 5), "error [R2] steps 4 and 5: too wide"),
        ((*range(3, 13), 14), "error [R2] steps 3 to 12 and 14: too wide"),
        (tuple(range(0, 20, 2)), "error [R2] steps 0, 2, 4, 6, 8, 10 and 4 more: too wide"),
    ],
)
def test_steps_are_told_as_ranges(steps: tuple[int, ...], told: str) -> None:
    assert str(Finding(Severity.ERROR, "R2", steps, "too wide")) == told


# What a target takes


def test_errors_come_before_warnings() -> None:
    def write(program: Program) -> None:
        program.when(go >= 1).receive(DATA, 1, then=done)
        program.when(go >= 1 << 50).send((LOCAL[0:4096], DATA), 1)

    told = checked(write, "cassini")
    assert [line[:13] for line in told] == [
        "error [R21] s",
        "error [R2] st",
        "error [R21] s",
        "warning [R35]",
        "warning [R35]",
    ]


def test_what_differs_in_a_number_alone_is_told_once_with_all_numbers() -> None:
    def write(program: Program) -> None:
        for more in range(3):
            program.when(go >= (1 << 48) + more).add(done)
            program.when(go >= 1).send(LOCAL[0 : 4096 + more], 1)

    told = checked(write, "cassini")
    start = 1 << 48
    assert told == [
        f"error [R2] steps 0, 2 and 4: threshold {start} to {start + 2}; a counter holds at most {start - 1} "
        "(EINVAL). Count from a lower start",
        "warning [R35] steps 1, 3 and 5: sent by rendezvous, 4096 to 4098 bytes (from 2048 bytes on), which "
        "needs a CPU at both ends; use a write and a counter",
    ]


@pytest.mark.parametrize(
    ("operations", "slots", "told"),
    [
        (
            2,
            1,
            "error [R19] 2 operations; unlimited has 1 trigger slot for all processes of a service (ENOSPC)",
        ),
        (1, 1, "warning [R19] 1 of 1 trigger slot: only one such program fits at a time"),
        (3, 4, "warning [R19] 3 of 4 trigger slots: only one such program fits at a time"),
        (2, 4, ""),
    ],
)
def test_a_program_that_takes_most_or_more_than_all_slots_is_found(
    operations: int, slots: int, told: str
) -> None:
    def write(program: Program) -> None:
        for _ in range(operations):
            program.when(go >= 1).add(done)

    found = checked(write, Limits(slot_count=slots))
    assert [line[: len(told)] for line in found] == ([told] if told else [])


# Through libfabric


def test_what_nicemu_s_nic_carries_and_libfabric_s_cxi_does_not_is_a_warning_for_all_its_steps() -> None:
    def write(program: Program) -> None:
        for threshold in (1, 2, 3):
            program.when(go >= threshold).write(DATA, PEER[0:4096], imm_data=threshold)
        for tag in (1 << 48, (1 << 48) - 1, (1 << 64) - 1):
            program.when(go >= 4).tagged_send(WORD, 1, tag)
        program.when(go >= 5).send(WORD, 1, imm_data=1)

    immediates, tags = checked(write, "cassini")
    assert immediates.startswith(
        "warning [R15] steps 0 to 2: a write with an immediate; nicemu's NIC carries it"
    )
    assert tags.startswith("warning [R15] steps 3 and 5: a tag of more than 48 bits")
    for other in ("unlimited", "portals"):
        assert not [finding for finding in checked(write, other) if "libfabric" in finding]
