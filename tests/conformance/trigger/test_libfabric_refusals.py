# SPDX-License-Identifier: Apache-2.0
"""What cannot be meant is refused with a sentence, and nothing that a caller does ends the process."""

from __future__ import annotations

import math
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nicemu.abi import DeferredWork, Opcode, Sge, Span, WorkRequest
from nicemu.errors import NicemuError, ResourceError, UsageError
from nicemu.fabric import FabricMemory, LibfabricTarget
from tests.conformance.trigger.libfabric_world import LENGTH, World, a_world, needs_sockets

pytestmark = needs_sockets

NO_NUMBERS: tuple[Any, ...] = (None, "x", 1.0, True, -1, 1 << 70, [], b"1", math.nan)
NO_TIMES: tuple[Any, ...] = (math.nan, math.inf, -1, -0.001, "1", None, [])


@pytest.fixture
def world() -> Iterator[World]:
    with a_world() as world:
        yield world


def refused(*calls: Callable[[], object], match: str = "EINVAL") -> None:
    for call in calls:
        with pytest.raises(UsageError, match=match):
            call()


# Opening


@pytest.mark.parametrize("name", [None, 5, "sock\0ets", "\ud800", b"sockets"])
def test_a_name_that_libfabric_cannot_have_is_refused(name: str) -> None:
    refused(lambda: LibfabricTarget(name))
    if name is not None:
        refused(lambda: LibfabricTarget("sockets", name), lambda: LibfabricTarget("sockets", domain=name))


def test_a_provider_s_name_is_the_same_in_capital_letters() -> None:
    """libfabric does not tell them apart, and what is known of the provider must be known of it."""
    with LibfabricTarget("Sockets") as target:
        assert target.provider.name == "sockets"
        assert not target.capabilities.flush


def test_a_place_where_there_is_no_provider_is_named() -> None:
    there = "no provider 'sockets' with triggered operations at nowhere0 "
    with pytest.raises(ResourceError, match=there):
        LibfabricTarget("sockets", domain="nowhere0")
    with pytest.raises(NicemuError, match=r"at 203\.0\.113\.7\b"):
        LibfabricTarget("sockets", node="203.0.113.7")


@pytest.mark.parametrize("value", [0, "8", 1.5, None, 1 << 30])
def test_a_limit_is_a_number_from_1_to_what_the_provider_has(value: int) -> None:
    refused(
        lambda: LibfabricTarget("sockets", slot_count=value),
        lambda: LibfabricTarget("sockets", seed=1),
        lambda: LibfabricTarget("sockets", bogus=1),
    )


# Counters


@pytest.mark.parametrize("value", [*NO_NUMBERS, 1 << 31])
def test_what_is_no_count_changes_nothing(world: World, value: int) -> None:
    (counter,) = world.target.counters("counter")
    refused(
        lambda: counter.add(value),
        lambda: counter.add(1, value),
        lambda: counter >= value,
        lambda: counter.wait(value, 0.0),
    )
    if value is not None:
        refused(lambda: counter.set(value), lambda: counter.set(1, value))
    assert counter.values() == (0, 0)


def test_numpy_s_numbers_are_numbers(world: World) -> None:
    (counter,) = world.target.counters("counter")
    one: Any = np.uint8(1)
    counter.add(one, one)
    counter.wait(one)
    assert (counter >= one) == (counter >= 1)
    assert counter.next(one) == (counter >= 2)
    assert counter.read() == (1, 1)


@pytest.mark.parametrize("timeout_s", NO_TIMES)
def test_a_wait_lasts_a_number_of_seconds(world: World, timeout_s: float) -> None:
    (counter,) = world.target.counters("counter")
    refused(lambda: counter.wait(1, timeout_s), match="timeout_s is a number of seconds")


def test_a_counter_is_given_back_once_and_never_used_again(world: World) -> None:
    counter, other = world.target.counters("counter", "other")
    counter.close()
    counter.close()
    refused(
        counter.read,
        counter.add,
        counter.kick,
        counter.next,
        lambda: counter.set(0),
        lambda: counter.wait(0),
        lambda: world.target.register(world.here, counter),
        lambda: world.target.arm(
            [DeferredWork(other.index, 1, Opcode.COUNTER_ADD, target=counter.index, value=1)]
        ),
        match="counter",
    )
    no_name: Any = 3
    refused(lambda: world.target.counters(no_name))


