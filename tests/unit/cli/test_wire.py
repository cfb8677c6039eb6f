# SPDX-License-Identifier: Apache-2.0
"""`nicemu wire`: what is refused before a port is opened or the engine is loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from nicemu.cli.opened_port import opened_port
from nicemu.fabric import PacketPort, XdpPort

Cli = Callable[..., Result]
SERVE = ("wire", "serve", "a,b", "--ip")


@pytest.fixture(autouse=True)
def nothing_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load() -> None:
        raise AssertionError("it was not refused")

    monkeypatch.setattr("nicemu.rdma.load_engine", load)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("address", ["0.0.0.0", "224.0.0.1", "255.255.255.255", "10.7.0", "nicemu", ""])
def test_an_address_that_no_nic_can_have_is_wrong_usage(nicemu: Cli, address: str) -> None:
    result = nicemu(*SERVE, address)
    assert result.exit_code == 2
    assert "Invalid value for '--ip'" in result.stderr
    assert not list(Path().iterdir())


@pytest.mark.parametrize("seconds", ["nan", "inf", "-inf", "-1", "soon"])
@pytest.mark.parametrize(
    "words",
    [(*SERVE, "10.7.0.1", "--for"), ("wire", "capture", "lo", "--print", "--for"), ("trace", "x", "--for")],
)
def test_a_time_that_does_not_end_is_wrong_usage(nicemu: Cli, words: tuple[str, ...], seconds: str) -> None:
    result = nicemu(*words, seconds)
    assert result.exit_code == 2
    assert "Invalid value for '--for'" in result.stderr


def test_the_two_ends_of_a_cable_are_two(nicemu: Cli) -> None:
    result = nicemu("wire", "serve", "a,a", "--ip", "10.7.0.1")
    assert (result.exit_code, result.stderr) == (
        1,
        "Error: a is both ends; frames are received at one path and sent to another\n",
    )
    result = nicemu("wire", "capture", "packet:x", "packet:x", "--print")
    assert result.exit_code == 1
    assert "packet:x is both ends of the cable; name the port at the other end, too" in result.stderr


@pytest.mark.parametrize("text", ["", "a", "a,", ",a", "udp:x"])
def test_what_is_no_port_is_refused_with_those_there_are(nicemu: Cli, text: str) -> None:
    result = nicemu("wire", "serve", text, "--ip", "10.7.0.1")
    assert result.exit_code == 1
    assert "write tap:NAME, packet:INTERFACE, xdp:INTERFACE, or LOCAL,REMOTE (paths)" in result.stderr


@pytest.mark.parametrize(("kind", "port"), [("packet", PacketPort), ("xdp", XdpPort)])
def test_a_port_on_an_interface_is_of_the_kind_that_is_named(
    monkeypatch: pytest.MonkeyPatch, kind: str, port: type
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(f"nicemu.fabric.{port.__name__}", opened.append)
    opened_port(f"{kind}:eth1")
    assert opened == ["eth1"]
