# SPDX-License-Identifier: Apache-2.0
"""The whole journey in virtual time, with the programs that live NICs run: store, evict, come back, go on."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import count

import numpy as np
import pytest

from nicemu.errors import NvmeStatus
from nicemu.fabric import FaultRates
from nicemu.host import Nic
from nicemu.kv import Answer, ChunkKey, Manifest, Request, chunks_of, decode
from nicemu.programs import find_program, load_module
from nicemu.run import Simulation
from nicemu.wire import UdpFrame
from tests.conformance.stepped_world import (
    CLIENT,
    LAYOUT,
    STORAGE,
    World,
    load_journey,
    nic_configs,
    request_frame,
)

serving = load_module(find_program("examples/serving.py"))

TRANSPORTS = pytest.mark.parametrize("transport", ["direct", "port"])
MODEL = {"layers": 2, "hidden": 32, "heads": 2, "kv_heads": 1, "head_dim": 16, "mlp": 32, "blocks": 8}
PROMPTS = (b"A NIC moves my KV cache, and the host sleeps.", b" And if I come back?")
USER, OTHER = b"1" * 16, b"2" * 16


Done = list[tuple[int, NvmeStatus]]
"""Tags of block I/O that is done, and how it ended."""


def session_name(number: int) -> bytes:
    return number.to_bytes(16, "big")


def serve(transport: str, *, evict: bool) -> tuple[list[object], list[bytes]]:
    """Run two turns of the example server; return the turns and the answers that the client got."""
    simulation = Simulation(nic_configs(transport))
    load_journey(simulation)
    nic = Nic(simulation.open_nic("compute0"))
    server = serving.Server(
        nic, simulation.stream(), list(STORAGE), slots=2, config=MODEL, answer_tokens=4, slot_count=32
    )
    inbox = simulation.add_client(CLIENT)
    turns = []
    for number, prompt in enumerate(PROMPTS, start=1):
        simulation.send("compute0", request_frame(Request(number, USER, prompt)))
        packet = nic.receive()
        assert packet is not None
        turns.append(server.handle(packet))
        if number == 1 and evict:
            server.make_durable(USER)
            before = server.sessions[USER].slot
            server.drop(USER)
            simulation.send("compute0", request_frame(Request(9, OTHER, b"I take its memory.")))
            packet = nic.receive()
            assert packet is not None
            server.handle(packet)
            assert server.sessions[OTHER].slot == before
            server.resume.memory[server.resume.free[0]].array.view(np.uint8).fill(0xA5)
            server.resume.offer()
    simulation.run_until_idle()
    messages = [decode(bytes(UdpFrame.decode(frame).payload)) for frame in inbox]
    answers = [one for one in messages if isinstance(one, Answer) and one.session == USER]
    assert [answer.restored for answer in answers] == [False, evict]
    return turns, [answer.body for answer in answers]


@TRANSPORTS
def test_a_restored_session_answers_as_one_that_was_never_evicted(transport: str) -> None:
    evicted, said = serve(transport, evict=True)
    kept, expected = serve(transport, evict=False)
    assert said == expected
    assert [turn.logits for turn in evicted] == [turn.logits for turn in kept]  # type: ignore[attr-defined]
    assert [turn.restored for turn in evicted] == [False, True]  # type: ignore[attr-defined]
    computed = [turn.computed_tokens for turn in evicted]  # type: ignore[attr-defined]
    assert computed[1] == len(PROMPTS[1]) + 4


# The same seed


def journey_trace(transport: str, seed: int, faults: FaultRates | None, *, compiled: bool = False) -> str:
    world = World(transport, seed=seed, faults=faults, compiled=compiled)
    for number in range(2):
        world.leave(session_name(number), 20 + number)
    world.resume.offer()
    assert world.fetch(session_name(1)) is not None
    assert world.fetch(session_name(0)) is None
    world.simulation.run_until_idle()
    return "\n".join(world.simulation.trace)


@pytest.mark.parametrize(
    ("transport", "faults"),
    [("direct", None), ("port", None), ("port", FaultRates(0.03, 0.03, 0.03, 0.03))],
    ids=["direct", "port", "faulty port"],
)
def test_the_same_seed_gives_the_same_trace_byte_for_byte_compiled_too(
    transport: str, faults: FaultRates | None
) -> None:
    """So what follows is tried compiled, in a third of the time."""
    trace = journey_trace(transport, 5, faults)
    assert trace == journey_trace(transport, 5, faults)
    assert trace == journey_trace(transport, 5, faults, compiled=True)


def test_another_seed_spoils_other_frames() -> None:
    faults = FaultRates(0.05, 0.05, 0.05, 0.05)
    assert journey_trace("port", 5, faults) != journey_trace("port", 6, faults)


@TRANSPORTS
def test_the_trace_says_what_every_block_did(transport: str) -> None:
    lines = [line.split(" ", 4) for line in journey_trace(transport, 5, None).splitlines()]
    seen = {(nic, block, what) for _, nic, block, what, _ in lines}
    for nic in STORAGE:
        assert {
            (nic, "rdma", "arrival"),
            (nic, "nvme", "read"),
            (nic, "nvme", "write"),
            (nic, "nvme", "flush"),
            (nic, "nvme", "completed"),
            (nic, "firmware", "start"),
            (nic, "firmware", "end"),
            (nic, "rdma", "completed"),
        } <= seen
    assert {
        ("compute0", "pipeline", "firmware"),
        ("compute0", "port", "sent"),
        ("compute0", "port", "received"),
        ("compute0", "trigger", "firmware_event"),
        ("compute0", "host", "packet"),
    } <= seen
    restored = [details for _, _, block, _, details in lines if block == "host"]
    landed_bytes = 4 * LAYOUT.chunk_bytes
    assert [f"info=1/0/4/{landed_bytes}/" in details for details in restored] == [True, False]
    assert any(("roce=True" in details) for _, _, block, _, details in lines if block == "port") is (
        transport == "port"
    )


# Many sessions


def come_back_all(world: World, sessions: list[bytes], again_ns: int = 100_000) -> Counter[str]:
    """Let all sessions come back at once, and those that miss again later, until each has landed once.

    Checks every landing byte for byte, and that slots that nobody was offered keep their poison.
    """
    counts: Counter[str] = Counter()
    for session in sessions:
        world.come_back(session)
    waiting = set(sessions)
    poisoned = bytes([0xA5]) * LAYOUT.total_bytes
    while waiting:
        received = world.receive()
        assert received is not None, f"{len(waiting)} sessions never came"
        packet, session = received
        slot = world.resume.landed(packet)
        if slot is None:
            counts["missed"] += 1
            world.come_back(session, after_ns=again_ns)
            continue
        assert world.bytes_of(slot) == world.kv[session].data
        waiting.discard(session)
        counts["landed"] += 1
        for other in world.resume.free:
            assert world.bytes_of(other) == poisoned
        world.poison(slot)
        world.resume.drop(slot)
        world.resume.offer()
    return counts


@TRANSPORTS
def test_32_interleaved_sessions_share_storage_nics_and_landing_slots_and_nothing_crosses(
    transport: str,
) -> None:
    world = World(transport, slots=7, compiled=True)
    sessions = [session_name(number) for number in range(32)]
    for number, session in enumerate(sessions):
        world.leave(session, 17 + number % 16)
    for _ in range(5):
        world.resume.offer()
    counts = come_back_all(world, sessions)
    world.simulation.run_until_idle()
    assert counts["landed"] == 32
    assert counts["missed"] == world.counted("compute0", "kv.no_landing_slot") > 0
    assert world.counted("compute0", "kv.sessions_landed") == 32
    starts = [line for line in world.simulation.trace if "compute0 firmware start task=kv_follow_up" in line]
    ends = [
        line for line in world.simulation.trace if "compute0 host packet" in line and "restored=1" in line
    ]
    overlapping = sorted([(int(line.split()[0]), 1) for line in starts[:5]] + [(int(ends[0].split()[0]), 0)])
    assert [kind for _, kind in overlapping] == [1, 1, 1, 1, 1, 0], "the fetches did not overlap"
    assert world.counted_on_storage("completion.errors") == 0
    held = [world.counted(nic, "firmware.tasks") for nic in ("compute0", *STORAGE)]
    assert held[0] == 0
    assert world.compute.unit.slots_in_use == 0


def test_without_a_free_landing_slot_requests_reach_the_host_as_misses() -> None:
    world = World()
    sessions = [session_name(number) for number in range(3)]
    for session in sessions:
        world.leave(session)
    offered = world.resume.offer()
    for session in sessions:
        world.come_back(session)
    results = []
    for _ in sessions:
        received = world.receive()
        assert received is not None
        results.append((received[1], received[0].info[0]))
    assert sorted(results) == sorted([(sessions[0], 1), (sessions[1], 0), (sessions[2], 0)])
    assert world.bytes_of(offered) == world.kv[sessions[0]].data
    assert world.counted("compute0", "kv.no_landing_slot") == 2


# Faults on the fabric


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize("rate", [0.01, 0.05])
def test_loss_duplication_reordering_and_corruption_end_with_every_byte_right(rate: float, seed: int) -> None:
    world = World("port", seed=seed, faults=FaultRates(rate, rate, rate, rate), compiled=True)
    sessions = [session_name(number) for number in range(4)]
    for session in sessions:
        world.leave(session)
    for _ in range(2):
        world.resume.offer()
    counts = come_back_all(world, sessions, again_ns=5_000_000)
    assert counts["landed"] == 4
    injected: Counter[str] = Counter()
    for sender, _ in world.simulation._ports.values():
        injected.update(sender.injected)  # type: ignore[attr-defined]
    assert set(injected) == {"loss", "duplication", "reordering", "corruption"} or rate < 0.05
    assert sum(injected.values()) > 0


@pytest.mark.parametrize("fault", ["loss", "duplication", "reordering", "corruption"])
def test_each_fault_alone_ends_with_every_byte_right(fault: str) -> None:
    world = World("port", seed=4, faults=FaultRates(**{fault: 0.1}))
    world.leave(session_name(1))
    world.resume.offer()
    assert come_back_all(world, [session_name(1)])["landed"] == 1


# Chunks that are not there, or not as they were


def flip_a_byte(world: World, session: bytes, position: int = 0) -> str:
    """Change one byte of a chunk on the medium; return the NIC that stores it."""
    chunk = chunks_of(LAYOUT, world.kv[session].tokens, model="made up", salt=b"tests")[position]
    segment = world.kv[session].data[chunk.k_offset : chunk.k_offset + chunk.segment_bytes]
    for name in STORAGE:
        blocks = world.simulation.disks[name]._blocks.view
        place = bytes(blocks).find(segment)
        if place >= 0:
            blocks[place + 7] ^= 0x40
            return name
    raise AssertionError("the chunk is on no medium")


@TRANSPORTS
@pytest.mark.parametrize("position", range(4))
def test_a_corrupt_chunk_is_a_miss_and_harms_nothing_else(transport: str, position: int) -> None:
    world = World(transport)
    broken, whole, later = session_name(1), session_name(2), session_name(3)
    world.leave(broken)
    world.leave(whole)
    keeper = flip_a_byte(world, broken, position)
    offered = world.resume.offer()
    key = world.compute.card.landing[0].key
    assert world.fetch(broken) is None
    assert world.counted("compute0", "kv.chunk_missing") == 1
    assert world.counted(keeper, "serve.corrupt_chunk") >= 1
    assert [slot.index for slot in world.compute.card.landing] == [offered]
    assert world.compute.card.landing[0].key != key
    assert world.fetch(whole) == offered
    assert world.bytes_of(offered) == world.kv[whole].data
    world.leave(later)
    world.resume.offer()
    slot = world.fetch(later)
    assert slot is not None
    assert world.bytes_of(slot) == world.kv[later].data
    assert world.counted_on_storage("completion.errors") == 0, "a queue pair has failed"


@TRANSPORTS
def test_a_slot_that_got_a_new_key_stores_and_lands_as_before(transport: str) -> None:
    world = World(transport, slots=1)
    broken, whole = session_name(1), session_name(2)
    world.leave(broken)
    world.leave(whole)
    flip_a_byte(world, broken)
    world.resume.offer()
    assert world.fetch(broken) is None
    slot = world.fetch(whole)
    assert slot is not None
    world.resume.drop(slot)
    world.leave(session_name(3))
    world.resume.offer()
    assert world.fetch(broken) is None
    assert world.resume.withdraw(slot)
    world.leave(session_name(4))
    world.resume.offer()
    assert world.fetch(session_name(4)) == slot
    assert world.bytes_of(slot) == world.kv[session_name(4)].data


@TRANSPORTS
def test_a_chunk_that_was_never_stored_is_a_miss(transport: str) -> None:
    world = World(transport)
    session = session_name(1)
    world.leave(session)
    tokens = (1, 2, 3)
    world.publish(session, tokens)
    offered = world.resume.offer()
    assert world.fetch(session) is None
    assert world.counted("compute0", "kv.chunk_missing") == 1
    assert world.counted_on_storage("serve.unknown_chunk") >= 1
    world.publish(session, world.kv[session].tokens)
    assert world.fetch(session) == offered
    assert world.bytes_of(offered) == world.kv[session].data


def test_a_miss_waits_for_slow_writes_under_the_old_key() -> None:
    """The first answer is that a chunk is missing, while other chunks are still being read."""
    world = World("port")
    session, whole = session_name(1), session_name(2)
    world.leave(session)
    world.leave(whole)
    chunks = chunks_of(LAYOUT, world.kv[session].tokens, model="made up", salt=b"tests")
    placed = [(chunk, world.store.storage_number(chunk)) for chunk in chunks]
    manifest = Manifest.of(LAYOUT, session, 32, placed)
    unknown = dataclasses.replace(manifest.chunks[0], key=ChunkKey(chunks[0].key ^ 1))
    world.resume.publish(dataclasses.replace(manifest, chunks=(unknown, *manifest.chunks[1:])))
    offered = world.resume.offer()
    assert world.fetch(session) is None
    assert world.fetch(whole) == offered
    assert world.bytes_of(offered) == world.kv[whole].data
    assert world.counted_on_storage("completion.errors") == 0
    assert world.counted("compute0", "responder.remote_access_error") == 0


@TRANSPORTS
def test_a_silent_storage_nic_costs_a_miss_and_its_late_answers_harm_nothing(transport: str) -> None:
    world = World(transport)
    session, whole = session_name(1), session_name(2)
    world.leave(session)
    world.leave(whole)
    offered = world.resume.offer()
    held = []
    for name in STORAGE:  # no command completes until the test says so
        disk = world.simulation.disks[name]
        take = disk.take_completions
        held.append((disk, take))
        disk.take_completions = list  # type: ignore[method-assign]
    assert world.fetch(session) is None
    assert world.counted("compute0", "kv.storage_silent") == 1
    assert not world.compute.card.landing
    for name, (disk, take) in zip(STORAGE, held, strict=True):
        disk.take_completions = take  # type: ignore[method-assign]
        for tag, status in take():
            world.simulation.nics[name].on_dma_complete(tag, world.simulation.clock.now_ns(), status)
    world.simulation.run_until(lambda: bool(world.compute.card.landing), 1_000_000_000)
    assert world.fetch(whole) == offered
    assert world.bytes_of(offered) == world.kv[whole].data
    assert world.counted_on_storage("completion.errors") == 0


def test_storage_nics_that_are_late_are_not_silent_while_answers_come() -> None:
    """Every chunk is read 900 ms after the one before it: the last comes later than silence is borne."""
    world = World("port")
    session = session_name(1)
    world.leave(session)
    offered = world.resume.offer()
    begin_ns = world.simulation.clock.now_ns()
    reads = count(1)

    def later(tell: Callable[[int, int, NvmeStatus], None], take: Callable[[], Done]) -> Done:
        for tag, status in take():
            at_ns = begin_ns + 900_000_000 * next(reads)
            world.simulation.schedule(at_ns, partial(tell, tag, at_ns, status))
        return []

    for name in STORAGE:
        disk, nic = world.simulation.disks[name], world.simulation.nics[name]

        disk.take_completions = partial(later, nic.on_dma_complete, disk.take_completions)  # type: ignore[method-assign]
    assert world.fetch(session) == offered
    assert world.simulation.clock.now_ns() - begin_ns >= 3_600_000_000
    assert world.bytes_of(offered) == world.kv[session].data
    assert world.counted("compute0", "kv.storage_silent") == 0
    asked = world.counted("compute0", "kv.asked_again")
    assert 0 < asked <= 4 * 6, "after 20, 40, 80, 160 and 320 ms, and once more before an answer is seen"


def test_a_manifest_that_was_overwritten_is_a_counted_miss() -> None:
    world = World()
    session = session_name(1)
    world.leave(session)
    world.resume.offer()
    rows = world.resume._manifests.array
    rows[:, 40 + random.Random(1).randrange(10)] ^= 0xFF
    assert world.fetch(session) is None
    assert world.counted("compute0", "firmware.ProtocolError") == 1
    assert len(world.compute.card.landing) == 1