# Memory and peers


def test_what_is_no_memory_is_not_registered(world: World) -> None:
    array = np.zeros(64, np.uint8)
    read_only = array.copy()
    read_only.flags.writeable = False
    objects = np.array([object()] * 8)
    no_address: Any = "here"
    wrong: tuple[Any, ...] = (
        None,
        "memory",
        array,
        world.local,
        FabricMemory(no_address, 0),
        FabricMemory(array, 4096),
        FabricMemory(array, no_address),
        FabricMemory(array[::2], int(array.ctypes.data)),
        FabricMemory(array[:0], int(array.ctypes.data)),
        FabricMemory(read_only, int(read_only.ctypes.data)),
        FabricMemory(objects, int(objects.ctypes.data)),
    )
    for memory in wrong:
        refused(partial(world.target.register, memory))
    refused(
        lambda: world.target.register(world.here, no_address),
        lambda: world.target.register(world.here, qp_num=99),
        lambda: world.target.register(world.here, qp_num=no_address),
        lambda: world.target.allocate((-1,)),
        lambda: world.target.allocate((8,), "no dtype"),
        lambda: world.target.allocate(no_address),
    )


def test_memory_is_named_by_spans_that_were_registered(world: World) -> None:
    target, local = world.target, world.local
    unknown, beyond = replace(local, key=999), replace(local, length_bytes=LENGTH + 1)
    spans: tuple[Any, ...] = (None, 5, world.here, world.remote, unknown)
    for span in spans:
        refused(
            partial(target.offer, span), partial(target.deregister, span), partial(target.remote, span, 1)
        )
    refused(lambda: target.offer(beyond), lambda: target.remote(local, 99))
    target.deregister(local)
    refused(lambda: target.deregister(local), lambda: target.offer(local))


@pytest.mark.parametrize("address", [None, 5, "address", b"", bytes(1000), bytearray(16), b"\xff" * 16])
def test_what_is_no_address_is_no_peer(world: World, address: bytes) -> None:
    with pytest.raises(UsageError, match="address"):
        world.target.connect(address)


# Work


def test_what_is_no_work_never_reaches_the_provider(world: World) -> None:
    target = world.target
    trigger, done = target.counters("trigger", "done")
    request = WorkRequest(
        Opcode.RDMA_WRITE, (world.local[0:8].sge(),), world.remote.address, world.remote.rkey
    )
    good = DeferredWork(trigger.index, 1, Opcode.RDMA_WRITE, request, world.remote.qp_num, done.index)
    add = DeferredWork(trigger.index, 1, Opcode.COUNTER_ADD, target=done.index, value=1)
    wrong: list[Any] = [None, 5, "work", request]
    junk: Any
    for junk in ("x", None, 1.5, [], True):
        wrong += [replace(good, **{name: junk}) for name in ("trigger", "threshold", "opcode", "qp_num")]
        wrong += [replace(add, **{name: junk}) for name in ("target", "value")]
        wrong += [
            replace(good, work=replace(request, **{name: junk}))
            for name in ("sges", "remote_address", "rkey", "imm_data", "tag", "ignore", "wr_id")
        ]
        if junk is not None:
            wrong += [replace(good, completion=junk), replace(good, work=junk)]
        for sge in (Sge(junk, 8, 1), Sge(0, junk, 1), Sge(0, 8, junk)):
            wrong.append(replace(good, work=replace(request, sges=(sge,))))
        atomic = replace(request, opcode=Opcode.ATOMIC, operation=junk)
        wrong.append(replace(good, opcode=Opcode.ATOMIC, work=atomic))
    for item in wrong:
        with pytest.raises(UsageError, match=r"\(E[A-Z]+\)"):
            target.arm([good, item])
    for junk in (None, 5, "work", good):
        refused(partial(target.arm, junk))
    trigger.close()  # nothing was armed


def test_what_the_provider_does_not_defer_cannot_be_posted_either(world: World) -> None:
    for opcode in (Opcode.NVME_READ, Opcode.FIRMWARE_EVENT, Opcode.WRITE_BACK):
        request = WorkRequest(opcode, (world.local[0:8].sge(),))
        refused(partial(world.target.post, world.remote.qp_num, request), match="ENOSYS")
    junk: Any
    for junk in (None, 5, "work"):
        refused(partial(world.target.post, world.remote.qp_num, junk), partial(world.target.post, junk or 99))


