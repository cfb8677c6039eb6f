# SPDX-License-Identifier: Apache-2.0
"""What a NIC answers on its control socket, and when; the NIC is a device in this process, and so is time."""

from __future__ import annotations

import json
import re
import selectors
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from nicemu.firmware import load_firmware
from nicemu.nic import NicConfig, SmartNic
from nicemu.run.control_socket import ControlSocket
from nicemu.run.links import PeerLinks

START = """
from nicemu.firmware import Nic, on_start, on_arrival, Arrival

@on_start
async def start(nic: Nic) -> None:
    {body}

@on_arrival
async def arrival(nic: Nic, arrival: Arrival) -> None:
    pass
"""
TIMEOUT_NS = 5_000_000_000


class FakePorts:
    """Ports that have counted nothing; what keeps frames is said by a test."""

    problem = ""

    def statistics(self) -> dict[str, int]:
        return {}


class Served:
    """A NIC that serves; time stands until a test moves it."""

    def __init__(self, folder: Path) -> None:
        self.now_ns = 0
        self.ports = FakePorts()
        self.folder = folder
        config = NicConfig("a", "127.0.0.1", memory_bytes=1 << 20, event_timeout_ns=TIMEOUT_NS)
        self.device = SmartNic(config)
        self.selector = selectors.DefaultSelector()
        places = {"a": "127.0.0.1"}
        self.links = PeerLinks(
            self.device,
            self._watch,
            self._unwatch,
            lambda: self.now_ns,
            None,
            lambda ip: None,
            places,
            folder,
            None,
        )
        self.control = ControlSocket(
            self.device,
            {"folder": str(folder), "fabric": "direct", "calls_over_tcp": False, "peers": {}},
            self.links,
            self._watch,
            self._unwatch,
            lambda: self.now_ns,
            load_firmware,
            self.ports,
            lambda: None,
        )
        self.control.listen()
        self.clients: list[socket.socket] = []

    def _watch(self, source: Any, action: Callable[[], None]) -> None:  # noqa: ANN401
        self.selector.register(source, selectors.EVENT_READ, action)

    def _unwatch(self, source: Any) -> None:  # noqa: ANN401
        self.selector.unregister(source)

    def client(self) -> socket.socket:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        link.settimeout(0.01)
        link.connect(str(self.folder / "a.sock"))
        self.clients.append(link)
        return link

    def turn(self, now_ns: int | None = None) -> None:
        self.now_ns = self.now_ns if now_ns is None else now_ns
        for _ in range(3):
            for key, _ in self.selector.select(0):
                key.data()
        self.device.on_timer(self.now_ns)
        self.control.on_timer(self.now_ns)

    def ask(self, link: socket.socket, **message: Any) -> dict[str, Any] | None:  # noqa: ANN401
        """Send a message; return what has come back at once, None if nothing has."""
        link.send(json.dumps(message).encode())
        self.turn()
        return self.heard(link)

    def heard(self, link: socket.socket) -> dict[str, Any] | None:
        try:
            answer: dict[str, Any] = json.loads(link.recv(1 << 18))
        except TimeoutError:
            return None
        return answer

    def flash(self, link: socket.socket, body: str, **more: Any) -> dict[str, Any] | None:  # noqa: ANN401
        path = self.folder / "script.py"
        path.write_text(START.format(body=body))
        return self.ask(link, op="flash", path=str(path), **more)

    def close(self) -> None:
        for link in self.clients:
            link.close()
        self.turn()
        self.control.close()
        self.selector.close()


@pytest.fixture
def nic(tmp_path: Path) -> Iterator[Served]:
    served = Served(tmp_path)
    yield served
    served.close()


def test_new_firmware_is_answered_for_when_its_start_has_ended(nic: Served) -> None:
    link = nic.client()
    assert nic.flash(link, "await nic.delay(1000)", request=7) is None
    assert nic.ask(nic.client(), op="describe") is not None, "the others wait, too"
    nic.turn(1000)
    assert nic.heard(link) == {"handlers": ["arrival", "start"], "request": 7}
    assert nic.control.next_deadline_ns() is None


@pytest.mark.parametrize("body", ["raise KeyError('x')", "await nic.delay(1000); raise KeyError('x')"])
def test_a_start_that_fails_is_told_as_soon_as_it_has_and_the_rest_serves(nic: Served, body: str) -> None:
    link = nic.client()
    told = nic.flash(link, body)
    nic.turn(1000)
    told = told or nic.heard(link)
    assert told is not None
    assert re.fullmatch(
        r"@on_start failed: firmware\.KeyError: 'x' \(.*\.py:\d+\); the rest of the script serves",
        told["error"],
    )
    assert nic.device.firmware.arrival is not None


def test_a_start_that_does_not_end_is_told_in_time_and_goes_on(nic: Served) -> None:
    link = nic.client()
    assert nic.flash(link, "await nic.delay(1_000_000_000_000)") is None
    assert nic.control.next_deadline_ns() == TIMEOUT_NS
    nic.turn(TIMEOUT_NS - 1)
    assert nic.heard(link) is None
    nic.turn(TIMEOUT_NS)
    told = nic.heard(link)
    assert told is not None
    assert told["error"].startswith("@on_start has not ended in 5 s")
    assert nic.device.scheduler.starting


def test_firmware_that_other_firmware_takes_the_place_of_is_answered_for(nic: Served) -> None:
    first, second = nic.client(), nic.client()
    assert nic.flash(first, "await nic.delay(1000)", request=1) is None
    assert nic.flash(second, "pass", request=2) == {"handlers": ["arrival", "start"], "request": 2}
    told = nic.heard(first)
    assert told is not None
    assert told["request"] == 1
    assert "other firmware was put on the NIC" in told["error"]


def test_whoever_hangs_up_before_the_start_has_ended_is_forgotten(nic: Served) -> None:
    link = nic.client()
    assert nic.flash(link, "await nic.delay(1000)") is None
    link.close()
    nic.turn()
    assert nic.control.next_deadline_ns() is None


def test_an_answer_to_a_request_without_a_number_has_none(nic: Served) -> None:
    assert "request" not in (nic.ask(nic.client(), op="describe") or {"request": 1})
    assert (nic.ask(nic.client(), op="describe", request=3) or {})["request"] == 3


def test_a_connection_is_opened_once(nic: Served) -> None:
    link = nic.client()
    assert "error" not in (nic.ask(link, op="open") or {"error": ""})
    assert "is open already" in (nic.ask(link, op="open") or {})["error"]
    assert len(nic.device.owners) == 1


def test_a_nic_is_described_with_what_keeps_its_frames(nic: Served) -> None:
    told = nic.ask(nic.client(), op="describe")
    assert told is not None
    assert told["problem"] is None
    nic.ports.problem = "interface eth1 is down"
    told = nic.ask(nic.client(), op="describe")
    assert told is not None
    assert told["problem"] == "interface eth1 is down"
