# SPDX-License-Identifier: Apache-2.0
"""The P4Runtime service on gRPC, for the devices of one process.

Requests arrive as bytes and are parsed here, so that garbage is answered with INVALID_ARGUMENT.
Everything a client can use up is bounded: streams, calls under way, message sizes.
Source: P4Runtime Specification 1.4, "P4Runtime Service".
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import stat
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import grpc

from nicemu.errors import ControlError, NicemuError, P4RuntimeCode, UsageError

from .addresses import checked_address
from .changes import Outcomes
from .device import Device
from .messages import (
    API_VERSION,
    MAX_MESSAGE_BYTES,
    SERVICE,
    STATUS_DETAILS,
    Message,
    messages,
    parse,
    serialize,
)
from .open_reads import OpenReads
from .pipeline_config import ProgramReader, ir_reader
from .refusals import refusal
from .status_details import DEFAULT_MAX_DETAILS_BYTES, MAX_DETAILS_BYTES, MAX_DETAILS_KEY, batch_status
from .stream import Session, serve_requests
from .target import PipelineTarget
from .texts import Texts

MAX_STREAMS = 16
"""StreamChannels at a time, over all devices; each holds two threads."""
MAX_READS = 16
"""Reads at a time; each holds a thread until its client has taken all that it asked for."""
READ_PATIENCE_S = 30.0
"""How long a client may leave a response untaken."""
MAX_CALLS = 8
"""Other calls under way at a time."""
_MAX_RPCS = MAX_STREAMS + MAX_READS + MAX_CALLS
ENTITIES_PER_RESPONSE = 500
"""Entities in one ReadResponse."""

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_SOCKET_MODE = 0o600


class P4RuntimeServer:
    """P4Runtime for `targets`, by device id, at "unix:/path/to/socket" or "127.0.0.1:port" (0: any port).

    Whoever can connect controls the NIC: a socket file is for its owner alone, and an address that is not
    of the loopback interface is refused unless `allow_remote`. `also` is a second address. `reader` says what
    a p4_device_config may hold, given the P4Info that came with it, or None. A Read whose client takes
    nothing for `read_patience_s` is cancelled.
    """

    def __init__(
        self,
        targets: Mapping[int, PipelineTarget],
        address: str,
        *,
        also: str | None = None,
        allow_remote: bool = False,
        reader: ProgramReader = ir_reader,
        read_patience_s: float = READ_PATIENCE_S,
        texts: Mapping[int, Texts] | None = None,
    ) -> None:
        if not targets:
            raise UsageError("no target given; a P4Runtime server needs at least one device")
        self._address = checked_address(address, allow_remote)
        self._also = None if also is None else checked_address(also, allow_remote)
        self._devices = {
            device_id: Device(device_id, target, reader, (texts or {}).get(device_id))
            for device_id, target in targets.items()
        }
        self._readers: set[threading.Thread] = set()
        self._reads = OpenReads(MAX_READS, read_patience_s)
        self._streams = threading.BoundedSemaphore(MAX_STREAMS)
        self._workers: ThreadPoolExecutor | None = None
        self._server: grpc.Server | None = None
        self._socket_path: Path | None = None
        self._stopping = False
        self._tellers: list[threading.Thread] = []

    def start(self) -> str:
        """Bind, serve, and return the bound address, the first of two, as a client takes it.

        Raises: UsageError if it was started already, or if the address cannot be bound.
        """
        if self._server is not None:
            raise UsageError(f"the P4Runtime server at {self._address} runs already")
        workers = ThreadPoolExecutor(_MAX_RPCS, thread_name_prefix="p4runtime")
        server = grpc.server(
            workers,
            handlers=[grpc.method_handlers_generic_handler(SERVICE, self._handlers())],
            options=[
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
                ("grpc.max_concurrent_streams", _MAX_RPCS),
            ],
            maximum_concurrent_rpcs=_MAX_RPCS,
        )
        try:
            bound = self._bind(server, self._address)
            if self._also is not None:
                self._bind(server, self._also)
            server.start()
        except BaseException:
            server.stop(None).wait()
            workers.shutdown()
            self._remove_socket()
            raise
        self._server, self._workers, self._stopping = server, workers, False
        self._reads.start()
        for device in self._devices.values():
            teller = threading.Thread(
                target=self._report, args=(device,), name="p4runtime-reports", daemon=True
            )
            self._tellers.append(teller)
            teller.start()
        return bound

    def stop(self) -> None:
        """End every call and stream, and return when no thread and no socket file is left.

        May be called twice.
        """
        if self._server is None or self._workers is None:
            return
        self._stopping = True
        self._server.stop(None).wait()
        self._workers.shutdown(wait=True)
        self._reads.stop()
        for reader in list(self._readers):
            reader.join()
        for device in self._devices.values():
            device.reports.wake()
        while self._tellers:
            self._tellers.pop().join()
        self._server = self._workers = None
        self._remove_socket()

    def _remove_socket(self) -> None:
        if self._socket_path is not None:
            self._socket_path.unlink(missing_ok=True)
            self._socket_path = None

    def __enter__(self) -> P4RuntimeServer:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _report(self, device: Device) -> None:
        """Tell a device's primaries what its pipeline says, until the server stops."""
        reports = device.reports
        while not self._stopping:
            try:
                now_ns = time.time_ns()
                deadline_ns = reports.next_deadline_ns(now_ns)
                report = reports.wait(None if deadline_ns is None else max(0, deadline_ns - now_ns) / 1e9)
                if report is not None:
                    reports.on_report(report, time.time_ns())
                reports.on_timer(time.time_ns())
            except NicemuError:
                continue  # a NIC that stops takes no calls any more
            except Exception:
                logging.getLogger(__name__).exception("fault while telling controllers")

    def _bind(self, server: grpc.Server, address: str) -> str:
        if not address.startswith("unix:"):
            try:
                port = server.add_insecure_port(address)
            except RuntimeError:
                port = 0
            if port == 0:
                raise UsageError(f"cannot listen at {address}; another process may, or choose port 0")
            return f"{address.rpartition(':')[0]}:{port}"
        path = Path(address.removeprefix("unix:"))
        _clear_stale_socket(path)
        previous = os.umask(0o077)
        try:
            server.add_insecure_port(address)
        except RuntimeError:
            raise UsageError(
                f"cannot listen at {address}; is {path.parent} a folder you may write?"
            ) from None
        finally:
            os.umask(previous)
        path.chmod(_SOCKET_MODE)
        self._socket_path = path
        return address

    def _handlers(self) -> dict[str, grpc.RpcMethodHandler]:
        return {
            "Write": grpc.unary_unary_rpc_method_handler(self._write),
            "Read": grpc.unary_stream_rpc_method_handler(self._read),
            "SetForwardingPipelineConfig": grpc.unary_unary_rpc_method_handler(self._set_config),
            "GetForwardingPipelineConfig": grpc.unary_unary_rpc_method_handler(self._get_config),
            "StreamChannel": grpc.stream_stream_rpc_method_handler(self._stream_channel),
            "Capabilities": grpc.unary_unary_rpc_method_handler(self._capabilities),
        }

    # The service's methods, each from bytes to bytes

    def _write(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        with _refusals(context):
            request = parse("WriteRequest", data)
            outcomes = self._device(request.device_id).write(request)
        _report(outcomes, "update", context)
        return serialize(messages().WriteResponse())

    def _read(self, data: bytes, context: grpc.ServicerContext) -> Iterator[bytes]:
        with self._reads.one() as may_be:
            if not may_be:
                _abort(context, _exhausted(f"{MAX_READS} Reads are under way"))
            with _refusals(context):
                request = parse("ReadRequest", data)
                entities, outcomes = self._device(request.device_id).read(request)
            while some := list(islice(entities, ENTITIES_PER_RESPONSE)):
                response = messages().ReadResponse()
                response.entities.extend(some)
                with self._reads.offer(context):
                    yield serialize(response)
            _report(outcomes, "entity", context)

    def _set_config(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        with _refusals(context):
            request = parse("SetForwardingPipelineConfigRequest", data)
            self._device(request.device_id).set_config(request)
        return serialize(messages().SetForwardingPipelineConfigResponse())

    def _get_config(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        with _refusals(context):
            request = parse("GetForwardingPipelineConfigRequest", data)
            response = self._device(request.device_id).get_config(request)
        return serialize(response)

    def _capabilities(self, data: bytes, context: grpc.ServicerContext) -> bytes:
        with _refusals(context):
            parse("CapabilitiesRequest", data)
        return serialize(messages().CapabilitiesResponse(p4runtime_api_version=API_VERSION))

    def _stream_channel(self, requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        if not self._streams.acquire(blocking=False):
            _abort(context, _exhausted(f"{MAX_STREAMS} streams are open"))
        session = Session()
        reader = threading.Thread(
            target=self._serve_stream,
            args=(session, requests),
            name="p4runtime-stream",
            daemon=True,
        )
        try:
            if not context.add_callback(session.finish):
                return
            self._readers.add(reader)
            reader.start()
            for message in session.outgoing():
                yield serialize(message)
            if session.end is not None:
                _abort(context, session.end)
        finally:
            for device in self._devices.values():
                device.leave(session)
            self._streams.release()

    def _serve_stream(self, session: Session, requests: Iterator[bytes]) -> None:
        serve_requests(session, requests, self)
        self._readers.discard(threading.current_thread())

    def announce(self, session: Session, update: Message) -> None:
        """Take a stream's MasterArbitrationUpdate. Raises: ControlError."""
        if session.device_id not in (None, update.device_id):
            raise ControlError(
                P4RuntimeCode.FAILED_PRECONDITION,
                f"this stream is for device {session.device_id}; open another for device {update.device_id}",
            )
        self._device(update.device_id).announce(session, update)

    def packet_out(self, session: Session, packet: Message) -> None:
        """Take a stream's PacketOut. Raises: ControlError."""
        self._device_of(session).packet_out(session, packet)

    def acknowledge(self, session: Session, acknowledgement: Message) -> None:
        """Take a stream's DigestListAck. Raises: ControlError."""
        self._device_of(session).acknowledge(session, acknowledgement)

    def _device_of(self, session: Session) -> Device:
        if session.device_id is None:
            raise ControlError(
                P4RuntimeCode.FAILED_PRECONDITION, "this stream has no device yet; arbitration comes first"
            )
        return self._device(session.device_id)

    def _device(self, device_id: int) -> Device:
        device = self._devices.get(device_id)
        if device is None:
            have = ", ".join(map(str, self._devices))
            raise ControlError(
                P4RuntimeCode.NOT_FOUND, f"there is no device {device_id}; this server has {have}"
            )
        return device


@contextlib.contextmanager
def _refusals(context: grpc.ServicerContext) -> Iterator[None]:
    """End the call with the status of what is raised inside."""
    try:
        yield
    except Exception as error:
        _abort(context, refusal(error))


def _report(outcomes: Outcomes, noun: str, context: grpc.ServicerContext) -> None:
    """End the call with the outcome of each part of its batch, unless all went well."""
    if all(error is None for error in outcomes):
        return
    status = batch_status(outcomes, noun, _max_details_bytes(context))
    if status.details:
        context.set_trailing_metadata(((STATUS_DETAILS, serialize(status)),))
    context.abort(grpc.StatusCode.UNKNOWN, status.message)


def _max_details_bytes(context: grpc.ServicerContext) -> int:
    for key, value in context.invocation_metadata():
        if key == MAX_DETAILS_KEY and str(value).isdecimal() and len(value) < 12:
            return min(int(value), MAX_DETAILS_BYTES)
    return DEFAULT_MAX_DETAILS_BYTES


def _exhausted(what: str) -> ControlError:
    return ControlError(P4RuntimeCode.RESOURCE_EXHAUSTED, f"{what}, the most there may be")


def _abort(context: grpc.ServicerContext, error: ControlError) -> Any:  # noqa: ANN401 - it never returns
    context.abort(_CODES[int(error.code)], str(error)[:1_000])


def _clear_stale_socket(path: Path) -> None:
    """Remove a socket file that nobody listens at.

    Raises: UsageError if somebody does, or if it is no socket.
    """
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    except OSError as error:
        raise UsageError(f"cannot listen at {path}: {error.strerror}") from None
    if not stat.S_ISSOCK(mode):
        raise UsageError(f"{path} exists and is no socket; choose another path")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            raise UsageError(f"cannot tell whether {path} is in use: {error.strerror or error}") from None
    raise UsageError(f"another process listens at {path} already; stop it or choose another path")
