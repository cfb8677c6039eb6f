# SPDX-License-Identifier: Apache-2.0
"""Compute NIC: fetch a session's chunks into GPU memory when its user comes back, without the host.

Every chunk that was asked for is answered once: it lands, or it is missing. A landing slot goes back only
when no answer is outstanding, so that its key is not revoked while a storage NIC may still write under it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nicemu.firmware import Event, FirmwareTimeout, LandingSlot, Nic, NicCounter, on_event
from nicemu.kv import FetchChunk, Manifest, read_manifest

MAX_IN_FLIGHT = 8
FIRST_RETRY_NS = 20_000_000
LAST_RETRY_NS = 1_280_000_000
"""Twice as long each time: a storage NIC that is late must not get more questions than it can answer."""
DRAIN_NS = 100_000_000


@dataclass(eq=False)
class Fetch:
    """A fetch under way: its slot, what was asked (by position), and the counter of answers.

    A chunk that has landed is one success of `answered`, one that is missing one error.
    """

    slot: LandingSlot
    answered: NicCounter
    asked: dict[int, Callable[[], None]] = field(default_factory=dict)
    routes: dict[int, tuple[str, int]] = field(default_factory=dict)
    missing: set[int] = field(default_factory=set)

    def ask_again(self, nic: Nic) -> None:
        """Repeat every question; storage NICs answer each once."""
        nic.count("kv.asked_again")
        for ask in self.asked.values():
            ask()


fetches: dict[int, Fetch] = {}
last_serial = [0]


def next_serial(nic: Nic) -> int:
    """Return a number that no earlier fetch had, not even one before this script was loaded anew."""
    last_serial[0] = max(last_serial[0] + 1, nic.now_ns // 1000 & 0xFFFF_FFFF_FFFF)
    return last_serial[0]


async def answers(nic: Nic, fetch: Fetch, count: int) -> None:
    """Wait until `count` chunks are answered, asking again, ever later, while no answer comes.

    Raises: FirmwareTimeout if none came after the last of these waits, 2.54 s after the answer before.
    """
    wait_ns, answered = FIRST_RETRY_NS, fetch.answered.value
    while True:
        try:
            await fetch.answered.reaches(count, timeout_ns=wait_ns)
            return
        except FirmwareTimeout:
            if fetch.answered.value > answered:
                wait_ns, answered = FIRST_RETRY_NS, fetch.answered.value
            elif wait_ns < LAST_RETRY_NS:
                fetch.ask_again(nic)
                wait_ns *= 2
            else:
                raise


@on_event("kv_follow_up")
async def fetch_session(nic: Nic, request: Event) -> None:
    """Walk the session's manifest and ask the storage NICs for its chunks, a few at a time."""
    session = (request["session_high"] << 64 | request["session_low"]).to_bytes(16, "big")
    manifest = read_manifest(nic.read, request["manifest_address"], request["manifest_bytes"])
    slot = nic.take_landing_slot()
    if slot is None:
        nic.count("kv.no_landing_slot")
        nic.miss(request)
        return
    routes = nic.routes(slot.pd)
    fits = manifest.session == session and manifest.area_bytes <= slot.length_bytes
    if not fits or any(chunk.storage_nic not in routes for chunk in manifest.chunks):
        nic.count("kv.storage_not_connected" if fits else "kv.manifest_does_not_fit")
        nic.return_landing_slot(slot, rotate_key=False)
        nic.miss(request)
        return
    serial = next_serial(nic)
    fetch = fetches[serial] = Fetch(slot, nic.allocate_counter(slot.pd))
    try:
        await ask_for_all(nic, fetch, serial, manifest, routes)
    except FirmwareTimeout:
        nic.count("kv.storage_silent")
        nic.miss(request)
        nic.spawn("drain", drain(nic, serial, fetch), slot, fetch.answered)
        return
    except BaseException:
        del fetches[serial]
        raise
    del fetches[serial]
    nic.free_counter(fetch.answered)
    if fetch.missing:
        nic.count("kv.chunk_missing")
        nic.return_landing_slot(slot)
        nic.miss(request)
        return
    nic.count("kv.sessions_landed")
    landed_bytes = 2 * len(manifest.chunks) * manifest.segment_bytes
    nic.complete(request, slot, len(manifest.chunks), landed_bytes, slot.key)


async def ask_for_all(
    nic: Nic, fetch: Fetch, serial: int, manifest: Manifest, routes: dict[int, tuple[str, int]]
) -> None:
    """Ask for the chunks of the manifest, at most MAX_IN_FLIGHT ahead of the answers; stop when one is
    missing.

    Returns when everything that was asked is answered.
    """
    slot = fetch.slot
    for position, chunk in enumerate(manifest.chunks):
        await answers(nic, fetch, position - MAX_IN_FLIGHT + 1)
        if fetch.missing:
            break
        peer, requester = fetch.routes[chunk.storage_nic] = routes[chunk.storage_nic]
        message = FetchChunk(
            request_id=serial << 16 | position,
            session=manifest.session,
            chunk_key=chunk.key,
            landing_k=slot.address + chunk.k_offset,
            landing_v=slot.address + chunk.v_offset,
            rkey=slot.key,
            arrival_counter=fetch.answered.index,
            segment_bytes=manifest.segment_bytes,
            requester=requester,
        ).encode()

        def ask(peer: str = peer, message: bytes = message) -> None:
            nic.send(peer, message)

        fetch.asked[position] = ask
        ask()
    await answers(nic, fetch, len(fetch.asked))


async def drain(nic: Nic, serial: int, fetch: Fetch) -> None:
    """Hold the slot of a fetch that was given up until all answers are in, or the connections are gone."""
    while fetch.answered.value < len(fetch.asked):
        await nic.delay(DRAIN_NS)
        routes = nic.routes(fetch.slot.pd)
        if all(routes.get(number) != route for number, route in fetch.routes.items()):
            break
        fetch.ask_again(nic)
    del fetches[serial]
    nic.free_counter(fetch.answered)
    nic.return_landing_slot(fetch.slot)


@on_event("kv_chunk_missing")
async def chunk_missing(nic: Nic, event: Event) -> None:
    """A storage NIC does not have a chunk: the fetch has failed, and the user's request goes to the host."""
    fetch = fetches.get(event["request_id"] >> 16)
    position = event["request_id"] & 0xFFFF
    if fetch is None or position not in fetch.asked:
        nic.count("kv.unexpected_answer")
    elif position not in fetch.missing:
        fetch.missing.add(position)
        fetch.answered.add(errors=1)
