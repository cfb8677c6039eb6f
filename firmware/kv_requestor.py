# SPDX-License-Identifier: Apache-2.0
"""Compute NIC: fetch a session's chunks into GPU memory when its user comes back, without the host."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from nicemu.firmware import Event, FirmwareTimeout, Nic, NicCounter, on_event
from nicemu.kv import FetchChunk, Manifest, read_manifest

MAX_IN_FLIGHT = 8
RETRY_NS = 20_000_000
ATTEMPTS = 50


@dataclass(eq=False)
class Fetch:
    """A fetch under way: what was asked (by request id), and the counter that arrivals bump."""

    landed: NicCounter
    asked: dict[int, Callable[[], None]] = field(default_factory=dict)
    missing: bool = False


fetches: dict[int, Fetch] = {}
last_serial = [0]


def next_serial(nic: Nic) -> int:
    """Return a number that no earlier fetch had, not even one before this script was loaded anew."""
    last_serial[0] = max(last_serial[0] + 1, nic.now_ns // 1000 & 0xFFFF_FFFF_FFFF)
    return last_serial[0]


async def arrived(nic: Nic, fetch: Fetch, count: int) -> None:
    """Wait until `count` chunks have landed; ask again when nothing comes (the storage NIC answers each
    once).
    """
    for _ in range(ATTEMPTS):
        try:
            await fetch.landed.reaches(count, timeout_ns=RETRY_NS)
            return
        except FirmwareTimeout:
            nic.count("kv.asked_again")
            for ask in fetch.asked.values():
                ask()
    raise FirmwareTimeout(f"{count} chunks did not land in {ATTEMPTS * RETRY_NS // 1_000_000} ms")


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
    fetch = fetches[serial] = Fetch(nic.allocate_counter(slot.pd))
    try:
        await ask_for_all(nic, fetch, serial, manifest, slot.address, slot.key, routes)
    finally:
        del fetches[serial]
    if fetch.missing:
        nic.count("kv.chunk_missing")
        nic.return_landing_slot(slot)
        nic.miss(request)
        return
    nic.free_counter(fetch.landed)
    nic.count("kv.sessions_landed")
    nic.complete(request, slot, len(manifest.chunks), 2 * len(manifest.chunks) * manifest.segment_bytes)


async def ask_for_all(
    nic: Nic,
    fetch: Fetch,
    serial: int,
    manifest: Manifest,
    landing: int,
    rkey: int,
    routes: dict[int, tuple[str, int]],
) -> None:
    """Ask for every chunk of the manifest, at most MAX_IN_FLIGHT ahead of what has landed."""
    for position, chunk in enumerate(manifest.chunks):
        await arrived(nic, fetch, position - MAX_IN_FLIGHT + 1)
        if fetch.missing:
            return
        peer, requester = routes[chunk.storage_nic]
        message = FetchChunk(
            request_id=serial << 16 | position,
            session=manifest.session,
            chunk_key=chunk.key,
            landing_k=landing + chunk.k_offset,
            landing_v=landing + chunk.v_offset,
            rkey=rkey,
            arrival_counter=fetch.landed.index,
            segment_bytes=manifest.segment_bytes,
            requester=requester,
        ).encode()

        def ask(peer: str = peer, message: bytes = message) -> None:
            nic.send(peer, message)

        fetch.asked[position] = ask
        ask()
    await arrived(nic, fetch, len(manifest.chunks))


@on_event("kv_chunk_missing")
async def chunk_missing(nic: Nic, event: Event) -> None:
    """A storage NIC does not have a chunk: the fetch has failed, and the user's request goes to the host."""
    fetch = fetches.get(event["request_id"] >> 16)
    if fetch is None or event["request_id"] & 0xFFFF not in fetch.asked:
        nic.count("kv.unexpected_answer")
        return
    if not fetch.missing:
        fetch.missing = True
        fetch.landed.add(errors=1 << 16)
