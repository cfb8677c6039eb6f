# SPDX-License-Identifier: Apache-2.0
"""A NIC of one address on a port, driven by whoever calls `move`.

It is what an application needs to talk to other NICs, a kernel's SoftRoCE among them, without a topology.
"""

from __future__ import annotations

import random
import select
import time
from collections import Counter, deque

from nicemu.arguments import check_flag, check_number, check_type
from nicemu.cm import CmAddress, CmEvent, RdmaCm
from nicemu.errors import ResourceError
from nicemu.fabric.ports import (
    ETHERTYPE_ARP,
    AnsweringPort,
    Arp,
    Port,
    asking_frame,
    check_port,
    mac_of_host,
)
from nicemu.rdma import Arrival, Completion, RoceEngine
from nicemu.wire import (
    ETHERNET_HEADER_BYTES,
    MalformedError,
    check_mac,
    format_ipv4,
    is_for_gsi,
    parse_host_ipv4,
    parse_ipv4,
)

from .memory import RegisteredMemory

ASK_AGAIN_S = 0.5
_ARP = ETHERTYPE_ARP.to_bytes(2, "big")
_MAX_UNSENT = 4096
_NEIGHBOURS_KEPT = 1024


class RoceEndpoint:
    """A RoCEv2 engine at address `ip` behind a port, with memory of its own and rdma_cm.

    It answers ARP and ping, and has the MAC address that is made of its IP address if no other is given. The
    port is closed with it. `compiled=False` runs the engine without the JIT. Queue pairs 0 and 1 are those of
    management: its own have other numbers.
    Raises: UsageError if `port` is none, or for an address that no host can have.
    """

    def __init__(
        self, port: Port, ip: str, *, mac: bytes | None = None, seed: int | None = None, compiled: bool = True
    ) -> None:
        check_port(port)
        address = parse_host_ipv4(ip)
        if seed is not None:
            check_type("seed", seed, int, "a whole number, or None")
        check_flag("compiled", compiled)
        if mac is not None:
            check_mac(mac, is_own=True)
        self.ip = ip
        self.mac = mac_of_host(address) if mac is None else mac
        self.drops: Counter[str] = Counter()
        rng = random.Random(seed)
        self.memory = RegisteredMemory(rng)
        self.engine = RoceEngine(self.memory.state, self.mac, ip, rng, self.drops, compiled=compiled)
        self.cm = RdmaCm(self.engine, self.mac, ip, rng)
        self._port = AnsweringPort(port, self.mac, ip)
        self._unsent: deque[bytes] = deque()
        self._neighbours: dict[str, bytes] = {}
        self._events: list[CmEvent] = []
        self._completions: list[Completion] = []
        self._arrivals: list[Arrival] = []

    @property
    def address(self) -> CmAddress:
        """Where this NIC is, for a peer that connects to it."""
        return CmAddress(self.mac, self.ip)

    def __enter__(self) -> RoceEndpoint:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give everything back; a peer is told nothing."""
        self._port.close()
        self.memory.close()

    def move(self, wait_s: float = 0.0) -> bool:
        """Move frames and time once, and return whether anything came or went.

        If nothing did, wait up to `wait_s` for a frame, but not past what the NIC wants to do by itself.
        Raises: UsageError if that is no time.
        """
        check_number("wait_s", wait_s, 0)
        now_ns = time.monotonic_ns()
        came = self._port.receive()
        if came:
            self._take_in_order(came, now_ns)
        for timed in (self.engine, self.cm):
            deadline_ns = timed.next_deadline_ns()
            if deadline_ns is not None and deadline_ns <= now_ns:
                timed.on_timer(now_ns)
        self._take_reports()
        made = [*self.cm.take_frames(), *self.engine.take_frames()]
        self._take_reports()
        self._send(made)
        if came or made:
            return True
        if wait_s > 0:
            self._wait(wait_s)
        return False

    def take_events(self) -> list[CmEvent]:
        """Return what happened to connections since the last call, oldest first."""
        taken, self._events = self._events, []
        return taken

    def take_completions(self) -> list[Completion]:
        """Return the completions since the last call, oldest first."""
        taken, self._completions = self._completions, []
        return taken

    def take_arrivals(self) -> list[Arrival]:
        """Return the arrivals since the last call, oldest first."""
        taken, self._arrivals = self._arrivals, []
        return taken

    def resolve(self, ip: str, limit_s: float = 5.0) -> CmAddress:
        """Ask for the MAC address of a neighbour by ARP, and wait for the answer.

        Raises: ResourceError if there is none in time.
        """
        question = asking_frame(self.mac, parse_ipv4(self.ip), parse_ipv4(ip))
        end = time.monotonic() + limit_s
        ask_at = 0.0
        while ip not in self._neighbours:
            if (now := time.monotonic()) >= ask_at:
                self._send([question])
                ask_at = now + ASK_AGAIN_S
            self.move(min(ASK_AGAIN_S, max(end - now, 0.0)))
            if now > end and ip not in self._neighbours:
                raise ResourceError(f"nobody at {self._port.address} has {ip}; is it up, and linked?")
        return CmAddress(self._neighbours[ip], ip)

    def _take_in_order(self, came: list[bytes], now_ns: int) -> None:
        """Take frames as they came: the ACK in front of a DREQ is for a queue pair that still lives."""
        frames: list[bytes] = []
        for frame in came:
            if not is_for_gsi(frame):
                if not self._is_arp(frame):
                    frames.append(frame)
                continue
            self.engine.on_frames(frames, now_ns)
            frames = []
            self.cm.take_in([frame], now_ns)
        self.engine.on_frames(frames, now_ns)

    def _take_reports(self) -> None:
        self._completions += self.engine.take_completions()
        arrivals = self.engine.take_arrivals()
        for arrival in arrivals:
            self.cm.communication_established(arrival.qp_num)
        self._arrivals += arrivals
        self._events += self.cm.take_events()

    def _is_arp(self, frame: bytes) -> bool:
        """Take an answer of a neighbour's; return whether the frame is ARP at all."""
        if frame[12:14] != _ARP:
            return False
        try:
            arp = Arp.decode(memoryview(frame)[ETHERNET_HEADER_BYTES:])
        except MalformedError as error:
            self.drops[error.reason] += 1
            return True
        if arp.target_ip == parse_ipv4(self.ip):
            if len(self._neighbours) >= _NEIGHBOURS_KEPT:
                self._neighbours.clear()
            self._neighbours[format_ipv4(arp.sender_ip)] = arp.sender_mac
        return True

    def _send(self, frames: list[bytes]) -> None:
        self._unsent.extend(frames)
        while self._unsent:
            burst = list(self._unsent)
            sent = self._port.send(burst)
            for _ in range(sent):
                self._unsent.popleft()
            if sent < len(burst):
                break
        while len(self._unsent) > _MAX_UNSENT:
            self._unsent.popleft()  # as a switch drops what its queue has no room for
            self.drops["endpoint.unsent"] += 1

    def _wait(self, wait_s: float) -> None:
        deadlines = [self.engine.next_deadline_ns(), self.cm.next_deadline_ns()]
        left_s = [(at - time.monotonic_ns()) / 1e9 for at in deadlines if at is not None]
        fd = self._port.fileno()
        pause_s = max(0.0, min([wait_s, *left_s]))
        if self._unsent:
            pause_s = min(pause_s, 0.001)
        if fd is None:
            time.sleep(min(pause_s, 0.001))
        else:
            select.select([fd], [], [], pause_s)