def test_what_is_no_handle_cancels_nothing(world: World) -> None:
    junk: Any
    for junk in (None, 5, (1,), (1, "2"), [1, 2], "12", world.local):
        refused(partial(world.target.cancel, junk), partial(world.target.cancel_counter, junk))


# Use after close


def test_whatever_is_used_after_the_target_was_closed_says_so(world: World) -> None:
    target = world.target
    (counter,) = target.counters("counter")
    with target.program("program") as program:
        program.when(counter >= 1).add(counter)
    target.close()
    target.close()
    counter.close()
    refused(
        program.arm,
        program.cancel if program.handles else target.flush,
        lambda: program.window(1),
        counter.read,
        counter.values,
        counter.add,
        counter.next,
        counter.kick,
        lambda: counter.set(1),
        lambda: counter.wait(1),
        lambda: target.offer(world.local),
        lambda: target.remote(world.local, 1),
        lambda: target.deregister(world.local),
        lambda: target.connect(target.address),
        lambda: target.post(1),
        lambda: target.cancel((1, 1)),
        lambda: target.cancel_counter(counter),
        match="closed",
    )
    target.progress()


@pytest.mark.process
@pytest.mark.parametrize("seed", [1, 2])
def test_no_order_of_calls_ends_the_process(seed: int) -> None:
    """Anything at any time, also after closing and while another thread closes: a pointer is never stale."""
    script = f"from tests.conformance.trigger.test_libfabric_refusals import anything\nanything({seed})"
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script],
        cwd=Path(__file__).parents[3],
        timeout=60.0,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


def anything(seed: int) -> None:
    """Call whatever there is, with whatever, until after the target is closed."""
    rng = random.Random(seed)
    junk: tuple[Any, ...] = (
        None,
        "x",
        -1,
        1.5,
        math.nan,
        1 << 70,
        [],
        {},
        object(),
        0,
        1,
        np.arange(3),
        b"\x01" * 16,
    )
    with a_world() as world:
        target = world.target
        counters = target.counters("a", "b", "c")

        def something(*good: object) -> Any:  # noqa: ANN401
            return rng.choice(good) if rng.random() < 0.7 else rng.choice(junk)

        def program() -> None:
            with target.program("any") as program:
                for _ in range(rng.randrange(1, 5)):
                    step, then = program.when(rng.choice(counters) >= rng.randrange(4)), rng.choice(counters)
                    if rng.random() < 0.5:
                        step.write(world.local[0:8], world.remote[0:8], then=then)
                    else:
                        step.add(then)
            rng.choice((program.arm, lambda: program.window(rng.randrange(3))))()
            if rng.random() < 0.3:
                program.cancel()

        def call() -> None:
            counter = rng.choice(counters)
            request = WorkRequest(
                something(*Opcode),
                something((Sge(something(world.local.address), 8, something(world.local.key)),), ()),
                something(0),
                something(world.remote.rkey),
            )
            work = DeferredWork(
                something(counter.index),
                something(0, 1, 2),
                request.opcode,
                request,
                something(world.remote.qp_num),
            )
            methods: tuple[Callable[..., object], ...] = (
                lambda: counter.add(something(1, 2)),
                lambda: counter.set(something(0, 1)),
                lambda: counter.wait(something(0), something(0.0)),
                lambda: counter.close(something(False, True)) if rng.random() < 0.1 else None,
                counter.read,
                counter.kick,
                counter.next,
                program,
                program,
                program,
                lambda: target.arm([work]),
                lambda: target.arm_window([work, work], something(1)),
                lambda: target.post(something(1), request),
                lambda: target.register(something(world.here), something(None, counter)),
                lambda: target.deregister(something(Span(1, 1, 99)), something(False)),
                lambda: target.offer(something(world.local)),
                lambda: target.connect(something(target.address)),
                target.take_completions,
                target.progress,
                target.flush,
            )
            with suppress(NicemuError, TimeoutError):
                rng.choice(methods)()

        def calls(count: int) -> None:
            for _ in range(count):
                call()

        calls(800)
        threads = [threading.Thread(target=calls, args=(200,)) for _ in range(2)]
        for thread in threads:
            thread.start()
        target.close()
        for thread in threads:
            thread.join()
        calls(200)
