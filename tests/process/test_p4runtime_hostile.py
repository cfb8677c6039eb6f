# SPDX-License-Identifier: Apache-2.0
"""Clients that flood, die in the middle, or send nonsense: the server goes on, and no entry is half there."""

from __future__ import annotations

import contextlib
import importlib.util
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from nicemu.control import P4RuntimeClient, P4RuntimeServer, Update
from nicemu.control.messages import MAX_MESSAGE_BYTES, SERVICE, messages, serialize
from nicemu.control.p4runtime_server import MAX_CALLS, MAX_READS, MAX_STREAMS
from nicemu.control.stream import uint128
from nicemu.errors import ControlError
from nicemu.pipeline import Engine, Lpm

pytestmark = pytest.mark.process

TIMEOUT_S = 20.0
WRITER = """
import sys
from nicemu.control import P4RuntimeClient, Update
with P4RuntimeClient(sys.argv[1]) as client:
    print("begun", flush=True)
    while True:
        for kind in ("insert", "delete"):
            keys = [{"dst": number << 8} for number in range(90)]
            given = ("send", {"port": 7}) if kind == "insert" else ()
            client.try_write([Update(kind, "route", key, *given) for key in keys])
"""


@pytest.fixture(scope="module")
def programs() -> SimpleNamespace:
    """The routing program that the unit tests of the room make by hand."""
    path = Path(__file__).parents[1] / "unit" / "control" / "conftest.py"
    spec = importlib.util.spec_from_file_location("routing_program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return SimpleNamespace(routing=module.routing_program())


@pytest.fixture
def engine(programs: SimpleNamespace) -> Engine:
    engine = Engine()
    engine.load(programs.routing)
    return engine


@pytest.fixture
def address(engine: Engine, tmp_path: Path) -> Iterator[str]:
    with P4RuntimeServer({1: engine}, f"unix:{tmp_path}/nic.sock"):
        yield f"unix:{tmp_path}/nic.sock"


def works(address: str) -> bool:
    """Return whether a client can write and read as ever."""
    with P4RuntimeClient(address) as client:
        client.insert("route", {"dst": "10.0.0.0/8"}, "send", {"port": 3})
        found = [item.entry.matches for item in client.read("route")]
        client.delete("route", {"dst": "10.0.0.0/8"})
    return (Lpm(0x0A000000, 8),) in found


def test_a_client_that_is_killed_in_mid_write_leaves_whole_entries(engine: Engine, address: str) -> None:
    for _ in range(3):
        command = [sys.executable, "-c", WRITER, address]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "begun\n"
            with contextlib.suppress(subprocess.TimeoutExpired):
                writer.wait(0.1)
            writer.kill()
        entries = engine.read("route")
        assert {(entry.action, entry.parameters) for entry in entries} <= {("R.send", (7,))}
        assert works(address)
        with P4RuntimeClient(address) as client:
            client.try_write([Update("delete", "route", {"dst": number << 8}) for number in range(90)])


def test_bytes_that_are_no_http_and_connections_cut_short_disturb_nobody(address: str) -> None:
    path = address.removeprefix("unix:")
    preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
    for data in (b"", b"GET / HTTP/1.1\r\n\r\n", preface, preface + bytes(64), bytes(range(256)) * 64):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as raw:
            raw.connect(path)
            with contextlib.suppress(OSError):
                raw.sendall(data)
    assert works(address)


def test_thousands_of_streams_are_refused_but_for_a_few(address: str) -> None:
    open_streams = []
    with contextlib.ExitStack() as stack:
        for _ in range(40):
            options = [("grpc.use_local_subchannel_pool", 1)]
            channel = stack.enter_context(grpc.insecure_channel(address, options=options))
            for _ in range(50):
                call = channel.stream_stream(f"/{SERVICE}/StreamChannel")(_waiting(), timeout=TIMEOUT_S)
                open_streams.append(call)
        served = [thread for thread in threading.enumerate() if thread.name.startswith("p4runtime")]
        assert len(served) <= 2 * MAX_STREAMS + MAX_READS + MAX_CALLS + 2
        for call in open_streams:
            call.cancel()
    assert eventually_works(address)


def _waiting() -> Iterator[bytes]:
    """Say nothing."""
    yield from ()


def eventually_works(address: str) -> bool:
    """Return whether the server takes a client again, once it has noticed that others have left."""
    return eventually(lambda: works(address))


def eventually(works: Callable[[], bool]) -> bool:
    """Return whether something works when it is no longer refused."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        with contextlib.suppress(ControlError):
            return works()
        time.sleep(0.05)
    return False


def test_reads_that_nobody_takes_keep_no_writer_out_and_are_cut_off(engine: Engine, tmp_path: Path) -> None:
    """As many as there may be, each of more than lies ready for a client that does not look."""
    read = messages().ReadRequest(device_id=1)
    for _ in range(40):
        read.entities.add().table_entry.SetInParent()
    address = f"unix:{tmp_path}/slow.sock"
    with P4RuntimeServer({1: engine}, address, read_patience_s=8.0), contextlib.ExitStack() as stack:
        client = stack.enter_context(P4RuntimeClient(address))
        updates = [
            Update("insert", "route", {"dst": f"10.{number}.0.0/16"}, "send", {"port": 3})
            for number in range(90)
        ]
        client.write(updates)
        window = [("grpc.http2.bdp_probe", 0)]  # 64 KiB, and no more as it goes on
        channel = stack.enter_context(grpc.insecure_channel(address, options=window))
        untaken = [
            channel.unary_stream(f"/{SERVICE}/Read")(serialize(read), timeout=TIMEOUT_S)
            for _ in range(MAX_READS)
        ]
        for call in untaken:
            next(call)  # it is under way
        with pytest.raises(ControlError, match="16 Reads are under way, the most there may be"):
            client.read("route")
        client.delete("route", {"dst": "10.7.0.0/16"})
        assert eventually(lambda: len(client.read("route")) == 89)
        ends = []
        for call in untaken:  # some may go on, as this one makes room
            with contextlib.suppress(grpc.RpcError):
                for _ in call:
                    pass
            ends.append(call.code())
        assert grpc.StatusCode.CANCELLED in ends
        assert set(ends) <= {grpc.StatusCode.CANCELLED, grpc.StatusCode.OK}


def test_a_message_longer_than_allowed_is_refused_before_it_is_read(address: str) -> None:
    with grpc.insecure_channel(address, options=[("grpc.max_send_message_length", -1)]) as channel:
        write = channel.unary_unary(f"/{SERVICE}/Write")
        with pytest.raises(grpc.RpcError) as refused:
            write(bytes(MAX_MESSAGE_BYTES + 1), timeout=TIMEOUT_S)
    error: Any = refused.value
    assert error.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert works(address)


def test_more_updates_than_a_request_may_have_change_nothing(engine: Engine, address: str) -> None:
    request = messages().WriteRequest(device_id=1, election_id=uint128(1))
    for _ in range(262_145):
        request.updates.add(type=1)
    with P4RuntimeClient(address, election_id=1), grpc.insecure_channel(address) as channel:
        write = channel.unary_unary(f"/{SERVICE}/Write")
        with pytest.raises(grpc.RpcError) as refused:
            write(serialize(request), timeout=TIMEOUT_S)
    error: Any = refused.value
    assert (error.code(), engine.read("route")) == (grpc.StatusCode.RESOURCE_EXHAUSTED, [])


def test_many_writers_at_once_each_learn_their_own_outcome(engine: Engine, address: str) -> None:
    outcomes: list[list[str]] = []
    with P4RuntimeClient(address, election_id=5):
        request = messages().WriteRequest(device_id=1, election_id=uint128(5))
        route = engine.p4info
        assert route is not None
        table = next(item for item in route.tables if item.name == "R.route")
        update = request.updates.add(type=1)
        update.entity.table_entry.table_id = table.id
        update.entity.table_entry.action.action.action_id = next(
            item.id for item in route.actions if item.name == "R.drop"
        )
        data = serialize(request)

        def write() -> None:
            with grpc.insecure_channel(address) as channel:
                call = channel.unary_unary(f"/{SERVICE}/Write")
                try:
                    call(data, timeout=TIMEOUT_S)
                except grpc.RpcError as refused:
                    error: Any = refused
                    outcomes.append([error.code().name, error.details()])
                else:
                    outcomes.append(["OK", ""])

        writers = [threading.Thread(target=write) for _ in range(MAX_CALLS)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
    codes = sorted(code for code, _ in outcomes)
    assert codes == ["OK", *["UNKNOWN"] * (MAX_CALLS - 1)]
    assert all("ALREADY_EXISTS" in sentence for code, sentence in outcomes if code == "UNKNOWN")
    assert len(engine.read("route")) == 1
