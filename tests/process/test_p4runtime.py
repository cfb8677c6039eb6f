# SPDX-License-Identifier: Apache-2.0
"""P4Runtime over real gRPC: server and clients in one process, joined by a socket file or by loopback."""

from __future__ import annotations

import contextlib
import importlib.util
import queue
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from nicemu.control import P4RuntimeClient, P4RuntimeServer, Update
from nicemu.control.messages import SERVICE, STATUS_DETAILS, messages, serialize
from nicemu.control.p4runtime_server import MAX_STREAMS
from nicemu.control.status_details import errors_of_status
from nicemu.control.stream import uint128
from nicemu.errors import ControlError, P4RuntimeCode, UsageError
from nicemu.pipeline import Engine, Lpm, Program, TableEntry, program_of_json

pytestmark = pytest.mark.process

TIMEOUT_S = 10.0
METHODS = ["Write", "Read", "SetForwardingPipelineConfig", "GetForwardingPipelineConfig", "Capabilities"]


@pytest.fixture(scope="module")
def program() -> Program:
    """The routing program that the unit tests of the room make by hand."""
    path = Path(__file__).parents[1] / "unit" / "control" / "conftest.py"
    spec = importlib.util.spec_from_file_location("routing_program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    made: Program = module.routing_program()
    return made


@pytest.fixture
def engine(program: Program) -> Engine:
    engine = Engine()
    engine.load(program)
    return engine


@pytest.fixture
def server(engine: Engine, tmp_path: Path) -> Iterator[str]:
    """A server of device 1 at a socket file; the address."""
    server = P4RuntimeServer({1: engine}, f"unix:{tmp_path}/nic.sock")
    yield server.start()
    server.stop()


@pytest.fixture
def channel(server: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(server) as channel:
        yield channel


class RawStream:
    """A StreamChannel without the client class."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.requests: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self.call: Any = channel.stream_stream(f"/{SERVICE}/StreamChannel")(
            iter(self.requests.get, None), timeout=TIMEOUT_S
        )

    def arbitrate(self, low: int, device_id: int = 1) -> None:
        request = messages().StreamMessageRequest(
            arbitration={"device_id": device_id, "election_id": {"low": low}}
        )
        self.requests.put(serialize(request))

    def status(self) -> int:
        """Return the status code of the next arbitration message."""
        return int(messages().StreamMessageResponse.FromString(next(self.call)).arbitration.status.code)

    def refusal(self) -> tuple[str, str]:
        with pytest.raises(grpc.RpcError):
            next(self.call)
        return self.call.code().name, self.call.details()


def call(channel: grpc.Channel, method: str, data: bytes) -> tuple[str, str]:
    """Return code and sentence of a call of one response, or of a stream of them."""
    if method == "Read":
        stream = channel.unary_stream(f"/{SERVICE}/{method}")(data, timeout=TIMEOUT_S)
        with contextlib.suppress(grpc.RpcError):
            list(stream)
        return stream.code().name, stream.details()
    _, unary = _with_call(channel, method, data)
    return unary.code().name, unary.details()


def _with_call(channel: grpc.Channel, method: str, data: bytes) -> tuple[bytes | None, Any]:
    try:
        response, unary = channel.unary_unary(f"/{SERVICE}/{method}").with_call(data, timeout=TIMEOUT_S)
    except grpc.RpcError as error:
        return None, error
    return response, unary


def eventually(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + TIMEOUT_S
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def test_importing_the_room_imports_neither_grpc_nor_protobuf() -> None:
    names = "('grpc', 'google.protobuf', 'numba')"
    code = f"import sys, nicemu.control; print([name for name in {names} if name in sys.modules])"
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, timeout=60)
    assert done.stdout.strip() == "[]", done.stderr


def test_a_program_is_loaded_and_its_tables_filled_by_name(engine: Engine, server: str) -> None:
    program = engine.program
    assert program is not None
    with P4RuntimeClient(server) as client:
        client.load(program.to_json(), cookie=7)
        assert client.cookie() == 7
        assert program_of_json(client.program_json()) == program
        assert {table.name for table in client.tables()} == {table.name for table in program.tables}
        client.insert("route", {"dst": "10.0.0.0/8"}, "send", {"port": 3})
        client.insert("session", {"mac": "00:11:22:33:44:55", "proto": "0x6"}, "send", {"port": "4"})
        client.insert("acl", {"src": "10.0.0.0/8", "port": "1..9"}, "drop", priority=5)
        assert engine.read("route") == [TableEntry((Lpm(0x0A000000, 8),), "R.send", (3,))]
        client.modify("route", {"dst": "10.0.0.0/8"}, "send", {"port": 4})
        (found,) = client.read("route", hits=True)
        assert (found.entry.parameters, found.hits, found.default) == ((4,), 0, False)
        assert len(client.read()) == 4
        client.set_default("route", "send", {"port": 1})
        assert client.read_default("route").entry.parameters == (1,)
        client.set_default("route")
        assert client.read_default("route").entry.action == "R.drop"
        client.delete("route", {"dst": "10.0.0.0/8"})
        assert engine.read("route") == []
        assert client.api_version() == "1.4.0"


def test_refusals_arrive_as_control_errors(server: str) -> None:
    with P4RuntimeClient(server) as client:
        client.insert("route", {"dst": "10.0.0.0/8"}, "send", {"port": 3})
        cases: list[tuple[Callable[[], None], str]] = [
            (lambda: client.insert("route", {"dst": "10.0.0.0/8"}, "drop"), "ALREADY_EXISTS"),
            (lambda: client.delete("route", {"dst": "10.0.0.0/9"}), "NOT_FOUND"),
            (lambda: client.modify("route", {"dst": "10.0.0.0/9"}, "drop"), "NOT_FOUND"),
            (lambda: client.insert("routes", {}, "drop"), "NOT_FOUND"),
            (lambda: client.insert("route", {"destination": 1}, "drop"), "NOT_FOUND"),
            (lambda: client.insert("route", {"dst": 1}, "fly"), "NOT_FOUND"),
            (lambda: client.insert("route", {"dst": 1}, "send", {"ports": 1}), "NOT_FOUND"),
            (lambda: client.insert("route", {"dst": 1}, "send"), "INVALID_ARGUMENT"),
            (lambda: client.insert("route", {"dst": 1 << 32}, "drop"), "OUT_OF_RANGE"),
            (lambda: client.insert("acl", {}, "drop"), "INVALID_ARGUMENT"),
            (lambda: client.delete("fixed", {"proto": 6}), "PERMISSION_DENIED"),
            (lambda: client.load("{}"), "INVALID_ARGUMENT"),
            (lambda: client.commit_saved(), "NOT_FOUND"),
        ]
        for attempt, code in cases:
            with pytest.raises(ControlError) as refused:
                attempt()
            assert refused.value.code.name == code, str(refused.value)


def test_a_long_batch_tells_the_fate_of_every_update(engine: Engine, server: str) -> None:
    updates = [
        Update("insert", "route", {"dst": number % 60}, "send", {"port": 1}) for number in range(2_500)
    ]
    with P4RuntimeClient(server) as client:
        outcomes = client.try_write(updates)
        codes = [error.code if error else None for error in outcomes]
        assert codes == [None] * 60 + [P4RuntimeCode.ALREADY_EXISTS] * 2_440
        with pytest.raises(
            ControlError, match=r"2 of 2 updates failed; update 0: table R\.route has an entry"
        ):
            client.write(updates[:2])
    assert len(engine.read("route")) == 60


@pytest.mark.parametrize("count", [2, 40, 110, 3_000])
def test_a_client_of_default_limits_learns_the_outcome_of_any_batch(
    channel: grpc.Channel, engine: Engine, count: int
) -> None:
    stream = RawStream(channel)
    stream.arbitrate(9)
    assert stream.status() == 0
    request = messages().WriteRequest(device_id=1, election_id=uint128(9))
    for _ in range(count):
        request.updates.add(type=1).entity.table_entry.table_id = 77
    _, refused = _with_call(channel, "Write", serialize(request))
    assert refused.code() is grpc.StatusCode.UNKNOWN
    assert refused.details().startswith(
        f"{count} of {count} updates failed; update 0: NOT_FOUND: there is no table"
    )
    details = [value for key, value in refused.trailing_metadata() if key == STATUS_DETAILS]
    codes = [error.code if error else None for error in errors_of_status(details[0])] if details else []
    assert codes == ([P4RuntimeCode.NOT_FOUND] * count if count <= 110 else [])


def test_who_only_reads_leaves_the_primary_alone(server: str) -> None:
    with P4RuntimeClient(server) as primary, P4RuntimeClient(server, at_once=False) as reader:
        primary.insert("route", {"dst": 1}, "drop")
        assert len(reader.read("route")) == 1
        primary.insert("route", {"dst": 2}, "drop")
        reader.insert("route", {"dst": 3}, "drop")
        with pytest.raises(ControlError, match="is not the primary"):
            primary.insert("route", {"dst": 4}, "drop")
        assert len(primary.read("route")) == 3


def test_the_newest_client_becomes_primary_and_the_old_one_may_not_write(server: str) -> None:
    with P4RuntimeClient(server) as old, P4RuntimeClient(server) as new:
        new.insert("route", {"dst": 1}, "drop")
        with pytest.raises(ControlError, match="is not the primary") as refused:
            old.insert("route", {"dst": 2}, "drop")
        assert refused.value.code is P4RuntimeCode.PERMISSION_DENIED
        assert len(old.read("route")) == 1


def test_a_client_with_a_low_election_id_is_told_at_once(server: str) -> None:
    sentence = f"{1 << 100} is the highest that the server has seen"
    with P4RuntimeClient(server, election_id=1 << 100), pytest.raises(ControlError, match=sentence):
        P4RuntimeClient(server, election_id=1).__enter__()


def test_backups_are_told_when_the_primary_comes_and_goes(channel: grpc.Channel) -> None:
    backup, primary = RawStream(channel), RawStream(channel)
    backup.arbitrate(5)
    assert backup.status() == 0
    primary.arbitrate(6)
    assert primary.status() == 0
    assert backup.status() == 6
    primary.requests.put(None)
    assert backup.status() == 5
    backup.arbitrate(6)
    assert backup.status() == 0


def test_a_cancelled_stream_frees_its_election_id(channel: grpc.Channel) -> None:
    first = RawStream(channel)
    first.arbitrate(5)
    assert first.status() == 0
    first.call.cancel()

    def taken_again() -> bool:
        second = RawStream(channel)
        second.arbitrate(5)
        try:
            return second.status() == 0
        except grpc.RpcError:
            return False

    assert eventually(taken_again)


@pytest.mark.parametrize(
    ("device_id", "low", "code"),
    [(2, 1, "NOT_FOUND"), (1, 5, "INVALID_ARGUMENT")],
    ids=["device", "election id"],
)
def test_a_refused_arbitration_ends_the_stream(
    channel: grpc.Channel, device_id: int, low: int, code: str
) -> None:
    holder, stream = RawStream(channel), RawStream(channel)
    holder.arbitrate(5)
    assert holder.status() == 0
    stream.arbitrate(low, device_id)
    assert stream.refusal()[0] == code


def test_streams_are_bounded_and_come_back(channel: grpc.Channel) -> None:
    streams = [RawStream(channel) for _ in range(MAX_STREAMS)]
    for number, stream in enumerate(streams, start=1):
        stream.arbitrate(number)
        stream.status()
    one_more = RawStream(channel)
    assert one_more.refusal() == ("RESOURCE_EXHAUSTED", "16 streams are open, the most there may be")
    assert call(channel, "Capabilities", b"")[0] == "OK"
    streams[0].requests.put(None)
    list(streams[0].call)
    assert eventually(lambda: _takes_part(channel))


def _takes_part(channel: grpc.Channel) -> bool:
    stream = RawStream(channel)
    stream.arbitrate(99)
    try:
        return stream.status() == 0
    except grpc.RpcError:
        return False


@pytest.mark.parametrize(
    "data", [b"\xff\xff\xff\xff", b"\x0a", bytes(range(255, 190, -1))], ids=["ones", "cut", "descending"]
)
@pytest.mark.parametrize("method", METHODS)
def test_garbage_is_an_invalid_argument_and_the_server_goes_on(
    channel: grpc.Channel, method: str, data: bytes
) -> None:
    code, sentence = call(channel, method, data)
    assert code in ("INVALID_ARGUMENT", "NOT_FOUND"), sentence
    stream = RawStream(channel)
    stream.requests.put(b"\xff\xff\xff\xff")
    assert stream.refusal()[0] == "INVALID_ARGUMENT"
    assert call(channel, "Capabilities", b"")[0] == "OK"


def test_unknown_devices_and_methods_are_named(channel: grpc.Channel) -> None:
    request = serialize(messages().ReadRequest(device_id=5))
    for method in METHODS[:-1]:
        assert call(channel, method, request) == ("NOT_FOUND", "there is no device 5; this server has 1")
    assert call(channel, "Fly", b"")[0] == "UNIMPLEMENTED"


def test_a_failed_load_leaves_the_old_program_and_its_entries(engine: Engine, server: str) -> None:
    before = engine.program
    assert before is not None
    with P4RuntimeClient(server) as client:
        client.insert("route", {"dst": "10.0.0.0/8"}, "drop")
        request = messages().SetForwardingPipelineConfigRequest(device_id=1, action=3)
        spoilt = before.to_json().replace('"lpm"', '"longest"')
        with pytest.raises(ControlError, match="one of 'exact'"):
            client.load(spoilt)
        assert engine.program is before
        assert len(client.read("route")) == 1
        with grpc.insecure_channel(server) as raw:
            request.config.p4_device_config = spoilt.encode()
            assert call(raw, "SetForwardingPipelineConfig", serialize(request))[0] == "PERMISSION_DENIED"
        assert engine.program is before


def test_the_server_itself_refuses_a_program_at_fault(engine: Engine, channel: grpc.Channel) -> None:
    before = engine.program
    stream = RawStream(channel)
    stream.arbitrate(9)
    assert stream.status() == 0
    request = messages().SetForwardingPipelineConfigRequest(device_id=1, action=3, election_id=uint128(9))
    request.config.p4_device_config = b'{"name": "x"}'
    code, sentence = call(channel, "SetForwardingPipelineConfig", serialize(request))
    assert code == "INVALID_ARGUMENT"
    assert "program IR: $.architecture is missing" in sentence
    assert engine.program is before


def test_a_socket_file_is_its_owner_s_alone_and_stop_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "nic.sock"
    before = set(threading.enumerate())
    server = P4RuntimeServer({1: engine}, f"unix:{path}")
    address = server.start()
    mode = path.stat().st_mode
    assert stat.S_ISSOCK(mode)
    assert stat.S_IMODE(mode) == 0o600
    client = P4RuntimeClient(address)
    client.__enter__()
    client.insert("route", {"dst": 1}, "drop")
    server.stop()
    server.stop()
    assert not path.exists()
    with pytest.raises(ControlError, match="cannot reach a P4Runtime server at unix:") as refused:
        client.read("route")
    assert refused.value.code is P4RuntimeCode.UNAVAILABLE
    client.close()
    assert eventually(lambda: set(threading.enumerate()) <= before)


def test_a_server_may_start_again_after_its_stop(engine: Engine, tmp_path: Path) -> None:
    server = P4RuntimeServer({1: engine}, f"unix:{tmp_path}/nic.sock")
    for _ in range(2):
        with server, P4RuntimeClient(f"unix:{tmp_path}/nic.sock") as client:
            assert client.api_version() == "1.4.0"


def test_port_zero_chooses_a_port_of_the_loopback_interface(engine: Engine) -> None:
    server = P4RuntimeServer({4: engine}, "127.0.0.1:0")
    address = server.start()
    try:
        assert address.startswith("127.0.0.1:")
        assert address != "127.0.0.1:0"
        with P4RuntimeClient(address, device_id=4) as client:
            assert client.read("route") == []
        with pytest.raises(UsageError, match="cannot listen at"):
            P4RuntimeServer({1: engine}, address).start()
    finally:
        server.stop()


def test_of_two_addresses_either_is_served_or_none(engine: Engine, tmp_path: Path) -> None:
    path = tmp_path / "one.sock"
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = f"127.0.0.1:{other.getsockname()[1]}"
        server = P4RuntimeServer({1: engine}, f"unix:{path}", also=address)
        with pytest.raises(UsageError, match="cannot listen at"):
            server.start()
        assert not path.exists()
    server.start()
    try:
        for place in (f"unix:{path}", address):
            with P4RuntimeClient(place) as client:
                assert client.read("route") == []
    finally:
        server.stop()
    assert not path.exists()


def test_a_second_server_does_not_take_a_socket_in_use(engine: Engine, server: str) -> None:
    with pytest.raises(UsageError, match="another process listens at"):
        P4RuntimeServer({1: engine}, server).start()
    with P4RuntimeClient(server) as client:
        assert client.api_version() == "1.4.0"


def test_a_socket_file_left_behind_is_replaced_and_any_other_file_is_not(
    engine: Engine, tmp_path: Path
) -> None:
    path = tmp_path / "nic.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with P4RuntimeServer({1: engine}, f"unix:{path}"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("precious")
    with pytest.raises(UsageError, match="exists and is no socket"):
        P4RuntimeServer({1: engine}, f"unix:{path}").start()
    assert path.read_text() == "precious"


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0:0",
        "[::]:0",
        "192.0.2.1:9559",
        "example.org:1",
        "unix:relative",
        "unix:",
        "9559",
        "127.0.0.1:x",
        "127.0.0.1:70000",
        "unix:/" + "x" * 120,
    ],
)
def test_an_address_that_is_open_to_others_or_makes_no_sense_is_refused(engine: Engine, address: str) -> None:
    with pytest.raises(UsageError, match="address"):
        P4RuntimeServer({1: engine}, address)


def test_a_folder_that_does_not_exist_is_named(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot listen at"):
        P4RuntimeServer({1: engine}, f"unix:{tmp_path}/none/nic.sock").start()


def test_a_client_that_came_too_early_may_try_again_at_once(engine: Engine, tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/nic.sock"
    with pytest.raises(ControlError, match="cannot reach"):
        P4RuntimeClient(address).__enter__()
    with P4RuntimeServer({1: engine}, address), P4RuntimeClient(address) as client:
        assert client.api_version() == "1.4.0"


def test_a_client_without_a_server_says_so(tmp_path: Path) -> None:
    before = set(threading.enumerate())
    with pytest.raises(ControlError, match="cannot reach a P4Runtime server at unix:") as refused:
        P4RuntimeClient(f"unix:{tmp_path}/none.sock").__enter__()
    assert refused.value.code is P4RuntimeCode.UNAVAILABLE
    assert eventually(lambda: set(threading.enumerate()) <= before)
