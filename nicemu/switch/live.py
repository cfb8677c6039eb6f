# SPDX-License-Identifier: Apache-2.0
"""Interfaces of this machine as the ports of a program: frames come in and leave until somebody ends it."""

from __future__ import annotations

import select
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from nicemu.fabric import MAX_FRAME_BYTES, PacketPort, Port, TapPort, XdpPort
from nicemu.wire import ETHERNET_HEADER_BYTES

from .forwarding import Forwarder, Summary

TURN_S = 0.5
"""Longest sleep, so that the caller is told how far things are."""
RETRY_S = 0.001
"""Sleep where a port has no descriptor to wait for."""


def open_port(text: str) -> Port:
    """Return a port on an interface: its name, xdp:NAME, or tap:NAME. Raises: UsageError."""
    kind, colon, name = text.rpartition(":")
    if colon and kind == "xdp":
        return XdpPort(name)
    if colon and kind == "tap":
        return TapPort(name)
    return PacketPort(name if kind == "packet" else text)


def switch_live(
    forwarder: Forwarder,
    ports: Mapping[int, Port],
    interrupted: int,
    seconds: float | None,
    lock: threading.Lock,
    tell: Callable[[Summary], None] = lambda summary: None,
) -> Summary:
    """Forward between ports until the descriptor `interrupted` is readable, or for so many seconds.

    The engine is used under `lock`. What leaves to a port without an interface, or to one whose queue is
    full, is counted as dropped (switch.no_such_port, switch.port_full), and so is what is no frame
    (switch.no_frame); frames for the host end here.
    """
    end = None if seconds is None else time.monotonic() + seconds
    files = [port.fileno() for port in ports.values()]
    waited = [interrupted, *(file for file in files if file is not None)]
    longest = RETRY_S if None in files else TURN_S
    came = True
    while True:
        left = longest if end is None else min(longest, end - time.monotonic())
        if left <= 0:
            break
        ready, _, _ = select.select(waited, [], [], 0 if came else left)
        if interrupted in ready:
            break
        came = any([_forward(forwarder, ports, number, lock) for number in ports])
        tell(forwarder.summary)
    return forwarder.summary


def _forward(forwarder: Forwarder, ports: Mapping[int, Port], number: int, lock: threading.Lock) -> bool:
    """Forward what has come in on a port; return whether something has."""
    frames = ports[number].receive()
    if not frames:
        return False
    leaving: dict[int, list[bytes]] = defaultdict(list)
    dropped = forwarder.summary.dropped
    with lock:
        now_ns = time.time_ns()
        for frame in frames:
            for to, data in forwarder.departures(frame, number, now_ns):
                if not isinstance(to, int):
                    continue
                if to not in ports:
                    dropped["switch.no_such_port"] += 1
                elif not ETHERNET_HEADER_BYTES <= len(data) <= MAX_FRAME_BYTES:
                    dropped["switch.no_frame"] += 1
                else:
                    leaving[to].append(data)
    for to, queued in leaving.items():
        sent = ports[to].send(queued)
        if sent < len(queued):
            dropped["switch.port_full"] += len(queued) - sent
    return True
